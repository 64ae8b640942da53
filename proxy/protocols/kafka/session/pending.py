"""What one session has in flight, in the order that answers leave in.

A broker answers the requests of a connection in their order, so the queue says which answer is whose; the correlation id
has to agree. A produce with acks=0 is answered by nobody and stands in no queue.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from proxy.core.errors import WireError
from rules.policy import Policy
from rules.view import Shown

from .identity import Claim

MOST_REQUESTS = 256  # clients keep five to a hundred in flight
MOST_BYTES = 4 * 1024 * 1024  # of what waits for its turn: one refusal of 30 MiB is borne, and no second
PART_BYTES = 512  # at most, of a partition that an answer will speak of


@dataclass(slots=True)
class Asked:
    """What a Fetch wanted, where Veil asked the broker for something else."""

    max_bytes: int | None = None
    """The whole answer's limit in bytes; None where the request went up as it came."""
    withheld: dict[bytes, list[int]] = field(default_factory=dict)
    """topic name or id -> partitions that were not asked for at all."""
    opens_session: bool = False
    """It asked for a fetch session that begins with it (KIP-227)."""


@dataclass(slots=True)
class RefusedPart:
    """A partition of a Produce that was not sent."""

    topic: bytes
    index: int
    code: int
    message: bytes
    record: int | None = None
    """The number of the record that is to blame."""


@dataclass(slots=True)
class Sent:
    """A request that was sent up and is answered in its turn."""

    key: int
    version: int
    correlation_id: int
    policy: Policy
    asked: Asked | None = None
    refused: tuple[RefusedPart, ...] = ()
    claim: Claim | None = None
    ours: bool = False
    """Veil's own question: its answer goes no further."""

    @property
    def weight(self) -> int:
        """Bytes that are held for it, about."""
        withheld = 0 if self.asked is None else sum(map(len, self.asked.withheld.values()))
        return PART_BYTES * (withheld + len(self.refused))


@dataclass(slots=True)
class Local:
    """An answer of Veil's own, sent when its turn comes."""

    answer: Shown

    @property
    def weight(self) -> int:
        return len(self.answer)


class Pending:
    """First in, first out. Look at the head, send, then pop: while a send waits, nothing may overtake it."""

    __slots__ = ("_items", "_weight")

    def __init__(self) -> None:
        self._items: deque[Sent | Local] = deque()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= MOST_REQUESTS or self._weight >= MOST_BYTES

    def push(self, item: Sent | Local) -> None:
        self._items.append(item)
        self._weight += item.weight

    def head(self) -> Sent | Local | None:
        return self._items[0] if self._items else None

    def sent(self, correlation_id: int) -> Sent:
        """The request that this answer is for.

        Raises:
            WireError: there is none, or it was another.
        """
        head = self.head()
        if not isinstance(head, Sent) or head.correlation_id != correlation_id:
            raise WireError("an answer without a request")
        return head

    def pop(self) -> None:
        self._weight -= self._items.popleft().weight

    def holds(self, sent: Sent) -> bool:
        return any(each is sent for each in self._items)
