"""What no rule masks comes back byte for byte, in both directions, for every shape of reply."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient, Word, encode
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ELSEWHERE, OPEN

Command = tuple[Word, ...]

BLOBS = (
    random.Random(1).randbytes(64 * 1024),
    b"",
    b"\0",
    b"a\r\nb\r\n",
    b"\xff\xfe",
    b"$5\r\nhello\r\n",
    b"*1\r\n:1\r\n",
    b"%1\r\n+a\r\n_\r\n",
    b">3\r\n$7\r\nmessage\r\n",
    "••••".encode(),
    b"-ERR no\r\n",
)

WRITES: tuple[Command, ...] = (
    *(("SET", f"string:{number}", blob) for number, blob in enumerate(BLOBS)),
    ("SET", BLOBS[3] + BLOBS[4], BLOBS[0]),
    ("RPUSH", "list", *BLOBS),
    ("HSET", "hash", *(word for number, blob in enumerate(BLOBS) for word in (f"f{number}", blob))),
    ("HSET", "odd", *(word for blob in BLOBS for word in (blob, blob))),
    ("SADD", "one", BLOBS[0]),
    *(("ZADD", "sorted", number * 3, blob) for number, blob in enumerate(BLOBS)),
    ("XADD", "stream", "1-1", *(word for number, blob in enumerate(BLOBS) for word in (f"f{number}", blob))),
    ("XADD", "stream", "1-2", BLOBS[0], BLOBS[3]),
    ("GEOADD", "geo", "13.361389", "38.115556", BLOBS[3]),
)

READS: tuple[Command, ...] = (
    *(("GET", f"string:{number}") for number in range(len(BLOBS))),
    ("GET", BLOBS[3] + BLOBS[4]),
    ("MGET", *(f"string:{number}" for number in range(len(BLOBS))), "absent"),
    ("GETRANGE", "string:0", 1, 60_000),
    ("STRLEN", "string:0"),
    ("LRANGE", "list", 0, -1),
    ("LINDEX", "list", 3),
    ("HGETALL", "hash"),
    ("HGETALL", "odd"),
    ("HMGET", "hash", "f0", "absent", "f3"),
    ("HGET", "odd", BLOBS[5]),
    ("HVALS", "hash"),
    ("HKEYS", "odd"),
    ("HSCAN", "hash", 0),
    ("SMEMBERS", "one"),
    ("SSCAN", "one", 0),
    ("ZRANGE", "sorted", 0, -1, "WITHSCORES"),
    ("ZSCORE", "sorted", BLOBS[4]),
    ("ZSCAN", "sorted", 0),
    ("XRANGE", "stream", "-", "+"),
    ("XREVRANGE", "stream", "+", "-"),
    ("XREAD", "COUNT", 10, "STREAMS", "stream", "0"),
    ("GEOPOS", "geo", BLOBS[3], "absent"),
    ("GEOSEARCH", "geo", "FROMMEMBER", BLOBS[3], "BYRADIUS", 1, "km", "WITHCOORD", "WITHDIST"),
    ("GET", "absent"),
    ("LRANGE", "absent", 0, -1),
    ("TYPE", "stream"),
    ("EXISTS", "list", "absent"),
    ("GET", "list"),  # an error
    ("ECHO", BLOBS[0]),
    ("PING", BLOBS[3]),
    ("COMMAND", "COUNT"),
)


def singly(client: RespClient, commands: tuple[Command, ...]) -> bytes:
    start = len(client.received)
    for command in commands:
        client.call(*command)
    return bytes(client.received[start:])


def pipelined(client: RespClient, commands: tuple[Command, ...]) -> bytes:
    start = len(client.received)
    client.pipeline(*commands)
    return bytes(client.received[start:])


def in_multi(client: RespClient, commands: tuple[Command, ...]) -> bytes:
    start = len(client.received)
    client.pipeline(("MULTI",), *commands, ("EXEC",))
    return bytes(client.received[start:])


def a_byte_at_a_time(client: RespClient, commands: tuple[Command, ...]) -> bytes:
    start = len(client.received)
    for command in commands:
        raw = encode(*command)
        for at in range(min(len(raw), 24)):
            client.raw(raw[at : at + 1])
        client.raw(raw[24:])
        client.read()
    return bytes(client.received[start:])


WAYS = (singly, pipelined, in_multi, a_byte_at_a_time)


def settle(client: RespClient) -> None:
    """A hash that has grown is moved to a larger table a step a read, and its order changes meanwhile."""
    wait_until(lambda: singly(client, READS) == singly(client, READS), "the server gives the same order twice")


def in_order(client: RespClient) -> list[object]:
    """The replies, with hashes in an order of their own: that of two tables need not be the same."""
    replies: list[object] = []
    for command in READS:
        reply: object = client.call(*command)
        if command[0] == "HSCAN" and isinstance(reply, list):
            reply = reply[1]
        if isinstance(reply, list) and str(command[0]).startswith("H"):
            reply = sorted(map(repr, reply))
        replies.append(reply)
    return replies


def talk(client: RespClient, version: int, way: Callable[[RespClient, tuple[Command, ...]], bytes]) -> bytes:
    if version == 3:
        client.call("HELLO", 3)
    return way(client, READS)


@pytest.mark.slow
@pytest.mark.parametrize("rules", [OPEN, ELSEWHERE], ids=["no rule", "rules for other keys"])
@pytest.mark.parametrize("version", [2, 3])
def test_replies_come_through_as_the_server_gave_them(
    redis_server: RedisServer, veil: VeilFactory, rules: str, version: int
) -> None:
    running = veil(rules, upstream=redis_server)
    with redis_server.client() as direct:
        direct.pipeline(*WRITES)
        settle(direct)
    for way in WAYS:
        with redis_server.client() as direct, running.client() as through:
            expected = talk(direct, version, way)

            got = talk(through, version, way)

        assert got == expected, way.__name__


@pytest.mark.slow
@pytest.mark.parametrize("rules", [OPEN, ELSEWHERE], ids=["no rule", "rules for other keys"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_written_through_veil_stands_in_the_server_as_it_was_written(
    redis_once: RedisServer, veil: VeilFactory, rules: str, way: Callable[[RespClient, tuple[Command, ...]], bytes]
) -> None:
    running = veil(rules, upstream=redis_once)
    with redis_once.client() as direct:
        answered = way(direct, WRITES)
        expected = in_order(direct)
        direct.call("FLUSHALL")

        with running.client() as through:
            assert way(through, WRITES) == answered

        assert in_order(direct) == expected


@pytest.mark.slow
def test_scripts_and_inline_commands_are_untouched_while_nothing_masks(redis_once: RedisServer, veil: VeilFactory) -> None:
    running = veil(OPEN, upstream=redis_once)
    script = "return {redis.call('GET', KEYS[1]), 7, {'a', false}, redis.error_reply('MY own')}"
    with redis_once.client() as direct, running.client() as through:
        assert through.call("SET", "string", BLOBS[0]) == direct.call("SET", "string", BLOBS[0])
        for client in (direct, through):
            client.call("EVAL", script, 1, "string")
            client.raw(b'SET "in\\x00line" "a\\r\\nb"\r\nGET "in\\x00line"\r\n')
            assert [client.read(), client.read()] == [b"OK", b"a\r\nb"]

        assert through.received == direct.received


def test_a_masked_document_keeps_every_other_byte(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    template = (
        '\t{ "n":1E400, "big" : 123456789012345678901234567890, "u":"\\u00e9\\ud800\\/", "card" : %s ,\r\n'
        '"card":%s,"list":[ {"card":%s,"x":-0.0}, null ,true], "zip":"00012", "é":"\x7f" } '
    )
    card = [f'"{canary.text()}"', str(canary.number()), f'{{"deep":["{canary.text()}",false]}}']
    expected = (template % ('"••••"', "0", '{"deep":["••••",false]}')).encode()
    rules = """
rules:
  - name: Cards
    platform: redis
    resources: ["doc:*"]
    fields: [{kind: json_path, path: $..card, method: redact}]
"""
    running = veil(rules, upstream=redis_server)
    with redis_server.client() as direct:
        direct.call("SET", "doc:1", template % tuple(card))
        direct.call("HSET", "doc:2", "f", template % tuple(card))

    with running.client() as client:
        assert client.call("GET", "doc:1") == expected
        assert client.call("HVALS", "doc:2") == [expected]
        assert client.call("MGET", "absent", "doc:1") == [None, expected]
        canary.assert_nowhere(running, [client])
