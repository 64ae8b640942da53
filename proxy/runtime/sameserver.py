"""Whether a Redis that Veil keeps its own things in is an upstream too: there readers could write them.

Three signs, each enough: the addresses are the same; the upstream tells the same run_id or replication id; or a
connection that is made to the upstream shows up among the clients of the other. The last needs no login upstream.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from .redis_link import AnswerError, RedisLink
from .upstream import Address

LOOK_S = 0.5  # for each upstream: connecting, and its answer
INFO_BYTES = 64 * 1024
_IDENTITIES = re.compile(rb"(?:run_id|master_replid):([0-9a-f]{40})")


@dataclass(frozen=True, slots=True)
class Likeness:
    """`same` is the upstream that is this server; `unknown` are those that could not be asked and are to be asked again."""

    same: Address | None = None
    unknown: tuple[Address, ...] = ()


def look_for(link: RedisLink, address: Address, upstreams: Iterable[Address]) -> Likeness:
    """Compares a server, by its address and an open link to it, with each upstream.

    Raises:
        LinkError: the server itself does not answer.
        AnswerError: it does not let its INFO or CLIENT LIST be seen, so that nothing can be said.
    """
    own = _resolved(address)
    told = link.info()
    ids = {told[name].encode() for name in ("run_id", "master_replid") if told.get(name)}
    unknown: list[Address] = []
    for upstream in dict.fromkeys(upstreams):
        if upstream == address or not own.isdisjoint(_resolved(upstream)):
            return Likeness(upstream)
        found = _is_same(link, ids, upstream)
        if found:
            return Likeness(upstream)
        if found is None:
            unknown.append(upstream)
    return Likeness(None, tuple(unknown))


def _is_same(link: RedisLink, ids: set[bytes], upstream: Address) -> bool | None:
    """None when nobody answers there."""
    try:
        probe = socket.create_connection((upstream.host, upstream.port), timeout=LOOK_S)
    except (OSError, ValueError):
        return None
    with probe:
        here = probe.getsockname()
        spelled = (f"[{here[0]}]:{here[1]}" if ":" in here[0] else f"{here[0]}:{here[1]}").encode()
        link.call("PING")  # once it is answered, whoever connected before has been let in
        clients = link.call("CLIENT", "LIST")
        if not isinstance(clients, bytes):
            raise AnswerError("ERR")
        if re.search(rb"\baddr=" + re.escape(spelled) + rb"\s", clients):
            return True
        return not ids.isdisjoint(_identities(probe))


def _identities(probe: socket.socket) -> set[bytes]:
    """The ids that an upstream tells without a login; none where it wants one, or is no Redis."""
    told = b""
    try:
        probe.sendall(b"*1\r\n$4\r\nINFO\r\n")
        while len(told) < INFO_BYTES and b"master_replid2:" not in told and not (told[:1] == b"-" and told.endswith(b"\r\n")):
            more = probe.recv(INFO_BYTES)
            if not more:
                break
            told += more
    except OSError:
        pass
    return set(_IDENTITIES.findall(told)) - {b"0" * 40}


def _resolved(address: Address) -> set[tuple[str, int]]:
    """Every address that a connection could go to; where the host stands for this machine, all that stand for it."""
    try:
        found = {str(told[4][0]) for told in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()
    if found & {"0.0.0.0", "::", "127.0.0.1", "::1"}:  # noqa: S104 - compared, not bound
        found |= {"127.0.0.1", "::1"}
    return {(each, address.port) for each in found}
