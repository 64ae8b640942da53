"""Counts of what was done, kept without I/O and read by the metrics page. Names of rules only, never contents."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds of the spans that masking takes: a small value needs 0.1 ms, a megabyte some 0.1 s."""


class Tally:
    """One for a connection of the config; shared by its sessions, whichever threads their steps run in."""

    __slots__ = ("_changing", "_here", "masked", "refusals", "span_s", "spans", "unmasked_reads", "whole")

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
        self._changing = threading.Lock()
        self._here = _Thread()

    def count(self, masked: Mapping[tuple[str, str], int], whole: Mapping[str, int]) -> None:
        """Adds what was masked in one reply: by (rule, method), and by the reason for what is masked whole."""
        if masked or whole:
            self._here.masked = True
            with self._changing:
                self.masked.update(masked)
                self.whole.update(whole)

    def refused(self, rule: str | None) -> None:
        """An operation was refused because of the rule; None where there is none to name."""
        with self._changing:
            self.refusals[rule or ""] += 1

    def unmasked(self, reads: int) -> None:
        """That many reads were recorded and shown unmasked."""
        with self._changing:
            self.unmasked_reads += reads

    def worked(self, seconds: float) -> None:
        """A span of a session's work in this thread has ended; it counts if something was masked in it."""
        if self._here.masked:
            self._here.masked = False
            with self._changing:
                self.spans[bisect_left(BOUNDS_S, seconds)] += 1
                self.span_s += seconds

    def copied(self) -> Tally:
        """The counts of one moment."""
        copy = Tally()
        with self._changing:
            copy.masked, copy.whole, copy.refusals = self.masked.copy(), self.whole.copy(), self.refusals.copy()
            copy.unmasked_reads, copy.spans, copy.span_s = self.unmasked_reads, self.spans.copy(), self.span_s
        return copy


class _Thread(threading.local):
    """Whether the span of work that goes on in this thread masked anything."""

    masked = False
