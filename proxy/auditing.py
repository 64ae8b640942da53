"""`veil audit verify` and `veil audit search`: reads trails line by line, in memory that their length does not change.

Trouble goes to standard error as `file:line: what`, never with what a line holds.
"""

from __future__ import annotations

import argparse
import errno
import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from proxy.runtime.secret import RedisUrl

FINE, PROBLEMS, USAGE = 0, 1, 2
DEFAULT_STREAM = "veil:audit"  # as that of the config, which takes long to load
LINE_BYTES = 4 * 1024 * 1024  # as the trail's own limit
LOOKS = 5  # at the parts of a trail, while they are being moved
CUT_OFF = (
    "Entries that were cut off at the end do not show in the chain itself: they are found where the .head file (or, of a "
    "stream, its head) is still there, or by the last hash, which verify prints; note it and give it to --expect-last."
)
Lines = Iterator[tuple[str, bytes]]  # each with its place


class _Usage(Exception):
    pass


@dataclass(slots=True)
class _Part:
    """A file or stream. `lines` may be called again; `last` is an entry that was written, as the head beside it said before
    it was read: by now it stands in this part or, if that was moved away, in another."""

    name: str
    lines: Callable[[], Lines]
    last: tuple[int, str] | None = None


@dataclass(slots=True)
class _Report:
    problems: int = 0

    def tell(self, place: str, message: str) -> None:
        self.problems += 1
        sys.stderr.write(f"{place}: {message}\n")


def add_arguments(audit: argparse.ArgumentParser) -> None:
    verbs = audit.add_subparsers(title="commands", metavar="COMMAND", dest="audit_verb", required=True)
    text = "Check the hash chain of a trail, over all its rotated parts in any order (.gz too)."
    verify = verbs.add_parser("verify", help=text, description=text, epilog=CUT_OFF, allow_abbrev=False)
    _add_sources(verify)
    verify.add_argument("--after", metavar="HASH", help="the hash before the first entry, where earlier parts are gone")
    verify.add_argument("--expect-last", metavar="HASH", help="the hash that an entry of the trail must have, as noted before")
    text = "Print the lines that fit all that is asked for, as they are."
    search = verbs.add_parser("search", help=text, description=text, allow_abbrev=False)
    _add_sources(search)
    search.add_argument("--who", metavar="NAME", help="the reader")
    search.add_argument("--rule", metavar="NAME", help="a rule that the entry names")
    search.add_argument("--tag", metavar="TAG", help="a compliance, information kind or risk of a rule")
    search.add_argument("--resource", metavar="KIND=GLOB", help="such as key=customer:*")
    search.add_argument("--event", metavar="GLOB", help="such as masking.refused or configuration.*")
    search.add_argument("--connection", metavar="NAME")
    search.add_argument("--since", metavar="WHEN", help="24h ago, or from 2026-11-30T10:00:00Z on")
    search.add_argument("--until", metavar="WHEN", help="the same, for the end")


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="a trail, or parts of one")
    parser.add_argument("--config", metavar="FILE", help="the trail of a veil.yaml, with the parts that lie beside it")
    parser.add_argument("--redis", metavar="URL", help="a trail in Redis; ${NAME} and file:PATH keep its password out of sight")
    parser.add_argument("--stream", metavar="NAME", help=f"the stream, with --redis (default: {DEFAULT_STREAM})")
    parser.add_argument("--ca", metavar="FILE", help="certificates that are trusted with rediss://")


def main(asked: argparse.Namespace) -> int:
    from proxy.core.errors import ConfigError

    report = _Report()
    try:
        with ExitStack() as opened:
            parts = _parts(asked, report, opened)
            if asked.audit_verb == "verify":
                return _verify(parts, asked, report)
            return _search(parts, _filters(asked), report)
    except _Usage as wrong:
        sys.stderr.write(f"veil audit: {wrong}\n")
        return USAGE
    except ConfigError as wrong:
        sys.stderr.write("".join(f"{problem}\n" for problem in wrong.problems))
        return PROBLEMS


# Where lines come from


def _parts(asked: argparse.Namespace, report: _Report, opened: ExitStack) -> list[_Part]:
    if sum((bool(asked.files), asked.config is not None, asked.redis is not None)) != 1:
        raise _Usage("name files, or --config, or --redis")
    if asked.redis is None and asked.stream is not None:
        raise _Usage("--stream goes with --redis alone")
    if asked.ca is not None and asked.redis is None:
        raise _Usage("--ca goes with --redis")
    if asked.config is not None:
        return _configured(asked.config, report, opened)
    if asked.redis is not None:
        from proxy.settings.values import read_redis_url, secrets_from

        try:
            with secrets_from(os.environ, Path()):
                url = read_redis_url(asked.redis)
        except ValueError as wrong:
            raise _Usage(f"--redis {wrong}") from None
        return [_stream(replace(url, ca=asked.ca), asked.stream or DEFAULT_STREAM, report)]
    return [_file(Path(name), name, report, opened) for name in dict.fromkeys(asked.files)]


def _configured(config: str, report: _Report, opened: ExitStack) -> list[_Part]:
    from proxy.protocols import PROTOCOLS
    from proxy.settings import load_configuration

    found = load_configuration(config, os.environ, PROTOCOLS)
    redis = found.settings.audit.redis
    if redis is not None:
        return [_stream(found.redis_at(redis), redis.stream, report)]
    for _ in range(LOOKS - 1):
        with ExitStack() as trying:
            before = _seen(found.audit_path)
            parts = _beside(found.audit_path, report, trying)
            if _seen(found.audit_path) == before:
                opened.push(trying.pop_all())
                return parts
    return _beside(found.audit_path, report, opened)


def _beside(path: Path, report: _Report, opened: ExitStack) -> list[_Part]:
    """The trail and its rotated parts."""
    from proxy.runtime.trail.file import head_of

    last = head_of(path)
    rotated = [_file(each, str(each), report, opened) for each in _rotated(path)]
    if rotated and last is not None and not path.exists():  # moved away; the next entry makes a new one
        return [*rotated, _Part(str(path), lambda: iter(()), last)]
    return [*rotated, _file(path, str(path), report, opened)]


def _seen(path: Path) -> list[tuple[str, int]]:
    """Which files are there under which names: a rotation shows."""
    return [(each.name, _inode(each)) for each in (*_rotated(path), path)]


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _rotated(path: Path) -> list[Path]:
    """Trails beside it whose names begin with its name: audit.jsonl.1, audit.jsonl-20261130.gz. One that is there both
    packed and not is being packed."""
    own = {f"{path.name}.{suffix}" for suffix in ("head", "rules", "rules.new")}
    try:
        beside = sorted(each for each in path.parent.iterdir() if re.match(re.escape(path.name) + "[.-]", each.name))
    except OSError:
        return []
    plain = {f"{each.name}.gz" for each in beside}
    return [each for each in beside if each.name not in own | plain and each.is_file()]


def _file(path: Path, name: str, report: _Report, opened: ExitStack) -> _Part:
    """A file that is opened now: what is moved or packed while others are read is read all the same."""
    from proxy.runtime.trail.file import head_of

    last = head_of(path)
    kept: list[BinaryIO] = []
    try:
        kept.append(opened.enter_context(path.open("rb")))
    except OSError as failed:
        if failed.errno not in (errno.EMFILE, errno.ENFILE):  # of so many each is opened in its turn
            reason = failed.strerror or type(failed).__name__
            return _Part(name, lambda: _unread(name, reason, report), last)

    def lines() -> Lines:
        try:
            with ExitStack() as own:
                file = kept[0] if kept else own.enter_context(path.open("rb"))
                file.seek(0)
                yield from _split(name, file if path.suffix != ".gz" else cast("BinaryIO", gzip.GzipFile(fileobj=file)), report)
        except (OSError, EOFError, zlib.error, ValueError) as failed:
            reason = failed.strerror if isinstance(failed, OSError) else None
            yield from _unread(name, reason or type(failed).__name__, report)

    return _Part(name, lines, last)


def _unread(name: str, reason: str, report: _Report) -> Lines:
    report.tell(name, f"cannot be read: {reason}")
    yield from ()


def _split(name: str, opened: BinaryIO, report: _Report) -> Lines:
    number = 0
    while raw := opened.readline(LINE_BYTES + 1):
        number += 1
        place = f"{name}:{number}"
        if raw.endswith(b"\n"):
            yield place, raw
        elif len(raw) <= LINE_BYTES:
            report.tell(place, "half a line at the end")
        else:
            report.tell(place, "not an audit entry: the line is too long")
            while raw and not raw.endswith(b"\n"):
                raw = opened.readline(LINE_BYTES)


def _stream(url: RedisUrl, stream: str, report: _Report) -> _Part:
    from proxy.runtime.redis_link import LinkError
    from proxy.runtime.trail.stream import head_of, lines_of

    name = f"{url}/{stream}"

    def lines() -> Lines:
        try:
            for identity, raw in lines_of(url, stream):
                yield f"{name}:{identity}", raw
        except LinkError as failed:
            report.tell(name, f"cannot be read: {failed}")

    try:
        return _Part(name, lines, head_of(url, stream))
    except LinkError as failed:
        message = str(failed)
        report.tell(name, f"cannot be read: {message}")
        return _Part(name, lambda: iter(()))


# Verify


def _verify(parts: list[_Part], asked: argparse.Namespace, report: _Report) -> int:
    from rules.audit import FIRST_PREVIOUS, Chain, read_link

    for given in (asked.after, asked.expect_last):
        if given is not None and not re.fullmatch("[0-9a-f]{64}", given):
            raise _Usage("a hash is 64 hexadecimal digits, in small letters")
    chained = Chain(asked.after or FIRST_PREVIOUS)
    count = first = last = 0
    seen_last = asked.expect_last is None
    stated = {part.last[0] for part in parts if part.last is not None}
    found: dict[int, str] = {}  # the hashes of those that a head states
    for part in _in_order(parts, report):
        for place, raw in part.lines():
            link = read_link(raw)
            if link is not None and not count:
                first = link.seq
                if asked.after is not None or link.seq < 1:
                    chained.seq = link.seq - 1
                elif link.seq > 1:
                    missing = "entry 1 is" if link.seq == 2 else f"entries 1 to {link.seq - 1} are"
                    report.tell(place, f"begins with entry {link.seq}: {missing} missing (--after HASH, where they are gone)")
                    chained.seq, chained.digest = link.seq - 1, link.previous
            for message in chained.follow(raw):
                report.tell(place, message)
            if link is not None:
                count += 1
                last = max(last, link.seq)
                if link.seq in stated:
                    found[link.seq] = link.digest
                seen_last = seen_last or link.digest == asked.expect_last
    for part in parts:
        if part.last is not None and part.last[1] != asked.after:
            _look_at_end(part.name, part.last, last, found.get(part.last[0]), report)
    if not seen_last:
        report.tell(parts[-1].name, f"no entry has the hash {asked.expect_last}: entries are missing at the end")
    numbers = f", seq {first}..{chained.seq}" if count else ""
    said = f"{count} {'entry' if count == 1 else 'entries'}{numbers}, chain"
    if report.problems:
        sys.stderr.write(f"{said} broken: {report.problems} {'problem' if report.problems == 1 else 'problems'}\n")
        return PROBLEMS
    sys.stdout.write(f"{said} intact" + (f"; last hash {chained.digest}" if count else "") + "\n")
    return FINE


def _look_at_end(name: str, stated: tuple[int, str], last: int, found: str | None, report: _Report) -> None:
    """What the head said before its part was read stands there: whatever file is at that place by now, and whatever
    follows it."""
    seq, digest = stated
    if last < seq:
        report.tell(name, f"ends with entry {last}, and entry {seq} was written: entries are missing at the end")
    elif found is not None and found != digest:
        report.tell(name, f"holds another entry {seq} than was written")


def _in_order(parts: list[_Part], report: _Report) -> list[_Part]:
    """By the number of the first entry of each, so that they may be named in any order."""
    from rules.audit import read_link

    if len(parts) < 2:
        return parts

    def begins(part: _Part) -> int:
        before = report.problems
        links = (read_link(raw) for _, raw in part.lines())
        found = next((link.seq for link in links if link is not None), sys.maxsize)
        if report.problems > before:  # told already, and told once more in its turn would be twice
            part.lines = lambda: iter(())
        return found

    return sorted(parts, key=begins)


# Search


@dataclass(slots=True)
class _Filters:
    tests: list[Callable[[dict[str, Any]], bool]] = field(default_factory=list)

    def fit(self, told: dict[str, Any]) -> bool:
        try:
            return all(test(told) for test in self.tests)
        except (KeyError, TypeError, ValueError, AttributeError):
            return False  # an entry that has no such part


def _filters(asked: argparse.Namespace) -> _Filters:
    tests: list[Callable[[dict[str, Any]], bool]] = []
    if asked.who is not None:
        tests.append(lambda told: bool(told["who"] == asked.who))
    if asked.connection is not None:
        tests.append(lambda told: bool(told["connection"] == asked.connection))
    if asked.rule is not None:
        tests.append(lambda told: asked.rule == told.get("rule") or any(rule["name"] == asked.rule for rule in told["rules"]))
    if asked.tag is not None:
        tests.append(lambda told: any(asked.tag in _tags(rule) for rule in told["rules"]))
    if asked.event is not None:
        event = _glob(asked.event)
        tests.append(lambda told: event.fullmatch(told["event"]) is not None)
    if asked.resource is not None:
        kind, equals, pattern = asked.resource.partition("=")
        if not kind or not equals:
            raise _Usage(f"--resource must be KIND=GLOB, such as key=customer:*, not {asked.resource!r}")
        name = _glob(pattern)
        tests.append(lambda told: name.fullmatch(told["resource"][kind]) is not None)
    if asked.since is not None:
        since = _when(asked.since, "--since")
        tests.append(lambda told: datetime.fromisoformat(told["time"]) >= since)
    if asked.until is not None:
        until = _when(asked.until, "--until")
        tests.append(lambda told: datetime.fromisoformat(told["time"]) <= until)
    return _Filters(tests)


def _tags(rule: dict[str, Any]) -> Iterable[object]:
    return (*rule.get("compliance", ()), rule.get("information_kind"), rule.get("risk"))


def _glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?` as in rules."""
    words = {"*": ".*", "?": "."}
    return re.compile("".join(words.get(each) or re.escape(each) for each in re.sub(r"\*+", "*", pattern)), re.DOTALL)


def _when(text: str, option: str) -> datetime:
    from proxy.runtime.clock import utc_seconds
    from proxy.settings.values import read_duration

    try:
        return datetime.fromtimestamp(utc_seconds() - read_duration(text), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise _Usage(f"{option} must be a span such as 24h or a time such as 2026-11-30T10:00:00Z, not {text!r}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _search(parts: list[_Part], filters: _Filters, report: _Report) -> int:
    from rules.audit import read_link

    found = 0
    for part in _in_order(parts, report):
        for place, raw in part.lines():
            link = read_link(raw)
            if link is None:
                report.tell(place, "not an audit entry")
                continue
            if not link.intact:
                report.tell(place, f"entry {link.seq} was changed: its hash does not fit its text")
            if filters.fit(json.loads(raw)):
                found += 1
                sys.stdout.write(raw.decode("ascii").removesuffix("\n") + "\n")
    sys.stdout.flush()
    return FINE if found and not report.problems else PROBLEMS
