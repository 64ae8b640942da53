"""A real broker, read through Veil: masked, addressed, and else as it is."""

from __future__ import annotations

import json

from tests.brokers.kafka.cards import RULES
from tests.brokers.kafka_clients import admin, consume, create_topics, login, produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

ACCESS = """
users:
  alice: {roles: [pii]}
roles:
  pii: {permissions: [messages.read.unmasked]}
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: installation}
"""


def test_masked_orders_are_read_through_veil_and_the_originals_by_whoever_may(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = "orders-first"
    create_topics(kafka_server.address, topic)
    card = canary.text()
    produce(kafka_server.address, topic, [json.dumps({"card": card, "n": each}).encode() for each in range(3)])
    one = veil(RULES, ACCESS, platform="kafka", upstream=kafka_server.at(SASL))

    masked = consume(one.address, topic, 3, settings=login("bob"))
    clear = consume(one.address, topic, 3, settings=login("alice"))

    assert [json.loads(each.value or b"") for each in masked] == [{"card": "••••", "n": each} for each in range(3)]
    assert [json.loads(each.value or b"")["card"] for each in clear] == [card] * 3
    assert [entry["who"] for entry in one.audit() if entry["event"] == "broker.message.read-unmasked"] == ["alice"]
    canary.assert_nowhere(one)


def test_librdkafka_is_told_of_all_topics_and_of_veils_own_ports(kafka_server: KafkaServer, veil: VeilFactory) -> None:
    """Its request for all topics has three bytes too many (2.16)."""
    create_topics(kafka_server.address, "orders-listed", "other-listed")
    one = veil(RULES, ACCESS, platform="kafka", upstream=kafka_server.at(SASL))

    told = admin(one.address, login("bob")).list_topics(timeout=20)

    assert {"orders-listed", "other-listed"} <= set(told.topics)
    [broker] = told.brokers.values()
    assert (str(broker.host), broker.port in one.node_ports) == (one.host, True)
