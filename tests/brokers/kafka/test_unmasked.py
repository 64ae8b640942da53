"""Reading unmasked: on record first, for as long as it is granted, and not a record longer."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.kafka_clients import produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import ALICE, CARDS, MASK, UNMASKED, Wire, card, entries, in_force, new_topic, reader, records_of, whole_trail

pytestmark = pytest.mark.slow

NOTES = CARDS.replace("cards-*", "*").replace("Cards", "Notes").replace("$.card", "$.note")


@pytest.fixture
def secret(canary: Canary) -> str:
    return canary.text()


@pytest.fixture
def topic(kafka_server: KafkaServer, secret: str) -> str:
    name = new_topic(kafka_server, "cards")
    produce(kafka_server.address, name, [card(secret, note="a note")])
    return name


@contextlib.contextmanager
def read_by(one: Veil, user: str) -> Iterator[Wire]:
    with reader(one, user) as client:
        yield client


def seen(client: Wire, topic: str, version: int = 12) -> dict[str, Any]:
    (record,) = records_of(client.partition(version, topic))
    found = json.loads(record.value)
    assert isinstance(found, dict)
    return found


def test_a_read_is_on_record_once_a_connection_and_topic(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary
) -> None:
    other = new_topic(kafka_server, "cards")
    produce(kafka_server.address, other, [card(secret)])
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL))
    for _ in range(2):
        with read_by(one, "alice") as alice:
            for version in range(4, 19):
                assert seen(alice, topic, version)["card"] == secret
                assert seen(alice, other, version)["card"] == secret
    with read_by(one, "bob") as bob:
        assert seen(bob, topic)["card"] == MASK
        found = entries(one, UNMASKED)
        assert [(each["who"], each["resource"]) for each in found] == [
            ("alice", {"topic": topic}),
            ("alice", {"topic": other}),
        ] * 2
        whole_trail(one, canary, bob)


def test_a_read_lapses_and_only_a_new_connection_begins_another(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary
) -> None:
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL), unmasked_lapse="2s")
    with read_by(one, "alice") as alice:
        assert seen(alice, topic)["card"] == secret
        wait_until(lambda: seen(alice, topic)["card"] == MASK, "the read has lapsed")
        assert seen(alice, topic)["card"] == MASK
    with read_by(one, "alice") as again:
        assert seen(again, topic)["card"] == secret
    assert len(entries(one, UNMASKED)) == 2
    whole_trail(one, canary)


def test_a_rule_that_is_added_masks_the_next_record_of_a_read_that_goes_on(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary
) -> None:
    access = f'grants: [{{allow: messages.read.unmasked, to: {{user: alice}}, on: {{topic: ["{topic}"]}}}}]\n'
    one = veil("rules: []\n", access, platform="kafka", upstream=kafka_server.at(SASL))
    with read_by(one, "bob") as bob, read_by(one, "alice") as alice:
        assert seen(bob, topic) == seen(alice, topic) == {"card": secret, "note": "a note"}
        assert entries(one, UNMASKED) == []
        received = len(bob.received)
        in_force(one, CARDS)
        assert seen(bob, topic) == {"card": MASK, "note": "a note"}
        assert seen(alice, topic)["card"] == secret
        in_force(one, CARDS + NOTES.removeprefix("rules:\n"))
        between = len(bob.received)
        assert seen(bob, topic) == {"card": MASK, "note": MASK}
        canary.assert_not_in(bytes(bob.received[between:]), "what bob got")
        assert received < between
        assert seen(alice, topic) == {"card": secret, "note": "a note"}
    rules = [[rule["name"] for rule in each["rules"]] for each in entries(one, UNMASKED)]
    assert rules[0] == ["Cards"]
    assert "Notes" in rules[-1]
    whole_trail(one, canary)


def test_a_grant_that_is_withdrawn_ends_the_read(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary
) -> None:
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL))
    with read_by(one, "alice") as alice:
        assert seen(alice, topic)["card"] == secret
        in_force(one, "grants: []\n", "access.yaml")
        before = len(alice.received)
        assert seen(alice, topic) == {"card": MASK, "note": "a note"}
        assert alice.received[before:].find(f'"card": "{secret}'.encode()) < 0
    whole_trail(one, canary)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_nothing_is_shown_that_cannot_be_put_on_record(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, secret: str, canary: Canary, small_disk: Path
) -> None:
    path = small_disk / "audit.jsonl"
    one = veil(CARDS, ALICE, platform="kafka", upstream=kafka_server.at(SASL), audit={"file": {"path": str(path)}})
    one.audit_path = path
    room = small_disk / "filler"
    with room.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"x" * 512)
    # What is left of the last page takes a few reads yet; each is a connection's first.
    shown = []
    for _ in range(40):
        with read_by(one, "alice") as alice:
            shown.append(seen(alice, topic)["card"])
    assert shown[-1] == MASK
    assert len(entries(one, UNMASKED)) == shown.count(secret)
    with read_by(one, "alice") as alice:
        assert seen(alice, topic)["card"] == MASK
        canary.assert_nowhere(one, [alice])
    room.unlink()

    def is_shown() -> bool:
        with read_by(one, "alice") as again:
            return bool(seen(again, topic)["card"] == secret)

    wait_until(is_shown, "there is room on the disk")
    whole_trail(one, canary)
