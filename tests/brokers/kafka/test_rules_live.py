"""Rules that change while consumers wait or read: the next answer has them, and what both states hide is never seen."""

from __future__ import annotations

import json
import signal
import time
from datetime import timedelta
from typing import cast

import pytest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from tests.brokers.kafka_clients import Record, create_topics, produce
from tests.brokers.kafka_server import KafkaServer
from tests.brokers.kafka_wire_client import KafkaWireClient
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil, VeilFactory, write_whole
from tests.canary import Canary

from .flow import CARDS, MASK, OPEN, WHOLE, Consuming, Producing, assert_sound, cards, new_topic, numbers, twice

pytestmark = pytest.mark.slow
PARTITIONS = 3
BROKEN = "rules:\n  - name: Cards\n    platfrom: kafka\n"

LEFT = CARDS.replace("fields:", "fields:\n      - {kind: json_path, path: $.left, method: redact}")
RIGHT = CARDS.replace("fields:", "fields:\n      - {kind: json_path, path: $.right, method: redact}")
FLIPS = LEFT, RIGHT


def fetch(topic: str, offset: int, wait_s: int) -> FetchRequest:
    """One partition from an offset on; the answer waits for the first record there."""
    partition = FetchPartition(partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(1024 * 1024))
    return FetchRequest(
        max_wait=cast(i32Timedelta, timedelta(seconds=wait_s)),
        min_bytes=i32(1),
        topics=(FetchTopic(topic=TopicName(topic), partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def value(card: str, number: int, **more: str) -> bytes:
    return json.dumps({"card": card, "n": number, **more}).encode()


def in_force(running: Veil, text: str) -> None:
    """Writes a rule file and returns when it is in force: on record, which it is before it counts."""
    size = running.audit_path.stat().st_size if running.audit_path.exists() else 0
    write_whole(running.rules_dir / "rules.yaml", text)
    running.signal(signal.SIGHUP)
    wait_until(lambda: running.audit_path.exists() and running.audit_path.stat().st_size > size, "the rules are in force")


@pytest.mark.parametrize("before", [OPEN, CARDS.replace("$.card", "$.left")], ids=["no rule", "another rule"])
def test_a_rule_that_comes_while_a_consumer_waits_masks_the_very_next_answer(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, before: str
) -> None:
    topic = new_topic("waits")
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [value("shown", 0)])
    running = veil(before, upstream=kafka_server)
    with KafkaWireClient(running.host, running.port, timeout_s=20) as client:
        assert b"shown" in client.exchange(fetch(topic, 0, 1))
        client.send(fetch(topic, 1, 15))
        wait_until(lambda: running.metric("veil_connections") == 1, "it waits")
        began_s = time.monotonic()

        running.write_rules(CARDS)
        running.wait_rules()
        produce(kafka_server.address, topic, [value(canary.text(), 1)])

        answer = client.read()
        assert MASK.encode() in answer
        assert time.monotonic() - began_s < 10, "it was the record that ended the wait"
        canary.assert_nowhere(running, [client])


def test_rules_that_flip_under_load_never_show_what_both_states_hide(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    flip(kafka_server, veil, canary, 100)


@pytest.mark.soak
def test_rules_that_flip_for_minutes_under_load_never_show_what_both_states_hide(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    flip(kafka_server, veil, canary, 500)


def flip(server: KafkaServer, veil: VeilFactory, canary: Canary, times: int) -> None:
    topic = new_topic("flips")
    create_topics(server.address, topic, partitions=PARTITIONS)
    running = veil(FLIPS[0], upstream=server)
    card = canary.text()
    kept = [
        Record(value(card, each, left="the-left-one", right="the-right-one"), partition=each % PARTITIONS)
        for each in range(300)
    ]
    produce(server.address, topic, kept)
    rounds: list[Consuming] = []
    # Whoever reads on and on, and whoever begins anew: what is there is read in every state.
    with (
        Producing(running.address, topic, PARTITIONS, card) as made,
        Consuming(running.address, topic, alone=PARTITIONS) as steady,
    ):
        for number in range(1, times + 1):
            if number % 20 == 1:
                rounds.append(Consuming(running.address, topic, alone=PARTITIONS))
            in_force(running, FLIPS[number % 2])
            if number % 20 == 0:
                rounds[-1].stop()
        for state in reversed(FLIPS):  # and in peace: what one state shows is there to be seen
            in_force(running, state)
            rounds.append(Consuming(running.address, topic, alone=PARTITIONS))
            wait_until(lambda: len(rounds[-1].seen) >= len(kept), "what was there first is read", 30)
        made.stop()
        wait_until(lambda: numbers([steady]) >= made.taken, "all that was taken is read", 30)
    readers = [steady, *rounds]
    for each in readers:
        each.stop()
    seen = b"".join(bytes(each.received) for each in readers)
    print(f"{times} flips, {len(made.taken)} taken, {sum(len(each.seen) for each in readers)} read by {len(readers)}")

    assert made.failed == []
    assert [each.errors for each in readers if each.errors] == []
    assert twice([steady]) == []
    assert cards(readers) == {MASK}
    assert b"the-left-one" in seen, "the one state was in force"
    assert b"the-right-one" in seen, "and so was the other"
    canary.assert_nowhere(running, readers)
    running.stop()
    assert running.log().count('"rules-in-force"') == times + 3
    assert_sound(running)


def test_between_a_whole_value_and_a_path_no_answer_shows_the_value(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("kinds")
    create_topics(kafka_server.address, topic)
    card = canary.text()
    produce(kafka_server.address, topic, [value(card, each) for each in range(20)])
    running = veil(CARDS, upstream=kafka_server)
    whole = 0
    with KafkaWireClient(running.host, running.port) as client:
        for number in range(10):
            in_force(running, WHOLE if number % 2 == 0 else CARDS)
            for _ in range(5):
                answer = client.exchange(fetch(topic, 0, 1))
                assert MASK.encode() in answer
                whole += b'"n": 19' not in answer
        canary.assert_nowhere(running, [client])
    assert whole


def test_a_broken_rule_file_changes_nothing_for_whoever_reads(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("broken")
    create_topics(kafka_server.address, topic)
    running = veil(CARDS, upstream=kafka_server)
    with (
        Consuming(running.address, topic, alone=1) as reader,
        Producing(running.address, topic, 1, canary.text()) as made,
    ):
        wait_until(lambda: len(reader.seen) > 20, "it reads")

        running.write_rules(BROKEN)
        running.wait_rules(broken=True)

        known = len(reader.seen)
        wait_until(lambda: len(reader.seen) > known + 50, "it reads on")
        assert running.page("/readyz")[0] == 200
        assert '"line": 3' in running.page("/readyz")[1]
        made.stop()
        wait_until(lambda: numbers([reader]) >= made.taken, "all that was taken is read")
    assert made.failed == []
    assert cards([reader]) == {MASK}
    canary.assert_nowhere(running, [reader])
