"""Groups whose members come and go through Veil: each record is processed once, and masked."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.brokers.kafka_clients import create_topics
from tests.brokers.kafka_server import KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .flow import CARDS, MASK, Consuming, Member, Producing, Program, assert_sound, cards, new_topic, numbers, twice

PARTITIONS = 6
SOAK_S = 300.0
SETTLE_S = 90.0  # on a machine that has other work
KINDS = "confluent-classic", "confluent-consumer", "aiokafka", "kafka-python"


def member(kind: str, running: Veil, topic: str, group: str) -> Member:
    match kind:
        case "confluent-classic":
            return Consuming(running.address, topic, group=group, settings={"partition.assignment.strategy": "range"})
        case "confluent-consumer":
            return Consuming(running.address, topic, group=group, settings={"group.protocol": "consumer"})
        case _:
            return Program(kind, running.address, topic, group=group)


def committed(server: KafkaServer, topic: str, group: str) -> list[tuple[int, int]]:
    """Of each partition: how far the group has committed, and its end, as the broker itself tells."""
    look = Consumer({"bootstrap.servers": server.address, "broker.address.family": "v4", "group.id": group, "log_level": 0})
    try:
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        ends = [look.get_watermark_offsets(each, timeout=10)[1] for each in places]
        return list(zip((each.offset for each in look.committed(places, timeout=10)), ends, strict=True))
    finally:
        look.close()


class Group:
    """The members of one group, present and past."""

    def __init__(self, join: Callable[[], Member]) -> None:
        self._join = join
        self.present: list[Member] = []
        self.all: list[Member] = []

    def join(self) -> None:
        one = self._join()
        self.present.append(one)
        self.all.append(one)
        self.settle()

    def leave(self) -> None:
        self.present.pop(0).stop()
        if self.present:
            self.settle()

    def settle(self) -> None:
        """Returns when every member has its share and has read from it."""
        wait_until(self._is_settled, "the partitions are divided", SETTLE_S)
        before = [len(each.seen) for each in self.present]
        wait_until(
            lambda: all(len(each.seen) > old for each, old in zip(self.present, before, strict=True)),
            "each member reads",
            SETTLE_S,
        )

    def _is_settled(self) -> bool:
        shares = [each.assigned for each in self.present]
        return all(shares) and sum(map(len, shares)) == PARTITIONS and frozenset().union(*shares) == set(range(PARTITIONS))

    def end(self) -> None:
        while self.present:
            self.present.pop().stop()


def assert_once_and_masked(server: KafkaServer, topic: str, group: str, one: Group, made: Producing) -> None:
    assert made.failed == []
    assert twice(one.all) == []
    assert numbers(one.all) == made.taken
    assert cards(one.all) == {MASK}
    assert all(done == end for done, end in committed(server, topic, group))
    assert sum(map(len, (each.seen for each in one.all))) == len(made.taken)
    assert [each.errors for each in one.all if each.errors] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_members_that_come_and_go_process_each_record_once_and_masked(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, kind: str
) -> None:
    topic = new_topic("group")
    create_topics(kafka_server.address, topic, partitions=PARTITIONS)
    running = veil(CARDS, upstream=kafka_server)
    group = Group(lambda: member(kind, running, topic, topic))
    try:
        with Producing(running.address, topic, PARTITIONS, canary.text()) as made:
            for step in (group.join, group.join, group.join, group.leave, group.join, group.leave, group.leave):
                step()
            made.stop()
        wait_until(lambda: numbers(group.all) >= made.taken, "all that was taken is read", 30)
    finally:
        group.end()
    print(f"{kind}: {len(made.taken)} records, {len(group.all)} members")

    assert_once_and_masked(kafka_server, topic, topic, group, made)
    canary.assert_nowhere(running, group.all)
    assert_sound(running)


@pytest.mark.soak
@pytest.mark.slow
def test_groups_of_every_kind_rebalance_for_minutes_and_process_each_record_once_and_masked(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("groups")
    create_topics(kafka_server.address, topic, partitions=PARTITIONS)
    running = veil(CARDS, upstream=kafka_server)
    groups = {kind: Group(lambda kind=kind: member(kind, running, topic, f"{topic}-{kind}")) for kind in KINDS}  # type: ignore[misc]
    rounds = 0
    try:
        with Producing(running.address, topic, PARTITIONS, canary.text()) as made:
            end_s = time.monotonic() + SOAK_S
            for each in groups.values():
                each.join()
            while time.monotonic() < end_s:
                for each in groups.values():
                    each.join() if len(each.present) < 3 and rounds % 2 == 0 else each.leave()
                    if not each.present:
                        each.join()
                rounds += 1
            made.stop()
        for each in groups.values():
            wait_until(lambda one=each: numbers(one.all) >= made.taken, "all that was taken is read", 60)  # type: ignore[misc]
    finally:
        for each in groups.values():
            each.end()
    print(f"{len(made.taken)} records, {rounds} rounds, { ({kind: len(each.all) for kind, each in groups.items()}) } members")

    for kind, each in groups.items():
        assert_once_and_masked(kafka_server, topic, f"{topic}-{kind}", each, made)
        canary.assert_nowhere(running, each.all)
    assert_sound(running)
