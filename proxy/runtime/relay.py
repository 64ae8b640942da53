"""Carries bytes and steps between two streams and a session.

    reader ── from_reader ──▶ ┌─────────┐ ── ToServer ──▶ server
    reader ◀── ToReader ───── │ session │ ◀─ from_server ── server
                              └─────────┘ ── Record, Note, Ask ──▶ services

Each direction is a lane, a task of its own; a change of policy is a third. The order of steps within a lane
is the order on the wire; a step that waits holds back its own lane only. A lane reads the next chunk when
its session is done with the last one, so what is held is one chunk and one step a lane.

Here nothing is decided and nothing is looked at: contents pass as bytes and are never logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

import trio

from proxy.core.errors import WireError
from proxy.core.session import Session
from proxy.core.steps import Ask, Close, EndServer, Hold, Note, Probe, Record, Step, Steps, ToReader, ToServer
from rules.audit import Entry, Receipt

CHUNK_BYTES = 64 * 1024
LAST_WORDS_S = 2.0  # for the answer to nonsense: a reader that does not take it may not keep the connection
LINGER_S = 1.0  # closing a socket with unread bytes resets it, and the reset can overtake what was sent last


class Services(Protocol):
    """What the relay asks of the rest of the process on a session's behalf."""

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None: ...

    def note(self, entry: Entry) -> None: ...

    async def ask(self, probe: Probe) -> bool: ...

    def worked(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds; 0 is never."""

    login_s: float = 30.0
    idle_s: float = 0.0
    half_close_s: float = 30.0


class _Lane:
    """One direction: how far it has come, for whoever holds."""

    __slots__ = ("busy", "holding")

    def __init__(self) -> None:
        self.busy = False
        self.holding = False


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
        self._from_reader = _Lane()
        self._from_server = _Lane()
        self._policy_lane = _Lane()
        self._scope = trio.CancelScope()
        self._reason: str | None = None
        self._linger = False
        self._closing = False
        self._draining = False
        self._server_ended = False
        self._server_owes = False
        self._active_s = 0.0
        self.server_lost = False

    def policy_changed(self) -> None:
        """The policy was replaced: the session is told as soon as its lane is free."""
        self._policy_news.set()

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
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._carry_reader)
                    nursery.start_soon(self._carry_server)
                    nursery.start_soon(self._carry_policy)
                    nursery.start_soon(self._watch_login)
                    nursery.start_soon(self._watch_idle)
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
                data = bytes(await self._reader.receive_some(CHUNK_BYTES))
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
                data = bytes(await self._server.receive_some(CHUNK_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self._touch()
            self._server_owes = False
            self.server_lost = not data
            await self._carry_out(self._session.from_server, data, self._from_server)
            if not data:
                with trio.move_on_after(LAST_WORDS_S):
                    await self._reader_lock.acquire()  # what another lane is sending goes out whole
                self._finish("the server ended", linger=True)
                return

    async def _carry_policy(self) -> None:
        while True:
            await self._policy_news.wait()
            self._policy_news = trio.Event()
            await self._carry_out(lambda _: self._session.policy_changed(), b"", self._policy_lane)

    async def _watch_login(self) -> None:
        if self._times.login_s:
            await trio.sleep(self._times.login_s)
            if not self._session.logged_in:
                self._finish("not logged in in time")

    async def _watch_idle(self) -> None:
        if not self._times.idle_s:
            return
        while True:
            left_s = self._active_s + self._times.idle_s - trio.current_time()
            if left_s <= 0:
                self._finish("idle")
                return
            await trio.sleep(left_s)

    def _touch(self) -> None:
        self._active_s = trio.current_time()

    # steps

    async def _carry_out(self, feed: Callable[[bytes], Steps[None]], data: bytes, lane: _Lane) -> None:
        lane.busy = True
        try:
            await self._step_through(feed(data), lane)
        except WireError as nonsense:
            await self._hang_up(nonsense)
        finally:
            lane.busy = False

    async def _step_through(self, steps: Steps[None], lane: _Lane) -> None:
        answer: object = None
        while True:
            if self._closing:  # the other lane met nonsense or the end: nothing more is judged or sent
                await trio.sleep_forever()
            began_s = trio.current_time()
            try:
                step = steps.send(answer)
            except StopIteration:
                self._services.worked(trio.current_time() - began_s)
                lane.holding = False
                self._signal()
                return
            self._services.worked(trio.current_time() - began_s)
            if isinstance(step, Hold):
                await self._hold(lane)
                answer = None
            else:
                lane.holding = False
                self._signal()
                answer = await self._do(step)

    def _signal(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    async def _hold(self, lane: _Lane) -> None:
        """Waits for another lane's progress.

        The session has looked just before, and no other task ran since, so an event taken here misses
        nothing. Holding again after looking again is no progress: two lanes that hold would wake each other
        for ever.
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
