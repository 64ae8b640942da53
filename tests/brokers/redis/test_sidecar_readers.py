"""Who reads, when the users of the server change under the readers' feet."""

from __future__ import annotations

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, names, put_secret


def set_user(server: RedisServer, *rules: str) -> None:
    with server.admin() as admin:
        assert admin.call("ACL", "SETUSER", *rules) == b"OK"


def test_whoever_got_in_without_a_password_stays_ordinary_when_one_is_set(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    set_user(redis_server, "alice", "reset", "on", "nopass", "~*", "&*", "+@all")
    put_secret(redis_server, canary.text())
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as mallory:
        assert mallory.call("AUTH", "alice", "anything") == b"OK"
        set_user(redis_server, "alice", "resetpass", f">{PASSWORD}")

        assert mallory.call("GET", "secret:1") == MASK
        assert isinstance(mallory.call("EVAL", "return 1", 0), Fault)
        assert names(running, UNMASKED) == []
        canary.assert_nowhere(running, [mallory])


def test_a_name_that_was_worth_its_login_is_ordinary_once_it_needs_no_password(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_server.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_server, value)
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as alice, running.client() as mallory, running.client() as other:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        set_user(redis_server, "alice", "nopass")
        mallory.call("AUTH", "alice", "anything")
        other.login("alice", "", version=3)

        assert mallory.call("GET", "secret:1") == other.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [mallory, other])
    assert names(running, UNMASKED) == [("alice", {"key": "secret:1"}, ["Secrets"])]
    assert_sound(running)


@pytest.mark.parametrize("last", [("SETNAME", "a b"), ("AUTH", "mallory", "wrong")])
def test_a_hello_that_fails_after_its_login_is_never_read_as_the_one_before(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, last: tuple[str, ...]
) -> None:
    for name in ("alice", "mallory"):
        redis_server.add_user(name, PASSWORD)
    value = canary.text().encode()
    put_secret(redis_server, value)
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as client:
        client.login("alice", PASSWORD)
        assert client.call("GET", "secret:1") == value
        assert isinstance(client.call("HELLO", 3, "AUTH", "mallory", PASSWORD, *last), Fault)

        start = len(client.received)
        assert client.call("GET", "secret:1") == MASK
        canary.assert_not_in(bytes(client.received[start:]), "what came after the login that failed")
        canary.assert_nowhere(running)
    assert [who for who, _, _ in names(running, UNMASKED)] == ["alice"]


ODD = ["tab\\ted", "ünï-cöde-\u202e", "\x1b[31mred", "q\"uote'", "👻" * 40]


@pytest.mark.parametrize("name", ODD, ids=["backslash", "turned", "escape", "quotes", "emoji"])
def test_a_user_with_an_odd_name_is_nobody_special_and_stays_on_its_line(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, name: str
) -> None:
    redis_once.add_user(name, PASSWORD)
    put_secret(redis_once, canary.text())
    running = veil(SECRET, ALICE, upstream=redis_once)
    with running.client() as client:
        assert client.call("AUTH", name, PASSWORD) == b"OK"
        assert client.call("GET", "secret:1") == MASK
        assert isinstance(client.call("GETRANGE", "secret:1", 0, "x"), Fault)
        assert isinstance(client.call("EVAL", "return 1", 0), Fault)
        canary.assert_nowhere(running, [client])
    running.stop()

    assert running.audit()[-1]["who"] == name
    assert running.audit_bytes().isascii()
    assert all(32 <= byte < 127 or byte == 10 for byte in running.audit_bytes() + running.log().encode())
    assert_sound(running)
