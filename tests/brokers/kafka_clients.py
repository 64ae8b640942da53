"""What librdkafka does in a test: topics, records in every codec, transactions, and what is there.

`address` is any bootstrap list: a broker's, for a look that Veil has no part in, or Veil's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from .kafka_server import USERS

CODECS = "none", "gzip", "snappy", "lz4", "zstd"
TIMEOUT_S = 20.0
Value = str | int | float | bool
Settings = Mapping[str, Value]
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int = 0
    offset: int = -1
    timestamp_ms: int = -1

    def header(self, name: str) -> list[bytes | None]:
        """Every header of that name."""
        return [value for each, value in self.headers if each == name]


def login(user: str, mechanism: str = "PLAIN", *, tls: bool = False, password: str | None = None) -> dict[str, Value]:
    """librdkafka's settings for a login as one of the broker's users."""
    told: dict[str, Value] = {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return told | {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={user}"}
    return told | {"sasl.username": user, "sasl.password": USERS[user] if password is None else password}


def _told(address: str, settings: Settings | None) -> dict[str, Value]:
    # The broker listens on IPv4 alone, and its name has an IPv6 address on many machines.
    base: dict[str, Value] = {"bootstrap.servers": address, "broker.address.family": "v4", "log_level": 2}
    return base | dict(settings or {})


def admin(address: str, settings: Settings | None = None) -> AdminClient:
    return AdminClient(_told(address, settings))


def create_topics(
    address: str,
    *names: str,
    partitions: int = 1,
    replication: int = -1,
    config: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> None:
    """Topics, there and led when this returns.

    Raises:
        KafkaException: one could not be made.
    """
    client = admin(address, settings)
    wanted = [NewTopic(name, partitions, replication, config=dict(config or {})) for name in names]
    for made in client.create_topics(wanted, operation_timeout=TIMEOUT_S).values():
        made.result(TIMEOUT_S)
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        known = client.list_topics(timeout=TIMEOUT_S).topics
        if all(name in known and _led(list(known[name].partitions.values()), partitions) for name in names):
            return
        time.sleep(0.02)
    raise TimeoutError(f"no leaders of {names}")


def _led(partitions: Sequence[object], count: int) -> bool:
    return len(partitions) == count and all(getattr(each, "leader", -1) >= 0 for each in partitions)


def produce(
    address: str,
    topic: str,
    records: Sequence[Record | bytes],
    *,
    codec: str = "none",
    transaction: str | None = None,
    abort: bool = False,
    settings: Settings | None = None,
) -> list[Record]:
    """The records as the broker took them, in one batch where they fit; `transaction` is a transactional id.

    Raises:
        KafkaException: the first record that was not taken, or the transaction.
    """
    told = {"compression.type": codec, "linger.ms": 50, **(settings or {})}
    if transaction is not None:
        told["transactional.id"] = transaction
    producer = Producer(_told(address, told))
    if transaction is not None:
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
    errors: list[KafkaError] = []
    taken: list[Record] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            taken.append(_record(message))

    for each in records:
        one = each if isinstance(each, Record) else Record(each)
        producer.produce(
            topic,
            value=one.value,
            key=one.key,
            headers=list(one.headers),
            partition=one.partition,
            timestamp=max(one.timestamp_ms, 0),  # 0: now
            on_delivery=delivered,
        )
    left = producer.flush(TIMEOUT_S)
    if transaction is not None and not errors:
        if abort:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    if errors:
        raise KafkaException(errors[0])
    if left:
        raise TimeoutError(f"{left} records not taken within {TIMEOUT_S} s")
    return taken


def consume(
    address: str,
    topic: str,
    count: int,
    *,
    partitions: Sequence[int] = (0,),
    group: str = "tests",
    within_s: float = TIMEOUT_S,
    settings: Settings | None = None,
) -> list[Record]:
    """The first records of these partitions, `count` of them, or fewer after `within_s`; nothing is committed.

    Raises:
        KafkaException: the broker, or Veil, answered with an error.
    """
    told = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **(settings or {})}
    consumer = Consumer(_told(address, told))
    got: list[Record] = []
    try:
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        end = time.monotonic() + within_s
        while len(got) < count and (left := end - time.monotonic()) > 0:
            message = consumer.poll(min(left, 0.2))
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            got.append(_record(message))
    finally:
        consumer.close()
    return got


def _record(message: Message) -> Record:
    # A header's name comes as str; its value as bytes, or None for Kafka's null.
    headers = tuple((str(each[0]), each[1] if isinstance(each[1], bytes) else None) for each in message.headers() or ())
    value, key = message.value(), message.key()
    return Record(value, key, headers, message.partition() or 0, message.offset() or 0, message.timestamp()[1])
