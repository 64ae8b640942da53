"""`veil rules push | pull | diff`: a directory of rule files and the store in Redis that a fleet reads.

What may show more than before is said on lines of its own that begin with UNMASKS. Nothing is written that
`veil check` would refuse, and nothing is overwritten that somebody else changed meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.model import Problem, RuleBook
    from rules.store.redis import Admit, Location

FINE, PROBLEMS, USAGE = 0, 1, 2
KEEP_MODE = 0o640

Document = tuple[str, bytes]


class Wrong(Exception):
    """What the user is told instead of a result, a line each."""

    def __init__(self, lines: Iterable[object], code: int = PROBLEMS) -> None:
        super().__init__()
        self.lines = tuple(lines)
        self.code = code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's own arguments."""
    parser.set_defaults(errand=None)
    errands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def errand(name: str, text: str) -> argparse.ArgumentParser:
        added = errands.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.set_defaults(errand=name)
        added.add_argument("--config", metavar="FILE", help="a config whose store.redis is meant, with its prefix, key and ca")
        added.add_argument("--prefix", metavar="P", help="of the store's keys (default: veil:)")
        added.add_argument("--key", metavar="KEY", help="signs or verifies: ${NAME} or file:PATH")
        added.add_argument("--ca", metavar="FILE", help="certificates that are trusted with rediss://")
        return added

    push = errand("push", "Replace the rules of a store by those of a directory, in one transaction.")
    push.add_argument("--to", dest="url", metavar="URL", help="redis://host:port/database; a password as ${NAME}")
    push.add_argument("--dry-run", action="store_true", help="tell what would change, and write nothing")
    push.add_argument("--empty", action="store_true", help="rules that mask nothing are meant")
    push.add_argument("--above", type=int, default=0, metavar="N", help="take a version above N, which is in force somewhere")
    push.add_argument("--force", action="store_true", help="replace what stands there though it cannot be read")
    push.add_argument("directory", metavar="DIR")

    pull = errand("pull", "Write the rules of a store into a directory.")
    pull.add_argument("--from", dest="url", metavar="URL", help="redis://host:port/database; a password as ${NAME}")
    pull.add_argument(
        "--force", action="store_true", help="overwrite files that differ, and remove those that the store has not"
    )
    pull.add_argument("directory", metavar="DIR")

    diff = errand("diff", "Tell what a push would change; exit code 1 where anything is different.")
    diff.add_argument("directory", metavar="DIR")
    diff.add_argument("url", nargs="?", metavar="URL", help="redis://host:port/database; a password as ${NAME}")


def main(asked: argparse.Namespace) -> int:
    """Does the errand. Comes back with the exit code."""
    from proxy.core.errors import ConfigError
    from rules.store.redis import StoreError

    try:
        location, admit = _location(asked)
        match asked.errand:
            case "push":
                return _push(asked, location, admit)
            case "pull":
                return _pull(asked, location, admit)
            case _:
                return _diff(asked, location, admit)
    except ConfigError as bad:
        return _told(bad.problems, USAGE)
    except StoreError as failed:
        return _told([f"veil rules: {failed.why}"], PROBLEMS)
    except Wrong as wrong:
        return _told(wrong.lines, wrong.code)


def _told(lines: Iterable[object], code: int) -> int:
    for line in lines:
        sys.stderr.write(f"{line}\n")
    return code


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _location(asked: argparse.Namespace) -> tuple[Location, Admit]:
    """The store that is meant, from a config or from arguments."""
    if (asked.config is None) == (asked.url is None):
        raise Wrong(["veil rules: name the store by a URL or by --config, one of them"], USAGE)
    if asked.config is None:
        return _from_arguments(asked), lambda _server: ""
    if asked.prefix is not None or asked.key is not None or asked.ca is not None:
        raise Wrong(["veil rules: --prefix, --key and --ca go with a URL: the config has its own"], USAGE)
    from proxy.app import admission, brokers_of
    from proxy.protocols import PROTOCOLS
    from proxy.settings import load_configuration

    configuration = load_configuration(asked.config, os.environ, PROTOCOLS)
    location = configuration.rules_location
    if location is None:
        raise Wrong([f"veil rules: {asked.config} has no store.redis"], USAGE)
    return location, admission(brokers_of(configuration))


def _from_arguments(asked: argparse.Namespace) -> Location:
    from proxy.settings.model import location_of
    from proxy.settings.values import secrets_from

    given = {"url": asked.url, "prefix": asked.prefix, "key": asked.key, "ca": asked.ca}
    with secrets_from(os.environ, Path()):
        try:
            return location_of({key: value for key, value in given.items() if value is not None}, Path())
        except ValueError as bad:
            raise Wrong([f"veil rules: {line}" for line in str(bad).splitlines()], USAGE) from None


def _read(directory: str) -> tuple[RuleBook, list[Document]]:
    """The directory's rules, as `veil check` takes them."""
    from rules.store.files import read_contents

    reading, documents = read_contents(directory)
    if reading.book is None:
        raise Wrong(reading.problems)
    return reading.book, documents


def _bound(location: Location, documents: Sequence[Document]) -> tuple[RuleBook | None, tuple[Problem, ...]]:
    from rules.store.book import bind

    bound = bind([(location.shown(name), data) for name, data in documents])
    return bound.book, bound.problems


def _changes(old: RuleBook | None, new: RuleBook) -> bool:
    """Prints every change; whether there is any."""
    from rules.compare import compare

    changes = compare(old, new)
    for each in changes:
        _say(f"{each.what} {each.subject}")
    for each in changes:
        for reason in each.reasons:
            _say(f"UNMASKS: {each.what} {each.subject}: {reason}")
    return bool(changes)


def _push(asked: argparse.Namespace, location: Location, admit: Admit) -> int:
    from proxy.runtime.clock import utc_seconds
    from rules.check import warnings
    from rules.store.manifest import wrong_name
    from rules.store.redis import StoreError, held, next_version, opened, put

    book, documents = _read(asked.directory)
    odd = [f"{asked.directory}/{name}: {wrong_name(name)}" for name, _ in documents if wrong_name(name)]
    if odd:
        raise Wrong(odd)
    _told(warnings(book), FINE)
    if not any(rule.enabled for rule in book.rules) and not asked.empty:
        raise Wrong([f"{asked.directory}: holds no enabled rule, so nothing would be masked: say --empty if that is meant"])
    with opened(location, admit) as client:
        before = held(client, location)
        if before.why and not asked.force:
            raise StoreError(f"what stands there cannot be read ({before.why}): --force replaces it")
        old = None if before.snapshot is None else _bound(location, before.snapshot.documents)[0]
        different = _changes(old, book)
        if before.snapshot is not None and list(before.snapshot.documents) == documents and not different and not asked.above:
            _say(f"nothing to push: version {before.snapshot.manifest.version} is the same")
            return FINE
        version = next_version(before, int(utc_seconds()), asked.above)
        if asked.dry_run:
            _say(f"would push version {version}: {len(documents)} files, {len(book.rules)} rules")
            return FINE
        put(client, location, documents, before, version, empty=asked.empty)
    _say(f"pushed version {version}: {len(documents)} files, {len(book.rules)} rules")
    return FINE


def _diff(asked: argparse.Namespace, location: Location, admit: Admit) -> int:
    from rules.store.redis import held, opened

    book, documents = _read(asked.directory)
    with opened(location, admit) as client:
        before = held(client, location)
    if before.why:
        raise Wrong([f"veil rules: what stands there cannot be read ({before.why})"])
    there = [] if before.snapshot is None else list(before.snapshot.documents)
    different = _changes(_bound(location, there)[0] if there else None, book)
    if not different and there != documents:
        _say("the files differ, in nothing that they say")
    return PROBLEMS if different or there != documents else FINE


def _pull(asked: argparse.Namespace, location: Location, admit: Admit) -> int:
    from rules.store.redis import BadSetError, fetch, opened

    directory = Path(asked.directory)
    with opened(location, admit) as client:
        try:
            snapshot = fetch(client, location)
        except BadSetError as bad:
            raise Wrong(bad.problems) from None
    problems = _bound(location, snapshot.documents)[1]
    if problems:
        raise Wrong(problems)
    try:
        _write(directory, snapshot.documents, force=asked.force)
    except OSError as failed:
        raise Wrong([f"{directory}: cannot be written: {failed.strerror or type(failed).__name__}"]) from None
    _say(f"pulled version {snapshot.manifest.version}: {len(snapshot.documents)} files")
    return FINE


def _write(directory: Path, documents: Sequence[Document], *, force: bool) -> None:
    """Every file under a temporary name first, then all renamed, so that a watcher finds the old or the new ones.

    Raises:
        Wrong: there are files that differ or that the store has not, and `force` is not said.
        OSError: the disk.
    """
    from rules.store.reading import is_rule_file

    directory.mkdir(parents=True, exist_ok=True)
    named = dict(documents)
    here = {each.name: each for each in directory.iterdir() if is_rule_file(each.name)}
    extra = sorted(name for name in here if name not in named)
    changed = [name for name in named if name in here and here[name].read_bytes() != named[name]]
    if not force and (extra or changed):
        told = [f"{directory / name}: differs from the store's" for name in changed]
        told += [f"{directory / name}: is not in the store" for name in extra]
        raise Wrong([*told, "veil rules: nothing was written; --force overwrites and removes"])
    renames: list[tuple[Path, Path]] = []
    try:
        for name, data in documents:
            if name in here and name not in changed:
                continue
            hidden = directory / f".{name}.pulled"
            renames.append((hidden, directory / name))
            _synced(hidden, data)
        for hidden, final in renames:
            hidden.replace(final)
    except OSError:
        for hidden, _ in renames:
            hidden.unlink(missing_ok=True)
        raise
    for name in extra:
        here[name].unlink()
        _say(f"removed {directory / name}")


def _synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, KEEP_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
