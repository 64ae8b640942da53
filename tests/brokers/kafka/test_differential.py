"""Two topics of a real broker that differ in what is masked alone: a masked reader cannot tell them apart.

Left out are what no masking can hide: time, which batches fit into the size that Veil itself asks for, and the codec,
which some producers use only where it gains: the records are such that it does in both.
"""

from __future__ import annotations

import json

import pytest

from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.schema import Message
from tests.brokers.kafka_clients import CODECS, Record, create_topics, produce
from tests.brokers.kafka_server import KafkaServer
from tests.brokers.kafka_wire_client import KafkaWireClient
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary
from tests.proxy.kafka.desk import fetch_request

RULES = """
rules:
  - name: Cards
    platform: kafka
    resources: {topic: ["differ-*"]}
    fields:
      - {kind: json_path, path: $.card, method: redact}
"""
FETCH, LIST_OFFSETS, LOG_DIRS = 1, 2, 35
PATIENCE_S = 60.0  # for the first answer of a Veil on a busy machine
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


def asked(client: KafkaWireClient, key: int, version: int, message: Message) -> bytes:
    """The frame that answers, as it came."""
    client.send_bytes(wire.own_request(key, version, 9, b"differ", message))
    return client.read()


def one_of(key: int, version: int, topic: str, **part: object) -> Message:
    codec = schema.request(key, version)
    parts = codec.item("topics").item("partitions").blank() | part
    return codec.blank() | {"topics": [{"name": topic.encode(), "partitions": [parts]}]}


def seen(veil: Veil, topic: str) -> list[bytes]:
    """All that a masked reader is told of the topic, whatever it is called."""
    client = KafkaWireClient(veil.host, veil.port, PATIENCE_S)
    told = []
    for version in (4, 7, 11, 12):
        for offset in range(6):
            for size in (1, 1200, 3000, 1 << 20):
                request = fetch_request(version, topic.encode(), partition_max_bytes=size, max_bytes=size, min_bytes=size)
                request["topics"][0]["partitions"][0]["fetch_offset"] = offset
                told.append(asked(client, FETCH, version, request | {"max_wait": 100}))
    times = (one_of(LIST_OFFSETS, 7, topic, timestamp=time) for time in (EARLIEST, LATEST, MAX_TIMESTAMP, 1002))
    told.extend(asked(client, LIST_OFFSETS, 7, each) for each in times)
    told.append(asked(client, LOG_DIRS, 4, {"topics": [{"topic": topic.encode(), "partitions": [0]}]}))
    client.close()
    return [each.replace(topic.encode(), b"?") for each in told]


def test_a_masked_reader_cannot_tell_two_topics_apart_that_differ_in_what_is_masked(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    worlds = {"differ-a": "7", "differ-b": canary.text() * 20}
    for topic, card in worlds.items():
        create_topics(kafka_server.address, topic)
        for number, codec in enumerate(CODECS):
            value = json.dumps({"card": card, "n": number, "filler": "x" * 900}).encode()
            produce(kafka_server.address, topic, [Record(value, b"k", timestamp_ms=1000 + number)], codec=codec)
    one = veil(RULES, upstream=kafka_server)

    first, second = (seen(one, topic) for topic in worlds)

    assert len(first) > 90
    assert [number for number, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]] == []
    canary.assert_not_in(b"".join(second), "what the reader was told")
    canary.assert_nowhere(one)


@pytest.mark.parametrize("version", [7, 12])
def test_a_fetch_session_of_another_connection_is_not_gone_on_with(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, version: int
) -> None:
    topic = f"differ-session-{version}"
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [json.dumps({"card": canary.text()}).encode()])
    one = veil(RULES, upstream=kafka_server)
    mine, other = (KafkaWireClient(one.host, one.port, PATIENCE_S) for _ in range(2))
    request = fetch_request(version, topic.encode(), session_id=0, session_epoch=0)

    opened = _read(version, asked(mine, FETCH, version, request))
    goes_on = fetch_request(version, session_id=opened["session_id"], session_epoch=1, max_bytes=1, min_bytes=9)
    refused = _read(version, asked(other, FETCH, version, goes_on))
    kept = _read(version, asked(mine, FETCH, version, goes_on))

    assert (bool(opened["session_id"]), refused["error_code"], kept["error_code"]) == (True, 70, 0)
    canary.assert_nowhere(one, [mine, other])
    mine.close()
    other.close()


def _read(version: int, frame: bytes) -> Message:
    return schema.response(FETCH, version).read(frame, wire.response_body_at(frame, FETCH, version))
