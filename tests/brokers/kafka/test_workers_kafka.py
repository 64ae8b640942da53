"""Two workers under a supervisor: they share the listener's port and those of the nodes, the trail, and the node table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

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
    UNMASKED,
    Consuming,
    Producing,
    assert_sound,
    cards,
    new_topic,
    node_addresses,
    numbers,
    stopped,
    wait_for_more,
)

pytestmark = pytest.mark.slow
WORKERS = 2
START_S = 60.0  # two interpreters, on a machine that has other work
PARTITIONS = 3


def begin(veil: VeilFactory, upstream: str, access: str = "") -> Veil:
    running = veil(CARDS, access, upstream=upstream, platform="kafka", start=False)
    running.workers = WORKERS
    running.start(ready=False)
    wait_until(lambda: running.page("/readyz")[0] == 200, "both workers serve", START_S)
    return running


def workers(running: Veil) -> dict[int, int]:
    """Number -> process of those that serve."""
    told = json.loads(running.page("/readyz")[1] or "{}").get("workers", [])
    return {each["worker"]: each["process"] for each in told if each["ready"]}


def listening(process: int) -> set[int]:
    """The ports that a process listens on."""
    own = {str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir() if each.is_symlink()}
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            ports.add(int(fields[1].split(":")[1], 16))
    return ports


def test_both_workers_serve_the_port_of_a_node_that_one_of_them_was_told_of(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("shared")
    create_topics(kafka_server.address, topic)
    running = begin(veil, kafka_server.address)
    (address,) = node_addresses(running).values()
    port = int(address.rpartition(":")[2])
    assert port in running.node_ports
    told = [node_addresses(running) for _ in range(20)]  # the kernel spreads them over both
    assert all(each == {1: address} for each in told)

    processes = list(workers(running).values())
    wait_until(lambda: all({running.port, port} <= listening(each) for each in processes), "both listen on both", 10)

    produce(running.address, topic, [json.dumps({"card": canary.text(), "n": each}).encode() for each in range(10)])
    with stopped(readers := [Consuming(running.address, topic, alone=1) for _ in range(8)]):
        wait_until(lambda: all(len(each.seen) == 10 for each in readers), "all read all")
    assert cards(readers) == {MASK}
    canary.assert_nowhere(running, readers)


def test_a_worker_that_is_killed_is_replaced_on_the_same_ports_and_nothing_is_lost_or_shown(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic("workers")
    create_topics(kafka_server.address, topic, partitions=PARTITIONS)
    running = begin(veil, kafka_server.at(SASL), ALICE)
    bobs = [Consuming(running.address, topic, alone=PARTITIONS, settings=login("bob")) for _ in range(4)]
    alices = [Consuming(running.address, topic, alone=PARTITIONS, settings=login("alice")) for _ in range(4)]
    with (
        stopped([*bobs, *alices]),
        Producing(running.address, topic, PARTITIONS, canary.text(), settings=login("bob")) as made,
    ):
        wait_until(lambda: all(len(each.seen) > 50 for each in (*bobs, *alices)), "all read", 30)
        for number in (1, 2):
            victim = workers(running)[number]
            ports = listening(victim)
            os.kill(victim, signal.SIGKILL)
            wait_until(
                lambda number=number, victim=victim: workers(running).get(number, victim) != victim,  # type: ignore[misc]
                "there is another worker",
                START_S,
            )
            wait_until(
                lambda number=number, ports=ports: ports <= listening(workers(running)[number]),  # type: ignore[misc]
                "it serves what the one before it served",
            )
            wait_for_more(lambda: len(made.taken), 100, "records are taken")
        made.stop()
        wait_until(lambda: all(numbers([each]) >= made.taken for each in (*bobs, *alices)), "all is read by all", 30)
    told = [entry for entry in running.audit() if entry["event"] == UNMASKED]
    print(f"{len(made.taken)} taken, {len(told)} entries of unmasked reads, by workers {workers(running)}")

    assert made.failed == []
    assert cards(bobs) == {MASK}
    assert cards(alices) == set(canary.values)
    assert {entry["who"] for entry in told} == {"alice"}
    assert len(told) >= len(alices)
    assert running.metric("veil_worker_restarts_total") == 2
    canary.assert_nowhere(running, bobs)
    assert_sound(running)
    verify = [sys.executable, "-m", "proxy", "audit", "verify", str(running.audit_path)]
    done = subprocess.run(verify, capture_output=True, env=environment())
    assert (done.returncode, done.stderr) == (0, b"")
