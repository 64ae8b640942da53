"""What every store of rules is to whoever watches it, and what a reading of one comes back with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..model import Place, Problem, RuleBook

MAX_FILES = 1000
MAX_TOTAL_BYTES = 64 * 1024 * 1024
SUFFIXES = (".yaml", ".yml")
TEST_SUFFIXES = (".test.yaml", ".test.yml")


def is_rule_file(name: str) -> bool:
    """Whether a file of that name counts: not tests of rules, not what starts with a dot."""
    return name.endswith(SUFFIXES) and not name.endswith(TEST_SUFFIXES) and not name.startswith(".")


@dataclass(frozen=True, slots=True)
class Reading:
    """`book` is None when there is any problem: the state before stays in force. `files` counts the rule files.

    `settled` is False when the store changed while it was read, or could not be read for another reason than
    what is in its files: then the same look may read otherwise the next time, so it is worth another try.
    """

    book: RuleBook | None
    problems: tuple[Problem, ...]
    files: int
    settled: bool = True


class Store(Protocol):
    """Where rules come from. Both methods block: they are called from a thread, never two at a time."""

    @property
    def place(self) -> Place:
        """Where problems of the store as a whole stand."""
        ...

    @property
    def quiet_s(self) -> float:
        """How long nothing may have changed before a change is read; 0 where a change comes whole."""
        ...

    @property
    def poll_s(self) -> float:
        """When to look again."""
        ...

    @property
    def limit_s(self) -> float:
        """How long a look or a reading may take before the store counts as silent."""
        ...

    def look(self) -> object:
        """Something that compares equal as long as the rules stay what they are. Never raises."""
        ...

    def read(self) -> Reading:
        """All that the store says, read as one state. Never raises."""
        ...
