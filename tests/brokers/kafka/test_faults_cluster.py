"""Three nodes behind Veil, one of which is killed, comes back, and comes back at another address."""

from __future__ import annotations

import contextlib

import pytest

from tests.brokers.kafka_clients import create_topics
from tests.brokers.kafka_cluster import NODES, KafkaCluster
from tests.brokers.kafka_server import PLAIN, own_port
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
    led_to,
    new_topic,
    node_addresses,
    numbers,
    twice,
    wait_for_more,
)

pytestmark = pytest.mark.slow
PARTITIONS = 3
START_S = 60.0  # of a node, beside others on a busy machine


def leads(running: Veil, node: int) -> bool:
    """Whether a reader who asks for this node gets to it."""
    with contextlib.suppress(OSError):
        return led_to(node_addresses(running)[node], node)
    return False


def leaders(cluster: KafkaCluster, topic: str, ask: int) -> set[int]:
    return {cluster.leader(topic, each, ask=ask) for each in range(PARTITIONS)}


def test_a_node_that_is_killed_takes_nothing_acknowledged_with_it_and_its_port_leads_to_it_again(
    kafka_cluster: KafkaCluster, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("killed")
    create_topics(kafka_cluster.address(), topic, partitions=PARTITIONS, replication=3)
    running = veil(CARDS, upstream=kafka_cluster.address(), platform="kafka")
    before = node_addresses(running)
    assert set(before) == set(NODES)
    assert all(led_to(address, node) for node, address in before.items())
    assert not led_to(before[1], 2)
    killed = kafka_cluster.leader(topic, ask=1)
    other = next(node for node in NODES if node != killed)
    with (
        Consuming(running.address, topic, group=topic) as member,
        Consuming(running.address, topic, alone=PARTITIONS) as alone,
        Producing(running.address, topic, PARTITIONS, canary.text()) as made,
    ):
        readers = [member, alone]
        wait_until(lambda: all(len(each.seen) > 50 for each in readers), "both read")

        kafka_cluster.kill(killed)

        wait_until(lambda: killed not in leaders(kafka_cluster, topic, other), "others lead", 30)
        wait_for_more(lambda: len(made.taken), 200, "records are taken")
        wait_for_more(lambda: len(alone.seen), 200, "records are read")
        with contextlib.suppress(OSError):
            assert not led_to(before[killed], other), "the port of a dead node leads to nobody else"
        kafka_cluster.start(killed)
        wait_until(lambda: leads(running, killed), "the port leads to it again", START_S)
        wait_for_more(lambda: len(made.taken), 200, "records are taken")
        made.stop()
        wait_until(lambda: all(numbers([each]) >= made.taken for each in readers), "all that was taken is read", 30)
    print(f"{len(made.taken)} taken, {made.sent} sent, failed {made.failed}, errors {member.errors} {alone.errors}")

    assert made.failed == []
    assert {address for node, address in node_addresses(running).items()} == set(before.values())
    assert numbers([alone]) == made.taken
    assert twice([alone]) == []
    assert cards(readers) == {MASK}
    canary.assert_nowhere(running, readers)
    assert_sound(running)


def test_a_node_that_comes_back_at_another_address_is_reached_there_by_the_same_port(
    kafka_cluster: KafkaCluster, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("moved")
    create_topics(kafka_cluster.address(), topic, partitions=PARTITIONS, replication=3)
    running = veil(CARDS, upstream=kafka_cluster.address(), platform="kafka")
    before = node_addresses(running)
    moved = 3
    with (
        Consuming(running.address, topic, alone=PARTITIONS) as reader,
        Producing(running.address, topic, PARTITIONS, canary.text()) as made,
    ):
        wait_until(lambda: len(reader.seen) > 50, "it reads")

        kafka_cluster.kill(moved)
        kafka_cluster.nodes[moved].ports[PLAIN] = own_port()
        kafka_cluster.start(moved)

        wait_until(lambda: leads(running, moved), "the port leads to where it is now", START_S)
        wait_for_more(lambda: len(reader.seen), 200, "records are read")
        made.stop()
        wait_until(lambda: numbers([reader]) >= made.taken, "all that was taken is read", 30)

    later = new_topic("moved")
    create_topics(kafka_cluster.address(), later, partitions=PARTITIONS, replication=3)
    assert moved in leaders(kafka_cluster, later, 1), "of a new topic it leads a part"
    with Producing(running.address, later, PARTITIONS, canary.text()) as more:
        wait_until(lambda: len(more.taken) > 50, "it takes records")
    with Consuming(running.address, later, alone=PARTITIONS) as at_once:
        wait_until(lambda: numbers([at_once]) == more.taken, "they are read")

    assert made.failed == more.failed == []
    assert node_addresses(running) == before
    assert cards([reader, at_once]) == {MASK}
    canary.assert_nowhere(running, [reader, at_once])
