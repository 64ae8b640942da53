"""Clients as people use them, through Veil, with what they send besides what they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.brokers.processes import wait_until
from tests.brokers.redis_cli import RedisCli
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Push, encode
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .walk import Data, rules

MASK = "••••"
Connect = Callable[..., Any]  # what redis-py returns it calls one union of everything


@pytest.fixture
def masked(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> Iterator[Veil]:
    data = Data(redis_server, canary)
    data.load()
    yield veil(rules("whole_value"), upstream=redis_server)
    data.close()


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def connect(request: pytest.FixtureRequest, masked: Veil) -> Iterator[Connect]:
    """redis-py against Veil."""
    made: list[Any] = []

    def client(**options: object) -> Any:
        settings: dict[str, object] = {"protocol": request.param, "decode_responses": True, "socket_timeout": 10.0, **options}
        made.append(redis.Redis(masked.host, masked.port, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield client
    for each in made:
        each.close()


def test_redis_py_reads_masks_of_each_type(connect: Connect, masked: Veil, canary: Canary) -> None:
    client = connect()

    seen = [
        client.get("s:str"),
        client.hgetall("s:hash"),
        client.lrange("s:list", 0, -1),
        client.smembers("s:intset"),
        client.zrange("s:zset", 0, -1, withscores=True),
        client.xrange("s:stream"),
        client.xreadgroup("g", "c", {"s:stream": ">"}),
        client.mget("s:str", "o:str"),
    ]

    assert seen[0] == MASK
    assert seen[-1] == [MASK, "plain"]
    assert {score for _, score in map(tuple, seen[4])} == {0.0}
    canary.assert_not_in(repr(seen), "what redis-py gave")
    canary.assert_nowhere(masked)


def test_redis_py_sends_a_pipeline_and_a_transaction(connect: Connect, masked: Veil, canary: Canary) -> None:
    client = connect()
    with client.pipeline(transaction=False) as pipe:
        piped = pipe.get("s:str").strlen("s:str").hget("s:hash", "email").ping().execute(raise_on_error=False)
    with client.pipeline(transaction=True) as pipe:
        done = pipe.get("s:str").incr("o:count").lindex("s:list", 0).execute()
    with client.pipeline(transaction=True) as pipe, pytest.raises(redis.RedisError, match="veil: DUMP"):
        pipe.get("s:str").dump("s:str").execute()

    assert [piped[0], piped[2], piped[3]] == [MASK, MASK, True]
    assert isinstance(piped[1], redis.RedisError)
    assert done == [MASK, 1, MASK]
    assert client.get("s:str") == MASK
    canary.assert_not_in(repr([piped, done]), "what redis-py gave")
    canary.assert_nowhere(masked)


def test_redis_py_hears_masked_messages(connect: Connect, masked: Veil, redis_server: RedisServer, canary: Canary) -> None:
    heard: list[object] = []
    with connect().pubsub() as listening, redis_server.admin() as admin:
        listening.subscribe("s:chan", "o:chan")
        listening.psubscribe("s:*")
        for _ in range(3):
            assert listening.get_message(timeout=10) is not None
        admin.call("PUBLISH", "s:chan", canary.values[0])
        admin.call("PUBLISH", "o:chan", "plain")

        def three() -> bool:
            message = listening.get_message(timeout=1)
            heard.extend([(message["type"], message["channel"], message["data"])] if message else [])
            return len(heard) == 3

        wait_until(three, "three messages")

    assert sorted(map(repr, heard)) == sorted(
        map(repr, [("message", "s:chan", MASK), ("pmessage", "s:chan", MASK), ("message", "o:chan", "plain")])
    )
    canary.assert_nowhere(masked)


def test_redis_py_walks_with_its_iterators(connect: Connect, masked: Veil, canary: Canary) -> None:
    client = connect()

    seen = [
        sorted(client.scan_iter("s:*")),
        sorted(client.hscan_iter("s:hash")),
        sorted(client.sscan_iter("s:set")),
        sorted(client.zscan_iter("s:zset")),
    ]

    assert "s:str" in seen[0]
    assert [len(each) for each in seen[1:]] == [3, 3, 3]
    canary.assert_not_in(repr(seen), "what redis-py gave")
    canary.assert_nowhere(masked)


def test_what_a_client_caches_is_masked_and_forgotten_with_a_new_rule(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    """redis-py caches only with servers that there are none of here; this is what it would say."""
    running = veil(rules("whole_value").replace("s:*", "t:*"), upstream=redis_server)
    with redis_server.admin() as admin, running.client() as client:
        admin.call("SET", "t:str", canary.text())
        admin.call("SET", "s:str", "shown until now")
        client.call("HELLO", 3)
        assert client.call("CLIENT", "TRACKING", "ON") == b"OK"
        assert [client.call("GET", "t:str"), client.call("GET", "s:str")] == [MASK.encode(), b"shown until now"]

        admin.call("SET", "t:str", canary.text())
        assert client.read() == Push([b"invalidate", [b"t:str"]])
        running.write_rules(rules("whole_value"))
        running.wait_rules()

        assert client.read() == Push([b"invalidate", None])
        assert client.call("GET", "s:str") == MASK.encode()
        canary.assert_nowhere(running, [client])


@pytest.mark.parametrize("resp3", [False, True], ids=["RESP2", "RESP3"])
def test_redis_cli_lists_counts_and_repeats_without_a_value(masked: Veil, canary: Canary, resp3: bool) -> None:
    cli = RedisCli(masked.host, masked.port, resp3=resp3)

    assert "s:hash" in cli.run("--scan", "--pattern", "s:*").split()
    assert "Biggest   hash found" in cli.run("--bigkeys")
    cli.run("--memkeys")
    cli.run("--hotkeys")
    cli.run("--rdb", "-")
    assert cli.run("-r", "3", "GET", "s:str").split() == [MASK] * 3
    assert cli.run(stdin=b"GET s:str\nMULTI\nLRANGE s:list 0 -1\nEXEC\nZRANGE s:zset 0 -1 WITHSCORES\n").split()[0] == MASK
    canary.assert_not_in(bytes(cli.seen), "the terminal")
    canary.assert_nowhere(masked)


def test_redis_cli_writes_a_mass_of_commands_with_pipe(masked: Veil, canary: Canary, tmp_path: Path) -> None:
    cli = RedisCli(masked.host, masked.port)
    mass = b"".join(encode("SET", f"o:{number}", number) + encode("GET", "s:str") for number in range(2000))

    told = cli.run("--pipe", stdin=mass + encode("DUMP", "s:str"))

    assert "errors: 1, replies: 4001" in told
    assert cli.run("GET", "o:1999") == "1999"
    canary.assert_not_in(bytes(cli.seen), "the terminal")
    canary.assert_nowhere(masked)
