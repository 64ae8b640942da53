"""Every way to come by a permission, on every extent, with every deny: the whole table, written as files have it."""

from __future__ import annotations

import pytest

from rules.access import UNMASKED, Access, Reader
from rules.explain import explain
from rules.model import AccessList, Connection, Kind, Platform, Resource, RuleBook
from rules.store.book import bind

SHOP = Connection("shop", Platform.REDIS, "production")
KEY = Resource(SHOP, Kind.KEY, b"customer:eu:1")

HERE = {
    "installation": "installation",
    "platform": "{platform: redis}",
    "environment": "{environment: production}",
    "connection": "{connection: shop}",
    "pattern": '{key: ["other:*", "customer:eu:*"]}',
    "connection and pattern": '{connection: shop, key: ["customer:eu:?"]}',
    "all together": '{platform: redis, environment: production, connection: shop, key: ["*"]}',
}
ELSEWHERE = {
    "platform": "{platform: kafka}",
    "environment": "{environment: test}",
    "connection": "{connection: shop2}",
    "pattern": '{key: ["customer:us:*", "customer:eu", "Customer:*"]}',
    "kind": '{topic: ["*"]}',
    "connection but not pattern": '{connection: shop, key: ["customer:eu"]}',
    "pattern but not connection": '{connection: other, key: ["*"]}',
    "one of three": '{platform: redis, environment: test, connection: shop, key: ["*"]}',
}
WHOLE = {"installation", "platform", "environment", "connection", "all together"}  # no pattern, or `*`

ROLE = "roles: {pii: {permissions: [messages.read.unmasked], on: EXTENT}, plain: {permissions: [messages.read]}}\n"
PLAIN = "roles: {pii: {permissions: [messages.read]}, plain: {permissions: [messages.read]}}\n"
WAYS = {
    "granted to the user": (
        PLAIN + "grants: [{allow: messages.read.unmasked, to: {user: alice}, on: EXTENT}DENY]\n",
        "granted to user alice at access.yaml:2:10",
    ),
    "granted to a team of the user": (
        PLAIN
        + "users: {alice: {teams: [fraud]}}\ngrants: [{allow: messages.read.unmasked, to: {team: fraud}, on: EXTENT}DENY]\n",
        "granted to team fraud at access.yaml:3:10",
    ),
    "granted to a team with the member": (
        PLAIN
        + "teams: {fraud: {members: [alice]}}\ngrants: [{allow: messages.read.unmasked, to: {team: fraud}, on: EXTENT}DENY]\n",
        "granted to team fraud at access.yaml:3:10",
    ),
    "granted to a role of the user": (
        PLAIN + "users: {alice: {roles: [pii]}}\ngrants: [{allow: messages.read.unmasked, to: {role: pii}, on: EXTENT}DENY]\n",
        "granted to role pii at access.yaml:3:10",
    ),
    "granted to a role of a team": (
        PLAIN
        + "teams: {fraud: {members: [alice], roles: [pii]}}\n"
        + "grants: [{allow: messages.read.unmasked, to: {role: pii}, on: EXTENT}DENY]\n",
        "granted to role pii at access.yaml:3:10",
    ),
    "in a role of the user": (
        ROLE + "users: {alice: {roles: [pii]}}\ngrants: [{allow: messages.read, to: {user: x}, on: installation}DENY]\n",
        "through role pii",
    ),
    "in a role of a team of the user": (
        ROLE
        + "users: {alice: {teams: [fraud]}}\nteams: {fraud: {roles: [pii]}}\n"
        + "grants: [{allow: messages.read, to: {user: x}, on: installation}DENY]\n",
        "through role pii of team fraud",
    ),
    "in a role of a team with the member": (
        ROLE
        + "teams: {fraud: {members: [alice], roles: [pii]}}\n"
        + "grants: [{allow: messages.read, to: {user: x}, on: installation}DENY]\n",
        "through role pii of team fraud",
    ),
}
RULES = 'rules: [{name: R, platform: redis, resources: ["customer:*"], mask_all: true}]\n'


def book(way: str, extent: str, deny: str = "", more: str = "") -> RuleBook:
    text = WAYS[way][0].replace("EXTENT", extent).replace("DENY", f", {deny}" if deny else "") + more
    bound = bind([("access.yaml", text.encode()), ("rules.yaml", RULES.encode())])
    assert bound.book is not None, bound.problems
    return bound.book


def may(access: AccessList, who: str | None = "alice") -> bool:
    return Access(access).may(Reader(who), UNMASKED, KEY).yes


def may_everywhere(access: AccessList) -> bool:
    return Access(access).may_everywhere(Reader("alice"), UNMASKED, SHOP).yes


def deny(whom: str, on: str, permission: str = UNMASKED) -> str:
    return f'{{deny: "{permission}", to: {{{whom}}}, on: {on}}}'


@pytest.mark.parametrize("extent", HERE)
@pytest.mark.parametrize("way", WAYS)
def test_a_permission_holds_within_its_extent_and_for_nobody_else(way: str, extent: str) -> None:
    access = book(way, HERE[extent]).access

    assert may(access)
    assert not may(access, "Alice")
    assert not may(access, None)
    assert may_everywhere(access) is (extent in WHOLE)


@pytest.mark.parametrize("extent", ELSEWHERE)
@pytest.mark.parametrize("way", WAYS)
def test_a_permission_elsewhere_is_none_here(way: str, extent: str) -> None:
    access = book(way, ELSEWHERE[extent]).access

    assert not may(access)
    assert not may_everywhere(access)


@pytest.mark.parametrize("denied", HERE)
@pytest.mark.parametrize("way", WAYS)
def test_a_deny_to_the_user_wins_on_whatever_extent_it_stands(way: str, denied: str) -> None:
    for extent in HERE.values():
        for permission in (UNMASKED, "*"):
            access = book(way, extent, deny("user: alice", HERE[denied], permission)).access

            assert not may(access)
            assert not may_everywhere(access)


@pytest.mark.parametrize("way", [way for way in WAYS if "team" in way])
@pytest.mark.parametrize("denied", HERE)
def test_a_deny_to_the_team_wins(way: str, denied: str) -> None:
    assert not may(book(way, "installation", deny("team: fraud", HERE[denied])).access)


@pytest.mark.parametrize("way", [way for way in WAYS if "role" in way])
@pytest.mark.parametrize("denied", HERE)
def test_a_deny_to_the_role_wins(way: str, denied: str) -> None:
    assert not may(book(way, "installation", deny("role: pii", HERE[denied])).access)


@pytest.mark.parametrize("denied", ELSEWHERE)
@pytest.mark.parametrize("way", WAYS)
def test_a_deny_elsewhere_or_to_somebody_else_takes_nothing_away(way: str, denied: str) -> None:
    assert may(book(way, HERE["connection"], deny("user: alice", ELSEWHERE[denied])).access)
    for whom in ("user: bob", "team: support", "role: plain"):
        assert may(book(way, HERE["connection"], deny(whom, "installation")).access)
    assert may(book(way, HERE["connection"], deny("user: alice", "installation", "messages.read")).access)


@pytest.mark.parametrize("way", [way for way in WAYS if "users" not in WAYS[way][0]])
def test_a_disabled_user_holds_nothing(way: str) -> None:
    access = book(way, "installation", more="users: {alice: {disabled: true}}\n").access

    assert not may(access)
    assert not may_everywhere(access)


@pytest.mark.parametrize("way", WAYS)
def test_the_star_is_no_way_to_read_unmasked(way: str) -> None:
    text = WAYS[way][0].replace("messages.read.unmasked", '"*"').replace("EXTENT", "installation").replace("DENY", "")
    bound = bind([("access.yaml", text.encode()), ("rules.yaml", RULES.encode())])
    assert bound.book is not None

    assert not may(bound.book.access)


@pytest.mark.parametrize("way", WAYS)
def test_explain_names_the_way_and_the_deny(way: str) -> None:
    def told(one: RuleBook) -> list[str]:
        return explain(
            one, platform=Platform.REDIS, kind=Kind.KEY, name=KEY.name, connection="shop", environment="production", who="alice"
        )

    lifted = told(book(way, HERE["connection"]))
    denied = told(book(way, HERE["connection"], deny("user: alice", "installation")))
    nothing = told(book(way, ELSEWHERE["connection"]))

    assert f"  lifted: {WAYS[way][1]}" in lifted
    assert any(line.startswith("  masks: denied to user alice at access.yaml:") for line in denied)
    assert "  masks: no grant" in nothing
