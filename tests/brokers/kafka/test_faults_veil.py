"""Veil killed and stopped in the middle of its work, and started again: clients come back by themselves to the same ports."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from tests.brokers.kafka_clients import create_topics, login, produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil, VeilFactory, environment
from tests.canary import Canary

from .flow import (
    ALICE,
    CARDS,
    MASK,
    Consuming,
    Producing,
    assert_sound,
    cards,
    entries,
    new_topic,
    node_addresses,
    numbers,
    twice,
    wait_for_more,
)

pytestmark = pytest.mark.slow
PARTITIONS = 3
DRAIN_S = 10.0


def verified(running: Veil) -> bool:
    """What `veil audit verify` says of the trail."""
    command = [sys.executable, "-m", "proxy", "audit", "verify", str(running.audit_path)]
    done = subprocess.run(command, capture_output=True, env=environment())
    return (done.returncode, done.stderr) == (0, b"")


def kill_again_and_again(server: KafkaServer, veil: VeilFactory, canary: Canary, times: int) -> None:
    """Every time Veil is killed at a random moment while records are written, read masked, and read unmasked."""
    topic = new_topic("kills")
    create_topics(server.address, topic, partitions=PARTITIONS)
    running = veil(CARDS, ALICE, platform="kafka", upstream=server.at(SASL))
    before = running.node_ports, node_addresses_by_bob(running)
    shown = 0
    rounds_with_data = 0
    with (
        Consuming(running.address, topic, alone=PARTITIONS, settings=login("bob")) as bob,
        Producing(running.address, topic, PARTITIONS, canary.text(), settings=login("bob")) as made,
    ):
        wait_until(lambda: len(bob.seen) > 20, "bob reads")
        for _ in range(times):
            known = entries(running, "alice")
            with Consuming(running.address, topic, alone=PARTITIONS, settings=login("alice")) as alice:
                # A fifth of the kills falls before the first record, the others wherever the work is.
                end_s = time.monotonic() + random.uniform(0.05, 0.6)
                wait_until(lambda end_s=end_s: time.monotonic() > end_s, "a moment is over")  # type: ignore[misc]
                running.kill()
            seen = cards([alice])
            assert seen <= {MASK, *canary.values}
            if seen - {MASK}:
                rounds_with_data += 1
                shown += sum(each.card != MASK for each in alice.seen)
                assert entries(running, "alice") > known, "an entry stands on disk before what it tells of was shown"
            running.start()
            wait_for_more(lambda: len(bob.seen), 20, "records are read by bob")
        made.stop()
        wait_until(lambda: numbers([bob]) >= made.taken, "all that was taken is read", 30)
    print(f"{times} kills, {len(made.taken)} taken, {shown} shown unmasked in {rounds_with_data} rounds")

    assert made.failed == []
    assert numbers([bob]) == made.taken
    assert twice([bob]) == []
    assert cards([bob]) == {MASK}
    assert (running.node_ports, node_addresses_by_bob(running)) == before
    canary.assert_nowhere(running, [bob])
    assert_sound(running)
    assert verified(running)


def node_addresses_by_bob(running: Veil) -> dict[int, str]:
    from tests.brokers.kafka_clients import admin

    told = admin(running.address, login("bob")).list_topics(timeout=20).brokers
    return {number: f"{each.host}:{each.port}" for number, each in told.items()}


def test_veil_killed_at_random_moments_loses_nothing_shows_nothing_and_has_told_of_all_it_showed(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    kill_again_and_again(kafka_server, veil, canary, 4)


@pytest.mark.soak
def test_veil_killed_thirty_times_at_random_moments_loses_nothing_and_shows_nothing(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    kill_again_and_again(kafka_server, veil, canary, 30)


def test_veil_that_is_told_to_stop_ends_in_time_though_consumers_wait_and_they_come_back(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("drain")
    create_topics(kafka_server.address, topic)
    running = veil(CARDS, upstream=kafka_server)
    waiting = {"fetch.wait.max.ms": 60_000, "socket.timeout.ms": 70_000}
    ports = node_addresses(running)
    with (
        Consuming(running.address, topic, alone=1, settings=waiting) as long,
        Consuming(running.address, topic, alone=1) as short,
    ):
        produce(running.address, topic, [b'{"card": "%b", "n": 1}' % canary.text().encode()])
        wait_until(lambda: numbers([long]) == numbers([short]) == {1}, "both read")
        began_s = time.monotonic()

        running.signal(signal.SIGTERM)

        assert running.stop() == 0
        took_s = time.monotonic() - began_s
        assert took_s < DRAIN_S + 3
        running.start()
        produce(running.address, topic, [b'{"card": "%b", "n": 2}' % canary.text().encode()])
        wait_until(lambda: numbers([long]) == numbers([short]) == {1, 2}, "both read on", 30)
    print(f"stopped after {took_s:.1f} s")
    assert node_addresses(running) == ports
    assert cards([long, short]) == {MASK}
    canary.assert_nowhere(running, [long, short])
    assert_sound(running)
