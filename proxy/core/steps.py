"""What a session may want done. The relay carries steps out in order; a session never awaits.

A step that waits (Record, Ask, Hold, a slow side) holds back its own direction only: the other one runs
meanwhile. So: peek, send, then pop; and hold no half-changed state across a `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from rules.audit import Entry, Receipt
from rules.view import Shown

from .addresses import Endpoint, Node

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToServer:
    data: bytes


@dataclass(frozen=True, slots=True)
class ToReader:
    data: Shown


@dataclass(frozen=True, slots=True)
class Record:
    """Make these entries durable, together. Answered with a Receipt each, or None: could not be written."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Put this entry on the trail when there is time: nothing waits for it (refusals)."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Probe:
    """A question put to the same upstream on a connection of its own, which is closed afterwards.

    `subject` is what the answer is about, for a cache; `request` makes the bytes to send of a random
    hexadecimal nonce; `verdict` reads all that has arrived so far: True or False ends the probe, None waits
    for more, and bytes are sent before more is waited for. No answer in time, no connection, or the end of the
    stream before a verdict is False.
    """

    subject: str
    request: Callable[[str], bytes]
    verdict: Callable[[bytes], bool | bytes | None]


@dataclass(frozen=True, slots=True)
class Ask:
    """Answered with the probe's verdict."""

    probe: Probe


@dataclass(frozen=True, slots=True)
class Advertise:
    """Serve readers in place of these nodes, before an answer that names them goes out. Answered with where each is
    reached, by its id; one that can be reached nowhere is missing, and must not be named."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until the other direction has made progress, then go on (the session looks again for itself)."""


@dataclass(frozen=True, slots=True)
class EndServer:
    """Nothing more will be sent to the server: half-close towards it; what it still says is carried."""


@dataclass(frozen=True, slots=True)
class Close:
    """Both sides are closed at once; `reason` is for the log, never contents."""

    reason: str


Step: TypeAlias = ToServer | ToReader | Record | Note | Ask | Advertise | Hold | EndServer | Close
Steps: TypeAlias = Generator[Step, object, T]


def record(*entries: Entry) -> Steps[tuple[Receipt, ...] | None]:
    return cast("tuple[Receipt, ...] | None", (yield Record(entries)))


def ask(probe: Probe) -> Steps[bool]:
    return bool((yield Ask(probe)))


def advertise(nodes: tuple[Node, ...]) -> Steps[Mapping[int, Endpoint]]:
    return cast("Mapping[int, Endpoint]", (yield Advertise(nodes)))
