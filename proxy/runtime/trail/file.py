"""The hash-chained audit file, which several processes may append to.

    audit.jsonl        {"seq":41,…,"hash":"h41"}\n {"seq":42,…,"previous":"h41","hash":"h42"}\n
                                                                                                └─ end
    audit.jsonl.head   which file was written last (device, inode), its end, and 42, h42
    audit.jsonl.rules  what the trail has told of the rules

The head is the lock: whoever holds it writes, syncs, and notes the new end in it. It stays when the file is moved
away, so that the next one goes on with the chain; and a file that is shorter than the head says has been cut.
Whole lines behind the end are of a process that died before it noted them and are kept. A half line is cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rules.audit import FIRST_PREVIOUS, HASH_KEY, InForce, read_link

from .base import Item, RulesOf, TrailError, lines_of

OPENING = b'{"time":"'  # how every line begins
STEP_BYTES = 64 * 1024  # how much is read at a time while the last line is looked for
LAST_LINE_BYTES = 4 * 1024 * 1024  # an entry with a thousand rules fits; without a line end in so many it is no trail
HEAD_BYTES = 512  # one sector, so that it is written whole or not at all
RULES_BYTES = 64 * 1024 * 1024
MOVED_TRIES = 5


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain and the file it is in."""

    device: int = 0
    inode: int = 0
    end: int = 0
    seq: int = 0
    hash: str = FIRST_PREVIOUS

    def is_in(self, told: os.stat_result) -> bool:
        return (self.device, self.inode) == (told.st_dev, told.st_ino)


class FileTrail:
    """The trail at a path. See `Trail`."""

    what = "file"
    may_come_later = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = str(path)
        self.cut_bytes = 0
        self._fd = -1
        self._head_fd = -1
        self._process = os.getpid()

    def open(self) -> None:
        with self._locked():
            head = self._find_head(is_new=self._take_file())
            if head.end:
                self._end_of(self._fd)  # the whole last line, where appending trusts its hash

    def append(self, batch: Sequence[tuple[Item, str]]) -> list[int]:
        with self._locked():
            head = self._find_head(is_new=self._take_file())
            told = self._read_rules() if any(isinstance(item, RulesOf) for item, _ in batch) else None
            made = lines_of(batch, head.seq, head.hash, told)
            if made.lines:
                self._write(b"\n".join(made.lines) + b"\n", head, made.seq, made.digest)
            if made.in_force is not None:
                self._write_rules(made.in_force)
            return made.numbers

    def close(self) -> None:
        for fd in (self._fd, self._head_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._head_fd = -1

    # The lock

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._process != os.getpid():  # a fork shares the descriptors and with them the lock
            self._process = os.getpid()
            self.close()
        for _ in range(MOVED_TRIES):
            if self._head_fd < 0:
                self._head_fd, _ = _open(self._beside("head"))
            fcntl.flock(self._head_fd, fcntl.LOCK_EX)
            if _is_at(self._head_fd, self._beside("head")):
                break
            os.close(self._head_fd)  # and with it the lock
            self._head_fd = -1
        else:
            raise TrailError("has a .head file that is replaced all the time")
        try:
            yield
        finally:
            fcntl.flock(self._head_fd, fcntl.LOCK_UN)

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{suffix}")

    def _take_file(self) -> bool:
        """Opens what is at the path, unless it is open already. Says whether it was made just now."""
        is_new = False
        before, self._fd = self._fd, -1
        try:
            if before < 0 or not _is_at(before, self._path):
                self._fd, is_new = _open(self._path, os.O_APPEND)
            else:
                self._fd, before = before, -1
        finally:
            if before >= 0:
                os.close(before)
        return is_new

    # The end

    def _find_head(self, *, is_new: bool) -> Head:
        """The end of the chain, at the end of the file at the path: whatever stood behind was kept or cut.

        A file that was made just now is another one than the head names, though it may have got the number of that
        one, which was moved, compressed and removed.

        Raises:
            TrailError: the file was cut or changed, or is another one.
        """
        head, there = self._read_head(), os.fstat(self._fd)
        if head is None:
            return self._note(self._end_of(self._fd))
        if head.is_in(there) and not is_new:
            if there.st_size < head.end:
                raise TrailError("was cut; move it away to keep it and go on with the chain in a new one")
            if not _ends_there(self._fd, head):  # a file may be cut and grow again
                raise TrailError("was changed or cut; move it away to keep it and go on with the chain in a new one")
            return head if there.st_size == head.end else self._note(self._end_of(self._fd))
        head = self._end_of_moved(head)
        if there.st_size == 0:
            return self._note(Head(there.st_dev, there.st_ino, 0, head.seq, head.hash))
        found = self._end_of(self._fd, head)
        if found.seq < head.seq:
            raise TrailError("lacks entries at its end; move it away to keep it and go on with the chain in a new one")
        if found.seq == head.seq and found.hash != head.hash:
            raise TrailError("ends with an entry that was changed; move it away to keep it and start a new one")
        return self._note(found)

    def _end_of_moved(self, head: Head) -> Head:
        """The end of a file that was moved inside its folder: its writer may have died before it noted it."""
        with os.scandir(self._path.parent) as entries:
            names = [entry.name for entry in entries if head.inode and entry.inode() == head.inode]
        for name in names:
            with contextlib.suppress(OSError):
                fd = os.open(self._path.with_name(name), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
                try:
                    there = os.fstat(fd)
                    if head.is_in(there) and stat.S_ISREG(there.st_mode) and there.st_size > head.end and _ends_there(fd, head):
                        found = self._end_of(fd)
                        return found if found.seq > head.seq else head
                except TrailError:
                    continue  # it is not written any more: whoever verifies it will tell
                finally:
                    os.close(fd)
        return head

    def _end_of(self, fd: int, empty: Head | None = None) -> Head:
        """The end of a file by its last whole line; of one without any, what `empty` says. A half line is cut off."""
        there = os.fstat(fd)
        size = there.st_size
        tail = b""
        start = size
        while start > 0 and tail.count(b"\n") < 2:
            if len(tail) > LAST_LINE_BYTES:
                raise TrailError("is not an audit trail (no line end near its end); move it away to start a new one")
            step = min(STEP_BYTES, start)
            start -= step
            tail = os.pread(fd, step, start) + tail
        end = start + tail.rfind(b"\n") + 1
        lines = tail[: end - start].split(b"\n")
        if len(lines) >= 2:
            link = read_link(lines[-2])
            if link is None or link.seq < 1:
                raise TrailError("ends with a line that is not an audit entry; move it away to start a new one")
            if not link.intact:
                raise TrailError("ends with an entry that was changed; move it away to keep it and start a new one")
            seq, digest = link.seq, link.digest
        elif tail[: len(OPENING)] == OPENING[: len(tail)]:
            seq, digest = (0, FIRST_PREVIOUS) if empty is None else (empty.seq, empty.hash)
        else:
            raise TrailError("is not an audit trail; move it away to start a new one")
        if end < size:  # only now: a file that is no trail stays as it is
            self.cut_bytes += size - end
            os.ftruncate(fd, end)
        os.fsync(fd)  # what is kept may be of a process that died before it was synced
        return Head(there.st_dev, there.st_ino, end, seq, digest)

    def _write(self, data: bytes, head: Head, seq: int, digest: str) -> None:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._fd, left) :]
            os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):  # nobody was shown anything, and a half line must not stay
                os.ftruncate(self._fd, head.end)
            raise
        there = os.fstat(self._fd)
        self._note(Head(there.st_dev, there.st_ino, head.end + len(data), seq, digest))

    # The files beside it

    def _read_head(self) -> Head | None:
        return _head_from(os.pread(self._head_fd, HEAD_BYTES, 0))

    def _note(self, head: Head) -> Head:
        """Not synced: after a crash of the machine the file is found longer than its head says, never shorter."""
        os.pwrite(self._head_fd, (json.dumps(asdict(head)).ljust(HEAD_BYTES - 1) + "\n").encode("ascii"), 0)
        return head

    def _read_rules(self) -> InForce | None:
        try:
            with self._beside("rules").open("rb") as opened:
                return InForce.from_text(opened.read(RULES_BYTES).decode("ascii"))
        except (OSError, ValueError):
            return None

    def _write_rules(self, in_force: InForce) -> None:
        """Only after the entries: what a crash loses is told twice rather than never."""
        target, new = self._beside("rules"), self._beside("rules.new")
        with contextlib.suppress(OSError):  # the entries are written; that they are told again later is no harm
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as opened:
                opened.write(in_force.as_text().encode("ascii"))
                opened.flush()
                os.fsync(opened.fileno())
            new.replace(target)


def _ends_there(fd: int, head: Head) -> bool:
    """Whether what ends where the head says is the entry it names."""
    last = f'{HASH_KEY}"{head.hash}"}}\n'.encode("ascii")
    return not head.end or os.pread(fd, len(last), max(0, head.end - len(last))) == last


def head_of(path: Path) -> tuple[int, str] | None:
    """The number and hash of the last entry that the head beside a path notes, in whatever file that entry is; None
    where it notes none."""
    try:
        head = _head_from(path.with_name(f"{path.name}.head").read_bytes()[:HEAD_BYTES])
    except (OSError, ValueError):
        return None
    return (head.seq, head.hash) if head is not None and head.seq else None


def _head_from(data: bytes) -> Head | None:
    try:
        told = json.loads(data)
        numbers = [told[name] for name in ("device", "inode", "end", "seq")]
        digest = told["hash"]
    except (ValueError, TypeError, KeyError):  # new, or torn by a crash of the machine: the file itself tells
        return None
    if not isinstance(digest, str) or any(type(each) is not int or each < 0 for each in numbers):
        return None
    device, inode, end, seq = numbers
    return Head(device, inode, end, seq, digest)


def _open(path: Path, more: int = 0) -> tuple[int, bool]:
    """Opens a file for reading and writing, or makes it, 0600; says whether it was made. One without contents, by whoever
    it was made, is to stay after a crash of the machine."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | more  # NONBLOCK: a FIFO must not hang the start
    try:
        fd, is_new = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
    except FileExistsError:
        fd, is_new = os.open(path, flags), False
    try:
        _check(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd, is_new


def _check(fd: int, path: Path) -> None:
    there = os.fstat(fd)
    if not stat.S_ISREG(there.st_mode):
        raise TrailError("is not a regular file; name one")
    if there.st_size == 0:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)  # else the file itself may be gone
        finally:
            os.close(directory)


def _is_at(fd: int, path: Path) -> bool:
    """Whether the path still leads to the opened file."""
    opened = os.fstat(fd)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return (opened.st_dev, opened.st_ino) == (there.st_dev, there.st_ino)
