"""What a connection is subscribed to, as the server's confirmations tell, and the messages that come of it.

Source: the Pub/Sub documentation; in RESP2 everything arrives as arrays, in RESP3 as pushes.
"""

from __future__ import annotations

from proxy.core.viewer import Read

from .. import wire
from ..wire import Node

INVALIDATIONS = b"__redis__:invalidate"
"""The channel on which, in RESP2, keys are told that another connection has read and somebody changed."""

CHANNELS, PATTERNS, SHARDS = "channels", "patterns", "shards"

SUBSCRIBES = {b"SUBSCRIBE": CHANNELS, b"PSUBSCRIBE": PATTERNS, b"SSUBSCRIBE": SHARDS}
UNSUBSCRIBES = {b"UNSUBSCRIBE": CHANNELS, b"PUNSUBSCRIBE": PATTERNS, b"SUNSUBSCRIBE": SHARDS}
FAMILY = SUBSCRIBES | UNSUBSCRIBES

PAYLOAD_AT = {b"message": 2, b"smessage": 2, b"pmessage": 3}
"""Kind of a message -> where its payload is; the channel is right before it."""


class Subscriptions:
    """Three sets of names; for a channel subscribed to by its name also the read it was recorded under."""

    def __init__(self) -> None:
        self._named: dict[str, dict[bytes, Read]] = {CHANNELS: {}, PATTERNS: {}, SHARDS: {}}

    def __bool__(self) -> bool:
        """Subscribed to anything: in RESP2 the connection then speaks arrays of messages."""
        return any(self._named.values())

    def clear(self) -> None:
        for names in self._named.values():
            names.clear()

    def expected(self, verb: bytes) -> int:
        """How many confirmations an unsubscribe without names is answered with: at least one."""
        return max(1, len(self._named[UNSUBSCRIBES[verb]]))

    def confirm(self, reply: Node, read: Read) -> bytes | None:
        """Takes in a confirmation and gives its verb in upper case; None if the reply is none."""
        kids = reply.kids or []
        verb = (kids[0].body or b"").upper() if kids else b""
        if verb not in FAMILY or len(kids) != 3:
            return None
        name = kids[1].body
        if name is not None and verb in SUBSCRIBES:
            self._named[SUBSCRIBES[verb]][name] = read  # a new read: it was recorded anew
        elif name is not None:
            self._named[UNSUBSCRIBES[verb]].pop(name, None)
        return verb

    @property
    def hears_invalidations(self) -> bool:
        """Subscribed to the channel of invalidations: what is cached is read on other connections."""
        return INVALIDATIONS in self._named[CHANNELS]

    def read_of(self, kind: bytes, channel: bytes) -> Read | None:
        """The read of a channel subscribed to by name; None for one that a pattern alone brings."""
        return self._named[SHARDS if kind == b"smessage" else CHANNELS].get(channel)


def message(reply: Node) -> tuple[bytes, bytes, int] | None:
    """(kind, channel, index of the payload) of a Pub/Sub message; None for anything else."""
    kids = reply.kids or []
    kind = kids[0].body if kids else None
    at = PAYLOAD_AT.get(kind or b"")
    if kind is None or at is None or len(kids) != at + 1 or kids[at - 1].body is None:
        return None
    return kind, kids[at - 1].body or b"", at


def null_invalidation() -> bytes:
    """The push that tells a caching client to forget everything (RESP3)."""
    return wire.encode(wire.tree(wire.PUSH, [wire.bulk(b"invalidate"), Node(wire.NULL, b"")]))


def null_message() -> bytes:
    """The same for a client that hears of it on a channel (RESP2)."""
    return wire.encode(wire.tree(wire.ARRAY, [wire.bulk(b"message"), wire.bulk(INVALIDATIONS), Node(wire.ARRAY, b"-1")]))
