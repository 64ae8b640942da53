"""Counts of what was done."""

from __future__ import annotations

import sys
import threading

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


def test_counts_of_many_threads_at_once_are_all_there() -> None:
    tally = Tally()

    def work() -> None:
        for _ in range(2000):
            tally.count({("R", "redact"): 1}, {"not JSON": 1})
            tally.worked(0.5)
            tally.refused(None)
            tally.unmasked(2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            tally.copied()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before_s)

    assert tally.masked == {("R", "redact"): 8000}
    assert tally.whole == {"not JSON": 8000}
    assert tally.refusals == {"": 8000}
    assert tally.unmasked_reads == 16000
    assert sum(tally.spans) == 8000
    assert tally.span_s == 4000.0


def test_what_another_thread_masked_is_not_timed_here() -> None:
    tally = Tally()
    other = threading.Thread(target=lambda: tally.count({("R", "redact"): 1}, {}))
    other.start()
    other.join()
    tally.worked(0.5)

    assert sum(tally.spans) == 0


def test_a_copy_does_not_grow_with_the_counts() -> None:
    tally = Tally()
    copy = tally.copied()
    tally.count({("R", "redact"): 1}, {})
    tally.worked(0.5)

    assert (copy.masked, sum(copy.spans)) == ({}, 0)
