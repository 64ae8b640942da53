"""Watches the store of rules and puts each good state in force.

    look ──changed──▶ settle ──quiet──▶ read ──good──▶ publish, audit what changed
                                          └──broken──▶ the old state stays, logged with its place

The store is touched in one thread with a time-out: a disk or a server that hangs stops the reading of rules, never
the serving. Which kind of store it is, is not known here. What changed is found by the journal, from what the trail
last told of the rules: the first read of a process tells nothing that is known already.
"""

from __future__ import annotations

import trio

from rules.model import Limits, Problem, RuleBook
from rules.policy import Policy
from rules.store.files import Settle
from rules.store.reading import Reading, Store

from .bounded import NoAnswer, in_thread
from .clock import utc_seconds
from .current import Current
from .journal import Journal
from .log import Log

SETTLING_POLL_S = 0.1
STORE = "store"  # who changed the rules, as the trail says it


class Watch:
    """Keeps `current` as new as the store."""

    def __init__(self, store: Store, current: Current, journal: Journal, limits: Limits, log: Log) -> None:
        self._store = store
        self._current = current
        self._journal = journal
        self._limits = limits
        self._log = log
        self._settle = Settle(store.quiet_s)
        self._thread = trio.CapacityLimiter(1)
        self._book: RuleBook | None = None
        self._again = False
        self._woken = trio.Event()
        self._told: tuple[Problem, ...] = ()
        self.first_read = trio.Event()

    def reread(self) -> None:
        """Reads now, changed or not."""
        self._again = True
        self._woken.set()

    def look(self) -> None:
        """Looks now whether there is a change, without waiting for the next time to do so."""
        self._woken.set()

    @property
    def book(self) -> RuleBook | None:
        """What is in force."""
        return self._book

    async def run(self) -> None:
        """Watches until it is cancelled."""
        while True:
            self._woken = trio.Event()
            asked, self._again = self._again, False
            seen = await self._look()
            if self._settle.due(seen, trio.current_time()) or asked:
                if not await self._read():
                    self._settle.again()
                self.first_read.set()
            with trio.move_on_after(SETTLING_POLL_S if self._settle.waiting else self._store.poll_s):
                await self._woken.wait()

    async def _look(self) -> object:
        """What the store looks like from outside; None while it does not answer."""
        try:
            return await in_thread(self._store.look, self._thread, self._store.limit_s)
        except NoAnswer:
            return None

    async def _read(self) -> bool:
        """Reads and puts in force what can be. False when reading again may find something else."""
        try:
            reading, policy = await in_thread(self._read_blocking, self._thread, self._store.limit_s)
        except NoAnswer:
            self._refuse((Problem(self._store.place, f"not read: no answer in {self._store.limit_s:.0f} s"),))
            return False
        if reading.book is None or policy is None:
            self._refuse(reading.problems)
        else:
            self._accept(reading.book, policy)
        return reading.settled

    def _read_blocking(self) -> tuple[Reading, Policy | None]:
        reading = self._store.read()
        return reading, None if reading.book is None else Policy(reading.book, self._limits)

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
