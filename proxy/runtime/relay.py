"""Carries bytes and steps between two streams and a session.

    reader ── from_reader ──▶ ┌─────────┐ ── ToServer ──▶ server
    reader ◀── ToReader ───── │ session │ ◀─ from_server ── server
                              └─────────┘ ── Record, Note, Ask ──▶ services

Each direction is a lane, a task of its own; news (a change of policy, a read that lapses) are a third. The
order of steps within a lane is the order on the wire; a step that waits holds back its own lane only. A lane
reads the next chunk when its session is done with the last one, so what is held is one chunk and one step a
lane.

A step that may take long is worked out in a thread, so that everybody else is carried meanwhile. A session is
never in two steps at once: while a thread works one out, its other lanes wait for their turn. The thread is
always waited for, even when the connection is over: nothing else may touch what it works on.

Here nothing is decided and nothing is looked at: contents pass as bytes and are never logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol, assert_never

import trio

from proxy.core.addresses import Endpoint, Node
from proxy.core.errors import WireError
from proxy.core.session import Session
from proxy.core.steps import Advertise, Ask, Close, EndServer, Hold, Note, Probe, Record, Step, Steps, ToReader, ToServer
from rules.audit import Entry, Receipt

CHUNK_BYTES = 64 * 1024
HEAVY_BYTES = CHUNK_BYTES  # more than one chunk at once; going to a thread and back costs about 0.1 ms
GATHER_BYTES = 1024 * 1024  # read at once where a large frame is gathered: fewer ways to a thread and back
SLOW_S = 0.01  # a lane whose last chunk took a step longer than this goes to a thread with the next, whatever its size
THREADS = trio.CapacityLimiter(4)  # of the process: more would only hold more large values at once
LAST_WORDS_S = 2.0  # for the answer to nonsense: a reader that does not take it may not keep the connection
LINGER_S = 1.0  # closing a socket with unread bytes resets it, and the reset can overtake what was sent last


class Services(Protocol):
    """What the relay asks of the rest of the process on a session's behalf."""

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None: ...

    def note(self, entry: Entry) -> None: ...

    async def ask(self, probe: Probe) -> bool: ...

    async def advertise(self, nodes: tuple[Node, ...]) -> Mapping[int, Endpoint]: ...

    def worked(self, seconds: float) -> None:
        """A step took that long. Called in the thread that the step ran in."""
        ...


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds; 0 is never."""

    login_s: float = 30.0
    idle_s: float = 0.0
    half_close_s: float = 30.0


class _Lane:
    """One direction: how far it has come, for whoever holds, and how much its next step may have to do."""

    __slots__ = ("busy", "gathered", "holding", "longest_s", "only_keeps", "was_slow")

    def __init__(self) -> None:
        self.busy = False
        self.holding = False
        self.gathered = 0
        """Bytes fed since a chunk came to anything: those of a frame that is not whole yet."""
        self.only_keeps = False
        """Nothing comes of its chunk but that it is kept: more of the frame is missing."""
        self.longest_s = 0.0
        """The longest step that the last chunk took."""
        self.was_slow = False

    @property
    def room(self) -> int:
        """How many bytes to read next."""
        return CHUNK_BYTES if self.gathered < HEAVY_BYTES else GATHER_BYTES

    def begin(self, size: int) -> None:
        self.busy = True
        self.was_slow = self.longest_s > SLOW_S
        self.longest_s = 0.0
        self.gathered += size

    def came_to_something(self, size: int) -> None:
        """All frames of the chunk but perhaps a last one, cut off, are done with."""
        self.gathered = max(0, size - CHUNK_BYTES)


class Relay:
    """One reader's connection. `run` returns the reason it ended, for the log.

    `server_lost` tells afterwards whether the server's side ended by itself.
    """

    def __init__(
        self,
        session: Session,
        reader: trio.abc.HalfCloseableStream,
        server: trio.abc.HalfCloseableStream,
        services: Services,
        times: Times = Times(),
    ) -> None:
        self._session = session
        self._reader = reader
        self._server = server
        self._services = services
        self._times = times
        self._reader_lock = trio.Lock()
        self._server_lock = trio.Lock()
        self._progress = trio.Event()
        self._policy_news = trio.Event()
        self._is_news = False
        self._alarm = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._is_policy_lane_open = False
        self._from_reader = _Lane()
        self._from_server = _Lane()
        self._policy_lane = _Lane()
        self._turn = trio.Lock()  # held while a thread works a step out
        self._clock = trio.current_time
        self._scope = trio.CancelScope()
        self._reason: str | None = None
        self._linger = False
        self._closing = False
        self._draining = False
        self._server_ended = False
        self._server_owes = False
        self._active_s = 0.0
        self._worked_s = 0.0  # changed by whoever is in a step
        self.server_lost = False

    def policy_changed(self) -> None:
        """The policy was replaced: the session is told as soon as its lane is free."""
        self._is_news = True
        self._policy_news.set()
        self._open_policy_lane()

    def drain(self) -> None:
        """Reads no further commands: what was read is still answered. Whoever never falls silent would else be cut off
        inside a reply."""
        self._draining = True

    def end(self, reason: str) -> None:
        """Ends both sides so that what was sent last arrives, though the reader may have sent more meanwhile."""
        self._finish(reason, linger=True)

    def quiet_for_s(self) -> float:
        """How long no step was under way and the server was the last to speak; 0 when busy."""
        lanes = (self._from_reader, self._from_server, self._policy_lane)
        if self._server_owes or any(lane.busy for lane in lanes):
            return 0.0
        return trio.current_time() - self._active_s

    async def run(self) -> str:
        """Carries until a side ends, a time-out, or `end`; both streams are closed when it returns.

        Raises:
            Exception: whatever a session raises that is not a WireError, which is a fault of its own; both
                streams are closed by then.
        """
        self._active_s = trio.current_time()
        self._clock = trio.lowlevel.current_clock().current_time  # as trio.current_time, for any thread
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._carry_reader)
                    nursery.start_soon(self._carry_server)
                    self._nursery = nursery
                    self._open_policy_lane()
                    nursery.start_soon(self._watch_login)
                    nursery.start_soon(self._watch_idle)
                    try:
                        await trio.sleep_forever()
                    finally:  # before the nursery takes nobody any more: news may come at any moment
                        self._nursery = None
            await trio.aclose_forcefully(self._server)
            if self._linger:
                await self._let_go_of_reader()
        finally:
            await trio.aclose_forcefully(self._server)
            await trio.aclose_forcefully(self._reader)
        return self._reason or "cancelled"

    def _finish(self, reason: str, *, linger: bool = False) -> None:
        self._closing = True
        if self._reason is None:
            self._reason = reason
            self._linger = linger
        self._scope.cancel()

    async def _let_go_of_reader(self) -> None:
        """Ends our side and waits a moment for the reader's, so that what was sent last arrives."""
        with trio.move_on_after(LINGER_S):
            try:
                await self._reader.send_eof()
                while await self._reader.receive_some(CHUNK_BYTES):
                    pass
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # gone already, which is what this waits for

    # the lanes

    async def _carry_reader(self) -> None:
        while not (self._server_ended or self._draining):
            try:
                data = bytes(await self._reader.receive_some(self._from_reader.room))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._finish("the reader's connection broke")
                return
            self._touch()
            await self._carry_out(self._session.from_reader, data, self._from_reader)
            if not data:
                break
        # the reader has ended or is read no further, or the server takes no more: what it still says is carried for a while
        await trio.sleep(self._times.half_close_s)
        self._finish("the server did not end in time")

    async def _carry_server(self) -> None:
        while True:
            try:
                data = bytes(await self._server.receive_some(self._from_server.room))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self._touch()
            self._server_owes = False
            self.server_lost = not data
            self._from_server.only_keeps = 0 < len(data) < self._session.missing_bytes
            await self._carry_out(self._session.from_server, data, self._from_server)
            if not data:
                with trio.move_on_after(LAST_WORDS_S):
                    await self._reader_lock.acquire()  # what another lane is sending goes out whole
                self._finish("the server ended", linger=True)
                return

    def _open_policy_lane(self) -> None:
        """Only while there is something to do or to wait for: of most readers there is neither, and a task takes room."""
        if self._nursery is None or self._is_policy_lane_open:
            return
        if self._is_news or self._session.wakes_at_s < inf:
            self._is_policy_lane_open = True
            self._nursery.start_soon(self._carry_policy)

    async def _carry_policy(self) -> None:
        while self._is_news or self._session.wakes_at_s < inf:
            if not self._is_news:
                self._policy_news = trio.Event()
                with trio.CancelScope(deadline=self._session.wakes_at_s) as self._alarm:
                    await self._policy_news.wait()
            if self._is_news:
                self._is_news = False
                await self._carry_out(lambda _: self._session.policy_changed(), b"", self._policy_lane)
            elif self._session.wakes_at_s <= trio.current_time():
                await self._carry_out(lambda _: self._session.wake(), b"", self._policy_lane)
        self._is_policy_lane_open = False

    async def _watch_login(self) -> None:
        """The time that steps took is not the reader's: a first command of 60 MiB may take as long by itself."""
        if not self._times.login_s:
            return
        began_s, left_s = trio.current_time(), self._times.login_s
        while left_s > 0:
            await trio.sleep(left_s)
            async with self._turn:
                left_s = began_s + self._times.login_s + self._worked_s - trio.current_time()
        if not self._session.logged_in:
            self._finish("not logged in in time")

    async def _watch_idle(self) -> None:
        if not self._times.idle_s:
            return
        while True:
            left_s = self._active_s + self._times.idle_s - trio.current_time()
            if left_s <= 0 and not self._server_owes:  # whoever waits for an answer has asked, and is not silent
                self._finish("idle")
                return
            await trio.sleep(left_s if left_s > 0 else self._times.idle_s)

    def _touch(self) -> None:
        self._active_s = trio.current_time()

    # steps

    async def _carry_out(self, feed: Callable[[bytes], Steps[None]], data: bytes, lane: _Lane) -> None:
        lane.begin(len(data))
        try:
            if await self._step_through(feed(data), lane):
                lane.came_to_something(len(data))
        except WireError as nonsense:
            await self._hang_up(nonsense)
        finally:
            lane.busy = False

    async def _step_through(self, steps: Steps[None], lane: _Lane) -> bool:
        """Carries the steps out; says whether there was anything to carry out."""
        answer: object = None
        anything = False
        while True:
            step = await self._next_step(steps, answer, lane)
            if isinstance(step, Hold):
                await self._hold(lane)
                answer = None
                continue
            lane.holding = False
            self._signal()
            if step is None:
                return anything
            anything = True
            answer = await self._do(step)

    async def _next_step(self, steps: Steps[None], answer: object, lane: _Lane) -> Step | None:
        """The session's next step in this lane, None after the last. No other lane is in a step of it meanwhile:
        what is small runs between two awaits, what is not holds the turn."""
        await self._stop_if_closing()
        if not (self._turn.locked() or self._is_heavy(lane)):
            return self._work_out(steps, answer, lane)
        async with self._turn:
            await self._stop_if_closing()
            if not self._is_heavy(lane):
                return self._work_out(steps, answer, lane)
            step = await trio.to_thread.run_sync(self._work_out, steps, answer, lane, limiter=THREADS)
            await self._stop_if_closing()  # what is worked out may no longer be sent
        return step

    async def _stop_if_closing(self) -> None:
        """Once a lane met nonsense or the end, nothing more is judged or sent."""
        if self._closing:
            await trio.sleep_forever()

    def _is_heavy(self, lane: _Lane) -> bool:
        if lane.only_keeps:
            return False
        if lane.was_slow or lane.longest_s > SLOW_S:
            return True
        return lane.gathered + self._session.weight > HEAVY_BYTES

    def _work_out(self, steps: Steps[None], answer: object, lane: _Lane) -> Step | None:
        """In the loop or in a thread; touches the session, its lane and `worked` alone."""
        began_s = self._clock()
        try:
            return steps.send(answer)
        except StopIteration:
            return None
        finally:
            took_s = self._clock() - began_s
            lane.longest_s = max(lane.longest_s, took_s)
            self._worked_s += took_s
            self._services.worked(took_s)

    def _signal(self) -> None:
        """A lane has come further: whoever holds looks again, and the session may want to be woken at another time."""
        self._alarm.deadline = self._session.wakes_at_s
        self._open_policy_lane()
        self._progress.set()
        self._progress = trio.Event()

    async def _hold(self, lane: _Lane) -> None:
        """Waits for another lane's progress.

        The session has looked just before, and no other lane of it ran since (not even while a thread looked), so
        an event taken here misses nothing. Holding again after looking again is no progress: two lanes that hold
        would wake each other for ever.
        """
        if not lane.holding:
            lane.holding = True
            self._signal()
        await self._progress.wait()

    async def _do(self, step: Step) -> object:
        match step:
            case ToReader(data):
                await self._send_reader(data)
            case ToServer(data):
                await self._send_server(data)
            case Record(entries):
                return await self._services.record(entries)
            case Note(entry):
                self._services.note(entry)
            case Ask(probe):
                return await self._services.ask(probe)
            case Advertise(nodes):
                return await self._services.advertise(nodes)
            case EndServer():
                await self._end_server()
            case Close(reason):
                self._finish(reason, linger=True)
                await trio.sleep_forever()
            case Hold():
                raise AssertionError("Hold is carried out by its lane")
            case _:
                assert_never(step)
        return None

    async def _send_reader(self, data: bytes) -> None:
        async with self._reader_lock:
            try:
                await self._reader.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._finish("the reader's connection broke")
                await trio.sleep_forever()
        self._touch()

    async def _send_server(self, data: bytes) -> None:
        async with self._server_lock:
            if self._server_ended:
                return
            self._server_owes = True
            try:
                await self._server.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._server_ended = True  # its own lane still carries what it said before, then the end
        self._touch()

    async def _end_server(self) -> None:
        async with self._server_lock:
            if not self._server_ended:
                self._server_ended = True
                try:
                    await self._server.send_eof()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return  # gone already; its own lane sees the end

    async def _hang_up(self, nonsense: WireError) -> None:
        if self._closing:
            await trio.sleep_forever()
        self._closing = True
        if nonsense.answer:
            with trio.move_on_after(LAST_WORDS_S):
                await self._send_reader(nonsense.answer)
        self._finish(f"nonsense: {type(nonsense).__name__}", linger=True)
        await trio.sleep_forever()
