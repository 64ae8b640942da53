"""Makes entries durable and hands out Receipts: the only place that builds one.

All that waits is written together, with one fsync, in a thread. Whoever waits gets no Receipt, and its
reader the masked rendition, when the write fails or takes longer than `LIMIT_S`; nobody ever waits longer.
What was written but not handed out as a Receipt stays: recorded and not shown is allowed, the reverse is not.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import trio

from proxy.core.errors import ConfigError
from rules.audit import REFUSED, Entry, Receipt

from .clock import utc_text
from .log import Log
from .trail import Trail, TrailError

LIMIT_S = 2.0  # how long a read may be kept waiting for its record
RETRY_S = 0.5  # between tries while only notes wait, so that a full disk is not hammered
BATCH_ENTRIES = 2000  # about a megabyte in one write
NOTES_WAITING = 10_000
NOTES_WAITING_BYTES = 16 * 1024 * 1024  # of names, which readers make as long as they like
RECORDS_WAITING = 20_000


@dataclass(slots=True, eq=False)
class _Waiting:
    """Entries that want to be written; `done` is set with `receipts` filled or not. Notes have no `done`."""

    entries: tuple[Entry, ...]
    time: str
    done: trio.Event | None = None
    receipts: tuple[Receipt, ...] | None = None
    withdrawn: bool = False

    @property
    def name_bytes(self) -> int:
        return sum(len(entry.resource.name) for entry in self.entries if entry.resource is not None)


@dataclass(slots=True)
class JournalCounts:
    written: int = 0
    failures: int = 0
    notes_lost: int = 0


@dataclass(slots=True)
class _Thread:
    """Since when a write is under way, by the loop's clock."""

    busy_since_s: float | None = None
    limiter: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))


class Journal:
    """The audit trail of the process. `run` must be running for anything to be written."""

    def __init__(self, path: Path, log: Log) -> None:
        """Opens the trail.

        Raises:
            ConfigError: it cannot be opened or is no trail; the one problem says what to do.
        """
        self._path = path
        self._log = log
        try:
            self._trail: Trail | None = Trail(path)
        except TrailError as refused:
            raise ConfigError([f"{path}: the audit file {refused}"]) from None
        except OSError as failed:
            raise ConfigError([f"{path}: the audit file cannot be opened: {os.strerror(failed.errno or 0)}"]) from None
        if self._trail.cut_bytes:
            log.warning("audit-half-line-cut", path=str(path), count=self._trail.cut_bytes)
        self.counts = JournalCounts()
        self._queue: deque[_Waiting] = deque()
        self._notes_waiting = 0
        self._notes_bytes = 0
        self._records_waiting = 0
        self._wake = trio.Event()
        self._thread = _Thread()
        self._failing = False
        self._closing = False

    @property
    def failing(self) -> bool:
        """Whether the last write failed or the one under way takes too long."""
        return self._failing or self._hangs

    @property
    def _hangs(self) -> bool:
        since_s = self._thread.busy_since_s
        return since_s is not None and trio.current_time() - since_s >= LIMIT_S

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None:
        """A Receipt each once all are on stable storage, or None after at most `LIMIT_S`."""
        if not entries:
            return ()
        if self._hangs or self._closing or self._records_waiting >= RECORDS_WAITING:
            self.counts.failures += 1
            await trio.lowlevel.checkpoint()
            return None
        waiting = _Waiting(entries, utc_text(), trio.Event())
        assert waiting.done is not None
        self._put(waiting)
        self._records_waiting += 1
        try:
            with trio.move_on_after(LIMIT_S):
                await waiting.done.wait()
        finally:
            self._records_waiting -= 1
            waiting.withdrawn = True
        if waiting.receipts is None:
            self.counts.failures += 1
        return waiting.receipts

    def note(self, entry: Entry) -> None:
        """Writes the entry when there is time; a refusal that finds too many notes before it is lost and counted.

        Changes of rules are always kept: refusals, which any reader can bring about, must not push them out.
        """
        full = self._notes_waiting >= NOTES_WAITING or self._notes_bytes >= NOTES_WAITING_BYTES
        if self._closing or (full and entry.event == REFUSED):
            self.counts.notes_lost += 1
            return
        waiting = _Waiting((entry,), utc_text())
        self._notes_waiting += 1
        self._notes_bytes += waiting.name_bytes
        self._put(waiting)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Writes until `close` was called and what waited then has been written or has failed once more."""
        task_status.started()
        while True:
            batch = self._take()
            if batch:
                await self._write(batch)
            elif self._closing:
                return
            else:
                await self._wake.wait()

    def close(self) -> None:
        """Takes nothing new; `run` ends when what waits is written."""
        self._closing = True
        self._wake.set()

    def release(self) -> None:
        """Closes the file, unless a write hangs on it."""
        if self._trail is not None and self._thread.busy_since_s is None:
            self._trail.close()
            self._trail = None

    def _put(self, waiting: _Waiting) -> None:
        self._queue.append(waiting)
        self._wake.set()

    def _take(self) -> list[_Waiting]:
        self._wake = trio.Event()
        batch: list[_Waiting] = []
        count = 0
        while self._queue and count < BATCH_ENTRIES:
            waiting = self._queue.popleft()
            if waiting.withdrawn:  # gave up before it was begun: nobody was shown anything
                continue
            batch.append(waiting)
            count += len(waiting.entries)
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        entries = [(entry, waiting.time) for waiting in batch for entry in waiting.entries]
        self._thread.busy_since_s = trio.current_time()
        try:
            numbers = await trio.to_thread.run_sync(self._append, entries, limiter=self._thread.limiter, abandon_on_cancel=True)
        except (OSError, TrailError, RuntimeError) as failed:  # RuntimeError: no thread can be started
            self._thread.busy_since_s = None
            await self._failed(batch, failed)
            return
        self._thread.busy_since_s = None
        if self._failing:
            self._log.info("audit-writable-again", path=str(self._path))
        self._failing = False
        self.counts.written += len(numbers)
        at = 0
        for waiting in batch:
            count = len(waiting.entries)
            if waiting.done is None:
                self._forget(waiting)
            else:
                waiting.receipts = tuple(map(Receipt, waiting.entries, numbers[at : at + count]))
                waiting.done.set()
            at += count

    def _forget(self, note: _Waiting) -> None:
        self._notes_waiting -= 1
        self._notes_bytes -= note.name_bytes

    def _append(self, entries: list[tuple[Entry, str]]) -> list[int]:
        """In the thread. A trail that cannot be written is opened anew at the next try: the file may be
        another one by then, and what counts is what is at the path."""
        if self._trail is None:
            self._trail = Trail(self._path)
        try:
            return self._trail.append(entries)
        except FileNotFoundError:
            trail, self._trail = self._trail, None
            trail.close()
            raise

    async def _failed(self, batch: list[_Waiting], failed: Exception) -> None:
        if not self._failing:
            reason = os.strerror(failed.errno) if isinstance(failed, OSError) and failed.errno else type(failed).__name__
            self._log.error("audit-not-writable", path=str(self._path), reason=reason)
        self._failing = True
        notes = [waiting for waiting in batch if waiting.done is None]
        for waiting in batch:
            if waiting.done is not None:
                waiting.done.set()
        if self._closing:
            for waiting in notes:
                self._forget(waiting)
            self.counts.notes_lost += len(notes)
            return
        self._queue.extendleft(reversed(notes))
        if notes:
            with trio.move_on_after(RETRY_S):
                while not any(waiting.done is not None and not waiting.withdrawn for waiting in self._queue):
                    if self._closing:
                        return
                    self._wake = trio.Event()
                    await self._wake.wait()
