"""What no rule masks comes through Veil as the broker has it, for whoever reads it."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.brokers.kafka_clients import CODECS, Record, login, produce
from tests.brokers.kafka_programs import PythonScript
from tests.brokers.kafka_server import SASL, USERS, KafkaServer
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import CARDS, FETCH_VERSIONS, MASK, Wire, card, log_end, new_topic, reader, whole_trail

pytestmark = pytest.mark.slow

Row = tuple[int, int, str, str, str]
AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition

async def main():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="bob",
        sasl_plain_password=settings["password"], auto_offset_reset="earliest", isolation_level=settings["isolation"],
        group_id=None,
    )
    await consumer.start()
    part = TopicPartition(settings["topic"], 0)
    consumer.assign([part])
    await consumer.seek_to_beginning(part)
    while await consumer.position(part) < settings["end"]:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for each in records:
                row = each.offset, each.timestamp, repr(each.key), repr(each.value), repr(list(each.headers))
                print(json.dumps(row), flush=True)
    await consumer.stop()

asyncio.run(main())
"""


def _by_aiokafka(address: str, topic: str, isolation: str, end: int) -> list[Row]:
    told = {"password": USERS["bob"], "topic": topic, "isolation": isolation, "end": end}
    said = PythonScript(address, **told).run(AIOKAFKA)
    assert "Traceback" not in said, said
    found = [json.loads(line) for line in said.splitlines() if line.startswith("[")]
    return [(offset, time, key, value, headers) for offset, time, key, value, headers in found]


def _by_confluent(address: str, topic: str, isolation: str, end: int) -> tuple[list[Row], set[int | None]]:
    """The rows, and the leader epochs that came with them."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": address,
        "broker.address.family": "v4",
        "group.id": "fidelity",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "check.crcs": True,
    }
    consumer = Consumer(settings | login("bob"))
    rows: list[Row] = []
    epochs: set[int | None] = set()
    consumer.assign([TopicPartition(topic, 0, 0)])
    while True:
        message = consumer.poll(10)
        assert message is not None, "neither a record nor the end came"
        if (error := message.error()) is not None:
            assert error.name() == "_PARTITION_EOF", error
            break
        headers = [(each[0], each[1]) for each in message.headers() or []]
        row = message.offset(), message.timestamp()[1], repr(message.key()), repr(message.value()), repr(headers)
        rows.append(row)  # type: ignore[arg-type]
        epochs.add(message.leader_epoch())
    position = consumer.position([TopicPartition(topic, 0)])[0].offset
    consumer.close()
    assert position == end or isolation == "read_committed"
    return rows, epochs


def _odd() -> list[Record]:
    """Records whose every part is a little unusual."""
    return [
        Record(b"", b"", [], timestamp_ms=1),
        Record(None, b"k", [("", b""), ("same", b"1"), ("same", None), ("é", b"\xff\x00")], timestamp_ms=1_700_000_000_000),
        Record(b"\xff\xfe\x00", b"\x00", [("h", b"x" * 300)], timestamp_ms=1_600_000_000_000),
        Record('{"n": 1E400, "n": 00, "é": "\\ud800"}'.encode(), None, timestamp_ms=1_500_000_000_000),
        Record(b"x" * 20_000, b"y" * 300, timestamp_ms=1_700_000_000_001),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_a_topic_that_no_rule_covers_is_answered_byte_for_byte(
    kafka_server: KafkaServer, veil: VeilFactory, codec: str
) -> None:
    topic = new_topic(kafka_server, "plain")
    produce(kafka_server.address, topic, _odd(), codec=codec)
    for abort in (True, False):
        produce(kafka_server.address, topic, _odd(), codec=codec, transaction=f"{topic}-t", abort=abort)
    one = veil(CARDS, platform="kafka", upstream=kafka_server.at(SASL))

    with reader(one) as bob, Wire(kafka_server.host, kafka_server.ports[SASL]) as direct:
        direct.enter("bob")
        own_id = bob.topic_id(topic)
        direct.topic_id(topic)
        for version in FETCH_VERSIONS:
            for isolation in (0, 1):
                for client in (bob, direct):
                    client.fetch(version, topic, isolation=isolation, topic_id=own_id)

        assert _fetches(bob) == _fetches(direct)


def _fetches(client: Wire) -> bytes:
    """All that came behind the first three frames: two of the login, one of the metadata."""
    data, at = bytes(client.received), 0
    for _ in range(3):
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    assert at < len(data)
    return data[at:]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_two_readers_see_the_same_through_veil_and_directly_but_for_what_is_masked(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, isolation: str
) -> None:
    topic = new_topic(kafka_server, "cards")
    secret = canary.text()
    records = [
        Record(card(secret, n=number), b"key %d" % number, [("h", b"%d" % number)], timestamp_ms=1_700_000_000_000 + number)
        for number in range(5)
    ] + [Record(card(None, note="é"), None, timestamp_ms=5), Record(None, b"gone", timestamp_ms=6)]
    for codec in CODECS:
        produce(kafka_server.address, topic, records, codec=codec)
    for abort in (True, False, True):
        produce(kafka_server.address, topic, records, codec="lz4", transaction=f"{topic}-t", abort=abort)
    end = log_end(kafka_server, topic)
    one = veil(CARDS, platform="kafka", upstream=kafka_server.at(SASL), markers=False)

    seen = {name: _by_aiokafka(address, topic, isolation, end) for name, address in _both(kafka_server, one.address)}
    other = {name: _by_confluent(address, topic, isolation, end) for name, address in _both(kafka_server, one.address)}

    written = len(records) * (len(CODECS) + (1 if isolation == "read_committed" else 3))
    expected = [_masked(row, secret) for row in seen["direct"]]
    assert len(expected) == written
    assert seen["veil"] == expected
    assert other["veil"] == ([_masked(row, secret) for row in other["direct"][0]], other["direct"][1])
    assert [row[:2] for row in other["veil"][0]] == [row[:2] for row in expected]
    canary.assert_not_in(repr((seen["veil"], other["veil"])), "what readers saw")
    whole_trail(one, canary)


def _both(server: KafkaServer, address: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("direct", server.at(SASL)), ("veil", address)


def _masked(row: Row, secret: str) -> Row:
    offset, time, key, value, headers = row
    return offset, time, key, value.replace(secret, repr(MASK.encode())[2:-1]), headers
