"""The closed table of Redis commands: what each exposes and what is done with it. (interface stub)

The rows are surface.tsv; the columns are described at its head.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Treatment(StrEnum):
    PASS = "pass"
    MASK_REPLY = "mask_reply"
    REFUSE_IF_COVERED = "refuse_if_covered"
    REFUSE_IF_ANY_RULE = "refuse_if_any_rule"
    MASK_WHOLE = "mask_whole"
    MASK_ARGS = "mask_args"


@dataclass(frozen=True, slots=True)
class Row:
    command: str
    """Upper case; `*` for what is not in the table."""
    subcommand: str
    keys: str
    """Where keys stand in the arguments; see keys.py."""
    category: str
    treatment: Treatment
    shape: str
    """The name of the reply's shape in contents.SHAPES, or `-`."""
    unless: str
    """The name of what changes the treatment in exceptions.EXCEPTIONS, or `-`."""
    why: str

    @property
    def name(self) -> str:
        """As refusals spell it: the command, and the subcommand after a blank."""
        return f"{self.command} {self.subcommand}" if self.subcommand else self.command


def find(argv: tuple[bytes, ...]) -> Row:
    """The row of a command, by ASCII case-insensitive name and, for a container, its subcommand; else `*`."""
    raise NotImplementedError
