"""A topic read to its end by a librdkafka consumer: from a real broker, through Veil, and through another proxy.

Each run is a consumer of its own, timed from its first record to its last, so that neither joining nor connecting counts.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.parts import documents
from tests.brokers.faults import cpu_s
from tests.brokers.kafka_java import java
from tests.brokers.kafka_server import KafkaServer
from tests.brokers.processes import free_ports, wait_until
from tests.brokers.veil import Veil

RECORDS, RECORD_BYTES, DIFFERENT = 100_000, 1024, 500
PARTITIONS, MANY = 4, 64  # a covered partition is asked for in 1 MiB, so that many make an answer of 50
ROUNDS = 5
DIRECT, NOT_COVERED, MASKED, OTHER = "direct", "Veil, not covered", "Veil, masked", "Kroxylicious, no filter"
PLAIN_TOPIC, COVERED_TOPIC = "carts", "orders"
AT_ONCE = 10_000  # records handed over by the consumer in one call
TIMEOUT_S = 60.0
METHODS = {"Redact": "method: redact", "Partial": "method: partial, keep_first: {0.keep_first}, keep_last: {0.keep_last}"}
RULES = "rules:\n" + "".join(
    f'  - name: Rule {number}\n    platform: kafka\n    resources: ["{COVERED_TOPIC}*"]\n'
    f'    fields: [{{kind: json_path, path: "{path}", {METHODS[type(method).__name__].format(method)}}}]\n'
    for number, (path, method) in enumerate(documents.MIXED)
)
LAUNCHER = Path(__file__).with_name("Launcher.java")


@dataclass
class Run:
    """`cpu_s` is the proxy's, of one reading; `seconds` of each reading."""

    records: int
    bytes: int
    seconds: list[float] = field(default_factory=list)
    cpu_s: float | None = None


@dataclass(frozen=True)
class Way:
    """Where a reader connects; `pid` is the proxy's."""

    name: str
    address: str
    topic: str
    pid: int | None


def can_run() -> bool:
    return java() is not None


def measure(codec: str) -> dict[str, Run]:
    """Each path's readings, in turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(_broker(folder))
        for topic in (PLAIN_TOPIC, COVERED_TOPIC):
            _fill(server, topic, codec)
        veil = stack.enter_context(_veil(folder, server))
        paths = [
            Way(DIRECT, server.address, PLAIN_TOPIC, None),
            Way(NOT_COVERED, veil.address, PLAIN_TOPIC, veil.pid),
            Way(MASKED, veil.address, COVERED_TOPIC, veil.pid),
        ]
        if (other := os.environ.get("KROXYLICIOUS")) is not None:
            address, pid = stack.enter_context(_kroxylicious(folder, server, Path(other)))
            paths.append(Way(OTHER, address, PLAIN_TOPIC, pid))
        runs = {path.name: Run(RECORDS, RECORDS * RECORD_BYTES) for path in paths}
        spent: dict[str, float] = {}
        for number in range(ROUNDS + 1):
            for path in paths:
                before = 0.0 if path.pid is None else cpu_s(path.pid)
                seconds = _read(path.address, path.topic)
                if not number:
                    continue  # warms up
                runs[path.name].seconds.append(seconds)
                if path.pid is not None:
                    spent[path.name] = spent.get(path.name, 0.0) + cpu_s(path.pid) - before
        for name, total in spent.items():
            runs[name].cpu_s = total / ROUNDS
        return runs


@contextmanager
def _broker(folder: Path) -> Iterator[KafkaServer]:
    own = folder / "broker"
    own.mkdir()
    server = KafkaServer(own, listeners=("PLAIN",), heap="512m")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def _veil(folder: Path, server: KafkaServer) -> Iterator[Veil]:
    own = folder / "veil"
    own.mkdir()
    veil = Veil(own, RULES, "", server.address, {}, "kafka")
    veil.start()
    try:
        yield veil
    finally:
        veil.stop()


@contextmanager
def _kroxylicious(folder: Path, server: KafkaServer, jars: Path) -> Iterator[tuple[str, int]]:
    """Started from its jars by a class of a few lines, since what Maven Central has is its runtime without a command."""
    ports = free_ports(4)
    config = folder / "kroxylicious.yaml"
    config.write_text(f"""
virtualClusters:
  - name: bench
    targetCluster: {{bootstrapServers: "{server.address}"}}
    gateways:
      - name: default
        portIdentifiesNode:
          bootstrapAddress: 127.0.0.1:{ports[0]}
          advertisedBrokerAddressPattern: 127.0.0.1
""")
    with (folder / "kroxylicious.log").open("wb") as log:
        interpreter = java()
        assert interpreter is not None
        command = [interpreter, "-Xmx512m", "-cp", f"{jars}/*", str(LAUNCHER), str(config)]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603  our own words
    try:
        wait_until(lambda: child.poll() is not None or _listens(ports[0]), "Kroxylicious listens", TIMEOUT_S)
        if child.poll() is not None:
            raise ConnectionRefusedError((folder / "kroxylicious.log").read_text()[-2000:])
        yield f"127.0.0.1:{ports[0]}", child.pid
    finally:
        child.terminate()
        child.wait(TIMEOUT_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def peak() -> tuple[int, int]:
    """Resident bytes of Veil before and at most while one reader is given masked answers of up to 50 MiB."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(_broker(folder))
        _fill(server, COVERED_TOPIC, "none", MANY)
        veil = stack.enter_context(_veil(folder, server))
        _read(veil.address, COVERED_TOPIC, records=1000)
        before = _resident(veil.pid, "VmRSS")
        Path(f"/proc/{veil.pid}/clear_refs").write_text("5")  # the highest so far is forgotten
        _read(veil.address, COVERED_TOPIC, MANY)
        return before, _resident(veil.pid, "VmHWM")


def _resident(pid: int, which: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{which}:"))


def _fill(server: KafkaServer, topic: str, codec: str, partitions: int = PARTITIONS) -> None:
    from confluent_kafka import Producer

    from tests.brokers.kafka_clients import create_topics

    create_topics(server.address, topic, partitions=partitions)
    told = {"bootstrap.servers": server.address, "broker.address.family": "v4", "compression.type": codec, "linger.ms": 20}
    producer = Producer({**told, "queue.buffering.max.messages": RECORDS, "batch.num.messages": 16})
    orders = [documents.compact(RECORD_BYTES, each) for each in range(DIFFERENT)]
    for number in range(RECORDS):
        producer.produce(topic, orders[number % DIFFERENT], b"order-%d" % number, number % partitions)
        if not number % AT_ONCE:
            producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    assert not left


def _read(address: str, topic: str, partitions: int = PARTITIONS, records: int = RECORDS) -> float:
    """Seconds from the first record to the last."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    told: dict[str, str | int | bool] = {
        "bootstrap.servers": address,
        "broker.address.family": "v4",
        "group.id": "bench",
        "enable.auto.commit": False,
    }
    consumer = Consumer(told)
    try:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        count, began = 0, 0.0
        while count < records:
            got = consumer.consume(AT_ONCE if count else 1, TIMEOUT_S if not count else 0.05)
            for each in got[:1]:
                if (error := each.error()) is not None:
                    raise KafkaException(error)
            if got and not count:
                began = time.perf_counter()
            count += len(got)
            if count < records and began and time.perf_counter() > began + TIMEOUT_S:
                raise TimeoutError(f"{count} of {records} records came")
        return time.perf_counter() - began
    finally:
        consumer.close()
