"""Reading unmasked: who may, on which login, and that the record is on disk before the answer is there."""

from __future__ import annotations

from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault, Pairs, RespClient
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, names

ONE_RULE = ["Secrets"]


def users(server: RedisServer, *listed: str) -> None:
    for name in listed:
        server.add_user(name, PASSWORD)


def put(server: RedisServer, key: str, value: str) -> bytes:
    with server.admin() as direct:
        direct.call("SET", key, value)
    return value.encode()


def test_after_auth_a_permitted_reader_sees_originals_and_each_is_on_record_when_it_arrives(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    users(redis_server, "alice")
    value = put(redis_server, "secret:1", canary.text())
    put(redis_server, "secret:2", canary.text())
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as nobody, running.client() as alice:
        assert nobody.call("GET", "secret:1") == MASK
        assert alice.call("AUTH", "alice", PASSWORD) == b"OK"

        assert alice.call("GET", "secret:1") == value
        assert names(running, UNMASKED) == [("alice", {"key": "secret:1"}, ONE_RULE)]

        assert alice.call("MGET", "secret:1", "open", "secret:2") == [value, None, canary.values[1].encode()]
        assert [resource for _, resource, _ in names(running, UNMASKED)[1:]] == [{"key": "secret:1"}, {"key": "secret:2"}]
        assert nobody.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [nobody])
    assert_sound(running)


def test_hello_with_auth_names_the_reader_and_a_refused_one_does_not(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    users(redis_server, "alice")
    value = put(redis_server, "secret:1", canary.text())
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as wrong, running.client() as right:
        assert isinstance(wrong.login("alice", "wrong", version=3), Fault)
        assert wrong.call("GET", "secret:1") == MASK
        assert isinstance(right.login("alice", PASSWORD, version=3), Pairs)

        assert right.call("GET", "secret:1") == value
        assert len(names(running, UNMASKED)) == 1
        canary.assert_nowhere(running, [wrong])


def test_a_null_or_an_uncovered_key_is_no_read_on_record(redis_once: RedisServer, veil: VeilFactory) -> None:
    users(redis_once, "alice")
    put(redis_once, "open", "seen by all")
    running = veil(SECRET, ALICE, upstream=redis_once)
    with running.client() as alice:
        alice.login("alice", PASSWORD)

        assert alice.call("GET", "secret:none") is None
        assert alice.call("GET", "open") == b"seen by all"

    assert names(running, UNMASKED) == []


ACCESS = """
users:
  carol: {disabled: true}
  frank: {teams: [fraud]}
roles:
  pii-reader: {permissions: [messages.read.unmasked]}
teams:
  fraud: {roles: [pii-reader]}
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: installation}
  - {allow: messages.read.unmasked, to: {user: bob}, on: installation}
  - {deny: messages.read.unmasked, to: {user: bob}, on: {platform: redis}}
  - {allow: messages.read.unmasked, to: {user: carol}, on: installation}
  - {allow: messages.read.unmasked, to: {user: erin}, on: {connection: shop, key: ["secret:eu:*"]}}
  - {allow: messages.read.unmasked, to: {user: grace}, on: installation}
  - {deny: messages.read.unmasked, to: {user: grace}, on: {key: ["secret:us:*"]}}
  - {allow: messages.read.unmasked, to: {user: heidi}, on: {environment: production}}
  - {allow: "*", to: {user: ivan}, on: installation}
"""
SEES = {
    "alice": ("eu", "us"),
    "bob": (),
    "carol": (),
    "erin": ("eu",),
    "frank": ("eu", "us"),
    "grace": ("eu",),
    "heidi": (),
    "ivan": (),
    "mallory": (),
}


def test_each_reader_sees_what_grants_allow_and_no_deny_takes_back(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    users(redis_once, *SEES)
    values = {place: put(redis_once, f"secret:{place}:1", canary.text()) for place in ("eu", "us")}
    running = veil(SECRET, ACCESS, upstream=redis_once)
    blind = []
    for name, places in SEES.items():
        with running.client() as client:
            client.login(name, PASSWORD)

            seen = tuple(place for place in values if client.call("GET", f"secret:{place}:1") == values[place])

            assert seen == places, name
            if not places:
                blind.append(client)
    assert [who for who, _, _ in names(running, UNMASKED)] == ["alice", "alice", "erin", "frank", "frank", "grace"]
    canary.assert_nowhere(running, blind)
    assert_sound(running)


def warned(running: Veil, user: str) -> bool:
    return f"user {user} is an ordinary reader" in running.page("/readyz")[1] and "login-proves-nothing" in running.log()


def test_a_user_that_needs_no_password_names_nobody_and_readyz_and_the_log_say_why(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put(redis_server, "secret:1", canary.text())
    with redis_server.admin() as admin:
        admin.call("ACL", "SETUSER", "walkin", "reset", "on", "nopass", "~*", "&*", "+@all")
    access = """
grants:
  - {allow: messages.read.unmasked, to: {user: walkin}, on: installation}
  - {allow: messages.read.unmasked, to: {user: default}, on: installation}
"""
    running = veil(SECRET, access, upstream=redis_server)
    with running.client() as walkin, running.client() as default, running.client() as hello:
        assert walkin.call("AUTH", "walkin", "anything") == b"OK"
        assert default.call("AUTH", "default", "anything") == b"OK"
        hello.login("walkin", "", version=3)

        for client in (walkin, default, hello):
            assert client.call("GET", "secret:1") == MASK

        assert warned(running, "walkin")
        assert warned(running, "default")
        assert running.page("/readyz")[0] == 200
        assert names(running, UNMASKED) == []
        canary.assert_nowhere(running, [walkin, default, hello])


def test_the_default_user_with_a_password_is_a_reader_like_any_other(redis_once: RedisServer, veil: VeilFactory) -> None:
    value = put(redis_once, "secret:1", "original")
    with redis_once.admin() as admin:
        admin.call("ACL", "SETUSER", "default", "resetpass", f">{PASSWORD}")
    running = veil(SECRET, ALICE.replace("alice", "default"), upstream=redis_once)
    with running.client() as client:
        assert isinstance(client.call("GET", "secret:1"), Fault)
        assert client.call("AUTH", PASSWORD) == b"OK"

        assert client.call("GET", "secret:1") == value

    assert names(running, UNMASKED) == [("default", {"key": "secret:1"}, ONE_RULE)]


def test_who_reads_changes_with_each_login_of_one_packet(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    users(redis_server, "alice", "mallory")
    value = put(redis_server, "secret:1", canary.text())
    running = veil(SECRET, ALICE, upstream=redis_server)
    read = ("GET", "secret:1")
    with running.client() as client:
        replies = client.pipeline(
            read, ("AUTH", "alice", PASSWORD), read, ("AUTH", "mallory", PASSWORD), read,
            ("AUTH", "alice", "wrong"), read, ("HELLO", "3", "AUTH", "alice", PASSWORD), read, ("RESET",), read,
        )  # fmt: skip

    assert [replies[at] for at in (0, 2, 4, 6, 8, 10)] == [MASK, value, MASK, MASK, value, MASK]
    assert [who for who, _, _ in names(running, UNMASKED)] == ["alice", "alice"]
    canary.assert_nowhere(running)


def test_auth_inside_a_transaction_is_refused_and_nothing_of_it_runs(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    users(redis_server, "alice")
    put(redis_server, "secret:1", canary.text())
    running = veil(SECRET, ALICE, upstream=redis_server)
    for login in (("AUTH", "alice", PASSWORD), ("HELLO", "2", "AUTH", "alice", PASSWORD)):
        with running.client() as client:
            replies = client.pipeline(("MULTI",), login, ("GET", "secret:1"), ("SET", "ran", "1"), ("EXEC",))

            assert isinstance(replies[1], Fault)
            assert replies[-1] == Fault(b"EXECABORT Transaction discarded because of previous errors.")
            assert client.call("GET", "secret:1") == MASK
            assert client.call("EXISTS", "ran") == 0
            canary.assert_nowhere(running, [client])


def test_what_only_the_permission_lets_pass_is_on_record_before_it_runs(redis_server: RedisServer, veil: VeilFactory) -> None:
    users(redis_server, "alice", "mallory")
    put(redis_server, "secret:1", "original")
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as alice, running.client() as mallory:
        alice.login("alice", PASSWORD)
        mallory.login("mallory", PASSWORD)

        assert isinstance(mallory.call("RENAME", "secret:1", "open"), Fault)
        assert isinstance(mallory.call("EVAL", "return redis.call('GET', 'secret:1')", 0), Fault)
        assert names(running, UNMASKED) == []

        assert alice.call("EVAL", "return redis.call('GET', 'secret:1')", 0) == b"original"
        assert names(running, UNMASKED) == [("alice", {"key": "*"}, ONE_RULE)]
        assert alice.call("RENAME", "secret:1", "open") == b"OK"
        assert names(running, UNMASKED)[1:] == [("alice", {"key": "secret:1"}, ONE_RULE)]

    running.stop()
    refused = [entry for entry in running.audit() if entry["event"] == "masking.refused"]
    assert [(entry["who"], entry["operation"]) for entry in refused] == [("mallory", "RENAME"), ("mallory", "EVAL")]
    assert_sound(running)


def in_two_seconds(client: RespClient, expected: bytes) -> bool:
    return client.call("GET", "secret:1") == expected


def test_without_a_writable_trail_the_answer_is_masked_within_two_seconds_and_not_after_the_repair(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    users(redis_once, "alice")
    value = put(redis_once, "secret:1", canary.text())
    running = veil(SECRET, ALICE, upstream=redis_once, audit={"file": {"path": "./trail/audit.jsonl"}}, start=False)
    running.audit_path = running.folder / "trail" / "audit.jsonl"
    (running.folder / "trail").mkdir()
    running.start()
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        kept = running.folder / "moved"
        (running.folder / "trail").rename(kept)

        start = len(alice.received)
        wait_until(lambda: in_two_seconds(alice, MASK), "masked", within_s=2)
        assert alice.pipeline(*[("GET", "secret:1")] * 100) == [MASK] * 100
        assert isinstance(alice.call("EVAL", "return 1", 0), Fault)
        assert "not writable" in running.page("/readyz")[1]
        canary.assert_not_in(bytes(alice.received[start:]), "what came while nothing could be recorded")

        kept.rename(running.folder / "trail")
        wait_until(lambda: in_two_seconds(alice, value), "unmasked again", within_s=2)
        assert '"writable"' in running.page("/readyz")[1]
    assert_sound(running)
    canary.assert_nowhere(running)


@pytest.mark.slow
def test_a_full_disk_masks_and_leaves_no_half_line(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    users(redis_once, "alice")
    value = put(redis_once, "secret:1", canary.text())
    running = veil(SECRET, ALICE, upstream=redis_once)
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        size = running.audit_path.stat().st_size
        full = size + 5_000

        prlimit(running.pid, RLIMIT_FSIZE, (full, RLIM_INFINITY))
        replies = alice.pipeline(*[("GET", "secret:1")] * 200)

        seen = replies.count(value)
        assert 0 < seen < 30
        assert replies == [value] * seen + [MASK] * (200 - seen)
        assert running.audit_bytes().count(UNMASKED.encode()) in {seen + 1, seen + 2}  # the last may be half a line
        assert running.audit_path.stat().st_size <= full

        prlimit(running.pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
        wait_until(lambda: in_two_seconds(alice, value), "unmasked again", within_s=2)
    assert len(names(running, UNMASKED)) == seen + 2
    assert_sound(running)
    canary.assert_nowhere(running)


def test_an_unmasked_subscription_lapses(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    users(redis_once, "alice")
    running = veil(SECRET, ALICE, upstream=redis_once, unmasked_lapse="2s")
    with running.client() as alice, redis_once.admin() as direct:
        alice.login("alice", PASSWORD)
        alice.call("SUBSCRIBE", "secret:news")
        assert names(running, UNMASKED) == [("alice", {"key": "secret:news"}, ONE_RULE)]
        value = canary.text()

        def next_message() -> object:
            direct.call("PUBLISH", "secret:news", value)
            message = alice.read()
            assert isinstance(message, list)
            return message[2]

        assert next_message() == value.encode()
        wait_until(lambda: next_message() == MASK, "the subscription has lapsed", within_s=4)
        start = len(alice.received)

        alice.call("AUTH", "alice", PASSWORD)
        assert next_message() == MASK
        canary.assert_not_in(bytes(alice.received[start:]), "what came after the lapse")
    canary.assert_nowhere(running)
