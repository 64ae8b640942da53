"""What the two halves of a Redis session share.

The queue of what is in flight, who reads, and the state that the server keeps for a connection (RESP version,
subscriptions, transaction, tracking), which changes on the server's answers alone.
"""

from __future__ import annotations

from proxy.core.outbox import Outbox
from proxy.core.session import SessionSettings
from proxy.core.steps import Note, Steps
from proxy.core.viewer import Read, Viewer
from rules.model import Kind
from rules.policy import Policy
from rules.view import Shown, View, plain

from ..surface.judge import Refused, Verdict, judge
from .pending import Pending, Sent
from .subscriptions import Subscriptions, null_invalidation, null_message


class Eyes:
    """What the reader may see at this moment, lifted by what is on record for a read."""

    def __init__(self, state: State, read: Read, policy: Policy | None = None) -> None:
        self._state = state
        self._read = read
        self._policy = policy

    def view(self, key: bytes) -> View:
        viewer = self._state.viewer
        return viewer.recorded(viewer.view(viewer.resource(Kind.KEY, key), self._policy), self._read)

    @property
    def anything(self) -> View:
        return self._state.viewer.recorded(self._state.viewer.anything(self._policy), self._read)

    @property
    def writes_strict(self) -> bool:
        return self._state.settings.writes == "strict"


class State(Outbox):
    """What both directions of a session share."""

    def __init__(self, viewer: Viewer, settings: SessionSettings) -> None:
        super().__init__()
        self.viewer = viewer
        self.settings = settings
        self.pending = Pending()
        self.logged_in = False
        self.version = 2
        self.subscriptions = Subscriptions()
        self.queued: list[Sent] | None = None
        """Commands that the server has answered with QUEUED; None outside a transaction."""
        self.monitor: Read | None = None
        self.tracking = ""
        """`on` or `redirect` while the reader caches what it has read."""
        self.raw: Read | None = None
        """Set once what follows is a replication stream, with the read it was recorded under."""
        self.login: Sent | None = None
        """A login whose answer is not there yet: nothing more is judged until it is."""
        self.mid_frame = False
        self.owes_invalidation = False

    def owed_invalidation(self) -> Shown | None:
        """What tells the reader's cache to forget everything, in the form that it hears of changed keys; None where
        this connection tells it nothing."""
        hears = self.subscriptions.hears_invalidations
        if self.version == 3:
            return plain(null_invalidation()) if self.tracking or hears else None
        return plain(null_message()) if hears else None

    def lift(self, views: tuple[View, ...], read: Read, operation: str) -> Steps[tuple[View, ...]]:
        """As Viewer.lift; what was said before goes out first, where there is anything to wait for."""
        return (yield from self.flushed(self.viewer.lift(views, read, operation)))

    def settle(self) -> Steps[None]:
        """As Viewer.settle; what was said before goes out first."""
        yield from self.flushed(self.viewer.settle())

    def judge(self, argv: tuple[bytes, ...], read: Read) -> Steps[Verdict]:
        """The verdict, after whatever the reader may have lifted for it was recorded. A policy that is put in force while
        it is judged has the last word: it may take long."""
        eyes = Eyes(self, read)
        while True:
            verdict = judge(argv, eyes)
            while isinstance(verdict, Refused) and verdict.views and all(view.may_lift for view in verdict.views):
                lifted = yield from self.lift(verdict.views, read, verdict.row.name)
                if any(view.masks for view in lifted):
                    break
                verdict = judge(argv, eyes)
            if not self.viewer.look():
                return verdict

    def noted(self, refused: Refused) -> Note:
        """The note of a refusal for the audit trail, under the row's own name."""
        resource = None if refused.key is None else self.viewer.resource(Kind.KEY, refused.key)
        return self.viewer.refused(refused.refusal, resource, refused.row.name)

    def judge_again(self, argv: tuple[bytes, ...], read: Read) -> Verdict:
        """The verdict under the policy of now; nothing new is recorded."""
        return judge(argv, Eyes(self, read))
