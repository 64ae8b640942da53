"""Addresses that several processes listen on, each with a socket of its own (SO_REUSEPORT).

An address is taken once, by a socket that never listens and that no stranger's socket can stand beside: a second
Veil on the same address fails to start, where it would be given a part of the readers otherwise.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from typing import Any

import trio

from proxy.runtime.listen import CannotBind
from proxy.runtime.upstream import Address


@dataclass(frozen=True, slots=True)
class Taken:
    """An address and the sockets that hold it, one for each that its name means; `real` has the number for port 0."""

    real: Address
    held: tuple[socket.socket, ...]

    def close(self) -> None:
        for each in self.held:
            each.close()


async def take(address: Address) -> Taken:
    """
    Raises:
        CannotBind: the address is taken, not this machine's, or not allowed.
    """
    held: list[socket.socket] = []
    port = address.port
    try:
        found = await trio.socket.getaddrinfo(address.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, at in dict.fromkeys(found):
            own = _socket(family, kind, protocol)
            if own is None:
                continue
            held.append(own)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier Veil may linger
            own.bind((at[0], port, *at[2:]))
            port = own.getsockname()[1]
            # Only now: alone while it is bound, and from here on beside those alone that share it on purpose.
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except (OSError, ValueError, UnicodeError) as failed:
        for each in held:
            each.close()
        reason = failed.strerror if isinstance(failed, OSError) and failed.strerror else "not an address"
        raise CannotBind(f"cannot listen on {address}: {reason}") from None
    if not held:
        raise CannotBind(f"cannot listen on {address}: {os.strerror(errno.EAFNOSUPPORT)}")
    return Taken(Address(address.host, port), tuple(held))


def share(taken: Taken) -> list[socket.socket]:
    """A socket for each that is held, bound and not listening yet; the caller closes them.

    Raises:
        OSError: the address cannot be bound (any more).
    """
    shared: list[socket.socket] = []
    try:
        for held in taken.held:
            own = socket.socket(held.family, held.type, held.proto)
            shared.append(own)
            _only_v6(own)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            own.bind(held.getsockname())
    except OSError:
        for each in shared:
            each.close()
        raise
    return shared


def _socket(family: int, kind: int, protocol: int) -> socket.socket | None:
    """None where the machine lacks the family (IPv6, mostly)."""
    try:
        own = socket.socket(family, kind, protocol)
    except OSError as failed:
        if failed.errno == errno.EAFNOSUPPORT:
            return None
        raise
    _only_v6(own)
    return own


def _only_v6(own: Any) -> None:
    if own.family == socket.AF_INET6:
        own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
