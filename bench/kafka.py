"""What Veil costs between a Kafka broker and its readers.

    python -m bench.kafka            a table (python bench/kafka.py does the same)
    python -m bench.kafka --json     the rows that have a target, as a list
    python -m bench.kafka --check    exit code 1 where a target is missed
    python -m bench.kafka --quick    one short round without a broker: shows that it runs, says nothing about speed

1. The session alone, in CPU time: one Fetch answer of 500 orders of 1 KiB in 32 batches, ten rules; against parsing and
   writing the same values with orjson in the same round.
2. Veil as a process between a real broker and a librdkafka consumer, beside the same consumer without it, in turns; and
   beside Kroxylicious without a filter where KROXYLICIOUS names a folder with its jars. Without Java this is left out.

`ratio` is a cost: the lower the better, and met where it is at most `target`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run by its path
    sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.parts import fetches, streams
from bench.parts.fetches import CODECS, COVERED, RECORDS, UNCOVERED, Fetched
from rules.scan import ENGINE

ROUNDS, QUICK_ROUNDS = 15, 1
ROUND_TRIP = "orjson.dumps(orjson.loads(v))"
AT_ONCE = 4  # answers a round of each subject
MASKING = 2.4  # 10 us, so 100 000 records a second, where the round trip takes 4.1 us: a busy machine slows both
SLOWER = 1.25  # of a topic that no rule covers: four fifths of what comes without Veil
MIB = 1 << 20
THIRD = 1 / 3  # of what a masked record costs


@dataclass(frozen=True, slots=True)
class Row:
    """`ratio` is None where there is nothing to compare with."""

    name: str
    told: str
    ratio: float | None = None
    target: float | None = None

    @property
    def ok(self) -> bool:
        return self.target is None or (self.ratio is not None and self.ratio <= self.target)


def session(*, quick: bool) -> Iterator[tuple[str, list[Row]]]:
    """The first part."""
    sections = [fetches.section(codec) for codec in range(len(CODECS))]
    subjects: dict[str, Fetched] = {}
    for codec, records in zip(CODECS, sections, strict=True):
        for markers in (True, False):
            name = f"masked, {codec}, {'with' if markers else 'without'} marks"
            subjects[name] = Fetched(COVERED, records, markers=markers)
    subjects["not covered, none"] = Fetched(UNCOVERED, sections[0], markers=True)
    takes = {name: each.take for name, each in subjects.items()} | {ROUND_TRIP: fetches.round_trip}
    taken: dict[str, list[float]] = {name: [] for name in takes}
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        for name, take in takes.items():
            taken[name].append(sum(take() for _ in range(AT_ONCE)) / AT_ONCE / RECORDS)
    target = MASKING if ENGINE == "compiled" else None
    rows = []
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        told = f"{middle * 1e6:8.2f} us a record {1 / middle:12,.0f} a second"
        ratio = statistics.median(mine / theirs for mine, theirs in zip(seconds, taken[ROUND_TRIP], strict=True))
        rows.append(Row(name, told, ratio, target if name.startswith("masked") else None))
    yield f"the session alone, one core; ratio to {ROUND_TRIP} of the same values", rows


def processes() -> Iterator[tuple[str, list[Row]]]:
    """The second part."""
    for codec in ("none", "zstd"):
        runs = streams.measure(codec)
        direct = runs["direct"].seconds
        rows = []
        for name, run in runs.items():
            ratios = [mine / theirs for mine, theirs in zip(run.seconds, direct, strict=True)]
            middle = statistics.median(run.seconds)
            told = f"{run.records / middle:12,.0f} records {run.bytes / middle / 1e6:8.0f} MB a second"
            if run.cpu_s is not None:
                told += f" {run.cpu_s / run.records * 1e6:8.2f} us of CPU a record"
            target = SLOWER if name == streams.NOT_COVERED else None
            rows.append(Row(f"{name}, {codec}", told, statistics.median(ratios), target))
        masked, passed = runs[streams.MASKED].cpu_s, runs[streams.NOT_COVERED].cpu_s
        assert masked is not None
        assert passed is not None
        rows.append(Row(f"CPU of a record not covered to one masked, {codec}", "", passed / masked, THIRD))
        yield f"from a broker, {codec}; ratio of the time to the time without Veil", rows


def memory() -> Row:
    before, most = streams.peak()
    return Row("masked answers of up to 50 MiB, none", f"{before / MIB:8.0f} MiB before {most / MIB:8.0f} MiB at most")


def measure(*, quick: bool) -> Iterator[tuple[str, list[Row]]]:
    yield from session(quick=quick)
    if not quick and streams.can_run():
        yield from processes()
        yield "resident memory of Veil", [memory()]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description="What Veil costs in front of Kafka.")
    parser.add_argument("--json", action="store_true", help="print the rows that have a target as JSON, and nothing else")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--quick", action="store_true", help="one short round without a broker; its figures mean nothing")
    options = parser.parse_args(arguments)
    told: list[Row] = []
    if not options.json:
        print(f"scanner: {ENGINE}   Python {sys.version.split()[0]}")
    for title, rows in measure(quick=options.quick):
        told += (row for row in rows if row.target is not None)
        if not options.json:
            print(f"\n{title}")
            for row in rows:
                _print(row)
    missed = sum(not row.ok for row in told)
    if options.json:
        print(
            json.dumps(
                [{"name": row.name, "ratio": round(row.ratio or 0.0, 4), "target": row.target, "ok": row.ok} for row in told]
            )
        )
    else:
        print(f"\n{len(told) - missed} of {len(told)} targets met")
    return 1 if options.check and missed else 0


def _print(row: Row) -> None:
    ratio = "" if row.ratio is None else f"{row.ratio:9.3f}"
    target = "" if row.target is None else f"target {row.target:<5.3g} {'met' if row.ok else 'MISSED'}"
    print(f"  {row.name:<46}{row.told:<62}{ratio:>9}   {target}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
