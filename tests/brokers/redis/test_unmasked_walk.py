"""For a reader who may see everything: nothing is shown that is not on record, and nothing while nothing can be recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient, encode
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary, CanaryFound

from .scenery import ALICE, PASSWORD, UNMASKED, assert_sound, entries
from .walk import Data, Example, examples, in_step, nonce, rules

KIND = "whole_value"
SPOILS = {b"ACL", b"CLUSTER", b"CONFIG", b"DEBUG", b"FAILOVER", b"MODULE", b"REPLICAOF", b"SLAVEOF"}
"""What a permitted reader may do to the server, and what would leave nothing to read behind it."""


@pytest.fixture
def data(redis_once: RedisServer, canary: Canary) -> Iterator[Data]:
    redis_once.config_set("masterauth", "")
    redis_once.config_set("slowlog-log-slower-than", "10000")
    redis_once.add_user("alice", PASSWORD)
    made = Data(redis_once, canary)
    made.load(scripts=True)
    yield made
    made.close()


def harmless(data: Data) -> list[Example]:
    return [each for each in examples(data.sha) if not each.alone and each.argv[0].upper() not in SPOILS]


def shows(canary: Canary, blob: bytes) -> bool:
    try:
        canary.assert_not_in(blob)
    except CanaryFound:
        return True
    return False


def unrecorded(running: Veil, example: Example, before: int) -> str:
    """What is wrong with the record of an example that showed something; "" if nothing is."""
    found = entries(running, UNMASKED)[before:]
    named = {str(next(iter(resource.values()))) for entry in found if isinstance(resource := entry["resource"], dict)}
    asked = {word.decode("utf-8", "replace") for word in example.argv} | {"*"}
    return "" if named & asked else f"{example.argv}: shown, and on record is {sorted(named)}"


@pytest.mark.slow
@pytest.mark.parametrize(("version", "queued"), [(2, False), (3, True)])
def test_no_row_shows_a_permitted_reader_what_is_not_on_record(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, data: Data, version: int, queued: bool
) -> None:
    running = veil(rules(KIND), ALICE, upstream=redis_once)
    wrong, shown = [], 0
    with running.client() as alice:
        alice.login("alice", PASSWORD, version=version)
        for example in harmless(data):
            data.load()
            before, start = len(entries(running, UNMASKED)), len(alice.received)
            show(alice, example, queued=queued)
            if shows(canary, bytes(alice.received[start:])):
                shown += 1
                wrong.append(unrecorded(running, example, before))

    assert shown > 90
    assert [each for each in wrong if each] == []
    assert_sound(running)


def show(client: RespClient, example: Example, *, queued: bool) -> None:
    mark = nonce()
    words = [example.argv] if not queued else [(b"MULTI",), example.argv, (b"EXEC",)]
    client.raw(b"".join(encode(*each) for each in words) + encode("PING", mark))
    for _ in words:
        in_step(client)
    assert in_step(client) == mark, f"out of step behind {example}"


@pytest.mark.slow
@pytest.mark.parametrize(("version", "queued"), [(2, False), (3, True)])
def test_no_row_shows_anything_to_a_permitted_reader_while_nothing_can_be_recorded(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, data: Data, version: int, queued: bool
) -> None:
    running = veil(rules(KIND), ALICE, upstream=redis_once, audit={"file": {"path": "./trail/a.jsonl"}}, start=False)
    (running.folder / "trail").mkdir()
    running.start()
    (running.folder / "trail").rename(running.folder / "moved")
    with running.client() as alice:
        alice.login("alice", PASSWORD, version=version)
        for example in harmless(data):
            data.load()
            show(alice, example, queued=queued)

        canary.assert_nowhere(running, [alice])
    (running.folder / "moved").rename(running.folder / "trail")
