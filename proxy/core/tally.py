"""Counts of what was done, kept without I/O and read by the metrics page. Names of rules only, never contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rules.model import Hit


class Tally:
    """One for a connection of the config; shared by its sessions (all run in one thread)."""

    __slots__ = ("masked", "refusals", "unmasked_reads", "whole")

    def __init__(self) -> None:
        self.masked: Counter[tuple[str, str]] = Counter()
        """(rule, method) -> values masked."""
        self.whole: Counter[str] = Counter()
        """reason -> values masked whole."""
        self.refusals: Counter[str] = Counter()
        """rule, or "" where there is none to name -> operations refused."""
        self.unmasked_reads = 0

    def count(self, hits: Iterable[Hit], whole: str | None) -> None:
        for hit in hits:
            self.masked[hit.rule, hit.method] += 1
        if whole is not None:
            self.whole[whole] += 1
