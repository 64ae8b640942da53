"""What masking one value costs, as a ratio to parsing and writing the same value with orjson in the same run.

    python -m bench.engine            a table (python bench/engine.py does the same)
    python -m bench.engine --json     the rows that have a target, as a list
    python -m bench.engine --check    exit code 1 where a target is missed
    python -m bench.engine --quick    one short round without the largest value: shows that it runs, says nothing about speed

Everything is asked through the door that the proxy uses: a view of a policy. What is compared is measured in turns, in
CPU time, warmed up, with the collector as it is in production, and the figure is the median over the rounds of the
ratio within one round: a busy neighbour slows both sides of a ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.parts import consoles, documents
from rules import scan
from rules.access import Reader
from rules.model import Connection, Kind, Platform, Resource
from rules.paths import parse_path
from rules.policy import Policy
from rules.scan import python as twin
from rules.view import View

Subject = Callable[[], object]

ROUNDS, SAMPLE_S = 15, 0.02
QUICK_ROUNDS, QUICK_SAMPLE_S = 1, 0.0
COMPILED = "rules.scan.compiled"
READER = Reader("bench")
CONNECTION = Connection("bench", Platform.REDIS)
COVERED, UNCOVERED = (Resource(CONNECTION, Kind.KEY, name) for name in (b"orders:1", b"carts:1"))


@dataclass(frozen=True, slots=True)
class Row:
    """A figure: microseconds, and the ratio to the round trip of the same value."""

    name: str
    us: float
    ratio: float
    target: float | None = None

    @property
    def ok(self) -> bool:
        return self.target is None or self.ratio <= self.target


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured beside the round trip of its value."""

    name: str
    run: Subject
    target: float | None = None


class Clock:
    """Takes several subjects in turns."""

    def __init__(self, *, quick: bool) -> None:
        self._rounds = QUICK_ROUNDS if quick else ROUNDS
        self._sample_s = QUICK_SAMPLE_S if quick else SAMPLE_S

    def rows(self, value: bytes, measured: list[Measured]) -> list[Row]:
        """A row for each, against the round trip of the value."""
        subjects: list[Subject] = [lambda: orjson.dumps(orjson.loads(value)), *(each.run for each in measured)]
        loops = [self._loops(subject) for subject in subjects]
        rounds = [
            [_seconds(subject, count) / count for subject, count in zip(subjects, loops, strict=True)]
            for _ in range(self._rounds)
        ]
        return [
            Row(
                each.name,
                statistics.median(taken[at] for taken in rounds) * 1e6,
                statistics.median(taken[at] / taken[0] for taken in rounds),
                each.target,
            )
            for at, each in enumerate([Measured(ROUND_TRIP, subjects[0]), *measured])
        ]

    def _loops(self, subject: Subject) -> int:
        """How many calls fill a sample; warms up on the way."""
        count = 1
        while (taken := _seconds(subject, count)) < self._sample_s:
            count *= 2 if taken * 4 < self._sample_s else 1 + (self._sample_s > taken)
        return count


ROUND_TRIP = "orjson.dumps(orjson.loads(v))"


def _seconds(subject: Subject, count: int) -> float:
    rounds = range(count)
    begun = time.process_time()
    for _ in rounds:
        subject()
    return time.process_time() - begun


def _view(paths: documents.Paths) -> View:
    view = Policy(documents.book(paths, "orders:*")).view(READER, COVERED)
    assert view.masks
    return view


def _masking(value: bytes, paths: documents.Paths) -> Subject:
    view = _view(paths)
    shown = view.value(value)
    assert shown.hits
    assert shown.whole is None
    return lambda: view.value(value)


def _unmatched(value: bytes) -> Subject:
    view = _view(documents.UNMATCHED)
    shown = view.value(value)
    assert shown.data is value
    assert shown.whole is None
    return lambda: view.value(value)


def _uncovered(value: bytes) -> Subject:
    policy = Policy(documents.book(documents.MIXED, "orders:*"))
    view = policy.view(READER, UNCOVERED)
    assert view.value(value).data is value
    assert view.untouched(value) is value

    def look() -> bool:
        return policy.view(READER, UNCOVERED).masks

    assert not look()
    return look


@contextmanager
def pure() -> Iterator[None]:
    """With the scanner that serves where nothing could be compiled: every function that is a compiled one is replaced."""
    kept = {name: value for name in scan.__all__ if getattr(value := getattr(scan, name), "__module__", "") == COMPILED}
    for name in kept:
        setattr(scan, name, getattr(twin, name))
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(scan, name, value)


def _write(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


def _consoles(value: bytes) -> list[Measured]:
    paths = [(parse_path(spelled), method) for spelled, method in documents.MIXED]
    libraries: list[tuple[str, consoles.Parse, consoles.Write]] = [
        ("orjson", orjson.loads, orjson.dumps),
        ("json", json.loads, _write),
    ]
    found: list[Measured] = []
    for library, parse, write in libraries:
        for how, mask in (
            ("ten paths", consoles.by_path(paths, parse, write)),
            ("ten names", consoles.by_name(documents.NAMES, parse, write)),
        ):
            assert mask(value) != value
            found.append(Measured(f"parse, walk, write ({library}): {how}", partial(mask, value)))
    return found


def measure(*, quick: bool) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each value, under a title."""
    clock = Clock(quick=quick)
    sizes = dict(list(documents.SIZES.items())[:-1]) if quick else documents.SIZES
    for size, bytes_in_it in sizes.items():
        value = documents.compact(bytes_in_it)
        measured = []
        if scan.ENGINE == "compiled":
            masks, passes = {"1 KiB": (0.5, 0.35)}.get(size, (0.4, 0.35))
            measured = [
                Measured("ten rules", _masking(value, documents.MIXED), masks),
                Measured("ten rules, nothing matches", _unmatched(value), passes),
            ]
        measured.append(Measured("no rule covers the resource", _uncovered(value)))
        yield f"{size}, compact", clock.rows(value, [*measured, *_consoles(value)])
    with pure():
        for size, bytes_in_it in sizes.items():
            for form, value, target in (
                ("compact", documents.compact(bytes_in_it), 5.0),
                ("indented", documents.indented(bytes_in_it), 18.0),
                ("ASCII escapes", documents.escaped(bytes_in_it), 18.0),
            ):
                measured = [
                    Measured("ten rules", _masking(value, documents.MIXED), target),
                    Measured("ten rules, nothing matches", _unmatched(value), target),
                ]
                yield f"{size}, {form}, not compiled", clock.rows(value, measured)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description="What masking one value costs.")
    parser.add_argument("--json", action="store_true", help="print the rows that have a target as JSON, and nothing else")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument(
        "--quick", action="store_true", help="one short round without the largest value; its figures mean nothing"
    )
    options = parser.parse_args(arguments)
    told: list[tuple[str, Row]] = []
    if not options.json:
        print(f"scanner: {scan.ENGINE}   Python {sys.version.split()[0]}   orjson {orjson.__version__}")
    for title, rows in measure(quick=options.quick):
        told += ((title, row) for row in rows if row.target is not None)
        if not options.json:
            print(f"\n{title}")
            for row in rows:
                _print(row)
    missed = sum(not row.ok for _, row in told)
    if options.json:
        named = ((f"{row.name} ({title})", row) for title, row in told)
        print(
            json.dumps(
                [{"name": name, "ratio": round(row.ratio, 4), "target": row.target, "ok": row.ok} for name, row in named]
            )
        )
    else:
        print(f"\n{len(told) - missed} of {len(told)} targets met")
    return 1 if options.check and missed else 0


def _print(row: Row) -> None:
    target = "" if row.target is None else f"target {row.target:<5g} {'met' if row.ok else 'MISSED'}"
    print(f"  {row.name:<46}{row.us:>12.2f} us{row.ratio:>9.3f}   {target}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
