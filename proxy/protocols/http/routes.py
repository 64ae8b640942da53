"""A closed table of routes: which row a call is of. What has no row gets None, which refuses while any rule masks.

A pattern is a path whose `{name}` segments stand for one segment, and `**` at its end for any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proxy.core.table import aligned

COLUMNS = ("method", "path", "act", "note")


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    """`*` is every one; GET takes HEAD in."""
    path: tuple[str, ...]
    act: str
    note: str

    def match(self, method: str, segments: Sequence[str]) -> Mapping[str, str] | None:
        """What the named segments are; None where this is another route."""
        if self.method not in ("*", method) and (self.method, method) != ("GET", "HEAD"):
            return None
        return fits(self.path, segments)


def fits(pattern: tuple[str, ...], segments: Sequence[str]) -> dict[str, str] | None:
    """What the named segments of a pattern are in a path; None where the path is another's."""
    open_ended = pattern[-1:] == ("**",)
    fixed = pattern[:-1] if open_ended else pattern
    if len(segments) < len(fixed) or (len(segments) > len(fixed) and not open_ended):
        return None
    named: dict[str, str] = {}
    for own, segment in zip(fixed, segments, strict=False):
        if own.startswith("{"):
            named[own[1:-1]] = segment
        elif own != segment:
            return None
    return named


class Routes:
    """The rows of one API, from a file of tab-separated values; the first that matches counts."""

    def __init__(self, file: Path) -> None:
        lines = [line for line in file.read_text("utf-8").splitlines() if line and not line.startswith("#")]
        if tuple(lines[0].split("\t")) != COLUMNS:
            raise ValueError(f"{file.name} has other columns")
        self.rows = tuple(self._route(line) for line in lines[1:])

    @staticmethod
    def _route(line: str) -> Route:
        method, path, act, note = line.split("\t")
        return Route(method, tuple(each for each in path.split("/") if each), act, note)

    def find(self, method: str, segments: Sequence[str]) -> tuple[Route, Mapping[str, str]] | None:
        for row in self.rows:
            named = row.match(method, segments)
            if named is not None:
                return row, named
        return None

    def text(self, does: Mapping[str, str]) -> str:
        """The table for a person; `does` says what each act is."""
        lines = [("METHOD", "PATH", "VEIL", "WHY")]
        lines += [(each.method, "/" + "/".join(each.path), does[each.act], each.note) for each in self.rows]
        lines.append(("*", "*", "refuses while any rule masks", "A place that is not in this table may show or copy anything."))
        return aligned(lines)
