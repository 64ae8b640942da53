"""The closed table of Redis commands: what each exposes and what is done with it.

The rows are surface.tsv, whose head describes the columns. Which arguments are keys is keys.py; what changes a
row's treatment for some arguments is exceptions.py; the verdict is judge.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from proxy.core.table import aligned

COLUMNS = ("command", "subcommand", "keys", "category", "treatment", "shape", "unless", "why")


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
        """As the table and the audit trail spell it: the command, and the subcommand after a blank."""
        return f"{self.command} {self.subcommand}" if self.subcommand else self.command

    def spoken(self, argv: tuple[bytes, ...]) -> bytes:
        """The name for the reader, where the row stands for many: what was sent, in upper case."""
        if self.command.endswith("*"):
            return argv[0].upper()
        if self.subcommand == "*":
            return argv[0].upper() + b" " + argv[1].upper()
        return self.name.encode()


def _read(text: str) -> tuple[Row, ...]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if tuple(lines[0].split("\t")) != COLUMNS:
        raise ValueError("surface.tsv has other columns")
    rows = []
    for line in lines[1:]:
        command, subcommand, keys, category, treatment, shape, unless, why = line.split("\t")
        rows.append(
            Row(command, "" if subcommand == "-" else subcommand, keys, category, Treatment(treatment), shape, unless, why)
        )
    return tuple(rows)


ROWS = _read(Path(__file__).with_name("surface.tsv").read_text("utf-8"))
"""Every row, in the order of the file."""

_ROWS = {(row.command.encode(), row.subcommand.encode()): row for row in ROWS}
_CONTAINERS = frozenset(row.command.encode() for row in ROWS if row.subcommand)
_PREFIXES = {row.command[:-1].encode(): row for row in ROWS if row.command.endswith(".*")}
DEFAULT = _ROWS[b"*", b""]
"""What holds for every command without a row."""


def find(argv: tuple[bytes, ...]) -> Row:
    """The row of a command, by ASCII case-insensitive name and, for a container, its subcommand; else `*`.

    A bare container, and one with an unknown subcommand, has the container's own row.
    """
    if not argv:
        return DEFAULT
    verb = argv[0].upper()
    if verb in _CONTAINERS and len(argv) > 1:
        return _within(verb, argv[1].upper())
    row = _ROWS.get((verb, b""))
    if row is not None:
        return row
    head, dot, _ = verb.partition(b".")
    return _PREFIXES.get(head + dot, DEFAULT)


def _within(container: bytes, subcommand: bytes) -> Row:
    row = _ROWS.get((container, subcommand), _ROWS.get((container, b"*"))) if subcommand else None
    if row is not None:
        return row
    bare = _ROWS.get((container, b""), DEFAULT)
    # A bare row that passes (COMMAND) says nothing of subcommands that came later.
    return bare if bare.treatment is Treatment.REFUSE_IF_ANY_RULE else DEFAULT


_EXPOSES = {
    "read": "contents",
    "oracle": "an answer computed from contents",
    "copy": "contents, carried elsewhere",
    "script": "anything a program computes from contents",
    "diagnostic": "traces of contents",
    "write_over": "nothing, but contents are replaced",
    "write_add": "nothing, but contents are added",
    "delete": "nothing, but contents are removed",
    "pubsub": "messages",
    "meta": "names, types and counts",
    "server": "the server and the connection",
    "txn": "what the queued commands expose",
    "unknown": "anything",
}

_DOES = {
    Treatment.PASS: "passes",
    Treatment.MASK_REPLY: "masks the reply",
    Treatment.MASK_WHOLE: "masks all of the reply",
    Treatment.MASK_ARGS: "masks the arguments shown",
    Treatment.REFUSE_IF_COVERED: "refuses when a rule covers a key",
    Treatment.REFUSE_IF_ANY_RULE: "refuses while any rule masks",
}


def as_text() -> str:
    """The table for a person: operation, what it exposes, what Veil does with it and why, in aligned columns."""
    lines = [("OPERATION", "EXPOSES", "VEIL", "WHY")]
    for row in ROWS:
        does = _DOES[row.treatment] + ("" if row.unless == "-" else ", by its arguments")
        lines.append((row.name, _EXPOSES[row.category], does, row.why))
    return aligned(lines)
