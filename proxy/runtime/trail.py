"""The hash-chained audit file, as blocking calls on one descriptor. The journal calls them from a thread.

    … {"seq":41,…,"hash":"h41"}\\n {"seq":42,…,"previous":"h41","hash":"h42"}\\n
                                                                             └─ end: all before it is on stable storage

What lies behind `end` was written and not confirmed: it is cut off before the next try, so that a partial
line never stays between two whole ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from rules.audit import FIRST_PREVIOUS, Entry, chain, digest_of

OPENING = b'{"time":"'  # how every line begins
STEP_BYTES = 64 * 1024  # how much is read at a time while the last line is looked for
LAST_LINE_BYTES = 4 * 1024 * 1024  # an entry with a thousand rules fits; without a line end in so many it is no trail


class TrailError(Exception):
    """The file cannot be the audit trail; the message says what to do."""


class Trail:
    """One opened file. Not safe for two threads at a time.

    `cut_bytes` is what was cut off at the end when it was opened: a line that was half-written in a crash.
    """

    def __init__(self, path: Path) -> None:
        """Opens or creates the file and goes on where it ends.

        Raises:
            TrailError: it is held by another process, is no regular file, or its last line is no entry.
            OSError: it cannot be opened, read or cut.
        """
        self._path = path
        self.cut_bytes = 0
        self._fd = self._open()
        try:
            self._claim()
            self._end, self._seq, self._previous = self._find_end()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def seq(self) -> int:
        """The number of the last entry, 0 when there is none."""
        return self._seq

    def append(self, batch: Sequence[tuple[Entry, str]]) -> list[int]:
        """Puts the entries, each with its time, on stable storage and gives their numbers.

        Raises:
            OSError: none of them counts as written; the next call tries on a clean end.
        """
        self._back_to_end()
        seq, previous = self._seq, self._previous
        lines: list[str] = []
        numbers: list[int] = []
        for entry, time in batch:
            seq += 1
            line, previous = chain(entry, time, seq, previous)
            lines.append(line)
            numbers.append(seq)
        data = ("\n".join(lines) + "\n").encode("ascii")
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]
        os.fsync(self._fd)
        self._end += len(data)
        self._seq, self._previous = seq, previous
        return numbers

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # NONBLOCK: a FIFO must not hang the start
        try:
            fd = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._path, flags)
        try:
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)  # else the file itself may be gone after a crash
            finally:
                os.close(directory)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _claim(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise TrailError("is not a regular file; name one")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrailError("is written by another process; give each its own file") from None

    def _find_end(self) -> tuple[int, int, str]:
        size = os.fstat(self._fd).st_size
        tail = b""
        start = size
        while start > 0 and tail.count(b"\n") < 2:
            if len(tail) > LAST_LINE_BYTES:
                raise TrailError("is not an audit trail (no line end near its end); move it away to start a new one")
            step = min(STEP_BYTES, start)
            start -= step
            tail = os.pread(self._fd, step, start) + tail
        end = start + tail.rfind(b"\n") + 1
        lines = tail[: end - start].split(b"\n")
        if len(lines) >= 2:
            seq, digest = _read_line(lines[-2])
        elif tail[: len(OPENING)] == OPENING[: len(tail)]:
            seq, digest = 0, FIRST_PREVIOUS
        else:
            raise TrailError("is not an audit trail; move it away to start a new one")
        if end < size:  # only now: a file that is no trail stays as it is
            self.cut_bytes = size - end
            os.ftruncate(self._fd, end)
            os.fsync(self._fd)
        return end, seq, digest

    def _back_to_end(self) -> None:
        """Cuts off what an earlier try left behind.

        Raises:
            OSError: the file is not the one at the path any more (moved, removed), was cut by somebody else,
                or cannot be cut.
        """
        told, there = os.fstat(self._fd), os.stat(self._path)
        if (told.st_dev, told.st_ino) != (there.st_dev, there.st_ino):
            raise FileNotFoundError("the audit file was moved or removed")
        if told.st_size < self._end:
            raise OSError("the audit file was cut by somebody else")
        if told.st_size > self._end:
            os.ftruncate(self._fd, self._end)


def _read_line(line: bytes) -> tuple[int, str]:
    """The number and hash of an entry's line.

    Raises:
        TrailError: it is none, or was changed.
    """
    try:
        text = line.decode("ascii")
        told = json.loads(text)
        body = text[: text.rindex(',"hash":')] + "}"
        seq, digest = told["seq"], told["hash"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TrailError("ends with a line that is not an audit entry; move it away to start a new one") from None
    if type(seq) is not int or seq < 1 or digest_of(body) != digest:
        raise TrailError("ends with an entry that was changed; move it away to keep it and start a new one")
    return seq, digest
