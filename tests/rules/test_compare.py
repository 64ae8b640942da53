"""What is told of a change of the rules, and that nothing which may unmask passes for harmless."""

from __future__ import annotations

import pytest

from rules.compare import Change, compare
from rules.model import RuleBook
from rules.store.book import bind

RULE = 'rules:\n  - {name: R, platform: redis, resources: ["a*", "b"], fields: [%s]}\n'
WHOLE = RULE % "{kind: whole_value, method: redact}"
PATHS = RULE % "{kind: json_path, path: $.a, method: %s}"
KEEP = "partial, keep_first: %d, keep_last: %d"
ACCESS = "rules: []\n"


def book(text: str) -> RuleBook:
    bound = bind([("rules.yaml", text.encode())])
    assert bound.book is not None, bound.problems
    return bound.book


def changes(old: str, new: str) -> tuple[Change, ...]:
    return compare(book(old), book(new))


def reasons(old: str, new: str) -> list[str]:
    return [reason for change in changes(old, new) for reason in change.reasons]


def test_the_same_state_has_no_changes() -> None:
    assert changes(WHOLE, WHOLE + "\n") == ()


def test_the_first_state_creates_all_and_unmasks_nothing() -> None:
    assert compare(None, book(WHOLE)) == (Change("created", 'rule "R"'),)


def test_a_rule_that_is_gone_unmasks() -> None:
    assert changes(WHOLE, "rules: []\n") == (Change("deleted", 'rule "R"', ("it masks no longer",)),)


def test_a_rule_that_was_disabled_unmasks_nothing_when_it_goes_or_changes() -> None:
    disabled = WHOLE.replace("platform", "enabled: false, platform")

    assert reasons(disabled, "rules: []\n") == []
    assert reasons(disabled, PATHS % "redact") == []
    assert reasons(disabled, WHOLE) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (WHOLE, WHOLE.replace("platform", "enabled: false, platform"), "it is disabled"),
        (WHOLE, WHOLE.replace("redis, resources: ", "kafka, resources: "), "it is no longer for redis"),
        (WHOLE, WHOLE.replace("platform", "scope: {environment: test}, platform"), "its scope does not take in all that it did"),
        (WHOLE, WHOLE.replace('"a*", ', ""), 'it no longer covers key "a*"'),
        (WHOLE, WHOLE.replace("fields", "except: [ab], fields"), 'it now excepts key "ab"'),
        (WHOLE.replace("fields", "mask_all: true, fields"), WHOLE, "mask_all is gone"),
        (WHOLE, PATHS % "redact", "value is no longer masked"),
        (PATHS % "redact", PATHS % KEEP % (1, 0), "$.a shows more: redact was, partial (first 1, last 0) is"),
        (PATHS % KEEP % (1, 1), PATHS % KEEP % (2, 0), "$.a shows more: partial (first 1, last 1) was, partial (first 2, last 0) is"),
        (
            PATHS.replace("fields", "mask_all: true, fields") % "redact",
            PATHS.replace("fields", "mask_all: true, fields").replace("[{", "[{kind: json_path, path: $.b, method: partial, keep_first: 1}, {")
            % "redact",
            "$.b is listed now: partial (first 1, last 0) may show what was hidden",
        ),
        (
            RULE % "{kind: json_path, path: $.a, method: redact}, {kind: json_path, path: $.a, method: partial, keep_first: 3}",
            PATHS % KEEP % (3, 0),
            "$.a shows more: redact was, partial (first 3, last 0) is",
        ),
        (
            RULE % "{kind: json_path, path: $.a, method: partial, keep_first: 1}, {kind: json_path, path: $.a, method: partial, keep_last: 1}",
            PATHS % KEEP % (1, 0),
            "$.a shows more: partial (first 0, last 0) was, partial (first 1, last 0) is",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_is_weaker_says_how(old: str, new: str, expected: str) -> None:
    assert expected in reasons(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PATHS % KEEP % (2, 1), PATHS % "redact"),
        (PATHS % KEEP % (2, 1), PATHS % KEEP % (1, 1)),
        (WHOLE, WHOLE.replace('"a*", ', '"a*", "c", ')),
        (WHOLE, WHOLE.replace("fields", "mask_all: true, fields")),
        (WHOLE, WHOLE.replace("platform", "description: x, risk: low, platform")),
        (WHOLE.replace("platform", "scope: {environment: test}, platform"), WHOLE),
        (WHOLE.replace("fields", "except: [ab], fields"), WHOLE),
        (PATHS.replace("fields", "mask_all: true, fields") % KEEP % (1, 0), RULE.replace(", fields: [%s]", ", mask_all: true")),
    ],
)
def test_a_rule_that_is_as_strict_or_stricter_is_told_without_alarm(old: str, new: str) -> None:
    assert [change.what for change in changes(old, new)] == ["updated"]
    assert reasons(old, new) == []


ALLOW = "grants: [{allow: messages.read.unmasked, to: {user: eve}, on: {connection: c, environment: e, platform: redis, key: [a, b]}}]\n"


def test_a_grant_that_is_added_and_a_deny_that_is_gone_unmask_and_the_reverse_does_not() -> None:
    deny = ALLOW.replace("allow", "deny")
    words = 'of messages.read.unmasked to user "eve" on platform "redis", environment "e", connection "c", key "a", "b"'

    assert changes(ACCESS, ACCESS + ALLOW) == (Change("created", f"grant {words}", ("it allows more",)),)
    assert changes(ACCESS + deny, ACCESS) == (Change("deleted", f"deny {words}", ("it denies no longer",)),)
    assert reasons(ACCESS + ALLOW, ACCESS) == reasons(ACCESS, ACCESS + deny) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("users: {u: {disabled: true}}", "users: {u: {disabled: false}}", ["they are enabled"]),
        ("users: {u: {disabled: true}}", "users: {}", ["it disabled them, and does no longer"]),
        ("users: {u: {disabled: false}}", "users: {u: {disabled: true}}", []),
        ("users: {u: {teams: [t]}}", "users: {}", []),
        ("users: {}", "users: {u: {teams: [t]}}", ['team "t" is added']),
        ("users: {u: {}}", "users: {u: {roles: [r]}}", ['role "r" is added']),
        ("teams: {t: {members: [a]}}", "teams: {t: {members: [a, b]}}", ['member "b" is added']),
        ("teams: {}", "teams: {t: {roles: [r]}}", ['role "r" is added']),
        ("teams: {t: {members: [a]}}", "teams: {}", []),
    ],
)
def test_what_somebody_may_do_anew_is_said(old: str, new: str, expected: list[str]) -> None:
    roles = "roles: {r: {permissions: [messages.read.unmasked]}}\n"

    assert reasons(f"{roles}{old}\n", f"{roles}{new}\n") == expected


def test_a_role_that_permits_more_or_elsewhere_is_said() -> None:
    old = "roles: {r: {permissions: [messages.read], on: {environment: test}}}\n"

    assert reasons(old, old.replace("[messages.read]", "[messages.read, messages.read.unmasked]")) == [
        'permission "messages.read.unmasked" is added'
    ]
    assert reasons(old, old.replace("environment: test", "environment: live")) == ['it holds on environment "live" now']
    assert reasons(old, "roles: {r: {permissions: [messages.read]}}\n") == ["it holds everywhere now"]
    assert reasons("rules: []\n", old) == ['permission "messages.read" is added']


def test_a_grant_on_the_installation_is_spelled_so() -> None:
    grant = "grants: [{allow: messages.read.unmasked, to: {user: eve}, on: installation}]\n"

    assert changes(ACCESS, ACCESS + grant)[0].subject.endswith("on installation")
