"""Warnings about rules that are allowed and probably not meant."""

from __future__ import annotations

import sys

import pytest

from rules import check
from rules.check import WARNING_LIMIT, warnings
from rules.store.book import bind


def told(text: str) -> list[str]:
    bound = bind([("f", text.encode())])
    assert bound.book is not None, bound.problems
    found = warnings(bound.book)
    assert all(each.warning for each in found)
    return [str(each) for each in found]


def rule(name: str, fields: str, resources: str = '["a"]', more: str = "") -> str:
    return f"- {{name: {name}, platform: kafka, resources: {resources}, fields: [{fields}]{more}}}\n"


def path(spelled: str, method: str = "redact") -> str:
    return f"{{kind: json_path, path: '{spelled}', method: {method}}}"


REDACT = path("$.a")
PARTIAL = path("$.a", "partial, keep_first: 1")


def pair(one: str, other: str, **more: str) -> list[str]:
    return told("rules:\n" + rule("one", one) + rule("two", other, **more))


def test_two_rules_that_cover_the_same_field_are_told_with_the_method_that_wins() -> None:
    (line,) = pair(REDACT, PARTIAL)

    assert line == ('f:3:83: warning: $.a meets $.a in rule "one" (f:2:10), which covers topic "a" too: redact wins')


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (REDACT, REDACT, ["redact either way"]),
        (PARTIAL, PARTIAL, ["either way"]),
        (PARTIAL, path("$.a", "partial, keep_first: 3"), ["keep_first 1, keep_last 0) wins"]),
        (path("$.a", "partial, keep_first: 2"), path("$.a", "partial, keep_last: 2"), ["redacted"]),
        (
            path("$.a", "partial, keep_first: 2, keep_last: 1"),
            path("$.a", "partial, keep_first: 1, keep_last: 2"),
            ["(keep_first 1, keep_last 1) holds"],
        ),
        (PARTIAL, path("$.a", "partial, keep_last: 3"), ["(keep_first 1, keep_last 0) wins", "alone would hide"]),
        (path("$.a", "partial, keep_last: 3"), PARTIAL, ["(keep_first 1, keep_last 0) wins", "alone would hide"]),
        (REDACT, path("$.a.b"), ["never comes to its own method"]),
        (path("$.a.b"), REDACT, ["hides all below it"]),
        ("{kind: whole_value, method: redact}", PARTIAL, ["never comes to its own method"]),
        ("{kind: whole_value, method: redact}", "{kind: whole_value, method: redact}", ["either way"]),
        ("{kind: header, name: X, method: redact}", "{kind: header, name: x, method: redact}", ["either way"]),
        ("{kind: record_key, method: redact}", "{kind: record_key, method: partial, keep_last: 1}", ["redact wins"]),
        ("{kind: header, name: X, method: redact}", "{kind: header, name: z, method: redact}", []),
        ("{kind: header, name: a, method: redact}", REDACT, []),
        ("{kind: record_key, method: redact}", REDACT, []),
        (REDACT, path("$.b"), []),
        (path("$..b"), path("$.a.b"), ["redact either way"]),
    ],
)
def test_how_two_fields_clash(one: str, other: str, expected: list[str]) -> None:
    lines = pair(one, other)

    assert len(lines) == len(expected)
    for line, words in zip(lines, expected, strict=True):
        assert words in line


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ('["orders.*"]', '["*.eu"]', True),
        ('["orders.*"]', '["payments.*"]', False),
        ('["x", "orders-?"]', '["orders-1"]', True),
        ('["orders-??"]', '["orders-1"]', False),
        ('["*.eu"]', '["*.us"]', False),
        ('["a*"]', '["a"]', True),
        ('["a"]', '["a*", "a"]', True),
    ],
)
def test_only_rules_whose_resources_meet_clash(one: str, other: str, expected: bool) -> None:
    assert (told("rules:\n" + rule("one", REDACT, one) + rule("two", REDACT, other)) != []) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("environment: a", "environment: a", True),
        ("environment: a", "environment: b", False),
        ("connection: a", "connection: b", False),
        ("environment: a", "connection: b", True),
    ],
)
def test_only_rules_whose_scopes_meet_clash(one: str, other: str, expected: bool) -> None:
    text = "rules:\n" + rule("one", REDACT, more=f", scope: {{{one}}}") + rule("two", REDACT, more=f", scope: {{{other}}}")

    assert (told(text) != []) is expected


def test_a_rule_that_excepts_the_other_ones_resources_does_not_clash() -> None:
    assert pair(REDACT, REDACT, resources='["*"]', more=", except: [a]") == []
    assert pair(REDACT, REDACT, resources='["*"]', more=", except: ['?']") == []
    assert pair(REDACT, REDACT, resources='["*"]', more=", except: [b]") != []


def test_rules_of_other_platforms_and_disabled_rules_do_not_clash() -> None:
    other = "- {name: two, platform: redis, resources: [a], fields: [" + REDACT + "]}\n"

    assert told("rules:\n" + rule("one", REDACT) + other) == []
    assert pair(REDACT, REDACT, more=", enabled: false") == []


def test_mask_all_beside_another_rule_is_told() -> None:
    both = ", mask_all: true"
    lines = [
        told("rules:\n" + rule("one", one, more=first) + rule("two", two, more=second))
        for one, first, two, second in (("", both, PARTIAL, ""), (PARTIAL, "", "", both), ("", both, "", both))
    ]

    assert [len(each) for each in lines] == [1, 1, 1]
    assert "this rule's own methods" in lines[0][0]
    assert "redacts every value" in lines[1][0]
    assert "either way" in lines[2][0]


def test_a_path_beside_its_own_mask_all_keeps_its_method_and_is_no_clash() -> None:
    assert told("rules:\n" + rule("one", PARTIAL, more=", mask_all: true")) == []


def test_fields_of_one_rule_clash_too() -> None:
    assert len(told("rules:\n" + rule("one", f"{REDACT}, {PARTIAL}"))) == 1
    assert len(told("rules:\n" + rule("one", f"{path('$.a.b')}, {REDACT}"))) == 1


def test_a_partial_that_keeps_nearly_everything_is_told() -> None:
    assert "16 characters" in told("rules:\n" + rule("one", path("$.a", "partial, keep_first: 12, keep_last: 4")))[0]
    assert told("rules:\n" + rule("one", path("$.a", "partial, keep_first: 11, keep_last: 4"))) == []


@pytest.mark.parametrize(
    "each",
    [
        lambda n: rule(f"r{n}", path(f"$.a{n}"), '["orders.*"]'),
        lambda n: rule(f"r{n}", path("$.email") + ", " + path("$..iban"), f'["orders-{n}.*"]'),
        lambda n: rule(f"r{n}", path("$.email"), '["orders.*"]'),
        lambda n: rule(f"r{n}", path(f"$..a{n}.id"), f'["a{n % 9}*"]'),
        lambda n: rule(f"r{n}", path(f"$.a{n}.*"), f'["a{n % 9}*"]'),
        lambda n: rule(f"r{n}", path(f"$.a{n}") + ", " + path(f"$..b{n}"), f'["*-{n}"]'),
        lambda n: rule(f"r{n}", path("$.email"), f'["*-{n:04}"]'),
        lambda n: rule(f"r{n}", path("$.email"), f'["*{n:04}*"]'),
    ],
)
@pytest.mark.slow
def test_many_rules_take_a_bounded_number_of_steps(each: object) -> None:
    assert callable(each)
    bound = bind([("f", ("rules:\n" + "".join(each(n) for n in range(400))).encode())])
    assert bound.book is not None
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = warnings(bound.book)
    finally:
        sys.setprofile(None)

    assert calls < 3_000_000  # a comparison of all pairs of paths is far above
    assert len(found) <= WARNING_LIMIT + 1


def test_fields_of_a_hash_clash_by_their_name() -> None:
    field = "{kind: field, name: %s, method: redact}"
    text = "rules:\n" + "".join(
        f"- {{name: {name}, platform: redis, resources: [a], fields: [{field % key}]}}\n"
        for name, key in (("one", "x"), ("two", "x"), ("three", "X"))
    )

    (line,) = told(text)

    assert "field:x meets field:x" in line


def test_a_field_of_a_hash_clashes_with_what_hides_every_value() -> None:
    def of(name: str, field: str) -> str:
        return f'  - {{name: {name}, platform: redis, resources: ["s*"], fields: [{field}]}}\n'

    token = "{kind: field, name: token, method: partial, keep_last: 2}"
    whole = "{kind: whole_value, method: redact}"
    for text in (of("one", token) + of("two", whole), of("one", whole) + of("two", token), of("one", f"{token}, {whole}")):
        lines = told("rules:\n" + text)

        assert len(lines) == 1
        assert "field:token" in lines[0]
        assert lines[0].endswith("redact wins")


def test_too_many_different_paths_are_told_as_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "PATHS_COMPARED", 1)

    assert any("too many different paths" in line for line in pair(REDACT, path("$.a.b")))


def test_the_list_of_warnings_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "WARNING_LIMIT", 2)
    lines = told("rules:\n" + "".join(rule(f"r{n}", REDACT) for n in range(9)))

    assert len(lines) == 3
    assert "more warnings" in lines[-1]
