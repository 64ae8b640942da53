"""An assistant's way into Kafka: a real MCP server, directly, so that the test is known to see values, and through Veil."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.kafka_clients import Record, consume, create_topics, produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary, CanaryFound

from .cards import RULES, assert_no_address
from .mcp import KafkaMcp

pytestmark = pytest.mark.slow

Start = Callable[[str], KafkaMcp]


@pytest.fixture
def topic(kafka_server: KafkaServer, canary: Canary) -> str:
    name = f"orders-{secrets.token_hex(4)}"
    create_topics(kafka_server.address, name)
    documents = [json.dumps({"card": canary.text(), "n": each}).encode() for each in range(3)]
    produce(kafka_server.address, name, [Record(each, b"key", [("h", b"1")]) for each in documents], codec="gzip")
    return name


@pytest.fixture
def masked(kafka_server: KafkaServer, veil: VeilFactory) -> Veil:
    return veil(RULES, platform="kafka", upstream=kafka_server.at(SASL))


@pytest.fixture
def mcp(tmp_path: Path) -> Iterator[Start]:
    started: list[KafkaMcp] = []

    def begin(address: str) -> KafkaMcp:
        home = tmp_path / f"mcp{len(started)}"
        home.mkdir()
        started.append(KafkaMcp(home, address))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def test_directly_an_assistant_is_given_every_value(kafka_server: KafkaServer, mcp: Start, topic: str, canary: Canary) -> None:
    server = mcp(kafka_server.at(SASL))

    server.call("kafka_sample_messages", topic=topic, strategy="earliest")

    for value in canary.values:
        assert value.encode() in server.seen
    with pytest.raises(CanaryFound):
        canary.assert_not_in(bytes(server.seen))


def test_through_veil_an_assistant_is_given_masks_and_no_address(
    kafka_server: KafkaServer, masked: Veil, mcp: Start, topic: str, canary: Canary
) -> None:
    server = mcp(masked.address)

    samples = [
        server.call("kafka_sample_messages", topic=topic, partition=0, **where)
        for where in ({"strategy": "earliest"}, {"strategy": "latest"}, {"strategy": "offset", "offset": 1, "limit": 2})
    ]
    info = server.call("kafka_cluster_info")
    topics = server.call("kafka_list_topics")
    server.call("kafka_describe_topic", topic_name=topic)
    server.call("kafka_list_consumer_groups")

    values = [[each["value"] for each in sample["messages"]] for sample in samples]
    assert values[0] == [{"card": "••••", "n": each} for each in range(3)]
    assert values[2] == values[0][1:]
    assert all(value["card"] == "••••" for value in values[1])
    assert "veil-masked" in samples[0]["messages"][0]["headers"]
    assert {each["host"] for each in info["brokers"]} == {masked.host}
    assert topic in {each["name"] for each in topics["topics"]}
    _end(server, kafka_server, masked, canary)


def test_through_veil_an_assistant_writes_and_cannot_write_masks_back(
    kafka_server: KafkaServer, masked: Veil, mcp: Start, topic: str, canary: Canary
) -> None:
    server = mcp(masked.address)
    sample = server.call("kafka_sample_messages", topic=topic, strategy="earliest", limit=1)

    refused = server.call("kafka_produce_message", topic=topic, value=sample["messages"][0]["value"])
    server.call("kafka_produce_message", topic=topic, value={"card": "new", "n": 9})

    stored = consume(kafka_server.address, topic, 5, within_s=2)
    assert "PolicyViolation" in json.dumps(refused)
    assert [json.loads(each.value or b"")["n"] for each in stored] == [0, 1, 2, 9]
    _end(server, kafka_server, masked, canary)


def _end(server: KafkaMcp, broker: KafkaServer, veil: Veil, canary: Canary) -> None:
    for told in (bytes(server.seen), server.log()):
        canary.assert_not_in(told, "what the server told")
        assert_no_address(told, broker)
    canary.assert_nowhere(veil)
