"""The Kafka part of the demo: the mock cluster inside librdkafka, three brokers on real ports, and orders in every codec.

It comes with the package `confluent-kafka`, which is not there for every machine: the demo does without it then. The
cluster has no logins, so two listeners say who reads. What talks to it here blocks, and is called in a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

from proxy.runtime.upstream import Address

from .files import ORDINARY, PERMITTED
from .screen import DemoFailed, Screen, printable

if TYPE_CHECKING:
    from confluent_kafka import Producer

NODES = 3
TOPIC = "orders"
CODECS = "none", "gzip", "snappy", "lz4", "zstd"
ANSWER_S = 15.0
MASKED, UNMASKED = "veil-masked", "veil-unmasked"
REFUSED = "POLICY_VIOLATION"
QUIET = {"log_level": 0, "broker.address.family": "v4"}


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]

    @property
    def marks(self) -> dict[str, bytes]:
        return {name: value for name, value in self.headers if name in {MASKED, UNMASKED}}

    @property
    def bare(self) -> Record:
        """Without what Veil says of it."""
        return Record(self.key, self.value, tuple(each for each in self.headers if each[0] not in {MASKED, UNMASKED}))

    def __bytes__(self) -> bytes:
        return b"\n".join((self.key, self.value, *(name.encode() + b"=" + value for name, value in self.headers)))


PEOPLE = (
    ("Grace Hopper", "grace@example.org", "5500005555555559", "DE-20117", "Bearer 7f31aa02"),
    ("Edsger Dijkstra", "edsger@example.org", "340000099999990", "NL-48213", "Bearer 0c84e1d9"),
    ("Barbara Liskov", "barbara@example.org", "6011000990139424", "US-77150", "Bearer b52f6e63"),
    ("Tony Hoare", "tony@example.org", "3530111333300000", "GB-31942", "Bearer e9017c4d"),
    ("Radia Perlman", "radia@example.org", "5105105105105100", "US-90266", "Bearer 46d8b3f7"),
)
SECRETS = tuple(each.encode() for person in PEOPLE for each in person)
SAMPLE = tuple(
    Record(
        key.encode(),
        f'{{"id":{number},"customer":{{"name":"{name}","mail":"{mail}"}},"card":"{card}","total":49.90}}'.encode(),
        (("authorization", token.encode()), ("source", b"web")),
    )
    for number, (name, mail, card, key, token) in enumerate(PEOPLE, 7001)
)


def is_there() -> bool:
    """Whether the package with the cluster is installed."""
    return find_spec("confluent_kafka") is not None


class Cluster:
    """The brokers, with the sample orders. There until `close`, which blocks as everything else does here."""

    def __init__(self) -> None:
        """Starts the brokers and writes the orders, each in a codec of its own.

        Raises:
            DemoFailed: they did not come up.
        """
        from confluent_kafka import KafkaException, Producer

        try:
            self._brokers: Producer | None = Producer({"test.mock.num.brokers": NODES, **QUIET})
            self.nodes = _brokers(self._brokers)
            for codec, record in zip(CODECS, SAMPLE, strict=True):
                _write(self.bootstrap, record, codec)
        except KafkaException:
            raise DemoFailed("the Kafka mock cluster did not start") from None

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.nodes.values()))

    def close(self) -> None:
        self._brokers = None


@dataclass(frozen=True, slots=True)
class Shown:
    """What came directly and through Veil, and what is wrong with it."""

    direct: tuple[Record, ...]
    masked: tuple[Record, ...]
    clear: tuple[Record, ...]
    brokers: tuple[Address, ...]
    refusal: str
    wrong: tuple[str, ...]


def look(cluster: Cluster, support: Address, auditor: Address) -> Shown:
    """Reads the orders three times, writes a masked one back, and judges what came. Blocks.

    Raises:
        DemoFailed: something did not answer.
    """
    from confluent_kafka import KafkaException, Producer

    try:
        told = _brokers(Producer({"bootstrap.servers": str(support), **QUIET}))
        direct, masked, clear = _read(cluster.bootstrap), _read(str(support)), _read(str(auditor))
        refusal = _write(str(support), masked[0].bare, "none") if masked else ""
        after = _read(cluster.bootstrap)
    except KafkaException as failed:
        raise DemoFailed(f"Kafka: {failed.args[0].str()}") from None
    wrong = [f"the masked orders show {secret.decode()}" for secret in SECRETS if any(secret in bytes(each) for each in masked)]
    if direct != SAMPLE:
        wrong.append("the cluster does not hold the orders")
    if tuple(each.bare for each in clear) != direct:
        wrong.append("the unmasked orders are not those of the cluster")
    if len(masked) != len(direct) or any(MASKED not in each.marks for each in masked):
        wrong.append("masked orders are missing, or are not marked")
    if any(UNMASKED not in each.marks for each in clear):
        wrong.append("unmasked orders are not marked")
    if set(told.values()) & set(cluster.nodes.values()) or set(told) != set(cluster.nodes):
        wrong.append("the brokers are not reached through Veil")
    if REFUSED not in refusal or after != direct:
        wrong.append("a masked order could be written back")
    return Shown(direct, masked, clear, tuple(told.values()), refusal, tuple(wrong))


def show(shown: Shown, screen: Screen) -> None:
    """Prints what came directly and through Veil, side by side."""
    screen.columns("", "directly from the brokers", f"through Veil, as {ORDINARY} (masked)")
    for number, (direct, masked) in enumerate(zip(shown.direct, shown.masked, strict=False)):
        screen.columns(f"{TOPIC} {number} ({CODECS[number]})", printable(direct.value), printable(masked.value))
        if not number:
            screen.columns("  key", printable(direct.key), printable(masked.key))
            for name, value in direct.headers:
                screen.columns(f"  {name}", printable(value), printable(dict(masked.headers).get(name, b"")))
    if shown.masked:
        screen.told(f"  {MASKED}", printable(shown.masked[0].marks.get(MASKED, b"")))
    same = sum(one.bare == other for one, other in zip(shown.clear, shown.direct, strict=False))
    screen.line()
    screen.told(f"as {PERMITTED}", f"{same} of {len(shown.direct)} orders as they are, on record before they were shown")
    if shown.clear:
        screen.told(f"  {UNMASKED}", printable(shown.clear[0].marks.get(UNMASKED, b"")))
    screen.told("a masked order back", f"refused: {shown.refusal}" if REFUSED in shown.refusal else shown.refusal)


def _brokers(client: Producer) -> dict[int, Address]:
    brokers = client.list_topics(timeout=ANSWER_S).brokers.values()
    return {each.id: Address(str(each.host), int(each.port)) for each in sorted(brokers, key=lambda each: each.id)}


def _write(bootstrap: str, record: Record, codec: str) -> str:
    """Writes a record; what the broker said against it, or an empty text."""
    from confluent_kafka import KafkaError, Message, Producer

    said: list[str] = []

    def told(error: KafkaError | None, _: Message) -> None:
        said.append("" if error is None else f"{error.name()} ({error.str()})")

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 0, **QUIET})
    producer.produce(TOPIC, record.value, record.key, partition=0, headers=list(record.headers), on_delivery=told)
    if producer.flush(ANSWER_S) or not said:
        raise DemoFailed("Kafka: a record was neither taken nor refused")
    return said[0]


def _read(bootstrap: str) -> tuple[Record, ...]:
    """All records of the partition that holds the orders.

    Raises:
        DemoFailed: its end was not come to in time.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    told = {"group.id": "veil-demo", "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50}
    consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **told, **QUIET})
    found: list[Record] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        end = monotonic() + ANSWER_S
        while monotonic() < end:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                headers = tuple((str(each[0]), _bytes(each[1])) for each in message.headers() or ())
                found.append(Record(message.key() or b"", message.value() or b"", headers))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is spelled
                return tuple(found)
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    raise DemoFailed("Kafka: the end of the orders was not come to")


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
