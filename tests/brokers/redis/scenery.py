"""Rules and access that the tests of faults, of rules that change and of unmasked reading share."""

from __future__ import annotations

from collections.abc import Mapping

from rules.audit import broken_links
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import Veil

MASK = "••••".encode()
PASSWORD = "pw-of-a-reader"
UNMASKED = "broker.message.read-unmasked"

OPEN = "rules: []\n"
ELSEWHERE = """
rules:
  - name: Elsewhere
    platform: redis
    resources: ["elsewhere:*"]
    fields: [{kind: whole_value, method: redact}]
"""
SECRET = """
rules:
  - name: Secrets
    platform: redis
    resources: ["secret:*"]
    fields: [{kind: whole_value, method: redact}]
    compliance: [GDPR]
    information_kind: contact
    risk: high
"""
ALICE = "grants: [{allow: messages.read.unmasked, to: {user: alice}, on: installation}]\n"


def put_secret(server: RedisServer, value: str | bytes) -> None:
    """What `SECRET` hides, put straight into the server."""
    with server.admin() as direct:
        direct.call("SET", "secret:1", value)


def entries(veil: Veil, event: str) -> list[Mapping[str, object]]:
    """The audit entries of one kind, as they are on disk at this moment."""
    return [entry for entry in veil.audit() if entry["event"] == event]


def names(veil: Veil, event: str) -> list[tuple[object, object, list[object]]]:
    """(who, resource, rule names) of the entries of one kind."""
    found = []
    for entry in entries(veil, event):
        rules = entry["rules"]
        assert isinstance(rules, list)
        found.append((entry["who"], entry.get("resource"), [rule["name"] for rule in rules]))
    return found


def assert_sound(veil: Veil) -> None:
    """The hash chain of the trail holds from its first line to its last."""
    lines = veil.audit_bytes().splitlines()
    assert lines
    assert list(broken_links(lines)) == []
