"""The closed table of the management API's routes: what is done with a call of each.

The rows are surface.tsv. What has no row is guarded: refused while any rule masks for the reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from proxy.core.table import aligned

from ...routes import fits

COLUMNS = ("method", "path", "act", "note")


class Act(StrEnum):
    PASS = "pass"  # noqa: S105 - a verdict
    GET = "get"
    PUBLISH = "publish"
    GUARD = "guard"
    STATS = "stats"
    ADDRESSES = "addresses"
    SETTINGS = "settings"
    PARAMETER = "parameter"
    GLOBAL_PARAMETER = "global_parameter"
    SHOVEL_RESTART = "shovel_restart"
    POLICY = "policy"
    POLICY_DELETE = "policy_delete"
    DEFINITIONS = "definitions"
    VHOST = "vhost"
    QUEUE = "queue"
    ACTION = "action"
    QUEUE_DELETE = "queue_delete"
    PARAMETER_DELETE = "parameter_delete"
    EXCHANGE = "exchange"
    EXCHANGE_DELETE = "exchange_delete"
    BINDING = "binding"
    BINDING_DELETE = "binding_delete"


class Instead(StrEnum):
    """What a member of an answer is shown as."""

    ZERO = "zero"
    NULL = "null"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Row:
    method: str
    path: str
    act: Act
    note: str

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(each for each in self.path.split("/") if each)


ANYTHING = Row("*", "*", Act.GUARD, "Whatever is not in this table.")


def _read(text: str) -> tuple[tuple[Row, ...], tuple[tuple[str, Instead], ...]]:
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    if tuple(lines[0]) != COLUMNS:
        raise ValueError("surface.tsv has other columns")
    routes = [Row(method, path, Act(act), note) for method, path, act, note in lines[1:] if method not in ("FIELD", "*")]
    fields = [(path, Instead(act)) for method, path, act, _ in lines[1:] if method == "FIELD"]
    return tuple(routes), tuple(fields)


ROWS, FIELDS = _read(Path(__file__).with_name("surface.tsv").read_text("utf-8"))
_HIDDEN: dict[str, Instead | None] = {}


def row(method: str, segments: tuple[str, ...]) -> tuple[Row, dict[str, str]]:
    """The row of a call, with the segments that it names; the one for everything else where there is none."""
    wanted = "GET" if method == "HEAD" else method
    for each in ROWS:
        if each.method == wanted:
            named = fits(each.segments, segments)
            if named is not None:
                return each, named
    return ANYTHING, {}


def instead(name: str) -> Instead | None:
    """What a member of this name is shown as while a rule masks; None: as it is."""
    if name not in _HIDDEN:
        if len(_HIDDEN) > 4096:  # names come from answers
            _HIDDEN.clear()
        _HIDDEN[name] = next((shown for pattern, shown in FIELDS if fnmatchcase(name, pattern)), None)
    return _HIDDEN[name]


_DOES = {
    Act.PASS: "passes",
    Act.GET: "masks the answer",
    Act.PUBLISH: "judges what is written",
    Act.GUARD: "refuses while any rule masks",
    Act.STATS: "zeroes what tells lengths",
    Act.ADDRESSES: "zeroes what tells lengths, takes out addresses",
    Act.SETTINGS: "takes out passwords",
}


def surface_text() -> str:
    """The table for a person, in aligned columns."""
    lines = [("OPERATION", "VEIL", "WHY")]
    lines += [(f"{each.method} {each.path}", _DOES.get(each.act, "judges the copy"), each.note) for each in ROWS]
    lines += [(f"member {name}", f"shows as {shown}", "In answers, while any rule masks.") for name, shown in FIELDS]
    lines.append(("*", _DOES[Act.GUARD], ANYTHING.note))
    return aligned(lines)
