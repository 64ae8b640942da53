"""Watches the directory of rule files and puts each good state in force.

    fingerprint ──changed──▶ settle ──quiet──▶ read ──good──▶ publish, audit what changed
                                                 └──broken──▶ the old state stays, logged with its place

All of the disk is touched in one thread with a time-out: a mount that hangs stops the reading of rules,
never the serving. What changed is found by the journal, from what the trail last told of the rules: the first read
of a process tells nothing that is known already.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import trio

from proxy.core.errors import ProxyError
from rules.model import Limits, Place, Problem, RuleBook
from rules.policy import Policy
from rules.store.files import Reading, Settle, fingerprint, read_directory

from .clock import utc_seconds
from .current import Current
from .journal import Journal
from .log import Log

POLL_S = 0.5  # with the settling time this keeps a change under two seconds
SETTLING_POLL_S = 0.1
DISK_S = 5.0
STORE = "store"  # who changed the rules, as the trail says it

T = TypeVar("T")


class DiskTimeout(ProxyError):
    """The disk did not answer in `DISK_S`."""


class Watch:
    """Keeps `current` as new as the directory."""

    def __init__(self, directory: Path, current: Current, journal: Journal, limits: Limits, log: Log) -> None:
        self._directory = directory
        self._current = current
        self._journal = journal
        self._limits = limits
        self._log = log
        self._settle = Settle()
        self._thread = trio.CapacityLimiter(1)  # a hanging read keeps its place, so that there is never a second
        self._book: RuleBook | None = None
        self._again = trio.Event()
        self._told: tuple[Problem, ...] = ()
        self.first_read = trio.Event()

    def reread(self) -> None:
        """Reads now, changed or not."""
        self._again.set()

    @property
    def book(self) -> RuleBook | None:
        """What is in force."""
        return self._book

    async def run(self) -> None:
        """Watches until it is cancelled."""
        while True:
            asked = self._again.is_set()
            if asked:
                self._again = trio.Event()
            seen = await self._look()
            if self._settle.due(seen, trio.current_time()) or asked:
                if not await self._read():
                    self._settle.again()
                self.first_read.set()
            with trio.move_on_after(SETTLING_POLL_S if self._settle.waiting else POLL_S):
                await self._again.wait()

    async def _look(self) -> object:
        """What the directory looks like from outside; None while the disk does not answer."""
        try:
            return await self._in_thread(lambda: fingerprint(self._directory))
        except DiskTimeout:
            return None

    async def _read(self) -> bool:
        """Reads and puts in force what can be. False when reading again may find something else."""
        try:
            reading, policy = await self._in_thread(self._read_blocking)
        except DiskTimeout:
            place = Place(str(self._directory), 1, 1)
            self._refuse((Problem(place, f"not read: the disk did not answer in {DISK_S:.0f} s"),))
            return False
        if reading.book is None or policy is None:
            self._refuse(reading.problems)
        else:
            self._accept(reading.book, policy)
        return reading.settled

    def _read_blocking(self) -> tuple[Reading, Policy | None]:
        reading = read_directory(self._directory)
        return reading, None if reading.book is None else Policy(reading.book, self._limits)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        with trio.move_on_after(DISK_S):
            try:
                return await trio.to_thread.run_sync(work, limiter=self._thread, abandon_on_cancel=True)
            except RuntimeError:  # no thread can be started
                raise DiskTimeout from None
        raise DiskTimeout

    def _refuse(self, problems: tuple[Problem, ...]) -> None:
        if problems != self._told:
            for problem in problems:
                self._log.error("rules-refused", place=str(problem.place), message=problem.message)
        self._told = problems
        self._current.refuse(problems)

    def _accept(self, book: RuleBook, policy: Policy) -> None:
        changed = self._book is None or self._book.version != book.version
        if changed or self._told:
            self._log.info("rules-in-force", rules=len(book.rules), version=book.version)
        self._told = ()
        self._current.publish(policy, utc_seconds())
        if changed:
            self._journal.note_rules(book, STORE)
        self._book = book
