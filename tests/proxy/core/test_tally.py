"""Counts of what was done."""

from __future__ import annotations

from proxy.core.tally import BOUNDS_S, Tally


def test_what_is_masked_adds_up_by_rule_and_method_and_by_reason() -> None:
    tally = Tally()
    tally.count({("R", "redact"): 2}, {"not JSON": 1})
    tally.count({("R", "redact"): 1, ("S", "partial"): 1}, {})

    assert tally.masked == {("R", "redact"): 3, ("S", "partial"): 1}
    assert tally.whole == {"not JSON": 1}


def test_a_span_counts_once_and_only_when_something_was_masked_in_it() -> None:
    tally = Tally()
    tally.worked(0.5)
    tally.count({}, {})
    tally.worked(0.5)
    tally.count({}, {"not JSON": 1})
    tally.worked(0.25)
    tally.worked(0.5)

    assert sum(tally.spans) == 1
    assert tally.spans[BOUNDS_S.index(0.25)] == 1
    assert tally.span_s == 0.25


def test_a_span_above_every_bound_counts_too() -> None:
    tally = Tally()
    tally.count({("R", "redact"): 1}, {})
    tally.worked(60.0)

    assert tally.spans[-1] == 1
