"""Which JSON paths can name the same value, and which always lie inside another."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.model import Descend, Every, JsonPath, Name, PathStep
from rules.overlap import always_above, paths_meet
from rules.paths import MAX_CHARACTERS, parse_path
from tests.rules.making import path, rule
from tests.rules.naive import Members, Walk

STEPS = {"": "$", ".a": "a", ".b": "b", ".*": "", "..a": "a", "..b": "b"}
SPELLED = [f"${one}{other}" for one in STEPS for other in STEPS if one]
DEPTH = 4  # two paths of two steps each: a place both name has no more labels than both have steps

Label = str | None  # None: an array's element
Word = tuple[Label, ...]


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


@pytest.fixture(scope="module")
def named() -> dict[str, set[Word]]:
    """The places that each path names in documents that are one way down, said by the slow walk."""
    found: dict[str, set[Word]] = defaultdict(set)
    for word in itertools.product(("a", "b", "c", None), repeat=DEPTH):
        node: object = "x"
        for label in reversed(word):
            node = [node] if label is None else Members(((label, node),))
        walk = Walk([rule("R", *(path(spelled) for spelled in SPELLED))])
        walk.run(node)
        for place, there in walk.found.items():
            for number in there.ends:
                found[SPELLED[number]].add(word[: len(place)])
    return found


def test_two_paths_meet_exactly_where_a_document_has_a_place_for_both(named: dict[str, set[Word]]) -> None:
    pairs = list(itertools.product(SPELLED, repeat=2))
    expected = [(one, other) for one, other in pairs if named[one] & named[other]]

    found = [(one, other) for one, other in pairs if paths_meet(parse_path(one), parse_path(other))]

    assert 0 < len(expected) < len(pairs)
    assert found == expected


def test_a_path_is_always_above_exactly_where_no_document_shows_otherwise(named: dict[str, set[Word]]) -> None:
    def hidden(word: Word, upper: str) -> bool:
        return any(word[:length] in named[upper] for length in range(len(word)))

    pairs = list(itertools.product(SPELLED, repeat=2))
    expected = [(upper, lower) for upper, lower in pairs if all(hidden(word, upper) for word in named[lower])]

    found = [(upper, lower) for upper, lower in pairs if always_above(parse_path(upper), parse_path(lower))]

    assert 0 < len(expected) < len(pairs)
    assert found == expected


Steps = tuple[PathStep, ...]
At = frozenset[int]


def before(steps: Steps, at: set[int]) -> At:
    """With the steps behind a `.*` that an object leaves out."""
    for here in sorted(at):
        after = here
        while after < len(steps) and isinstance(steps[after], Every):
            after += 1
        at |= set(range(here, after + 1)) if after < len(steps) else set()
    return frozenset(at)


def after(steps: Steps, at: At, label: Label) -> At:
    reached: set[int] = set()
    for here in at - {len(steps)}:
        match steps[here]:
            case Name(name):
                reached |= {here} if label is None else {here + 1} if label == name else set()
            case Descend(name):
                reached |= {here, here + 1} if label == name else {here}
            case Every():
                reached |= {here, here + 1} if label is None else {here + 1}
    return before(steps, reached)


def search(one: Steps, other: Steps, stop: Callable[[bool, bool], bool | None]) -> bool:
    """Every pair of sets of steps that some labels lead to; ends with the first answer."""
    left = [(before(one, {0}), before(other, {0}))]
    seen = set(left)
    while left:
        a, b = left.pop()
        answer = stop(len(one) in a, len(other) in b)
        if answer:
            return True
        if answer is None:
            continue
        for label in (None, "a", "b", "c"):
            pair = after(one, a, label), after(other, b, label)
            if pair not in seen and pair[1]:
                seen.add(pair)
                left.append(pair)
    return False


SOME_STEPS: list[PathStep] = [Name("a"), Name("b"), Every(), Every(), Descend("a"), Descend("b")]
long_paths = st.lists(st.sampled_from(SOME_STEPS), min_size=1, max_size=7).map(lambda steps: JsonPath("$", tuple(steps)))


@settings(max_examples=250, deadline=None)
@given(long_paths, long_paths)
def test_longer_paths_meet_where_a_search_of_all_sets_of_steps_finds_a_place(one: JsonPath, other: JsonPath) -> None:
    expected = search(one.steps, other.steps, lambda here, there: here and there)

    assert paths_meet(one, other) is expected
    assert paths_meet(other, one) is expected


@settings(max_examples=250, deadline=None)
@given(long_paths, long_paths)
def test_a_longer_path_is_above_where_that_search_finds_no_place_outside(upper: JsonPath, lower: JsonPath) -> None:
    outside = search(upper.steps, lower.steps, lambda here, there: there or (None if here else False))

    assert always_above(upper, lower) is not outside


@pytest.mark.parametrize("step", [".*", "..a", ".a", "..a.*", "..a.b", ".a.*"])
def test_the_longest_paths_are_compared_in_a_moment(step: str) -> None:
    longest = "$" + step * ((MAX_CHARACTERS - 10) // len(step))
    one, other = parse_path(longest + ".z"), parse_path(longest + "..y.z")
    begun = time.process_time()

    assert paths_meet(one, one)
    assert paths_meet(one, other) is longest.endswith("*")  # an object may stand in place of the last array
    assert always_above(parse_path(longest), one) is not longest.endswith("*")
    assert not always_above(one, other)
    assert time.process_time() - begun < 20  # some 0.3 s; sets of steps would take for ever
