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
from rules.audit import REFUSED, Entry, InForce, Receipt
from rules.model import RuleBook

from .clock import utc_text
from .log import Log
from .trail import FileTrail, Item, RulesOf, Trail, TrailError

LIMIT_S = 2.0  # how long a read may be kept waiting for its record
RETRY_S = 0.5  # between tries while only notes wait, so that a full disk is not hammered
BATCH_ENTRIES = 2000  # about a megabyte in one write
NOTES_WAITING = 10_000
NOTES_WAITING_BYTES = 16 * 1024 * 1024  # of names, which readers make as long as they like
RECORDS_WAITING = 20_000


@dataclass(slots=True, eq=False)
class _Waiting:
    """Entries that want to be written; `done` is set with `receipts` filled or not. Notes have no `done`."""

    items: tuple[Item, ...]
    time: str
    done: trio.Event | None = None
    receipts: tuple[Receipt, ...] | None = None
    withdrawn: bool = False

    @property
    def name_bytes(self) -> int:
        return sum(len(item.resource.name) for item in self.items if isinstance(item, Entry) and item.resource is not None)


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

    def __init__(self, where: Path | Trail, log: Log) -> None:
        """Opens the trail; a path is that of a file.

        Raises:
            ConfigError: it cannot be the trail; the one problem says what to do.
        """
        self._trail = FileTrail(where) if isinstance(where, Path) else where
        self._log = log
        self._cut_told = 0
        self._failing = False
        trail = self._trail
        try:
            trail.open()
        except TrailError as refused:
            trail.close()
            raise ConfigError([f"{trail.where}: the audit {trail.what} {refused}"]) from None
        except OSError as failed:
            trail.close()
            reason = os.strerror(failed.errno) if failed.errno else str(failed)
            if not trail.may_come_later:
                raise ConfigError([f"{trail.where}: the audit {trail.what} cannot be opened: {reason}"]) from None
            self._tell_failing(reason)
        self._tell_cut()
        self.counts = JournalCounts()
        self._queue: deque[_Waiting] = deque()
        self._notes_waiting = 0
        self._notes_bytes = 0
        self._records_waiting = 0
        self._wake = trio.Event()
        self._thread = _Thread()
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

    def note_rules(self, book: RuleBook, who: str) -> None:
        """Rules that came into force: whatever of them the trail does not know yet is written, and never lost to others."""
        if self._closing:
            self.counts.notes_lost += 1
            return
        self._notes_waiting += 1
        self._put(_Waiting((RulesOf(InForce.of(book), who),), utc_text()))

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
        """Closes the trail, unless a write hangs on it."""
        if self._thread.busy_since_s is None:
            self._trail.close()

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
            count += len(waiting.items)
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        items = [(item, waiting.time) for waiting in batch for item in waiting.items]
        self._thread.busy_since_s = trio.current_time()
        try:
            numbers = await trio.to_thread.run_sync(self._append, items, limiter=self._thread.limiter, abandon_on_cancel=True)
        except (OSError, TrailError, RuntimeError) as failed:  # RuntimeError: no thread can be started
            self._thread.busy_since_s = None
            await self._failed(batch, failed)
            return
        self._thread.busy_since_s = None
        if self._failing:
            self._log.info("audit-writable-again", path=self._trail.where)
        self._failing = False
        self._tell_cut()
        self.counts.written += len(numbers)
        at = 0
        for waiting in batch:
            count = len(waiting.items)
            if waiting.done is None:
                self._forget(waiting)
            else:
                entries = [item for item in waiting.items if isinstance(item, Entry)]
                waiting.receipts = tuple(map(Receipt, entries, numbers[at : at + count]))
                waiting.done.set()
            at += count

    def _forget(self, note: _Waiting) -> None:
        self._notes_waiting -= 1
        self._notes_bytes -= note.name_bytes

    def _append(self, items: list[tuple[Item, str]]) -> list[int]:
        """In the thread. A trail that could not be written is opened anew at the next try: what counts is what is at
        its place by then."""
        try:
            return self._trail.append(items)
        except (OSError, TrailError):
            self._trail.close()
            raise

    def _tell_cut(self) -> None:
        if self._trail.cut_bytes > self._cut_told:
            self._log.warning("audit-half-line-cut", path=self._trail.where, count=self._trail.cut_bytes - self._cut_told)
            self._cut_told = self._trail.cut_bytes

    def _tell_failing(self, reason: str) -> None:
        if not self._failing:
            self._log.error("audit-not-writable", path=self._trail.where, reason=reason)
        self._failing = True

    async def _failed(self, batch: list[_Waiting], failed: Exception) -> None:
        match failed:
            case OSError(errno=int(number)):
                self._tell_failing(os.strerror(number))
            case OSError() | TrailError():
                self._tell_failing(str(failed))
            case _:
                self._tell_failing(type(failed).__name__)
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
