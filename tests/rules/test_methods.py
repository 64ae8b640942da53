from __future__ import annotations

import itertools

import pytest

from rules.methods import (
    MASK_TEXT,
    REDACTED,
    Outcome,
    bears_mask,
    combine,
    keeping,
    left_by,
    partial_text,
    redacting,
    reveals,
)
from rules.model import Method, Partial, Redact

METHODS: list[Method] = [Redact(), *(Partial(first, last) for first in range(4) for last in range(4) if first + last)]


def test_redact_reveals_least() -> None:
    assert min(METHODS, key=reveals) == Redact()
    assert reveals(Partial(3, 4)) == 7


def test_redact_wins_over_every_partial() -> None:
    assert all(combine([method, Redact()]) == REDACTED for method in METHODS)


@pytest.mark.parametrize(
    ("methods", "outcome"),
    [
        ([Partial(1, 4)], Outcome(False, 1, 4, 5)),
        ([Partial(4, 0), Partial(0, 3)], Outcome(False, 0, 3, 4)),
        ([Partial(3, 1), Partial(1, 3)], Outcome(False, 1, 1, 4)),
        ([Partial(2, 0), Partial(0, 2)], REDACTED),
        ([Partial(0, 0)], REDACTED),
        ([], REDACTED),
        ([Partial(1, 0), Partial(0, 64)], Outcome(False, 1, 0, 64)),
    ],
)
def test_of_partials_the_one_that_keeps_fewest_wins(methods: list[Method], outcome: Outcome) -> None:
    assert combine(methods) == outcome


def test_no_order_of_methods_changes_what_wins() -> None:
    for several in itertools.combinations(METHODS, 3):
        assert len({combine(order) for order in itertools.permutations(several)}) == 1


def test_together_methods_never_keep_more_characters_than_any_alone() -> None:
    for one, other in itertools.product(METHODS, METHODS):
        both = combine([one, other])
        for size in range(9):
            for alone in (one, other):
                shown = 0 if both.hides(size) else both.keep_first + both.keep_last
                assert shown <= (0 if combine([alone]).hides(size) else reveals(alone))


@pytest.mark.parametrize(
    ("text", "method", "shown"),
    [
        ("hello", Partial(1, 1), "h•••o"),
        ("hello", Partial(0, 4), "•ello"),
        ("hello", Partial(4, 0), "hell•"),
        ("hello", Partial(5, 0), MASK_TEXT),
        ("hell", Partial(5, 0), MASK_TEXT),
        ("", Partial(1, 0), MASK_TEXT),
        ("😀é日x", Partial(1, 1), "😀••x"),
        ("e\u0301a", Partial(1, 0), "e••"),
        ("hello", Redact(), MASK_TEXT),
    ],
)
def test_partial_counts_code_points(text: str, method: Method, shown: str) -> None:
    assert partial_text(text, combine([method])) == shown


def test_a_text_that_one_of_several_partials_would_hide_is_hidden() -> None:
    both = combine([Partial(1, 0), Partial(3, 3)])

    assert [partial_text("x" * size, both) for size in (6, 7)] == [MASK_TEXT, "x••••••"]


def test_the_partials_that_hide_a_short_value_decide_it_and_the_strictest_decide_a_long_one() -> None:
    act = keeping(((Partial(1, 0), 1), (Partial(3, 3), 2), (Partial(0, 1), 4)))

    assert [act.deciders(size) for size in (1, 2, 6, 7)] == [7, 2, 2, 5]
    assert act.deciders() == 5
    assert redacting(8).deciders(3) == 8


@pytest.mark.parametrize(
    ("text", "bit"),
    [
        ("h•••o", 1),
        ("h•o", 1),
        ("ho", None),
        ("hello", None),
        ("h••lo", None),
        ("•••", 1),
        ("x ••••", 1),
        ("", None),
        ("•", None),
        (r"a \u2022\u2022•\u2022", 1),
    ],
)
def test_mask_text_is_known_again(text: str, bit: int | None) -> None:
    assert keeping(((Partial(1, 1), 1),)).left_by(text) == bit


def test_mask_text_of_partials_together_is_known_again() -> None:
    act = keeping(((Partial(3, 1), 1), (Partial(1, 3), 2)))

    assert (act.left_by("a••b"), act.left_by("a•••••••b"), act.left_by("abc•d"), act.left_by("a•bcd")) == (1, 1, 1, 2)
    assert act.left_by("a•bc") is None
    assert redacting(4).left_by("a•b") is None


def test_mask_text_is_found_behind_any_number_of_escapes() -> None:
    assert bears_mask(b"x\\\\\\\\u2022\\u2022\\\\u2022" + "•".encode())
    assert not bears_mask("•••".encode())
    assert not bears_mask(b"\\u2022\\u2022 \\u2022\\u2022")


def test_a_partial_leaves_only_dots_between_what_it_keeps() -> None:
    assert left_by(Partial(0, 2), "•ab")
    assert not left_by(Partial(0, 2), "ab")
