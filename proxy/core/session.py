"""What every protocol provides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rules.model import Limits, Platform

from .steps import Steps
from .viewer import Viewer


class Session(Protocol):
    """One reader's connection, without I/O. Each call yields steps.

    A step may be worked out in another thread than the last one was, never two of one session at a time. What is
    shared with other sessions must bear that; and one policy holds for all that a step decides (`Viewer.look`).

    Raises (from any of them): WireError, whose `answer` is sent to the reader before both sides close.
    """

    @property
    def logged_in(self) -> bool:
        """False until the first answer that is not "log in first"; the relay's login time-out looks at it."""
        ...

    @property
    def weight(self) -> int:
        """Bytes kept from before that a next step may have to go through again, however little it is fed; 0 where
        that is soon done. What is heavy is worked out beside the loop."""
        ...

    @property
    def missing_bytes(self) -> int:
        """Bytes that the server has announced and not sent: fewer of them are only kept, and that is soon done. 0 where
        nothing is known of it."""
        ...

    def from_reader(self, data: bytes) -> Steps[None]:
        """Bytes of the reader; b"" is the end of its stream."""
        ...

    def from_server(self, data: bytes) -> Steps[None]:
        """Bytes of the server; b"" is the end of its stream."""
        ...

    def policy_changed(self) -> Steps[None]:
        """The policy was replaced while the session lives."""
        ...

    @property
    def wakes_at_s(self) -> float:
        """When `wake` is due, by the viewer's clock; infinite while nothing waits. It may change with every step."""
        ...

    def wake(self) -> Steps[None]:
        """The time of `wakes_at_s` has come: something that was shown unmasked has lapsed."""
        ...


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a listener's config says to its sessions."""

    limits: Limits = Limits()
    writes: str = "adds"
    """`adds`: adding to a covered resource is free; `strict`: every write to one is refused."""
    markers: bool = True
    """Whether answers say what was masked or lifted, where the protocol has a place for it."""
    token_claim: str | None = None
    """The claim of a bearer token that the broker takes the reader's name from; None: a token names nobody."""
    shared: object = None
    """What the sessions of one connection know together, made by the protocol's `shared`."""


@dataclass(frozen=True, slots=True)
class ProtocolEntry:
    """A line of the table of protocols."""

    name: str
    platforms: frozenset[Platform]
    session: Callable[[Viewer, SessionSettings], Session]
    surface: Callable[[], str]
    """The surface table as text, for `veil surface NAME`."""
    alpn: tuple[str, ...] = ()
    """What the protocol is called in a TLS handshake; empty where it has no name there."""
    shared: Callable[[], object] | None = None
    """Makes what all sessions of one connection know together; it is used from several threads at once."""
    load: Callable[[], None] | None = None
    """Loads what the first session would else wait for, and everybody else with it."""
    has_nodes: bool = False
    """Whether answers name further servers of a cluster, each of which readers reach through Veil."""
    has_tokens: bool = False
    """Whether readers may log in with a bearer token, one claim of which says who they are (`token_claim`)."""
    has_headers: bool = False
    """Whether requests bear headers that may name the reader (HTTP)."""
