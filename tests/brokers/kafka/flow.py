"""Producers and consumers that go on by themselves while something befalls Veil or the broker, and what each of them saw.

    Producing ──▶ topic ──▶ Consuming (librdkafka in a thread) or Program (aiokafka, kafka-python in a process of its own)

All values hold the canary under `$.card`. Nothing here belongs to one kind of fault.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse

from rules.audit import broken_links
from tests.brokers.kafka.cards import RULES
from tests.brokers.kafka_clients import Settings, Value
from tests.brokers.kafka_wire_client import KafkaWireClient
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil

MASK = "••••"
UNMASKED = "broker.message.read-unmasked"
STOP_S = 60.0
BROKER = 4  # a kind of resource that has configs

OPEN = "rules: []\n"
CARDS = RULES
WHOLE = """
rules:
  - name: Orders whole
    platform: kafka
    resources: {topic: ["orders-*"]}
    fields:
      - {kind: whole_value, method: redact}
"""
ALICE = "grants: [{allow: messages.read.unmasked, to: {user: alice}, on: installation}]\n"

_topics = itertools.count(1)


def new_topic(name: str) -> str:
    """A name that no other test of this run has."""
    return f"orders-{name}-{next(_topics)}"


class Seen(NamedTuple):
    partition: int
    offset: int
    value: bytes

    @property
    def number(self) -> int:
        return int(json.loads(self.value)["n"])

    @property
    def card(self) -> str:
        return str(json.loads(self.value)["card"])


class Producing:
    """An idempotent producer of all replicas; `taken` are the numbers of the records that were acknowledged."""

    def __init__(self, address: str, topic: str, partitions: int, card: str, *, per_s: float = 200.0, settings: Settings | None = None) -> None:  # fmt: skip
        told: dict[str, Value] = {
            "bootstrap.servers": address,
            "broker.address.family": "v4",
            "log_level": 0,
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 300,
            "retry.backoff.ms": 50,
            "socket.timeout.ms": 10_000,
            **(settings or {}),
        }
        self._producer = Producer(told)
        self._topic, self._partitions, self._card = topic, partitions, card
        self._pause_s = 1 / per_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.taken: set[int] = set()
        self.failed: list[str] = []

    def _run(self) -> None:
        while not self._end.wait(self._pause_s):
            number = self.sent
            value = json.dumps({"card": self._card, "n": number}).encode()

            def told(error: KafkaError | None, _: Message, number: int = number) -> None:
                if error is None:
                    self.taken.add(number)
                else:
                    self.failed.append(error.name())

            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=told)
            self.sent += 1
            self._producer.poll(0)
        if self._producer.flush(STOP_S):
            self.failed.append("not all were acknowledged")

    def stop(self) -> None:
        """Returns when all that was sent is acknowledged, or is in `failed`."""
        self._end.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Member:
    """Somebody who reads until it is stopped; what it saw is in `seen`, in its order."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.errors: Counter[str] = Counter()
        self.assigned: frozenset[int] = frozenset()

    @property
    def received(self) -> bytearray:
        """All values, for a canary's search; each text but once."""
        return bytearray(b"\n".join({each.value for each in self.seen}))

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Consuming(Member):
    """A librdkafka consumer in a thread: of a group that commits when partitions are taken from it, or (`alone`) of all
    partitions from their beginning."""

    def __init__(self, address: str, topic: str, *, group: str = "tests", alone: int = 0, settings: Settings | None = None) -> None:  # fmt: skip
        super().__init__()
        told: dict[str, Value] = {
            "bootstrap.servers": address,
            "broker.address.family": "v4",
            "log_level": 0,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 200,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.refresh.interval.ms": 2000,
            **(settings or {}),
        }
        if not alone and told.get("group.protocol") != "consumer":
            told |= {"heartbeat.interval.ms": 300, "session.timeout.ms": 10_000}
        self._told, self._topic, self._alone = told, topic, alone
        self._next: dict[int, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        consumer = Consumer(self._told)
        if self._alone:
            consumer.assign([TopicPartition(self._topic, each, 0) for each in range(self._alone)])
        else:
            consumer.subscribe([self._topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._lost)
        try:
            while not self._end.is_set():
                message = consumer.poll(0.1)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    self.errors[error.name()] += 1
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.seen.append(Seen(partition, offset, message.value() or b""))
                self._next[partition] = offset + 1
        finally:
            consumer.close()

    def _given(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.assigned |= {each.partition for each in partitions}

    def _taken(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        mine = [each.partition for each in partitions]
        self.assigned -= set(mine)
        offsets = [TopicPartition(self._topic, each, self._next.pop(each)) for each in mine if each in self._next]
        if offsets:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as failed:
                self.errors[f"commit: {failed.args[0].name()}"] += 1

    def _lost(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.errors["lost"] += 1
        self.assigned -= {each.partition for each in partitions}

    def stop(self) -> None:
        self._end.set()
        self._thread.join(STOP_S)
        assert not self._thread.is_alive()


# A line for each record; `[partitions]` tells what the member has now. It leaves when its input ends.
# Records that are in hand are printed before anything else of the loop runs, and while partitions are taken away neither
# library hands out any: so what was printed is what is committed.
_AIOKAFKA = """
import asyncio, threading
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

async def main():
    end = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    consumer = AIOKafkaConsumer(bootstrap_servers=told["address"], group_id=told["group"], enable_auto_commit=False,
        auto_offset_reset="earliest", heartbeat_interval_ms=300, session_timeout_ms=10000, fetch_max_wait_ms=200,
        metadata_max_age_ms=2000, retry_backoff_ms=50, **told["settings"])

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            if revoked:
                await consumer.commit()
            print([], flush=True)
        async def on_partitions_assigned(self, assigned):
            print([each.partition for each in assigned], flush=True)

    await consumer.start()
    consumer.subscribe([told["topic"]], listener=Listener())
    try:
        while not end.is_set():
            for batch in (await consumer.getmany(timeout_ms=100)).values():
                for each in batch:
                    print(each.partition, each.offset, each.value.hex(), flush=True)
        await consumer.commit()
    finally:
        await consumer.stop()

asyncio.run(main())
"""
_KAFKA_PYTHON = """
import threading
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer

end = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
consumer = KafkaConsumer(bootstrap_servers=told["address"], group_id=told["group"], enable_auto_commit=False,
    auto_offset_reset="earliest", heartbeat_interval_ms=300, session_timeout_ms=10000, fetch_max_wait_ms=200,
    metadata_max_age_ms=2000, **told["settings"])

class Listener(AsyncConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        if revoked:
            await consumer._coordinator._commit_offsets_sync_async(consumer._subscription.all_consumed_offsets())
        print([], flush=True)
    async def on_partitions_assigned(self, assigned):
        print([each.partition for each in assigned], flush=True)

consumer.subscribe([told["topic"]], listener=Listener())
while not end.is_set():
    for batch in consumer.poll(timeout_ms=100).values():
        for each in batch:
            print(each.partition, each.offset, each.value.hex(), flush=True)
consumer.close()
"""
PROGRAMS = {"aiokafka": _AIOKAFKA, "kafka-python": _KAFKA_PYTHON}
_BEFORE = "import json, sys\ntold = json.loads(sys.argv[1])\n"


class Program(Member):
    """A member of a group in a process of its own, by the library of that name."""

    def __init__(self, library: str, address: str, topic: str, *, group: str, settings: Mapping[str, object] | None = None) -> None:  # fmt: skip
        super().__init__()
        told = json.dumps({"address": address.split(","), "topic": topic, "group": group, "settings": dict(settings or {})})
        self._child = subprocess.Popen(
            [sys.executable, "-c", _BEFORE + PROGRAMS[library], told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said = ""
        self._threads = [threading.Thread(target=each) for each in (self._read, self._listen)]
        for each in self._threads:
            each.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("["):
                self.assigned = frozenset(json.loads(line))
            else:
                partition, offset, value = line.split()
                self.seen.append(Seen(int(partition), int(offset), bytes.fromhex(value)))

    def _listen(self) -> None:
        assert self._child.stderr is not None
        self._said = self._child.stderr.read()

    def stop(self) -> None:
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.stdin.close()
        try:
            code = self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
            raise
        finally:
            for each in self._threads:
                each.join()
            for pipe in (self._child.stdout, self._child.stderr):
                if pipe is not None:
                    pipe.close()
        assert code == 0, self._said[-4000:]


# what was seen, put together


def all_seen(members: Iterable[Member]) -> list[Seen]:
    return [each for member in members for each in list(member.seen)]


def numbers(members: Iterable[Member]) -> set[int]:
    return {each.number for each in all_seen(members)}


def cards(members: Iterable[Member]) -> set[str]:
    """Every text that was shown in place of the card."""
    return {each.card for each in all_seen(members)}


def twice(members: Iterable[Member]) -> list[tuple[int, int]]:
    """The places in the topic that were seen more than once."""
    counts = Counter((each.partition, each.offset) for each in all_seen(members))
    return sorted(place for place, count in counts.items() if count > 1)


def wait_for_more(of: Callable[[], int], count: int, what: str, within_s: float = 30.0) -> None:
    """Returns when the number has grown by `count` from now."""
    before = of()
    wait_until(lambda: of() >= before + count, f"{count} more {what} than {before}, not {of()}", within_s)


def led_to(address: str, node: int) -> bool:
    """Whether the one that answers there is that node: the configs of a node are told by that node alone."""
    host, _, port = address.rpartition(":")
    asked = DescribeConfigsResource(resource_type=4, resource_name=str(node), configuration_keys=("num.io.threads",))  # type: ignore[arg-type]
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=False, include_documentation=False)
    with KafkaWireClient(host, int(port)) as client:
        answer = client.call(request)
    assert isinstance(answer, DescribeConfigsResponse)
    return answer.results[0].error_code.value == 0


def node_addresses(running: Veil) -> dict[int, str]:
    """Where readers are sent for each node."""
    with KafkaWireClient(running.host, running.port) as client:
        return {int(each.node_id): f"{each.host}:{each.port}" for each in client.metadata().brokers}


def entries(running: Veil, who: str) -> int:
    """How many unmasked reads of somebody are on disk at this moment; what was cut off while it was written is none."""
    whole = running.audit_bytes().rpartition(b"\n")[0].splitlines()
    told = [json.loads(line) for line in whole]
    return sum(each["event"] == UNMASKED and each["who"] == who for each in told)


def assert_sound(running: Veil) -> None:
    """The hash chain of the trail holds from its first line to its last."""
    lines = running.audit_bytes().splitlines()
    assert lines
    assert list(broken_links(lines)) == []


@contextmanager
def stopped(members: Sequence[Member]) -> Iterator[None]:
    """Stops them at the end, whatever happened."""
    try:
        yield
    finally:
        for each in members:
            each.stop()
