"""Counts of what was done, kept without I/O and read by the metrics page. Names of rules only, never contents."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds of the spans that masking takes: a small value needs 0.1 ms, a megabyte some 0.1 s."""


class Tally:
    """One for a connection of the config; shared by its sessions (all run in one thread)."""

    __slots__ = ("_is_timed", "masked", "refusals", "span_s", "spans", "unmasked_reads", "whole")

    def __init__(self) -> None:
        self.masked: Counter[tuple[str, str]] = Counter()
        """(rule, method) -> values masked."""
        self.whole: Counter[str] = Counter()
        """reason -> values masked whole."""
        self.refusals: Counter[str] = Counter()
        """rule, or "" where there is none to name -> operations refused."""
        self.unmasked_reads = 0
        self.spans = [0] * (len(BOUNDS_S) + 1)
        """How many spans of work that masked something were up to each of BOUNDS_S, and above them all."""
        self.span_s = 0.0
        self._is_timed = True

    def count(self, masked: Mapping[tuple[str, str], int], whole: Mapping[str, int]) -> None:
        """Adds what was masked in one reply: by (rule, method), and by the reason for what is masked whole."""
        self.masked.update(masked)
        self.whole.update(whole)
        if masked or whole:
            self._is_timed = False

    def worked(self, seconds: float) -> None:
        """A span of a session's work has ended; it counts if something was masked in it."""
        if not self._is_timed:
            self._is_timed = True
            self.spans[bisect_left(BOUNDS_S, seconds)] += 1
            self.span_s += seconds
