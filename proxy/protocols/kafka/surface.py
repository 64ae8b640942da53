"""The closed table of Kafka's APIs: what each exposes and what is done with it.

The rows are surface.tsv, whose head describes the columns. An API without a row is refused and never advertised: it
cannot be framed safely. How an act is carried out is session/.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from proxy.core.table import aligned

COLUMNS = ("key", "name", "versions", "contents", "act", "note")


class Act(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict
    MASK = "mask"
    JUDGE_WRITE = "judge_write"
    ADDRESSES = "addresses"
    LOGIN = "login"
    VERSIONS = "versions"
    SIZES = "sizes"
    GUARD = "guard"
    BROKER_CONFIG = "broker_config"
    FOLLOWER = "follower"
    REFUSE = "refuse"


class Contents(StrEnum):
    YES = "yes"
    NO = "no"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Row:
    key: int
    name: str
    """As Kafka spells it."""
    versions: range
    """Those that are let through; empty for what is refused."""
    contents: Contents
    act: Act
    note: str

    @property
    def hidden(self) -> bool:
        """Whether ApiVersions leaves it out."""
        return self.act is Act.REFUSE


def _versions(cell: str) -> range:
    if cell == "-":
        return range(0)
    first, last = cell.split("-")
    return range(int(first), int(last) + 1)


def _read(text: str) -> tuple[Row, ...]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if tuple(lines[0].split("\t")) != COLUMNS:
        raise ValueError("surface.tsv has other columns")
    rows = []
    for line in lines[1:]:
        key, name, versions, contents, act, note = line.split("\t")
        rows.append(Row(int(key), name, _versions(versions), Contents(contents), Act(act), note))
    return tuple(rows)


ROWS = _read(Path(__file__).with_name("surface.tsv").read_text("utf-8"))
"""Every row, by key."""

_ROWS = {row.key: row for row in ROWS}


def row(key: int) -> Row | None:
    """The row of an API, or None: it is refused."""
    return _ROWS.get(key)


def lets_through(key: int, version: int) -> bool:
    """Whether a request of this API and version is looked at any further; its act may still refuse it."""
    found = _ROWS.get(key)
    return found is not None and not found.hidden and version in found.versions


_EXPOSES = {Contents.YES: "records", Contents.ORACLE: "an answer computed from records", Contents.NO: "no records"}

_DOES = {
    Act.PASS: "passes",
    Act.MASK: "masks the answer",
    Act.JUDGE_WRITE: "judges what is written",
    Act.ADDRESSES: "puts its own addresses in the answer",
    Act.LOGIN: "learns the reader's name",
    Act.VERSIONS: "answers itself",
    Act.SIZES: "zeroes the sizes",
    Act.GUARD: "refuses while any rule masks",
    Act.BROKER_CONFIG: "refuses for brokers and their loggers",
    Act.FOLLOWER: "refuses to followers",
    Act.REFUSE: "always refuses, and hides it",
}


def surface_text() -> str:
    """The table for a person: key, API, versions, what it exposes, what Veil does with it and why, in aligned columns."""
    lines = [("KEY", "OPERATION", "VERSIONS", "EXPOSES", "VEIL", "WHY")]
    for each in ROWS:
        versions = f"{each.versions[0]}-{each.versions[-1]}" if each.versions else "-"
        lines.append((str(each.key), each.name, versions, _EXPOSES[each.contents], _DOES[each.act], each.note))
    lines.append(("*", "*", "-", "anything", _DOES[Act.REFUSE], "An API that is not in this table cannot be framed safely."))
    return aligned(lines)
