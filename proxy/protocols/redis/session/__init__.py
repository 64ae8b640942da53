"""One Redis connection: commands in, replies in the order of the commands.

    reader ── commands ──▶ judge ── ToServer ──▶ server      requests.py: what may go up, and as what
    reader ◀── ToReader ── lens  ◀── replies ─── server      replies.py: what of the answer is shown

state.py is what the two halves share.
"""

from __future__ import annotations

from proxy.core.buffer import Buffer
from proxy.core.errors import WireError
from proxy.core.session import SessionSettings
from proxy.core.steps import Close, EndServer, Steps
from proxy.core.viewer import Viewer
from rules.view import plain

from .identity import prove
from .replies import Replies
from .requests import Requests
from .state import Loop, State
from .subscriptions import null_invalidation


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

    def from_reader(self, data: bytes) -> Steps[None]:
        if not data:
            yield EndServer()
            return
        self._commands.feed(data)
        yield from self._drive(self._reader_loop)

    def from_server(self, data: bytes) -> Steps[None]:
        if not data:
            yield Close("the server closed the connection")
            return
        self._replies.feed(data)
        yield from self._drive(self._server_loop)

    def policy_changed(self) -> Steps[None]:
        self._state.viewer.look()
        reason = self._answers.must_end()
        if reason:
            yield Close(reason)
        elif not self._state.tracking or self._state.version != 3:
            return  # in RESP2 nothing of this connection's own is told, so that nothing is cached
        elif self._state.mid_frame:
            self._state.owes_invalidation = True
        else:
            self._state.say(plain(null_invalidation()))
            yield from self._state.flush()

    def _drive(self, loop: Loop) -> Steps[None]:
        answer: object = None
        look = self._state.viewer.look
        try:
            look()
            while (step := loop.send(answer)) is not None:
                answer = yield step
                look()
        except WireError:
            yield from self._state.flush()
            raise
        yield from self._state.flush()
