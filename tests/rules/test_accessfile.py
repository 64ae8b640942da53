"""Users, teams, roles and grants as a file writes them."""

from __future__ import annotations

import pytest

from rules.model import Extent, Grant, Kind, Place, Platform, Role, Team, User, Whom

from .test_rulefile import book, told

READER = "roles: {r: {permissions: [messages.read.unmasked]}}\n"


def grant(on: str, *, to: str = "{user: a}", verb: str = "allow: messages.read.unmasked") -> str:
    return f"grants:\n- {verb}\n  to: {to}\n  on: {on}\n"


def test_every_access_key_is_read() -> None:
    text = """\
users:
  alice: {teams: [support]}
  bob: {roles: [pii-reader]}
  carol: {disabled: true}
teams:
  fraud: {roles: [pii-reader], members: [dave]}
roles:
  pii-reader: {permissions: [messages.read.unmasked, "*"], on: {environment: production}}
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: {connection: orders-kafka, topic: ["orders.eu*"]}}
  - {allow: masking.manage, to: {team: fraud}, on: installation}
  - {deny: messages.read, to: {role: pii-reader}, on: {platform: redis}}
"""
    access = book(text).access

    assert access.users == (
        User("alice", teams=("support",)),
        User("bob", roles=("pii-reader",)),
        User("carol", disabled=True),
    )
    assert access.teams == (Team("fraud", ("pii-reader",), ("dave",)),)
    assert access.roles == (Role("pii-reader", ("messages.read.unmasked", "*"), Extent(environment="production")),)
    eu = Extent(connection="orders-kafka", resources=((Kind.TOPIC, ("orders.eu*",)),))
    assert access.grants == (
        Grant(True, "messages.read.unmasked", Whom.USER, "alice", eu),
        Grant(True, "masking.manage", Whom.TEAM, "fraud", Extent(installation=True)),
        Grant(False, "messages.read", Whom.ROLE, "pii-reader", Extent(platform=Platform.REDIS)),
    )
    assert access.grants[0].place == Place("0.yaml", 10, 5)


def test_access_comes_from_several_files_in_their_order() -> None:
    access = book("users: {a: {}}", "users: {b: {roles: [r]}}", READER).access

    assert [user.name for user in access.users] == ["a", "b"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("users: {a: {}}", "users: {b: {}, a: {}}"), ["1.yaml:1:16"]),
        (("teams: {a: {}}", "teams: {a: {}}"), ["1.yaml:1:9"]),
        ((READER, READER), ["1.yaml:1:9"]),
        ((grant("installation"), grant("installation")), ["1.yaml:2:3"]),
        ((grant("{key: [a]}"), grant("{key: [b]}"), grant("{key: [a]}")), ["2.yaml:2:3"]),
    ],
)
def test_what_is_defined_twice_is_told_at_its_second_place(texts: tuple[str, ...], expected: list[str]) -> None:
    assert told(*texts) == expected


def test_a_user_and_a_team_may_have_the_same_name() -> None:
    assert len(book("users: {a: {}}\nteams: {a: {}}").access.teams) == 1


def test_an_undefined_role_is_an_error_and_an_undefined_team_is_none() -> None:
    assert told("users: {a: {teams: [t], roles: [r]}}") == ["1:33"]
    assert told("teams: {a: {roles: [r]}}") == ["1:21"]
    assert told(grant("installation", to="{role: r}")) == ["3:14"]
    assert told(grant("installation", to="{team: t}")) == []
    assert told("users: {a: {roles: [r]}}", READER) == []


def test_a_role_with_a_problem_of_its_own_is_defined_all_the_same() -> None:
    assert told("users: {a: {roles: [r]}}\nroles: {r: {permissions: []}}") == ["2:26"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("users: {a: }", ["1:12"]),
        ("users: {no: {}}", ["1:9"]),
        ("users: {'': {}}", ["1:9"]),
        ('users: {"a\\tb": {}}', ["1:9"]),
        ("users: [a]", ["1:8"]),
        ("users: {a: {team: [b]}}", ["1:13"]),
        ("users: {a: {teams: b}}", ["1:20"]),
        ("users: {a: {teams: [b, b]}}", ["1:24"]),
        ("users: {a: {disabled: yes}}", ["1:23"]),
        ("teams: {'': {}}", ["1:9"]),
        ("teams: {a: 1}", ["1:12"]),
        ("teams: {a: {members: [1]}}", ["1:23"]),
        ("roles: {'': {permissions: ['*']}}", ["1:9"]),
        ("roles: {a: {}}", ["1:12"]),
        ("roles: {a: 1}", ["1:12"]),
        ("roles: {a: {permissions: messages.read}}", ["1:26"]),
        ("roles: {a: {permissions: [messages.write]}}", ["1:27"]),
        ("roles: {a: {permissions: ['*'], on: {}}}", ["1:37"]),
        ("roles: {a: {permissions: ['*'], on: everywhere}}", ["1:37"]),
        ("grants: {}", ["1:9"]),
        ("grants: [x]", ["1:10"]),
        ("grants: [{}]", ["1:10", "1:10", "1:10"]),
    ],
)
def test_a_problem_of_access_is_told_at_its_value(text: str, expected: list[str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("installation", []),
        ("{topic: [a]}", []),
        ("{platform: redis, key: [a], connection: c, environment: e}", []),
        ("Installation", ["4:7"]),
        ("", ["4:6"]),
        ("[]", ["4:7"]),
        ("{}", ["4:7"]),
        ("{exchange: [a]}", ["4:18"]),
        ("{address: [a]}", ["4:17"]),
        ("{topic: []}", ["4:15"]),
        ("{topic: a}", ["4:15"]),
        ("{topics: [a]}", ["4:8"]),
        ("{platform: redis, topic: [a]}", ["4:32"]),
        ("{topic: [a], key: [b]}", ["4:25"]),
        ("{platform: rediss}", ["4:18"]),
        ("{environment: 1}", ["4:21"]),
        ("{connection: ''}", ["4:20"]),
    ],
)
def test_a_grant_says_where_it_holds(on: str, expected: list[str]) -> None:
    assert told(grant(on))[: len(expected) or None] == expected


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("{}", ["3:7"]),
        ("a", ["3:7"]),
        ("{user: a, team: b}", ["3:7"]),
        ("{user: no}", ["3:14"]),
        ("{group: a}", ["3:7", "3:8"]),
    ],
)
def test_a_grant_goes_to_exactly_one(to: str, expected: list[str]) -> None:
    assert told(grant("installation", to=to)) == expected


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("allow: messages.read\n  deny: messages.read", ["2:3"]),
        ("allow: messages.write", ["2:10"]),
        ("deny: '*'", []),
        ("permit: '*'", ["2:3", "2:3"]),
    ],
)
def test_a_grant_allows_or_denies_one_known_permission(verb: str, expected: list[str]) -> None:
    assert told(grant("installation", verb=verb)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "users: {a: !x {}}",
        "users: {a: {teams: !x [b]}}",
        "users: {a: {roles: !x [b]}}",
        "users: {a: {disabled: !x true}}",
        "teams: {a: {members: [!x b]}}",
        "roles: {a: {permissions: !x [b]}}",
        "grants: [!x b]",
        grant("!x installation"),
        grant("!x {}"),
        grant("{platform: !x redis}"),
        grant("installation", to="!x {user: a}"),
        grant("installation", to="{user: !x a}"),
        grant("installation", verb="allow: !x '*'"),
    ],
)
def test_a_tagged_value_is_told_once(text: str) -> None:
    assert len(told(text)) == 1
