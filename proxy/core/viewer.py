"""One reader on one connection, looking through the policy of the moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rules.access import Reader
from rules.audit import READ_UNMASKED, REFUSED, Entry, Receipt, RuleTag
from rules.model import Connection, Kind, Refusal, Resource
from rules.policy import Policy
from rules.view import View

from .steps import Note, Probe, Steps, ask, record
from .tally import Tally

LAPSE_S = 600.0  # unmasked reading lapses after ten minutes on a read that keeps going


@dataclass(slots=True)
class Read:
    """A read that may go on: when it began, and what has been recorded for it."""

    started_s: float
    receipts: dict[Resource, Receipt] = field(default_factory=dict)


class Viewer:
    """Makes views for the reader of one session and gets their unmasked reads recorded.

    The reader is nobody until a login was accepted, unless it is `fixed`, by the config or by a certificate: then
    it stays who it is (perhaps nobody), and its name needs no proof by the upstream. `prove` makes the probe
    that tries a name with a wrong password; a name that the upstream accepts with any password is an ordinary
    reader. `policy` and `clock` are called in whatever thread a step is worked out in.
    """

    def __init__(
        self,
        connection: Connection,
        protocol: str,
        peer: str,
        policy: Callable[[], Policy],
        clock: Callable[[], float],
        *,
        tally: Tally | None = None,
        fixed: Reader | None = None,
        verify_names: bool = True,
        lapse_s: float = LAPSE_S,
    ) -> None:
        self.connection = connection
        self.protocol = protocol
        self.peer = peer
        self.tally = tally if tally is not None else Tally()
        self._newest = policy
        self.policy = policy()
        """The one that all of a step goes by: another may be put in force while a step is worked out in a thread."""
        self._clock = clock
        self._fixed = fixed
        self._verify_names = verify_names
        self._lapse_s = lapse_s
        self.reader = Reader() if fixed is None else fixed
        self._proven: bool | None = True if fixed is not None else None
        self._oldest_s = math.inf
        self.prove: Callable[[str], Probe] | None = None

    @property
    def who(self) -> str:
        return self.reader.name or ""

    def look(self) -> bool:
        """Goes by the policy of this moment from now on; True if that is another one. Called before each step, and
        by what worked for long before it shows anything."""
        newest = self._newest()
        is_new = newest is not self.policy
        self.policy = newest
        return is_new

    def is_still(self, policy: Policy) -> bool:
        """Looks. Whether what began under this policy may go out: no other came while it was worked on, nor while it
        waited. If one did, it is worked out anew."""
        self.look()
        return self.policy is policy

    def named(self, name: str | None) -> None:
        """The upstream said yes to this name (None: nobody again). A fixed reader stays who it is.

        The caller runs `settle` next, before anything else is judged.
        """
        if self._fixed is None:
            self.reader = Reader(name)
            self._proven = None

    def vouched(self, name: str | None) -> None:
        """Somebody whom the config trusts says who reads (None: nobody): that needs no proof by the upstream."""
        if self._fixed is None:
            self.reader = Reader(name)
            self._proven = None if name is None else True

    @property
    def is_fixed(self) -> bool:
        """No login changes who reads."""
        return self._fixed is not None

    def settle(self) -> Steps[None]:
        """Tries a name that was accepted just now, if it may lift anything. Tried only when it lifts, a name that
        got in without a password would pass once the upstream asks for one."""
        if self._proven is None and self.policy.may_lift_somewhere(self.reader, self.connection):
            yield from self._is_proven()

    def begin(self) -> Read:
        return Read(self._clock())

    def lapsed(self, read: Read) -> bool:
        return self._clock() >= read.started_s + self._lapse_s

    @property
    def lapses_at_s(self) -> float:
        """When the oldest read lapses that anything was shown of since `forget`; never if there is none."""
        return self._oldest_s + self._lapse_s

    def forget(self) -> None:
        """What was shown until now is dealt with. A read that goes on counts again as soon as it is looked at."""
        self._oldest_s = math.inf

    def remember(self, read: Read) -> None:
        """Something may be shown of this read: its lapse is waited for."""
        self._oldest_s = min(self._oldest_s, read.started_s)

    def resource(self, kind: Kind, name: bytes) -> Resource:
        return Resource(self.connection, kind, name)

    def view(self, resource: Resource, policy: Policy | None = None) -> View:
        """The view without any lifting: what an ordinary reader sees, knowing whether it may be lifted."""
        return (policy or self.policy).view(self.reader, resource)

    def anything(self, policy: Policy | None = None) -> View:
        """The view of the whole connection, for what names no resource: it masks while any rule does."""
        return (policy or self.policy).anything(self.reader, self.connection)

    def lift(self, views: Sequence[View], read: Read, operation: str) -> Steps[tuple[View, ...]]:
        """The views, each lifted if its reader may and the read is on record for all its rules.

        All that is not yet recorded is recorded at once; if it cannot be, nothing of it is lifted.
        """
        wanted = [view for view in views if view.masks and view.may_lift]
        if not wanted or self.lapsed(read) or not (yield from self._is_proven()):
            return tuple(views)
        missing: dict[Resource, Entry] = {}
        for view in wanted:
            receipt = read.receipts.get(view.resource)
            if receipt is None or not set(view.tags) <= set(receipt.entry.rules):
                missing[view.resource] = self._entry(READ_UNMASKED, view.resource, view.tags, operation)
        if missing:
            receipts = yield from record(*missing.values())
            if receipts is not None:
                self.tally.unmasked(len(receipts))
                read.receipts.update(zip(missing, receipts, strict=True))
            if self.lapsed(read):  # it took that long
                return tuple(views)
        return tuple(self._lift(view, read) for view in views)

    def _lift(self, view: View, read: Read) -> View:
        receipt = read.receipts.get(view.resource)
        if receipt is None or not view.may_lift or not set(view.tags) <= set(receipt.entry.rules):
            return view
        if receipt.entry.who != self.who:
            return view
        self.remember(read)
        return view.lift(receipt)

    def recorded(self, view: View, read: Read) -> View:
        """The view lifted by what is on record for the read already; nothing new is recorded."""
        if not view.may_lift or not self._proven or self.lapsed(read):
            return view
        return self._lift(view, read)

    @property
    def is_doubted(self) -> bool:
        """The name was tried, or is not to be tried, and so lifts nothing."""
        return self._proven is False or (self._proven is None and not self._verify_names)

    def refused(self, refusal: Refusal, resource: Resource | None, operation: str) -> Note:
        """The note of a refusal for the audit trail; counts it."""
        self.tally.refused(refusal.rule)
        tags = () if refusal.rule is None else (self.policy.tag(refusal.rule),)
        return Note(self._entry(REFUSED, resource, tags, operation, refusal.field))

    def _entry(
        self, event: str, resource: Resource | None, tags: tuple[RuleTag, ...], operation: str, field: str = ""
    ) -> Entry:
        return Entry(event, self.who, self.peer, self.connection, self.protocol, resource, tags, operation, field)

    def _is_proven(self) -> Steps[bool]:
        """Whether the name is worth its login: the upstream refuses it with a wrong password."""
        if self._proven is None:
            if self.prove is None or not self._verify_names or self.reader.name is None:
                self._proven = False
            else:
                name = self.reader.name
                worth = yield from ask(self.prove(name))
                if self.reader.name != name:  # another login was accepted while this waited
                    return False
                self._proven = worth
        return self._proven
