"""TLS on both sides of Veil with the clients that people use: logins, client certificates, and a certificate that is changed."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.brokers.kafka_clients import Value, consume, create_topics, login, produce
from tests.brokers.kafka_programs import Kcat
from tests.brokers.kafka_server import ADVERTISED, SASL_TLS, TLS, KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary
from tests.certificates import Authority, Made

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
    numbers,
    stopped,
    wait_for_more,
)

pytestmark = pytest.mark.slow
Told = dict[str, Value]


@pytest.fixture
def own(tmp_path: Path) -> Authority:
    """Whom Veil's clients trust."""
    folder = tmp_path / "own"
    folder.mkdir()
    return Authority(folder, "own")


def begin(
    veil: VeilFactory, server: KafkaServer, listener: str, own: Authority, *, tls: Told | None = None, made: Made | None = None
) -> Veil:
    """A Veil that speaks TLS to readers, and to the broker with the certificate `made`, if any."""
    assert server.authority is not None
    mine = own.server()
    up: dict[str, object] = {"ca": str(server.authority.path)}
    if made is not None:
        up |= made.as_config()
    down = {**mine.as_config(), **(tls or {})}
    more = {"reader": {"from": "certificate"}} if tls else {}
    return veil(
        CARDS,
        ALICE,
        platform="kafka",
        upstream=f"{ADVERTISED}:{server.ports[listener]}",
        listener={"tls": down, "upstream_tls": up},
        connection=more,
    )


def trusts(own: Authority, made: Made | None = None) -> Told:
    told: Told = {"security.protocol": "SSL", "ssl.ca.location": str(own.path)}
    if made is not None:
        told |= {"ssl.certificate.location": str(made.certificate), "ssl.key.location": str(made.key)}
    return told


def fill(server: KafkaServer, name: str, canary: Canary, count: int = 5) -> tuple[str, str]:
    """A topic and the card in all its records."""
    topic, card = new_topic(name), canary.text()
    create_topics(server.address, topic)
    produce(server.address, topic, [json.dumps({"card": card, "n": each}).encode() for each in range(count)])
    return topic, card


def read(running: Veil, topic: str, settings: Told) -> set[str]:
    return {json.loads(each.value or b"")["card"] for each in consume(running.address, topic, 5, settings=settings)}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_inside_tls_a_login_says_who_reads_and_what_is_shown(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, own: Authority, mechanism: str
) -> None:
    topic, card = fill(kafka_server, "login", canary)
    running = begin(veil, kafka_server, SASL_TLS, own)

    def user(name: str) -> Told:
        return {**login(name, mechanism, tls=True), "ssl.ca.location": str(own.path)}

    assert read(running, topic, user("bob")) == {MASK}
    assert entries(running, "alice") == 0
    assert read(running, topic, user("alice")) == {card}
    assert entries(running, "alice") >= 1
    canary.assert_nowhere(running)
    assert_sound(running)


def test_kcat_speaks_tls_to_it(kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, own: Authority) -> None:
    topic, card = fill(kafka_server, "kcat", canary)
    running = begin(veil, kafka_server, SASL_TLS, own)
    # Debian 12's librdkafka 2.0.2 compares an address with names alone.
    told: Told = {"ssl.ca.location": str(own.path), "ssl.endpoint.identification.algorithm": "none"}
    bob = Kcat(running.address, {**login("bob", tls=True), **told})
    alice = Kcat(running.address, {**login("alice", tls=True), **told})
    words = "-C", "-m", "30", "-t", topic, "-o", "beginning", "-e", "-q"

    assert [json.loads(line) for line in bob.run(*words).splitlines()] == [{"card": MASK, "n": each} for each in range(5)]
    assert [json.loads(line)["card"] for line in alice.run(*words).splitlines()] == [card] * 5
    canary.assert_not_in(bytes(bob.seen))
    canary.assert_nowhere(running)


def test_a_certificate_says_who_reads_and_nobody_without_one_is_let_in(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, own: Authority
) -> None:
    topic, card = fill(kafka_server, "mutual", canary)
    clients = Authority(own.folder, "clients")
    assert kafka_server.authority is not None
    running = begin(
        veil,
        kafka_server,
        TLS,
        own,
        tls={"client_ca": str(clients.path)},
        made=kafka_server.authority.make("veil-itself"),
    )

    assert read(running, topic, trusts(own, clients.make("bob"))) == {MASK}
    assert read(running, topic, trusts(own, clients.make("alice"))) == {card}
    assert entries(running, "alice") >= 1
    for stranger in (None, own.make("alice")):
        with contextlib.suppress(KafkaException):
            assert consume(running.address, topic, 1, within_s=3, settings=trusts(own, stranger)) == []
    canary.assert_nowhere(running)
    assert_sound(running)


def shown(running: Veil, port: int, own: Authority) -> str:
    """The serial number of the certificate that is shown at a port."""
    context = ssl.create_default_context(cafile=own.path)
    with (
        socket.create_connection((running.host, port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as inside,
    ):
        return str((inside.getpeercert() or {})["serialNumber"])


def test_a_certificate_that_is_changed_is_shown_at_every_port_and_whoever_reads_reads_on(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, own: Authority
) -> None:
    topic = new_topic("renewed")
    create_topics(kafka_server.address, topic)
    running = begin(veil, kafka_server, SASL_TLS, own)
    bob: Told = {**login("bob", tls=True), "ssl.ca.location": str(own.path)}
    card = canary.text()
    readers = [Consuming(running.address, topic, alone=1, settings=bob)]
    with stopped(readers), Producing(running.address, topic, 1, card, settings=bob) as made:
        wait_until(lambda: len(readers[0].seen) > 20, "it reads")
        ports = [running.port, running.node_ports[1]]  # the one node is number 1
        before = [shown(running, port, own) for port in ports]
        assert before[0] == before[1]

        own.server()

        wait_until(lambda: all(shown(running, port, own) != before[0] for port in ports), "the new one is shown", 10)
        wait_for_more(lambda: len(readers[0].seen), 50, "records are read by who was there")
        readers.append(Consuming(running.address, topic, alone=1, settings=bob))
        made.stop()
        wait_until(lambda: all(numbers([each]) >= made.taken for each in readers), "all is read by all")
    assert made.failed == []
    assert readers[0].errors == {}
    assert cards(readers) == {MASK}
    canary.assert_nowhere(running, readers)
