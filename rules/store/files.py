"""A directory of rule files: whether it changed, and what it says, all of it or nothing.

Blocking: called from a thread. Not recursive. A Kubernetes ConfigMap looks like this, and is swapped by renaming a
new `..data` over the old one:

    rules.d/customers.yaml -> ..data/customers.yaml
    rules.d/..data         -> ..2026_11_30_10_15_00.123/
    rules.d/..2026_11_30_10_15_00.123/customers.yaml

so `..data` is opened once, and what it holds is read through that one descriptor: a swap leaves it where it was.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..model import Place, Problem
from .book import bind
from .document import MAX_BYTES
from .reading import MAX_FILES, MAX_TOTAL_BYTES, Reading, is_rule_file

TRIES = 5  # readings of a directory that changes meanwhile, before it is told as a problem
SWAPPED = "..data"
QUIET_S = 0.2  # a directory is read once it has been quiet for this long
LIMIT_S = 1.0  # but at the latest this long after its first change
POLL_S = 0.5  # with the settling time this keeps a change under two seconds
DISK_S = 5.0  # a disk that has not answered by then hangs


class _Unreadable(Exception):
    """A file or the directory cannot be read; `name` is "" for the directory."""

    def __init__(self, name: str, why: str, *, gone: bool = False) -> None:
        super().__init__(why)
        self.name = name
        self.why = why
        self.gone = gone


@dataclass(frozen=True, slots=True)
class _Source:
    """A rule file: its name, and the descriptor of the directory that it is opened through."""

    name: str
    through: int


def fingerprint(directory: str | os.PathLike[str]) -> object:
    """Something that compares equal as long as the directory's rule files stay what they are. Reads no contents.

    Never raises: what cannot be looked at is part of the fingerprint.
    """
    try:
        with _opened(os.fspath(directory)) as (top, data):
            return _state(top, data)
    except _Unreadable as error:
        return ("unreadable", error.name, error.why)


class FileStore:
    """A directory as a store."""

    quiet_s = QUIET_S
    poll_s = POLL_S
    limit_s = DISK_S

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.fspath(directory)
        self.place = Place(self._directory, 1, 1)

    def look(self) -> object:
        return fingerprint(self._directory)

    def read(self) -> Reading:
        return read_directory(self._directory)


def read_directory(directory: str | os.PathLike[str]) -> Reading:
    """What the rule files of a directory say, read as one state.

    Never raises: a directory that is lost, holds no rule file, or keeps changing is a problem, as is every problem
    in its files. Places are spelled `<directory as given>/<file name>`.
    """
    return read_contents(directory)[0]


def read_contents(directory: str | os.PathLike[str]) -> tuple[Reading, list[tuple[str, bytes]]]:
    """As `read_directory`, with the name and the bytes of each file that the reading is of."""
    shown = os.fspath(directory)
    failed = _Unreadable("", "keeps changing while it is read")
    for _ in range(TRIES):
        try:
            files = _contents(shown)
        except _Unreadable as error:
            if not error.gone:
                return _unread(shown, error.name, error.why), []
            failed = error
            continue
        if files is None:
            continue
        if not files:
            return Reading(None, (Problem(Place(shown, 1, 1), "holds no rule file (*.yaml, *.yml)"),), 0), []
        bound = bind([(_shown(shown, name), data) for name, data in files])
        return Reading(bound.book, bound.problems, len(files)), files
    return _unread(shown, failed.name, failed.why), []


def _unread(shown: str, name: str, why: str) -> Reading:
    place = Place(_shown(shown, name) if name else shown, 1, 1)
    return Reading(None, (Problem(place, why),), 0, settled=False)


def _shown(directory: str, name: str) -> str:
    """The path as given and the file's name, in one printable line."""
    printable = "".join(each if each.isprintable() else "?" for each in name.encode("utf-8", "replace").decode())
    return os.path.join(directory, printable)


def _contents(directory: str) -> list[tuple[str, bytes]] | None:
    """Every rule file's name and bytes, in the order of their names; None when they changed while being read."""
    with _opened(directory) as (top, data):
        before = _state(top, data)
        sources = _sources(top, data)
        if len(sources) > MAX_FILES:
            raise _Unreadable("", f"holds more than {MAX_FILES} rule files")
        files: list[tuple[str, bytes]] = []
        total = 0
        for source in sources:
            files.append((source.name, _read(source)))
            total += len(files[-1][1])
            if total > MAX_TOTAL_BYTES:
                raise _Unreadable("", f"holds more than {MAX_TOTAL_BYTES // 1024 // 1024} MiB of rule files")
        return files if _state(top, data) == before and _in_place(directory, top, data) else None


@contextmanager
def _opened(directory: str) -> Iterator[tuple[int, int | None]]:
    """Descriptors of the directory and, where there is one, of what its `..data` points to right now."""
    top = _open("", directory, None, os.O_DIRECTORY)
    try:
        data = _open_data(top)
        try:
            yield top, data
        finally:
            if data is not None:
                os.close(data)
    finally:
        os.close(top)


def _open_data(top: int) -> int | None:
    try:
        return os.open(SWAPPED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
    except FileNotFoundError:
        if _stands(SWAPPED, top):
            raise _Unreadable("", f"{SWAPPED} points to nothing", gone=True) from None
        return None
    except OSError as error:
        raise _Unreadable("", f"{SWAPPED} cannot be opened: {_why(error)}") from None


def _stands(name: str, through: int) -> bool:
    try:
        os.lstat(name, dir_fd=through)
    except OSError:
        return False
    return True


def _in_place(directory: str, top: int, data: int | None) -> bool:
    """Whether the path and `..data` still lead to what was read. If not, what was read may have been on its way out,
    with some of its files removed already."""
    try:
        here = os.path.samestat(os.stat(directory), os.fstat(top))
        if data is None:
            return here and not _stands(SWAPPED, top)
        return here and os.path.samestat(os.stat(SWAPPED, dir_fd=top), os.fstat(data))
    except OSError:
        return False


def _open(name: str, path: str, through: int | None, flags: int) -> int:
    # O_NONBLOCK: a named pipe in place of a file must not hold the reading up.
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags, dir_fd=through)
    except (OSError, ValueError) as error:
        gone = isinstance(error, FileNotFoundError) and bool(name)
        raise _Unreadable(name, f"cannot be opened: {_why(error)}", gone=gone) from None


def _why(error: OSError | ValueError) -> str:
    number = error.errno if isinstance(error, OSError) and error.errno is not None else errno.EINVAL
    return os.strerror(number).lower()


def _listed(through: int) -> list[str]:
    try:
        return sorted(filter(is_rule_file, os.listdir(through)), key=os.fsencode)
    except OSError as error:
        raise _Unreadable("", f"cannot be listed: {_why(error)}") from None


def _sources(top: int, data: int | None) -> list[_Source]:
    """The rule files. What is in `..data` counts whether or not its link in the directory is made yet, so that a
    swap that is half-way through never means fewer rules; a link left over from before the swap is skipped."""
    own = [name for name in _listed(top) if data is None or not _points_into_data(top, name)]
    swapped = [] if data is None else _listed(data)
    sources = [_Source(name, top) for name in own]
    if data is not None:
        sources.extend(_Source(name, data) for name in swapped if name not in own)
    return sorted(sources, key=lambda source: os.fsencode(source.name))


def _points_into_data(top: int, name: str) -> bool:
    try:
        return os.readlink(name, dir_fd=top) == f"{SWAPPED}/{name}"
    except OSError:
        return False  # no link, or gone: opening it will tell


def _state(top: int, data: int | None) -> object:
    """What changes when a rule file does: names, inodes, times and sizes, of the directories too."""
    seen: list[object] = []
    for through in (top, data):
        if through is None:
            seen.append(None)
            continue
        about = os.fstat(through)
        seen.append((about.st_dev, about.st_ino))
    for source in _sources(top, data):
        try:
            about = os.stat(source.name, dir_fd=source.through)
        except OSError as error:
            seen.append((source.name, error.errno))
            continue
        seen.append((source.name, about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size))
    return tuple(seen)


def _read(source: _Source) -> bytes:
    descriptor = _open(source.name, source.name, source.through, 0)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Unreadable(source.name, "is no regular file")
        parts: list[bytes] = []
        size = 0
        # A file above the size limit is read no further than that: the document says that it is too large.
        while size <= MAX_BYTES and (part := os.read(descriptor, MAX_BYTES + 1 - size)):
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    except OSError as error:
        raise _Unreadable(source.name, f"cannot be read: {_why(error)}") from None
    finally:
        os.close(descriptor)


class Settle:
    """When a directory that changed is to be read: after 200 ms of quiet, at most 1 s after its first change.

    Has no clock: `now` is any clock in seconds that does not go back. The first state ever seen is due at once.
    """

    def __init__(self, quiet_s: float = QUIET_S, limit_s: float = LIMIT_S) -> None:
        self._quiet_s = quiet_s
        self._limit_s = limit_s
        self._taken: object = None
        self._started = False
        self._pending: object = None
        self._first_at: float | None = None
        self._last_at = 0.0

    @property
    def waiting(self) -> bool:
        """A change was seen and is not due yet: worth looking again soon."""
        return self._first_at is not None

    def due(self, found: object, now: float) -> bool:
        """Take note of a fingerprint. True once for each state that is to be read now."""
        if not self._started:
            self._started = True
            return self._take(found)
        if self._first_at is None:
            if found == self._taken:
                return False
            self._first_at = self._last_at = now
            self._pending = found
        elif found != self._pending:
            self._pending = found
            self._last_at = now
        if now - self._last_at < self._quiet_s and now - self._first_at < self._limit_s:
            return False
        # A change that was undone meanwhile is no change; what was undone has been seen by nobody.
        return self._take(found) if found != self._taken else self._forget()

    def again(self) -> None:
        """The last reading is not to be trusted (`Reading.settled` False): the next state is due at once."""
        self._started = False
        self._first_at = None

    def _take(self, found: object) -> bool:
        self._taken = found
        self._forget()
        return True

    def _forget(self) -> bool:
        self._first_at = None
        self._pending = None
        return False
