"""Who reads: what each login is worth, by every mechanism, and that it stays whose it was."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.brokers.kafka_clients import consume, login, produce
from tests.brokers.kafka_server import PLAIN, REAUTH, REAUTH_MS, SASL, TLS, KafkaServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary
from tests.certificates import Authority

from .scenery import ALICE, CARDS, MASK, UNMASKED, Wire, card, entries, new_topic, whole_trail

pytestmark = pytest.mark.slow


@pytest.fixture
def secret(canary: Canary) -> str:
    return canary.text()


@pytest.fixture
def topic(kafka_server: KafkaServer, secret: str) -> str:
    name = new_topic(kafka_server, "cards")
    produce(kafka_server.address, name, [card(secret)])
    return name


def seen(one: Veil, topic: str, settings: dict[str, Any]) -> str:
    """The card as this login sees it."""
    (record,) = consume(one.address, topic, 1, settings=settings)
    return str(json.loads(record.value or b"")["card"])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_shows_what_its_user_may_see(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary, mechanism: str
) -> None:
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL))

    assert seen(one, topic, login("alice", mechanism)) == secret
    assert seen(one, topic, login("bob", mechanism)) == MASK
    assert {each["who"] for each in entries(one, UNMASKED)} == {"alice"}
    whole_trail(one, canary)


@pytest.mark.parametrize("claim", [None, "sub"])
def test_a_token_that_the_broker_takes_unsigned_names_nobody(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary, claim: str | None
) -> None:
    listener = {} if claim is None else {"token_claim": claim}
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL), listener=listener)

    assert seen(one, topic, login("alice", "OAUTHBEARER")) == MASK
    assert entries(one, UNMASKED) == []
    if claim is not None:
        assert "user alice is an ordinary reader" in one.page("/readyz")[1]
    whole_trail(one, canary)


def test_a_consumer_that_is_authenticated_anew_stays_whom_it_was(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary
) -> None:
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(REAUTH))
    base = {"bootstrap.servers": one.address, "broker.address.family": "v4", "enable.auto.commit": False}
    cards: dict[str, list[str]] = {}
    for user in ("alice", "bob"):
        consumer = Consumer(base | login(user) | {"group.id": f"{topic}-{user}"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        cards[user] = []
        end = time.monotonic() + 2.5 * REAUTH_MS / 1000  # twice anew, while it polls all the time
        while time.monotonic() < end:
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None
                cards[user].append(json.loads(message.value() or b"")["card"])
                consumer.seek(TopicPartition(topic, 0, 0))
                time.sleep(0.05)
        consumer.close()

    assert (set(cards["alice"]), set(cards["bob"])) == ({secret}, {MASK})
    assert [each["who"] for each in entries(one, UNMASKED)] == ["alice"]
    whole_trail(one, canary)


def test_a_wrong_password_opens_nothing(kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary) -> None:
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL))
    with Wire(one.host, one.port) as mallory:
        assert mallory.login("alice", "wrong") == 58
        assert mallory.at_end()
        canary.assert_nowhere(one, [mallory])
    assert topic not in str(entries(one, UNMASKED))


def test_whoever_does_not_log_in_is_nobody(kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary) -> None:
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(PLAIN))

    assert seen(one, topic, {}) == MASK
    whole_trail(one, canary)


def test_a_certificate_names_its_reader(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary, tmp_path: Path
) -> None:
    assert kafka_server.authority is not None
    own = Authority(tmp_path, "own")
    tls = {**own.server().as_config(), "client_ca": str(own.path)}
    one = veil(
        CARDS,
        ALICE,
        platform="kafka",
        upstream=f"localhost:{kafka_server.ports[TLS]}",
        listener={"tls": tls, "upstream_tls": {"ca": str(kafka_server.authority.path)}},
        connection={"reader": {"from": "certificate"}},
    )
    found = {}
    for user in ("alice", "bob"):
        made = own.make(user)
        found[user] = seen(
            one,
            topic,
            {
                "security.protocol": "SSL",
                "ssl.ca.location": str(own.path),
                "ssl.certificate.location": str(made.certificate),
                "ssl.key.location": str(made.key),
            },
        )
    assert found == {"alice": secret, "bob": MASK}
    whole_trail(one, canary)
