"""What every trail promises, and how the items of a batch become lines of the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.core.errors import ProxyError
from rules.audit import Entry, InForce, chain, changes


class TrailError(ProxyError):
    """This cannot be the audit trail, or not now; the message says what to do and completes "the audit file …"."""


@dataclass(frozen=True, slots=True)
class RulesOf:
    """Rules that came into force: an entry for each that is not as the trail last told it, by whichever process."""

    in_force: InForce
    who: str


Item = Entry | RulesOf


class Trail(Protocol):
    """One chain, which several processes may write. Not safe for two threads at a time."""

    what: str  # "file" or "stream", for sentences
    where: str  # its name as the config gives it, without secrets
    may_come_later: bool  # whether Veil starts, and masks, while it cannot be reached
    cut_bytes: int  # of half-written lines that were cut off so far

    def open(self) -> None:
        """Looks whether entries can be written.

        Raises:
            TrailError: they never can.
            OSError: they cannot now.
        """

    def append(self, batch: Sequence[tuple[Item, str]]) -> list[int]:
        """Puts the items, each with its time, on stable storage and gives the number of each (for rules: the last one).

        Raises:
            TrailError, OSError: none of them counts as written; a later call may succeed.
        """

    def close(self) -> None: ...


@dataclass(slots=True)
class Lines:
    """Items as lines that go on a chain."""

    lines: list[bytes]
    numbers: list[int]
    seq: int
    digest: str
    in_force: InForce | None  # what the trail has told of the rules, when these lines have changed it


def lines_of(batch: Sequence[tuple[Item, str]], seq: int, digest: str, told: InForce | None) -> Lines:
    """The lines, without line ends. `told` is what the trail last told of the rules."""
    made = Lines([], [], seq, digest, None)
    for item, time in batch:
        entries: Sequence[Entry] = (
            (item,) if isinstance(item, Entry) else tuple(changes(told or InForce(), item.in_force, item.who))
        )
        for entry in entries:
            made.seq += 1
            line, made.digest = chain(entry, time, made.seq, made.digest)
            made.lines.append(line.encode("ascii"))
        made.numbers.append(made.seq)
        if isinstance(item, RulesOf) and item.in_force != told:
            told = made.in_force = item.in_force
    return made
