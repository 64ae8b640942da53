"""The supervisor's side: starts the workers, replaces those that end, asks them how they are, and ends them.

One process more than there are workers stands by, with everything imported: an interpreter takes too long to start
to be waited for when a worker has ended. It is told nothing, and listens on nothing, before it takes a place.

start ──▶ hello ──▶ report, report, …  ──ends──▶ its counts are kept ──▶ wait ──▶ start
                     └─ no answer to HUNG_POLLS: killed ─┘        (none at first, up to LONGEST_S for one that
                                                                    ends at once and again)
"""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from proxy.runtime.log import Log

from .channel import Channel, ChannelBroken, Message
from .figures import Figures, joined, without_gauges
from .ports import Taken, share
from .report import Report, report_from

POLL_S = 1.0  # how much of the counts is lost with a worker that is killed
ANSWER_S = 1.0  # for whoever asks the admin port
HUNG_POLLS = 60  # the largest value takes less; a worker that stands still keeps its readers waiting and takes new ones
STEADY_S = 10.0  # whoever lived so long is started anew at once
FIRST_S = 0.5
LONGEST_S = 30.0
DRAIN_S = 12.5  # above what a worker takes to drain and to write its trail; with the next, all has ended within 15 s
STOP_S = 1.5
LAST_WORDS_S = 1.0  # between a worker's end and that of what it said
SKEW_S = 2.0  # the workers look for new rules each for itself, so that a moment of two versions is as it should be
LINE_BYTES = 4000  # of the log; a pipe takes so many in one piece
CHUNK_BYTES = 16 * 1024
DIFFER = "workers are in force with different versions of the rules"


@dataclass(frozen=True, slots=True)
class Plan:
    """What every worker is started with: `command` is completed by the number of its descriptor."""

    count: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    addresses: tuple[Taken, ...]
    hello: Callable[[int], Message]


@dataclass(frozen=True, slots=True)
class Begun:
    """A process that waits for its hello, with its own sockets by the numbers that they have there."""

    process: trio.Process
    link: socket.socket
    sockets: list[list[int]]

    async def drop(self) -> None:
        self.link.close()
        with suppress(OSError):
            self.process.kill()
        if self.process.stderr is not None:
            await self.process.stderr.aclose()
        await self.process.wait()


@dataclass(frozen=True, slots=True)
class Refused:
    """A worker's reason not to serve, as an exit code and its lines."""

    code: int
    problems: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Worker:
    """One living process."""

    number: int
    process: trio.Process
    channel: Channel
    report: Report | None = None
    refused: Refused | None = None
    asked_s: float | None = None
    """Since when an answer is waited for, by the loop's clock."""
    unanswered: int = 0
    """Polls since the last answer."""
    heard: trio.Event = field(default_factory=trio.Event)

    async def ask(self) -> None:
        """Asks for a report, unless one is waited for."""
        if self.asked_s is None:
            self.asked_s = trio.current_time()
            try:
                await self.channel.send({"want": "report"})
            except trio.Cancelled:  # whoever asks next must ask, not wait
                self.asked_s = None
                raise

    async def fresh(self) -> None:
        """Returns when a report has come."""
        heard = self.heard
        await self.ask()
        await heard.wait()

    def silent_for_s(self) -> float:
        return 0.0 if self.asked_s is None else trio.current_time() - self.asked_s

    def take(self, report: Report) -> None:
        self.report = report
        self.asked_s = None
        self.unanswered = 0
        heard, self.heard = self.heard, trio.Event()
        heard.set()

    def kill(self) -> None:
        with suppress(OSError):
            self.process.kill()


class Crew:
    """All the workers. `run` returns when they have ended after `drain` or `stop_now`, or when `refused` says why."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self._plan = plan
        self._log = log
        self._living: dict[int, Worker] = {}
        self._gone: Figures = {}
        self._ending = trio.Event()
        self._at_once = trio.Event()
        self._versions_differ_s: float | None = None
        self._refreshing: trio.Event | None = None
        self._skew_told = False
        self.up = trio.Event()
        """Every worker has served."""
        self._served: set[int] = set()
        self._standing_by: Begun | None = None
        self.restarts = 0
        self.refused: Refused | None = None

    # What it tells

    @property
    def wanted(self) -> int:
        return self._plan.count

    @property
    def living(self) -> Sequence[Worker]:
        return tuple(self._living[number] for number in sorted(self._living))

    @property
    def draining(self) -> bool:
        return self._ending.is_set()

    @property
    def differ_for_s(self) -> float:
        """Since when workers are in force with different versions of the rules; 0 where they are not."""
        since_s = self._versions_differ_s
        return 0.0 if since_s is None else trio.current_time() - since_s

    def figures(self, own: Figures) -> Figures:
        """Of all workers, dead ones included, and of the supervisor itself."""
        living = [each.report.figures for each in self.living if each.report is not None]
        return joined([own, self._gone, *living])

    async def refresh(self) -> None:
        """Returns when every worker has told how it is, after `ANSWER_S` at most."""
        if self._refreshing is not None:
            await self._refreshing.wait()
            return
        self._refreshing = trio.Event()
        try:
            with trio.move_on_after(ANSWER_S):
                async with trio.open_nursery() as nursery:
                    for each in self.living:
                        nursery.start_soon(each.fresh)
        finally:
            self._refreshing.set()
            self._refreshing = None

    # What it is told

    def drain(self) -> None:
        """Ends every worker when its readers are served; called again, at once."""
        if self._ending.is_set():
            self._at_once.set()
        self._ending.set()

    async def reread(self) -> None:
        await self._tell_all("reread")

    async def _tell_all(self, want: str) -> None:
        async with trio.open_nursery() as nursery:
            for each in self.living:
                nursery.start_soon(each.channel.send, {"want": want})

    # Its life

    async def run(self) -> None:
        async with trio.open_nursery() as around:
            around.start_soon(self._watch)
            around.start_soon(self._end)
            around.start_soon(self._keep_one_by)
            async with trio.open_nursery() as keepers:
                for number in range(1, self._plan.count + 1):
                    keepers.start_soon(self._keep, number)
            around.cancel_scope.cancel()

    async def _end(self) -> None:
        await self._ending.wait()
        with trio.move_on_after(DRAIN_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell_all, "drain")
                await self._at_once.wait()
                nursery.cancel_scope.cancel()
        with trio.move_on_after(STOP_S):
            await self._tell_all("stop")
            await trio.sleep_forever()
        while True:
            for each in self.living:
                self._log.error("worker-killed", worker=each.number, reason="it did not stop")
                each.kill()
            await trio.sleep(LAST_WORDS_S)

    async def _watch(self) -> None:
        while True:
            for each in self.living:
                each.unanswered += 1  # counted, since time passes as well while the supervisor itself stands still
                if each.unanswered > HUNG_POLLS:
                    self._log.error("worker-killed", worker=each.number, reason=f"no answer for {HUNG_POLLS * POLL_S:.0f} s")
                    each.kill()
            with trio.move_on_after(POLL_S):
                await self.refresh()
                await trio.sleep_forever()

    async def _keep(self, number: int) -> None:
        """One place in the crew, filled again and again."""
        wait_s = 0.0
        while not self._ending.is_set():
            begun_s = trio.current_time()
            try:
                worker, hello = await self._start(number)
            except OSError as failed:
                reason = failed.strerror or type(failed).__name__
                self._log.error("worker-not-started", worker=number, reason=reason)
            else:
                await self._attend(worker, hello)
            if self._ending.is_set():
                return
            lived_s = trio.current_time() - begun_s
            with trio.move_on_after(0.0 if lived_s >= STEADY_S else wait_s):
                await self._ending.wait()
            wait_s = 0.0 if lived_s >= STEADY_S else min(max(FIRST_S, 2 * wait_s), LONGEST_S)
            self.restarts += not self._ending.is_set()

    async def _start(self, number: int) -> tuple[Worker, Message]:
        """
        Raises:
            OSError: no process, no descriptors, or an address that cannot be bound any more.
        """
        begun, self._standing_by = self._standing_by, None
        if begun is not None and begun.process.poll() is not None:
            await begun.drop()
            begun = None
        if begun is None:
            begun = await self._begin()
        worker = Worker(number, begun.process, Channel(begun.link))
        worker.asked_s = trio.current_time()  # its first report comes unasked
        self._living[number] = worker
        return worker, {**self._plan.hello(number), "sockets": begun.sockets}

    async def _begin(self) -> Begun:
        """
        Raises:
            OSError: as `_start`.
        """
        ours, theirs = socket.socketpair()
        handed = [theirs]
        try:
            listens = []
            for taken in self._plan.addresses:
                listens.append(share(taken))
                handed += listens[-1]
            process = await trio.lowlevel.open_process(
                [*self._plan.command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[each.fileno() for each in handed],
                env=dict(self._plan.environment),
            )
            return Begun(process, ours, [[each.fileno() for each in own] for own in listens])
        except BaseException:
            ours.close()
            raise
        finally:
            for each in handed:
                each.close()

    async def _keep_one_by(self) -> None:
        """Begins a process for the next worker that ends, whenever every place is taken and none stands by."""
        try:
            await self.up.wait()
            while True:
                if self._standing_by is not None and self._standing_by.process.poll() is not None:
                    gone, self._standing_by = self._standing_by, None
                    await gone.drop()
                    await trio.sleep(LONGEST_S)
                if self._standing_by is None and self._is_whole():
                    try:
                        self._standing_by = await self._begin()
                    except OSError:  # then the next worker is begun when it is needed, which says why it cannot be
                        await trio.sleep(LONGEST_S)
                await trio.sleep(POLL_S)
        finally:
            with trio.CancelScope(shield=True):
                if self._standing_by is not None:
                    await self._standing_by.drop()

    def _is_whole(self) -> bool:
        """Every place is taken by a worker that serves: another interpreter that starts does not hold one up."""
        serving = [each for each in self.living if each.report is not None and each.report.bound]
        return len(serving) == self._plan.count and not self._ending.is_set()

    async def _attend(self, worker: Worker, hello: Message) -> None:
        """Returns when the process has ended and all that it said was heard."""
        said = trio.Event()

        async def hear() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, worker, hello)
                nursery.start_soon(self._pass_on, worker)
            said.set()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear)
                await worker.process.wait()
                with trio.move_on_after(LAST_WORDS_S):
                    await said.wait()
                nursery.cancel_scope.cancel()
        finally:
            worker.kill()  # it has ended, unless this is cancelled
            self._retire(worker)
            await worker.channel.close()

    async def _listen(self, worker: Worker, hello: Message) -> None:
        await worker.channel.send(hello)
        if self._ending.is_set():  # it was not there yet when the others were told
            await worker.channel.send({"want": "drain"})
        try:
            while (message := await worker.channel.receive()) is not None:
                self._take(worker, message)
        except ChannelBroken as broken:
            self._log.error("worker-killed", worker=worker.number, reason=str(broken))
            worker.kill()
            return
        with trio.move_on_after(DRAIN_S):  # it is about to end
            await worker.process.wait()
            return
        worker.kill()

    def _take(self, worker: Worker, message: Message) -> None:
        """
        Raises:
            ChannelBroken: it says nothing that is known.
        """
        match message:
            case {"report": told}:
                worker.take(report_from(told))
                if worker.report is not None and worker.report.bound:
                    self._served.add(worker.number)
                if len(self._served) == self._plan.count:
                    self.up.set()
                self._compare()
            case {"refused": int(code), "problems": list(problems)}:
                worker.refused = Refused(code, tuple(map(str, problems)))
            case _:
                raise ChannelBroken("not a message")

    def _compare(self) -> None:
        versions = {each.report.version for each in self.living if each.report is not None}
        if len(versions) < 2:
            self._versions_differ_s, self._skew_told = None, False
        elif self._versions_differ_s is None:
            self._versions_differ_s = trio.current_time()
        elif not self._skew_told and self.differ_for_s > SKEW_S:
            self._skew_told = True
            self._log.warning("workers-differ", reason=DIFFER)

    async def _pass_on(self, worker: Worker) -> None:
        """What the worker writes to its standard error, in whole lines."""
        stream = worker.process.stderr
        assert stream is not None
        held = b""
        async with stream:
            while data := await stream.receive_some(CHUNK_BYTES):
                *lines, held = (held + data).split(b"\n")
                if len(held) > LINE_BYTES:
                    lines.append(held)
                    held = b""
                for line in lines:
                    self._log.pass_on(line[:LINE_BYTES].decode("ascii", "backslashreplace"))
        if held:
            self._log.pass_on(held[:LINE_BYTES].decode("ascii", "backslashreplace"))

    def _retire(self, worker: Worker) -> None:
        del self._living[worker.number]
        if worker.report is not None:
            self._gone = joined([self._gone, without_gauges(worker.report.figures)])
        worker.heard.set()
        self._compare()
        code = worker.process.returncode
        reason = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        tell = self._log.info if self._ending.is_set() else self._log.error
        tell("worker-ended", worker=worker.number, reason=reason)
        if worker.refused is None or self._ending.is_set():
            return
        if worker.number in self._served:  # an earlier one of its place served: the others go on
            for problem in worker.refused.problems:
                self._log.error("worker-refused", worker=worker.number, message=problem)
        else:
            self.refused = worker.refused
            self._at_once.set()
            self._ending.set()
