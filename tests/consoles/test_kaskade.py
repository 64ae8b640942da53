"""A real terminal console in front of a real Kafka: first directly, so that the test is known to see values, then through Veil."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.kafka.cards import RULES, assert_no_address
from tests.brokers.kafka_clients import Record, create_topics, login, produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary, CanaryFound

from .kaskade import Kaskade
from .terminal import ENTER, RIGHT

pytestmark = pytest.mark.slow

Open = Callable[..., Kaskade]
NAME = "Ada-of-the-console"


@pytest.fixture
def topic(kafka_server: KafkaServer, canary: Canary) -> str:
    """A covered topic with one record."""
    name = f"orders-{secrets.token_hex(4)}"
    create_topics(kafka_server.address, name)
    document = json.dumps({"card": canary.text(), "name": NAME}).encode()
    produce(kafka_server.address, name, [Record(document, b"the-key", [("origin", b"web")])])
    return name


@pytest.fixture
def masked(kafka_server: KafkaServer, veil: VeilFactory) -> Veil:
    return veil(RULES, platform="kafka", upstream=kafka_server.at(SASL))


@pytest.fixture
def kaskade(tmp_path: Path) -> Iterator[Open]:
    """Starts kaskade as bob: `kaskade("consumer", address, *words)`."""
    started: list[Kaskade] = []

    def begin(mode: str, address: str, *words: str) -> Kaskade:
        home = tmp_path / f"kaskade{len(started)}"
        home.mkdir()
        started.append(Kaskade(home, mode, address, login("bob"), *words))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def _read(console: Kaskade, header: str) -> None:
    """Opens the first record as a person does, and looks at its value and its headers."""
    console.screen.wait_for("the-key")
    console.screen.press(ENTER)
    console.screen.wait_for("CONTENT")
    console.screen.press(RIGHT)
    console.screen.wait_for(NAME)
    console.screen.press(RIGHT)
    console.screen.wait_for(header)


def _reading(topic: str) -> list[str]:
    return ["-t", topic, "--earliest", "-k", "string", "-v", "json"]


def test_directly_the_console_shows_the_value(kafka_server: KafkaServer, kaskade: Open, topic: str, canary: Canary) -> None:
    console = kaskade("consumer", kafka_server.at(SASL), *_reading(topic))

    _read(console, "origin")

    with pytest.raises(CanaryFound):
        canary.assert_not_in(console.screen.text)


def test_through_veil_the_console_shows_the_mask(
    kafka_server: KafkaServer, masked: Veil, kaskade: Open, topic: str, canary: Canary
) -> None:
    console = kaskade("consumer", masked.address, *_reading(topic))

    _read(console, "veil-masked")
    console.close()

    assert '"card": "••••"' in console.screen.text
    for told in (bytes(console.screen.seen).decode(errors="replace"), console.screen.text, console.log()):
        canary.assert_not_in(told, "what the console drew or left")
        assert_no_address(told, kafka_server)
    canary.assert_nowhere(masked)


def test_through_veil_the_console_lists_topics_and_no_address(
    kafka_server: KafkaServer, masked: Veil, kaskade: Open, topic: str, canary: Canary
) -> None:
    first = f"0-{secrets.token_hex(4)}"  # on the first screen, however many topics the broker of this run has
    create_topics(kafka_server.address, first)
    console = kaskade("admin", masked.address)

    console.screen.wait_for(first)
    console.close()

    for told in (console.screen.text, console.log()):
        assert_no_address(told, kafka_server)
        canary.assert_not_in(told, "what the console drew or left")
    canary.assert_nowhere(masked)
