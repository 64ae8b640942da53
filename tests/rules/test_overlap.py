"""Which JSON paths can name the same value, and which always lie inside another."""

from __future__ import annotations

import pytest

from rules import overlap
from rules.overlap import always_above, paths_meet
from rules.paths import parse_path


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("$.a", "$.a", True),
        ("$.a", "$['a']", True),
        ("$.a", "$.b", False),
        ("$.a", "$.a.b", False),
        ("$..b", "$.a.b", True),
        ("$..b", "$.b", True),
        ("$..b", "$.a.c", False),
        ("$.*", "$.a", True),
        ("$.*", "$.a.b", False),
        ("$.a[*]", "$.a.b", True),
        ("$.a[*].b", "$.a.b", True),  # an object in place of the array
        ("$.a[*][*].b", "$.a.b", True),
        ("$.a[*]", "$.a", False),
        ("$..a.b", "$.a..b", True),
        ("$..a", "$..b", False),
        ("$.*.*", "$.a", True),  # the array at the top is passed through
        ("$.*.x", "$.x", True),
    ],
)
def test_paths_meet_where_some_value_is_named_by_both(one: str, other: str, expected: bool) -> None:
    assert paths_meet(parse_path(one), parse_path(other)) is expected
    assert paths_meet(parse_path(other), parse_path(one)) is expected


@pytest.mark.parametrize(
    ("upper", "lower", "expected"),
    [
        ("$.a", "$.a.b", True),
        ("$.a", "$.a", False),
        ("$.a", "$.a.b.c", True),
        ("$.a.b", "$.a", False),
        ("$.a", "$..b", False),
        ("$..a", "$.x.a.b", True),
        ("$..a", "$..a.b", True),
        ("$.*", "$.a.b", True),
        ("$.*", "$..b", False),
        ("$.*", "$.a", False),
        ("$.a[*]", "$.a.b.c", True),
        ("$.a", "$.a[*]", True),
        ("$.b", "$.a.b", False),
    ],
)
def test_a_path_always_lies_inside_another(upper: str, lower: str, expected: bool) -> None:
    assert always_above(parse_path(upper), parse_path(lower)) is expected


def test_paths_that_need_too_many_steps_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "MAX_SETS", 1)

    assert not paths_meet(parse_path("$.given.up"), parse_path("$.given.up"))
    assert not always_above(parse_path("$.given.x"), parse_path("$.given.x.up"))
