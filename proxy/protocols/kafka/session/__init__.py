"""One Kafka connection: requests in, answers in the order of the requests.

    reader ── requests ──▶ table ──── ToServer ──▶ broker     requests.py, fetching.py, producing.py: what goes up
    reader ◀── ToReader ── answers ◀── frames ──── broker     answers.py, fetching.py: what of it is shown

state.py is what the two halves share, pending.py what is in flight, identity.py who reads.
"""

from __future__ import annotations

from math import inf

from proxy.core.buffer import Buffer
from proxy.core.outbox import Loop
from proxy.core.session import SessionSettings
from proxy.core.steps import Close, EndServer, Steps
from proxy.core.viewer import Viewer

from .answers import Answers
from .requests import Requests
from .state import State


class KafkaSession:
    """See `proxy.core.session.Session`."""

    def __init__(self, viewer: Viewer, settings: SessionSettings) -> None:
        self._state = State(viewer, settings)
        self._requests = Buffer()
        self._answers = Buffer()
        self._reader_loop: Loop = Requests(self._state, self._requests).run()
        self._server_loop: Loop = Answers(self._state, self._answers).run()

    def __repr__(self) -> str:
        return f"<KafkaSession with {len(self._state.pending)} requests in flight>"

    @property
    def logged_in(self) -> bool:
        return self._state.logged_in

    @property
    def weight(self) -> int:
        return 0

    @property
    def missing_bytes(self) -> int:
        return self._answers.missing

    def from_reader(self, data: bytes) -> Steps[None]:
        if not data:
            yield EndServer()
            return
        self._requests.feed(data)
        yield from self._state.drive(self._reader_loop, self._state.viewer)

    def from_server(self, data: bytes) -> Steps[None]:
        if not data:
            yield Close("the server closed the connection")
            return
        self._answers.feed(data)
        yield from self._state.drive(self._server_loop, self._state.viewer)

    def policy_changed(self) -> Steps[None]:
        """Nothing is under way that a rule could change: whatever is shown is an answer, which looks at the rules itself."""
        self._state.viewer.look()
        yield from ()

    @property
    def wakes_at_s(self) -> float:
        return inf

    def wake(self) -> Steps[None]:
        yield from ()
