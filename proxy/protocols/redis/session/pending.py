"""What one session has in flight: commands sent, local answers that wait for their turn, transactions.

The queue decides which reply belongs to which command; a wrong count would mask a reply by another
command's row, so everything that changes the count is a Sent or a Local of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from proxy.core.errors import WireError
from proxy.core.viewer import Read
from rules.policy import Policy
from rules.view import Shown

from ..surface.judge import Forward
from .identity import Claim

MOST_ITEMS = 1024  # commands in flight before the reader is read no further
MOST_BYTES = 1024 * 1024  # and their arguments
LARGE_BYTES = 32 * 1024  # a command whose arguments take time to judge again or to look up views for
ARGUMENT_BYTES = 32  # what an argument counts for beside its bytes: a thousand short ones take as long as a long one


class Role(Enum):
    """What a command means to the session's own state; PLAIN means nothing."""

    PLAIN = auto()
    LOGIN = auto()
    RESET = auto()
    MULTI = auto()
    EXEC = auto()
    EXEC_REFUSED = auto()  # DISCARD was sent in its place
    DISCARD = auto()
    SUBSCRIBE = auto()
    UNSUBSCRIBE = auto()
    MONITOR = auto()
    TRACKING = auto()
    COPY_STREAM = auto()  # SYNC, PSYNC: what follows is not RESP


@dataclass(slots=True)
class Sent:
    """A command that was sent. `argv` is what the reader said, `verdict.argv` what went up."""

    argv: tuple[bytes, ...]
    verdict: Forward
    policy: Policy
    read: Read
    role: Role = Role.PLAIN
    mute: bool = False
    claim: Claim | None = None
    answers: int = 1
    """Confirmations still to come; 0: not yet known (UNSUBSCRIBE of everything)."""
    size: int = 0
    weight: int = 0
    """Bytes that its answer, or a change of rules, may have to look through again; of EXEC those of its queue."""


def weight_of(argv: tuple[bytes, ...]) -> int:
    return sum(map(len, argv)) + ARGUMENT_BYTES * len(argv)


@dataclass(slots=True)
class Local:
    """An answer of Veil's own, sent when its turn comes."""

    answer: Shown


class Pending:
    """First in, first out. Look at the head, send, then pop: while a send waits, nothing may overtake it."""

    __slots__ = ("_bytes", "_items", "weight")

    def __init__(self) -> None:
        self._items: deque[Sent | Local] = deque()
        self._bytes = 0
        self.weight = 0
        """Of what is large in it; a flood of small commands weighs nothing."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Sent | Local]:
        return iter(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= MOST_ITEMS or self._bytes >= MOST_BYTES

    @property
    def has_room(self) -> bool:
        """Room worth waiting for: with one place at a time, a flood would go up in a packet a command."""
        return len(self._items) <= MOST_ITEMS // 2 and self._bytes <= MOST_BYTES // 2

    def push(self, item: Sent | Local) -> None:
        if isinstance(item, Sent):
            item.size = sum(map(len, item.argv))
            item.weight += item.size + ARGUMENT_BYTES * len(item.argv)
            if item.weight < LARGE_BYTES:
                item.weight = 0
            self._bytes += item.size
            self.weight += item.weight
        self._items.append(item)

    def head(self) -> Sent | Local | None:
        return self._items[0] if self._items else None

    def sent(self) -> Sent:
        """The command that the next reply answers.

        Raises:
            WireError: there is none.
        """
        head = self.head()
        if not isinstance(head, Sent):
            raise WireError("an answer without a command")
        return head

    def pop(self) -> None:
        item = self._items.popleft()
        if isinstance(item, Sent):
            self._bytes -= item.size
            self.weight -= item.weight


@dataclass(slots=True)
class Transaction:
    """What a reader has queued since MULTI, to be judged again at EXEC."""

    queue: list[tuple[tuple[bytes, ...], Read]] = field(default_factory=list)
    size: int = 0
    weight: int = 0
    refused: bool = False
