"""The trail of a running Veil: what is in it, what never is, and that its chain holds over restarts."""

from __future__ import annotations

import re

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, OPEN, PASSWORD, SECRET, UNMASKED, assert_sound, entries, names


def test_an_unmasked_read_says_who_from_where_what_and_which_rules_were_lifted(
    redis_server: RedisServer, veil: VeilFactory
) -> None:
    redis_server.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as alice, redis_server.admin() as direct:
        direct.call("SET", "secret:1", "original")
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == b"original"
        peer = alice._socket.getsockname()

    (entry,) = entries(running, UNMASKED)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(entry["time"]))
    assert {name: value for name, value in entry.items() if name not in {"time", "seq", "previous", "hash"}} == {
        "event": UNMASKED,
        "who": "alice",
        "peer": f"{peer[0]}:{peer[1]}",
        "connection": "shop",
        "environment": "test",
        "platform": "redis",
        "protocol": "redis",
        "resource": {"key": "secret:1"},
        "rules": [{"name": "Secrets", "compliance": ["GDPR"], "information_kind": "contact", "risk": "high"}],
        "operation": "GET",
    }


def test_refusals_and_changes_of_rules_and_access_are_in_the_trail_and_no_value_is(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_once.add_user("alice", PASSWORD)
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client, redis_once.admin() as direct:
        direct.call("SET", "secret:1", canary.text())
        client.pipeline(
            ("SET", "secret:1", canary.text()),
            ("EVAL", f"return '{canary.text()}'", 0),
            ("APPEND", "secret:1", canary.text()),
            ("SORT", "secret:1", "BY", canary.text()),
            ("NOSUCH", canary.text()),
        )
        with running.client() as other:  # whoever sends it as a command is told its own word, and nobody else is
            other.call(canary.text(), canary.text())
        running.write_rules(ALICE, "access.yaml")
        running.wait_rules()
        running.write_rules(OPEN)
        running.wait_rules()
        canary.assert_nowhere(running, [client])

    running.stop()
    events = [entry["event"] for entry in running.audit()]
    assert events[0] == "configuration.masking-rule.create"
    assert events[-2:] == ["configuration.masking-access.update", "configuration.masking-rule.delete"]
    refused = entries(running, "masking.refused")
    assert refused
    assert {entry["who"] for entry in refused} == {""}
    tagged = {"name": "Secrets", "compliance": ["GDPR"], "information_kind": "contact", "risk": "high"}
    assert all(entry["rules"] == [tagged] for entry in refused)
    canary.assert_not_in(running.audit_bytes(), "the trail at the end")
    canary.assert_not_in(running.log(), "the log at the end")
    assert_sound(running)


def test_the_chain_goes_on_over_a_kill_and_a_half_written_line(redis_once: RedisServer, veil: VeilFactory) -> None:
    redis_once.add_user("alice", PASSWORD)
    running = veil(SECRET, ALICE, upstream=redis_once)
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", "original")
    for turn in (1, 2):
        with running.client() as alice:
            alice.login("alice", PASSWORD)
            assert alice.pipeline(*[("GET", "secret:1")] * 3) == [b"original"] * 3
            running.kill()
        with running.audit_path.open("ab") as trail:
            trail.write(b'{"time":"2026-11-30T10:15:00.123Z","event":"bro')
        running.start()
        wait_until(lambda: bool(running.audit_bytes().endswith(b"\n")), "the half line is cut")

        assert len(names(running, UNMASKED)) == 3 * turn
        assert_sound(running)


def test_the_trail_is_readable_by_its_owner_alone(redis_once: RedisServer, veil: VeilFactory) -> None:
    running = veil(SECRET, upstream=redis_once)

    assert running.audit_path.stat().st_mode & 0o777 == 0o600
