"""Globs: what they take in, in which reading of `?`, and how quickly."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.model import Kind
from rules.patterns import Matcher, glob_matches, globs_meet, literal_prefix, literal_suffix, name_of_both


def either(glob: str, name: bytes) -> bool:
    return glob_matches(glob, name, strict=False)


def both(glob: str, name: bytes) -> bool:
    return glob_matches(glob, name, strict=True)


def naive(glob: list[int] | str, name: bytes | str) -> bool:
    """One reading, by trying everything: `*` is None-like 42, `?` is 63."""
    reached = {0}
    for each in glob:
        if each in ("*", 42):
            reached = set(range(min(reached), len(name) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(name) and (each in ("?", 63) or name[at] == each)}
    return len(name) in reached


def naive_readings(glob: str, name: bytes) -> tuple[bool, bool]:
    by_byte = naive(list(glob.encode()), name)
    by_code_point = naive(glob, name.decode("utf-8", "surrogateescape"))
    return by_byte, by_code_point


@pytest.mark.parametrize(
    ("glob", "name", "expected"),
    [
        ("*", b"", True),
        ("orders", b"orders", True),
        ("orders", b"Orders", False),
        ("orders", b"orders.eu", False),
        ("orders.*", b"orders.", True),
        ("orders.*", b"ordersXeu", False),
        ("*.eu", b"a.eu.b.eu", True),
        ("a*a", b"a", False),
        ("a*b*c", b"a--b-b-c", True),
        ("a*b*c", b"a--c-b", False),
        ("ab*bc", b"abc", False),
        ("payments-?", b"payments-1", True),
        ("payments-?", b"payments-", False),
        ("*?", b"", False),
        ("?*?", b"x", False),
        ("[ab]", b"a", False),
        ("[ab]", b"[ab]", True),
        ("a\\*", b"a\\x", True),
        ("*", b"line\nend\xff", True),
        ("a?b", b"a\nb", True),
    ],
)
def test_a_glob_takes_in_the_whole_name(glob: str, name: bytes, expected: bool) -> None:
    assert either(glob, name) is expected
    assert both(glob, name) is expected


@pytest.mark.parametrize("name", ["é".encode(), b"xy"])
def test_a_rule_covers_a_two_byte_name_where_either_reading_does(name: bytes) -> None:
    assert either("??", name)


def test_a_code_point_is_one_character_for_a_rule() -> None:
    assert either("user:?", "user:😀".encode())
    assert either("user:????", "user:😀".encode())


def test_a_grant_needs_both_readings_to_agree() -> None:
    assert not both("?", "é".encode())
    assert not both("??", "é".encode())
    assert both("?", b"e")
    assert both("é?", "éa".encode())
    assert both("*?", "é".encode())


def test_bytes_that_are_no_text_count_one_each() -> None:
    assert either("a?", b"a\xff")
    assert both("a?", b"a\xff")
    assert either("??", b"\xff\xc3\xa9")
    assert not both("??", b"\xff\xc3\xa9")


def test_a_glob_without_question_mark_is_the_same_for_rules_and_grants() -> None:
    assert both("é*", "é\U0001f600".encode() + b"\xff")


def test_a_pattern_list_counts_for_its_own_kind_only() -> None:
    matcher = Matcher(((Kind.QUEUE, ("a*", "b")), (Kind.EXCHANGE, ("c",))), strict=False)

    assert matcher.matches(Kind.QUEUE, b"abc")
    assert matcher.matches(Kind.QUEUE, b"b")
    assert not matcher.matches(Kind.EXCHANGE, b"abc")
    assert matcher.matches(Kind.EXCHANGE, b"c")
    assert not matcher.matches(Kind.TOPIC, b"abc")


def test_a_kind_listed_twice_counts_with_both_lists() -> None:
    matcher = Matcher(((Kind.KEY, ("a",)), (Kind.KEY, ("b",))), strict=True)

    assert matcher.matches(Kind.KEY, b"a")
    assert matcher.matches(Kind.KEY, b"b")


def test_no_patterns_take_in_nothing() -> None:
    assert not Matcher((), strict=False).matches(Kind.KEY, b"")


@pytest.mark.parametrize("glob", ["a*" * 40 + "b", "?*" * 40 + "b", "*a?" * 40 + "b", "*?" * 124 + "b"])
def test_forty_stars_cost_next_to_nothing(glob: str) -> None:
    matcher = Matcher(((Kind.TOPIC, (glob,)),), strict=True)
    names = [b"a" * 249, "é".encode() * 124]
    best = min(_seconds(matcher, names) for _ in range(5))

    assert best < 0.05 * len(names)  # some 0.2 ms a name; trying again at each star would take for ever


def _seconds(matcher: Matcher, names: list[bytes]) -> float:
    begun = time.perf_counter()
    for name in names:
        assert not matcher.matches(Kind.TOPIC, name)
    return time.perf_counter() - begun


globs = st.text(alphabet="ab*?é", max_size=8)
names = st.lists(st.sampled_from([b"a", b"b", "é".encode(), b"\xc3", b"\xa9", b"\n", "😀".encode()]), max_size=7).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(globs, names)
def test_the_matcher_agrees_with_the_naive_one(glob: str, name: bytes) -> None:
    by_byte, by_code_point = naive_readings(glob, name)

    assert either(glob, name) is (by_byte or by_code_point)
    assert both(glob, name) is (by_byte and by_code_point)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a*", "*b", True),
        ("a*", "b*", False),
        ("*a", "*b", False),
        ("a?c", "ab?", True),
        ("a?", "a", False),
        ("a*c", "ab", False),
        ("ab", "ab", True),
        ("ab", "a?", True),
        ("a*b*c", "a*d*c", True),
        ("?", "??", True),  # é: one code point, two bytes
        ("a?", "???", True),
        ("?", "?????", False),
        ("*", "", True),
        ("?*", "", False),
        ("é?", "?é", True),
        ("*a?b*", "*c*", True),
        ("?b", "?c", False),
    ],
)
def test_globs_meet_where_a_name_fits_both(one: str, other: str, expected: bool) -> None:
    assert globs_meet(one, other) is expected
    assert globs_meet(other, one) is expected


@settings(max_examples=300, deadline=None)
@given(globs, globs, names)
def test_a_name_that_fits_both_means_that_the_globs_meet(one: str, other: str, name: bytes) -> None:
    if either(one, name) and either(other, name):
        assert globs_meet(one, other)


@settings(max_examples=300, deadline=None)
@given(globs, globs)
def test_globs_that_meet_have_a_name_to_show_for_it(one: str, other: str) -> None:
    name = name_of_both(one, other)

    assert globs_meet(one, other) is (name is not None)
    assert name is None or (either(one, name) and either(other, name))


CHARACTERS = [b"a", b"b", b"\n", b"\xff", b"\xc3", b"\xa9", "é".encode(), "€".encode(), "😀".encode()]
SHORT_NAMES = [b"".join(each) for length in range(5) for each in itertools.product(CHARACTERS, repeat=length)]
SHORT_GLOBS = ["".join(each) for length in range(3) for each in itertools.product("aé*?", repeat=length)]


def test_short_globs_meet_exactly_where_one_of_all_short_names_fits_both() -> None:
    taken = {glob: {name for name in SHORT_NAMES if any(naive_readings(glob, name))} for glob in SHORT_GLOBS}
    pairs = list(itertools.product(SHORT_GLOBS, repeat=2))
    expected = [(one, other) for one, other in pairs if taken[one] & taken[other]]

    found = [(one, other) for one, other in pairs if globs_meet(one, other)]

    assert 0 < len(expected) < len(pairs)
    assert found == expected


@pytest.mark.parametrize(
    ("one", "other"), [("*?" * 120, "?a" * 120), ("a*" * 120 + "b", "*a?" * 80 + "b"), ("?" * 249, "??*" * 80)]
)
def test_long_globs_are_compared_in_a_moment(one: str, other: str) -> None:
    begun = time.process_time()
    name = name_of_both(one, other)

    assert name is not None
    assert time.process_time() - begun < 20


def test_the_literal_ends_of_a_glob_are_what_its_names_share() -> None:
    assert (literal_prefix("orders.*.eu"), literal_suffix("orders.*.eu")) == ("orders.", ".eu")
    assert (literal_prefix("orders"), literal_suffix("orders")) == ("orders", "orders")
    assert (literal_prefix("*?"), literal_suffix("*?")) == ("", "")
