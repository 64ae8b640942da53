"""One Redis connection: commands in, replies in the order of the commands.

    reader ── commands ──▶ judge ── ToServer ──▶ server      requests.py: what may go up, and as what
    reader ◀── ToReader ── lens  ◀── replies ─── server      replies.py: what of the answer is shown

state.py is what the two halves share.
"""

from __future__ import annotations

from proxy.core.buffer import Buffer
from proxy.core.outbox import Loop
from proxy.core.session import SessionSettings
from proxy.core.steps import Close, EndServer, Steps
from proxy.core.viewer import Viewer

from .identity import prove
from .replies import Replies
from .requests import Requests
from .state import State


class RedisSession:
    """See `proxy.core.session.Session`."""

    def __init__(self, viewer: Viewer, settings: SessionSettings) -> None:
        viewer.prove = prove
        self._state = State(viewer, settings)
        self._commands = Buffer()
        self._replies = Buffer()
        self._requests = Requests(self._state, self._commands)
        self._answers = Replies(self._state, self._replies)
        self._reader_loop: Loop = self._requests.run()
        self._server_loop: Loop = self._answers.run()

    def __repr__(self) -> str:
        return f"<RedisSession with {len(self._state.pending)} commands in flight>"

    @property
    def logged_in(self) -> bool:
        return self._state.logged_in

    @property
    def weight(self) -> int:
        return self._state.pending.weight + self._requests.weight

    @property
    def missing_bytes(self) -> int:
        return self._replies.missing

    def from_reader(self, data: bytes) -> Steps[None]:
        if not data:
            yield EndServer()
            return
        self._commands.feed(data)
        yield from self._state.drive(self._reader_loop, self._state.viewer)

    def from_server(self, data: bytes) -> Steps[None]:
        if not data:
            yield Close("the server closed the connection")
            return
        self._replies.feed(data)
        yield from self._state.drive(self._server_loop, self._state.viewer)

    def policy_changed(self) -> Steps[None]:
        yield from self._news("a rule changed")

    @property
    def wakes_at_s(self) -> float:
        return self._state.viewer.lapses_at_s

    def wake(self) -> Steps[None]:
        self._state.viewer.forget()  # first: what goes on is looked at below, and so counts again
        yield from self._news("an unmasked read has lapsed")

    def _news(self, what: str) -> Steps[None]:
        """What was shown may be masked from now on: a copy under way ends, and caches forget all that they hold."""
        state = self._state
        state.viewer.look()
        reason = self._answers.must_end(what)
        if reason:
            yield Close(reason)
            return
        if state.subscriptions.hears_invalidations and state.viewer.anything().covered:
            state.viewer.remember(state.viewer.begin())  # other connections read, at times that are not known here
        told = state.owed_invalidation()
        if told and state.mid_frame:
            state.owes_invalidation = True
        elif told:
            state.say(told)
            yield from state.flush()
