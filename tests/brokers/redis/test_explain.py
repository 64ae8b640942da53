"""VEIL EXPLAIN on a connection to a real server, with real clients."""

from __future__ import annotations

import pytest
import redis

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, names

EXPLAIN = ("VEIL", "EXPLAIN", "secret:1")
GRANTS = ALICE.replace("]\n", ", {allow: messages.read.unmasked, to: {user: erin}, on: {key: [other]}}]\n")


def told(answer: object) -> list[str]:
    assert isinstance(answer, list)
    return [line.decode() for line in answer]


@pytest.mark.parametrize("version", [2, 3])
def test_it_answers_in_its_turn_inside_a_pipeline(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, version: int
) -> None:
    running = veil(SECRET, GRANTS, upstream=redis_server)
    with running.client() as reader, redis_server.admin() as direct:
        direct.call("MSET", "secret:1", canary.text(), "open", "seen")
        reader.call("HELLO", version)

        replies = reader.pipeline(("GET", "secret:1"), EXPLAIN, ("GET", "open"), ("VEIL", "NOSUCH"), ("PING",))

        assert replies[0] == MASK
        assert replies[2:] == [b"seen", Fault(b"ERR unknown VEIL subcommand"), b"PONG"]
        assert told(replies[1]) == [
            'key "secret:1" on redis ("shop", "test"), read by a reader who is not logged in',
            'rule "Secrets" (rules.yaml:3:11) covers it: key "secret:*" fits, everywhere',
            "  value: redact",
            "  masks: nobody is logged in",
            "a reader who is not logged in sees it masked",
        ]
        canary.assert_nowhere(running, [reader])


def test_each_reader_is_told_the_own_grant_and_nothing_is_read_or_recorded(
    redis_server: RedisServer, veil: VeilFactory
) -> None:
    for name in ("alice", "mallory"):
        redis_server.add_user(name, PASSWORD)
    running = veil(SECRET, GRANTS, upstream=redis_server)
    with running.client() as alice, running.client() as mallory, redis_server.admin() as direct:
        alice.login("alice", PASSWORD)
        mallory.login("mallory", PASSWORD)
        direct.call("CONFIG", "RESETSTAT")

        lifted, masked = told(alice.call(*EXPLAIN)), told(mallory.call(*EXPLAIN))

        assert lifted[-2:] == [
            "  lifted: granted to user alice at access.yaml:1:10",
            "alice may read it unmasked, once the read is recorded",
        ]
        assert masked[-2:] == ["  masks: no grant", "mallory sees it masked"]
        assert not any(name in line for line in masked for name in ("alice", "erin"))
        assert "cmdstat_veil" not in repr(direct.call("INFO", "commandstats"))
        assert "total_error_replies:0" in repr(direct.call("INFO", "stats"))
        assert names(running, UNMASKED) == []


def test_in_a_transaction_it_is_refused_and_nothing_of_it_runs(redis_server: RedisServer, veil: VeilFactory) -> None:
    running = veil(SECRET, upstream=redis_server)
    with running.client() as reader:
        replies = reader.pipeline(("MULTI",), ("SET", "ran", "1"), EXPLAIN, ("EXEC",), ("EXISTS", "ran"))

    assert replies[2:] == [
        Fault(b"ERR VEIL EXPLAIN is not allowed in a transaction"),
        Fault(b"EXECABORT Transaction discarded because of previous errors."),
        0,
    ]


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_asks_for_it_like_for_any_command(redis_once: RedisServer, veil: VeilFactory, protocol: int) -> None:
    running = veil(SECRET, upstream=redis_once)
    with redis.Redis(host=running.host, port=running.port, protocol=protocol, decode_responses=True) as client:
        answer = client.execute_command("VEIL", "EXPLAIN", "k")

        assert answer == [
            'key "k" on redis ("shop", "test"), read by a reader who is not logged in',
            "no rule covers it: it is shown as it is",
        ]
        pipeline = client.pipeline(transaction=False)
        pipeline.execute_command("SET", "k", "1")
        pipeline.execute_command("VEIL", "EXPLAIN", "k")
        pipeline.execute_command("GET", "k")
        assert pipeline.execute()[1:] == [answer, "1"]
