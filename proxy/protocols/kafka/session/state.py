"""What the two directions of a Kafka session share: the queue of what is in flight, who reads, and what was read."""

from __future__ import annotations

from proxy.core.outbox import Outbox
from proxy.core.session import SessionSettings
from proxy.core.steps import Steps
from proxy.core.viewer import Read, Viewer
from rules.model import Kind, Refusal, Resource
from rules.policy import Policy
from rules.view import View

from ..cluster import Cluster
from .identity import Login
from .pending import Local, Pending

PARTITION_BYTES = 1024 * 1024  # clients' own default (max.partition.fetch.bytes)
MOST_ROOMS = 100_000  # partitions whose sizes are kept; of further ones the default counts
MOST_SESSIONS = 16  # fetch sessions of one connection; clients have one
LONGEST_NAME = 249  # bytes; a broker has no longer topic
MOST_READS = 10_000  # topics that one connection reads unmasked; further ones stay masked
EVERYTHING = b"*"


class Rooms:
    """How many bytes of each partition the reader wants at once: a fetch session tells only what changes."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[bytes, int], int] = {}
        self._policy: Policy | None = None
        self.any_masked = False
        """Something that was asked for on this connection is masked, as far as is known."""

    def under(self, policy: Policy) -> None:
        """Another policy may mask what was asked for earlier."""
        if self._policy is not None and self._policy is not policy:
            self.any_masked = True
        self._policy = policy

    def put(self, topic: bytes, partition: int, most: int) -> None:
        if len(topic) > LONGEST_NAME:
            return
        if len(self._bytes) < MOST_ROOMS or (topic, partition) in self._bytes:
            self._bytes[topic, partition] = most

    def of(self, topic: bytes, partition: int) -> int:
        return self._bytes.get((topic, partition), PARTITION_BYTES)


class State(Outbox):
    def __init__(self, viewer: Viewer, settings: SessionSettings) -> None:
        super().__init__()
        self.viewer = viewer
        self.settings = settings
        shared = settings.shared
        self.cluster = shared if isinstance(shared, Cluster) else Cluster()
        self.pending = Pending()
        self.logged_in = False
        self.login: Login | None = None
        """The SASL exchange that the broker has agreed to."""
        self.login_under_way = False
        """Its next bytes were sent and not answered: nothing more is judged until they are."""
        self.was_named = False
        self.named: str | None = None
        """Whom the broker has said yes to, once it has."""
        self.rooms = Rooms()
        self.unnamed: set[bytes] = set()
        """Topic ids that an answer bore and nobody could name; asked for with the next fetch."""
        self._sessions: dict[int, Policy] = {}
        self._reads: dict[bytes, Read] = {}

    def topic(self, name: bytes) -> Resource:
        return self.viewer.resource(Kind.TOPIC, name)

    def opened_session(self, number: int, policy: Policy) -> None:
        """The broker keeps a fetch session whose sizes are those that Veil asked with under this policy."""
        self._sessions.pop(number, None)
        self._sessions[number] = policy
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))

    def knows_session(self, number: int) -> bool:
        """Whether the fetch session was opened on this connection under the policy of now. Any other may ask for sizes
        that are the reader's own, or another's."""
        return self._sessions.get(number) is self.viewer.policy

    def release(self) -> None:
        """Says the local answers whose turn has come."""
        while isinstance(head := self.pending.head(), Local):
            self.say(head.answer)
            self.pending.pop()

    def read_of(self, name: bytes) -> Read | None:
        """The read of a topic on this connection, begun now if there is none; it lapses once and for all. None where
        too many others were begun."""
        read = self._reads.get(name)
        if read is None and len(self._reads) < MOST_READS and len(name) <= LONGEST_NAME:
            read = self._reads[name] = self.viewer.begin()
        return read

    def lift(self, view: View, read: Read, operation: str) -> Steps[View]:
        """The view, lifted if that is on record; what was said before goes out first."""
        return (yield from self.flushed(self.viewer.lift((view,), read, operation)))[0]

    def views(self, name: bytes, operation: str, policy: Policy, *, may_lift: bool) -> Steps[tuple[View, ...]]:
        """The views of a topic under the policy of now and, if it changed since the request, under that of the request:
        what either masks is masked."""
        resource = self.topic(name)
        view = self.viewer.view(resource)
        read = self.read_of(name) if view.masks and view.may_lift else None
        if read is not None and may_lift:
            view = yield from self.lift(view, read, operation)
        if policy is self.viewer.policy:
            return (view,)
        before = self.viewer.view(resource, policy)
        return (view, before if read is None else self.viewer.recorded(before, read))

    def anything(self, operation: str) -> Steps[View]:
        """The view of the connection as a whole, lifted if its reader may and it is on record."""
        while True:
            policy = self.viewer.policy
            view = self.viewer.anything()
            read = self.read_of(EVERYTHING) if view.masks and view.may_lift else None
            if read is not None:
                view = yield from self.lift(view, read, operation)
            if self.viewer.is_still(policy):
                return view

    def settle(self) -> Steps[None]:
        """As Viewer.settle; what was said before goes out first."""
        yield from self.flushed(self.viewer.settle())

    def note(self, refusal: Refusal, topic: bytes | None, operation: str) -> Steps[None]:
        """Puts a refusal on the trail."""
        resource = None if topic is None else self.topic(topic)
        yield self.viewer.refused(refusal, resource, operation)
