"""When an unmasked read lapses, on real servers: what is heard, copied and kept in step afterwards."""

from __future__ import annotations

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Push, RespClient
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, names

LAPSE = "1s"


def heard(client: RespClient, server: RespClient, channel: str, value: str) -> object:
    """The payload of a message that is published now."""
    server.call("PUBLISH", channel, value)
    message = client.read()
    assert isinstance(message, list)
    return message[-1]


def test_a_subscription_lapses_for_good_until_it_is_made_anew(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server, unmasked_lapse=LAPSE)
    value = canary.text()
    with running.client() as alice, redis_server.admin() as direct:
        alice.login("alice", PASSWORD, version=3)
        assert isinstance(alice.call("SUBSCRIBE", "secret:news"), Push)
        assert heard(alice, direct, "secret:news", value) == value.encode()
        wait_until(lambda: heard(alice, direct, "secret:news", value) == MASK, "the subscription lapses", within_s=4)

        start = len(alice.received)
        assert alice.call("AUTH", "alice", PASSWORD) == b"OK"
        assert heard(alice, direct, "secret:news", value) == MASK
        canary.assert_not_in(bytes(alice.received[start:]), "what came after the lapse")
        assert names(running, UNMASKED) == [("alice", {"key": "secret:news"}, ["Secrets"])]

        alice.call("UNSUBSCRIBE", "secret:news")
        alice.call("SUBSCRIBE", "secret:news")
        assert heard(alice, direct, "secret:news", value) == value.encode()
    assert len(names(running, UNMASKED)) == 2
    assert_sound(running)
    canary.assert_nowhere(running)


def test_a_channel_that_only_a_pattern_brings_is_masked_for_whoever_may_read(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as alice, redis_server.admin() as direct:
        alice.login("alice", PASSWORD, version=3)
        alice.call("PSUBSCRIBE", "*")

        assert heard(alice, direct, "secret:news", canary.text()) == MASK
        assert names(running, UNMASKED) == []
        canary.assert_nowhere(running, [alice])


def test_a_rule_that_comes_applies_to_a_running_subscription_at_once(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server)
    second = SECRET.replace("rules:\n", "").replace("Secrets", "Second")
    value = canary.text()
    with running.client() as alice, redis_server.admin() as direct:
        alice.login("alice", PASSWORD, version=3)
        alice.call("SUBSCRIBE", "secret:news")
        assert heard(alice, direct, "secret:news", value) == value.encode()
        start = len(alice.received)

        running.write_rules(SECRET + second.lstrip("\n"))
        running.wait_rules()

        assert heard(alice, direct, "secret:news", value) == MASK
        canary.assert_not_in(bytes(alice.received[start:]), "what came under the new rule")
    canary.assert_nowhere(running)


def test_a_copy_that_waits_is_ended_when_its_permission_lapses(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server, unmasked_lapse=LAPSE)
    with running.client() as alice, running.client() as nobody, redis_server.admin() as direct:
        alice.login("alice", PASSWORD)
        alice.send("BLMOVE", "secret:queue", "open", "LEFT", "LEFT", 0)
        wait_until(lambda: names(running, UNMASKED) != [], "the copy is on record")

        assert alice.at_end()
        wait_until(lambda: "blocked_clients:0" in repr(direct.call("INFO", "clients")), "the server lets go")
        direct.call("RPUSH", "secret:queue", canary.text())
        assert nobody.call("LRANGE", "open", 0, -1) == []
        canary.assert_nowhere(running, [alice, nobody])
    assert names(running, UNMASKED) == [("alice", {"key": "secret:queue"}, ["Secrets"])]


def test_monitor_asked_twice_shifts_no_reply(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = veil(SECRET, upstream=redis_server)
    with running.client() as reader, redis_server.admin() as direct:
        direct.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        direct.call("SET", "secret:1", canary.text())
        direct.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
        reader.call("MONITOR")
        for words in (("MONITOR",), ("PING",), ("SLOWLOG", "GET"), ("ECHO", "end")):
            reader.send(*words)

        replies: list[object] = []
        while b"end" not in replies:
            reply = reader.read()
            if not isinstance(reply, bytes) or b" [" not in reply:  # not a line of MONITOR
                replies.append(reply)

        assert replies[0] == b"PONG"
        assert "secret:1" in repr(replies[1])
        assert len(replies) == 3
        canary.assert_nowhere(running, [reader])


@pytest.mark.slow
def test_a_full_trail_in_the_middle_of_a_transaction_masks_what_is_left_of_it(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_once.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_once, audit={"file": {"path": "./trail/audit.jsonl"}}, start=False)
    running.audit_path = running.folder / "trail" / "audit.jsonl"
    (running.folder / "trail").mkdir()
    running.start()
    with running.client() as alice, redis_once.admin() as direct:
        direct.call("SET", "secret:1", canary.text())
        alice.login("alice", PASSWORD)
        assert alice.pipeline(("MULTI",), ("GET", "secret:1")) == [b"OK", b"QUEUED"]
        (running.folder / "trail").rename(running.folder / "moved")

        replies = alice.pipeline(("EVAL", "return redis.call('GET', 'secret:1')", 0), ("EXEC",))

        assert "EXECABORT" in repr(replies[1])
        assert alice.pipeline(("MULTI",), ("GET", "secret:1"), ("EXEC",))[2] == [MASK]
        (running.folder / "moved").rename(running.folder / "trail")
        canary.assert_nowhere(running, [alice])
