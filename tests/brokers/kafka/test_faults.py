"""A broker that hangs, falls silent or is not there yet, readers that do not read, crowds, and readers that wait long."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import cast

import pytest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from tests.brokers.faults import Line, forwarded, rss
from tests.brokers.kafka_clients import consume, create_topics, produce
from tests.brokers.kafka_programs import PythonScript
from tests.brokers.kafka_server import KafkaServer, own_port
from tests.brokers.kafka_wire_client import KafkaWireClient, encode, frame
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .flow import (
    CARDS,
    MASK,
    Consuming,
    Producing,
    assert_sound,
    cards,
    new_topic,
    node_addresses,
    numbers,
    stopped,
    twice,
    wait_for_more,
)

pytestmark = pytest.mark.slow
MIB = 1024 * 1024
GROWTH = 250 * MIB
CROWD = 200


def value(card: str, number: int, filler: int = 0) -> bytes:
    return json.dumps({"card": card, "n": number, "filler": "x" * filler}).encode()


def fetch(topic: str, offset: int = 0, wait_s: int = 1, most: int = 50 * MIB) -> FetchRequest:
    """One partition from an offset on; the answer waits for the first record there."""
    partition = FetchPartition(partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(most))
    return FetchRequest(
        max_wait=cast(i32Timedelta, timedelta(seconds=wait_s)),
        min_bytes=i32(1),
        topics=(FetchTopic(topic=TopicName(topic), partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


@contextmanager
def highest(running: Veil) -> Iterator[list[int]]:
    """How much more than at the beginning Veil held at most, looked at every few milliseconds; told at the end."""
    before = most = rss(running.pid)
    end = threading.Event()

    def watch() -> None:
        nonlocal most
        while not end.wait(0.005):
            most = max(most, rss(running.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    told: list[int] = []
    try:
        yield told
    finally:
        end.set()
        thread.join()
        told.append(most - before)


# --- the broker ------------------------------------------------------------------------------------------------------


def test_a_broker_that_stands_still_holds_its_readers_up_and_all_goes_on_afterwards(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("frozen")
    create_topics(kafka_server.address, topic)
    running = veil(CARDS, upstream=kafka_server)
    with (
        Consuming(running.address, topic, alone=1) as reader,
        Producing(running.address, topic, 1, canary.text()) as made,
    ):
        wait_until(lambda: len(reader.seen) > 50, "it reads")

        kafka_server.pause()
        end_s = time.monotonic() + 3
        wait_until(lambda: time.monotonic() > end_s, "it stands still for a while")
        assert running.page("/livez")[0] == running.page("/readyz")[0] == 200
        kafka_server.resume()

        wait_for_more(lambda: len(reader.seen), 100, "records are read")
        made.stop()
        wait_until(lambda: numbers([reader]) >= made.taken, "all that was taken is read")
    assert made.failed == []
    assert twice([reader]) == []
    assert cards([reader]) == {MASK}
    canary.assert_nowhere(running, [reader])


def test_a_line_that_falls_silent_or_is_cut_in_an_answer_lets_nothing_out_of_it(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("silent")
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [value(canary.text(), each, 1000) for each in range(100)])
    with ExitStack() as stack:
        line = stack.enter_context(Line((kafka_server.host, kafka_server.port)))
        running = veil(CARDS, upstream=line.address, platform="kafka")
        silent = stack.enter_context(KafkaWireClient(running.host, running.port))
        cut = stack.enter_context(KafkaWireClient(running.host, running.port))
        for each in (silent, cut):
            assert MASK.encode() in each.exchange(fetch(topic))

        line.fall_silent()
        silent.send(fetch(topic))
        with KafkaWireClient(running.host, running.port, timeout_s=1) as early, pytest.raises(TimeoutError):
            early.metadata()
        line.go_on()
        assert MASK.encode() in silent.read()

        line.cut_after = 5000
        cut.send(fetch(topic))
        assert cut.at_end(), "half an answer is none"
        line.cut_after = None
        canary.assert_nowhere(running, [silent, cut])
        assert consume(running.address, topic, 100), "others go on"


def test_a_broker_that_comes_after_veil_is_read_as_soon_as_it_is_there(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("late")
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [value(canary.text(), each) for each in range(10)])
    port = own_port()
    running = veil(CARDS, upstream=f"127.0.0.1:{port}", platform="kafka", start=False)
    running.start(ready=False)
    with Consuming(running.address, topic, alone=1) as reader:
        with KafkaWireClient(running.host, running.port) as early:
            assert early.at_end()
        assert running.page("/livez")[0] == 200

        with forwarded((kafka_server.host, kafka_server.port), port):
            wait_until(lambda: len(reader.seen) == 10, "it is read")
    assert cards([reader]) == {MASK}
    canary.assert_nowhere(running, [reader])


# --- readers ---------------------------------------------------------------------------------------------------------


def test_a_reader_that_asks_for_much_and_reads_nothing_costs_little_and_holds_up_nobody(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("large")
    create_topics(kafka_server.address, topic)
    card = canary.text()
    for _ in range(4):
        produce(kafka_server.address, topic, [value(card, each, 500_000) for each in range(20)])
    running = veil(CARDS, upstream=kafka_server)
    (address,) = node_addresses(running).values()
    port = int(address.rpartition(":")[2])
    with ExitStack() as stack:
        held = stack.enter_context(highest(running))
        for number in range(3):
            stuck = stack.enter_context(KafkaWireClient(running.host, port))
            requests = b"".join(frame(encode(fetch(topic), each)) for each in range(50))
            stuck.send_bytes(requests)
            wait_until(lambda number=number: (running.metric("veil_connections") or 0) > number, "it is served")  # type: ignore[misc]
        began_s = time.monotonic()
        got = consume(running.address, topic, 80, within_s=60)
        took_s = time.monotonic() - began_s
        assert [json.loads(each.value or b"")["card"] for each in got] == [MASK] * 80
    print(f"{held[0] / MIB:.0f} MiB more; 40 MiB read by another in {took_s:.1f} s")
    assert held[0] < GROWTH
    canary.assert_nowhere(running)


_CROWD = """
import asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition

few = asyncio.Semaphore(20)

async def one():
    consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", fetch_max_wait_ms=500)
    async with few:  # of those that connect, not of those that are there
        await consumer.start()
    consumer.assign([TopicPartition(settings["topic"], 0)])
    got = []
    while len(got) < settings["count"]:
        got += [each.value for batch in (await consumer.getmany(timeout_ms=1000)).values() for each in batch]
    there.append(consumer)
    while len(there) < settings["crowd"]:  # so that all are there at once
        await consumer.getmany(timeout_ms=200)
    await consumer.stop()
    return got

there = []

async def main():
    seen = await asyncio.gather(*[one() for _ in range(settings["crowd"])])
    print(json.dumps([len(seen), sorted({value.decode() for got in seen for value in got})]))

asyncio.run(main())
"""


def test_two_hundred_consumers_at_once_are_all_served_and_all_masked(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic, count = new_topic("crowd"), 20
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [value(canary.text(), each) for each in range(count)])
    running = veil(CARDS, upstream=kafka_server)
    script = PythonScript(running.address, topic=topic, count=count, crowd=CROWD)
    most: list[float] = []
    end = threading.Event()

    def watch() -> None:
        while not end.wait(0.1):
            most.append(running.metric("veil_connections") or 0)

    watching = threading.Thread(target=watch)
    watching.start()
    began_s = time.monotonic()
    try:
        with highest(running) as held:
            said = script.run(_CROWD)
    finally:
        end.set()
        watching.join()
    print(f"{max(most):.0f} connections, {held[0] / MIB:.0f} MiB more, {time.monotonic() - began_s:.1f} s")

    crowd, texts = json.loads(said)
    assert crowd == CROWD
    assert [json.loads(each)["card"] for each in texts] == [MASK] * count
    assert max(most) >= CROWD
    assert held[0] < GROWTH
    wait_until(lambda: running.metric("veil_connections") == 0, "all are gone")
    canary.assert_not_in(bytes(script.seen))
    canary.assert_nowhere(running)


def test_a_consumer_that_waits_again_and_again_is_not_taken_for_silent_and_who_asks_nothing_is(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("idle")
    create_topics(kafka_server.address, topic)
    running = veil(CARDS, upstream=kafka_server, limits={"idle_timeout": "4s"})
    with KafkaWireClient(running.host, running.port) as waits:
        silent = KafkaWireClient(running.host, running.port)
        for _ in range(6):
            assert waits.exchange(fetch(topic, 0, 1)), "an empty answer, when the wait is over"
        with silent:
            assert silent.at_end(), "who asked for nothing is silent"

        waits.send(fetch(topic, 0, 2))
        produce(kafka_server.address, topic, [value(canary.text(), 1)])
        assert MASK.encode() in waits.read()
        canary.assert_nowhere(running, [waits])


def test_a_group_that_has_nothing_to_read_stays_whole_while_its_members_wait(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("quiet")
    create_topics(kafka_server.address, topic, partitions=2)
    running = veil(CARDS, upstream=kafka_server, limits={"idle_timeout": "10s"})
    members = [Consuming(running.address, topic, group=topic, settings={"fetch.wait.max.ms": 1500}) for _ in range(2)]
    with stopped(members):
        wait_until(lambda: all(len(each.assigned) == 1 for each in members), "both have one", 60)
        end_s = time.monotonic() + 5
        wait_until(lambda: time.monotonic() > end_s, "nothing is produced for a while")

        with Producing(running.address, topic, 2, canary.text()) as made:
            wait_until(lambda: all(len(each.seen) > 20 for each in members), "both read")
        wait_until(lambda: numbers(members) >= made.taken, "all that was taken is read")
    assert twice(members) == []
    assert cards(members) == {MASK}
    assert [each.errors for each in members if each.errors] == []
    canary.assert_nowhere(running, members)
    assert_sound(running)
