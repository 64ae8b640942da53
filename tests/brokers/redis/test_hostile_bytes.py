"""Hostile bytes of a client, whole and in pieces: the same verdict, nothing revealed, replies in step."""

from __future__ import annotations

import base64
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient, encode
from tests.brokers.veil import Veil, VeilFactory

CORPUS = Path(__file__).parents[2] / "corpora" / "resp_malformed.jsonl"
SECRET = b"S3CR3T"
RULES = """
rules:
  - name: Personal
    platform: redis
    resources: ["pii:*"]
    fields: [{kind: whole_value, method: redact}]
"""
NONCE = b"in-step-4711"


def _repeated(spelled: str) -> bytes:
    """The corpus spells long inputs as `b'…'+b'…'*n`."""
    parts = re.findall(r"b'([^']*)'(?:\*(\d+))?", spelled)
    return b"".join(text.encode() * int(count or 1) for text, count in parts)


def _lines() -> Iterator[tuple[str, bytes, set[str]]]:
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        data = base64.b64decode(told["b64"]) if "b64" in told else _repeated(told["gen"])
        allowed = {told["verdict"]}
        if "also_ok: mask" in told["why"]:
            allowed.add("mask")
        if "also_ok: skipped" in told["why"]:
            allowed.add("mask")  # the command behind it is answered, masked
        yield told["id"], data, allowed


CASES = list(_lines())


def _whole(data: bytes) -> list[bytes]:
    return [data]


def _single(data: bytes) -> list[bytes]:
    if len(data) > 4096:  # the same bytes over and over: their ends are what matters
        return [data[:-4096], *(data[at : at + 1] for at in range(len(data) - 4096, len(data)))]
    return [data[at : at + 1] for at in range(len(data))]


def _random(data: bytes) -> list[bytes]:
    chance = random.Random(len(data))
    cuts = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(7))})
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


@pytest.fixture
def guarded(redis_once: RedisServer, veil: VeilFactory) -> Veil:
    with redis_once.client() as direct:
        direct.call("SET", "pii:1", SECRET)
        direct.call("HSET", "pii:h", "ssn", SECRET)
        direct.call("RPUSH", "pii:l", SECRET)
    return veil(RULES, upstream=redis_once)


def _verdict(client: RespClient, pieces: list[bytes]) -> str:
    """What became of the input: sent with an ECHO behind it, which comes back unless the connection is closed."""
    try:
        for piece in pieces:
            client.raw(piece)
        client.raw(encode("ECHO", NONCE))
    except (BrokenPipeError, ConnectionResetError):
        return "close"
    try:
        while NONCE not in client.received:
            client.read()
    except EOFError:
        return "close"
    if b"-NOPERM veil: " in client.received:
        return "refuse"
    return "mask" if "••••".encode() in client.received else "forward"


@pytest.mark.parametrize("cut", [_whole, _single, _random])
def test_every_hostile_input_gets_its_verdict_and_reveals_nothing(
    guarded: Veil, redis_once: RedisServer, cut: Callable[[bytes], list[bytes]]
) -> None:
    wrong: list[str] = []
    for name, data, allowed in CASES:
        with guarded.client() as client:
            found = _verdict(client, cut(data))
            if found not in allowed:
                wrong.append(f"{name}: {found}, not {allowed}: {bytes(client.received[:200])!r}")
            assert SECRET not in client.received, name

    assert wrong == []
    assert SECRET.decode() not in guarded.log()
    assert SECRET not in guarded.audit_bytes()
    with redis_once.client() as direct:
        assert direct.call("GET", "pii:1") == SECRET
