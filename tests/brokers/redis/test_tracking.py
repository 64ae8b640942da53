"""Client-side caching: what a client keeps is forgotten when rules change and when an unmasked read lapses."""

from __future__ import annotations

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Push
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, assert_sound

FORGET = Push([b"invalidate", None])
CHANNEL = "__redis__:invalidate"
ELSEWHERE = SECRET.replace("Secrets", "Others").replace("secret:", "other:")


def test_a_cache_is_told_to_forget_when_what_it_holds_lapses(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server, unmasked_lapse="1s")
    with running.client() as alice, redis_server.admin() as direct:
        value = canary.text()
        direct.call("SET", "secret:1", value)
        alice.login("alice", PASSWORD, version=3)
        alice.call("CLIENT", "TRACKING", "ON")

        for _ in range(2):  # each time that something was read
            assert alice.call("GET", "secret:1") == value.encode()
            assert alice.read() == FORGET
        direct.call("SET", "secret:1", "new")
        assert alice.read() == Push([b"invalidate", [b"secret:1"]])
    assert_sound(running)
    canary.assert_nowhere(running)


def test_a_cache_is_told_to_forget_when_a_rule_changes(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = veil(ELSEWHERE, upstream=redis_server)
    with running.client() as reader, redis_server.admin() as direct:
        direct.call("SET", "secret:1", "public")
        reader.call("HELLO", 3)
        reader.call("CLIENT", "TRACKING", "ON")
        assert reader.call("GET", "secret:1") == b"public"

        running.write_rules(SECRET)

        assert reader.read() == FORGET
        value = canary.text()
        direct.call("SET", "secret:1", value)
        assert reader.read() == Push([b"invalidate", [b"secret:1"]])
        assert reader.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [reader])


def test_a_cache_that_hears_on_a_channel_is_told_in_its_form_and_who_reads_for_it_is_ended(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server, unmasked_lapse="1s")
    with running.client() as ear, running.client() as alice, redis_server.admin() as direct:
        value = canary.text()
        direct.call("SET", "secret:1", value)
        ear.login("alice", PASSWORD)
        number = ear.call("CLIENT", "ID")
        assert isinstance(number, int)
        ear.call("SUBSCRIBE", CHANNEL)
        alice.login("alice", PASSWORD)
        assert alice.call("CLIENT", "TRACKING", "ON", "REDIRECT", number) == b"OK"
        assert alice.call("GET", "secret:1") == value.encode()

        assert ear.read() == [b"message", CHANNEL.encode(), None]
        assert alice.at_end()
        running.write_rules(ELSEWHERE)
        assert ear.read() == [b"message", CHANNEL.encode(), None]
        canary.assert_nowhere(running, [ear])
