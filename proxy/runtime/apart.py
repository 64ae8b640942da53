"""Whether a server that Veil keeps something of its own in is one of the brokers that its readers write to.

Three signs, each enough: the address that was reached; the id of the server's run, where the broker tells it without a
login; and that a connection made to the broker shows up among the clients of the server. Blocking: called from a thread.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic

from .upstream import Address

ASK_S = 1.0  # one broker
ALL_S = 4.0  # all of them: a broker that is down must not keep the rules from being read
ANSWER_BYTES = 64 * 1024
QUESTION = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
DANGER = "whoever writes there could write the rules"
_RUN_ID = re.compile(rb"^run_id:([0-9a-f]{40})\r?$", re.MULTILINE)


class Brokers:
    """The addresses that readers are connected to."""

    def __init__(self, upstreams: Iterable[Address]) -> None:
        self._upstreams = tuple(dict.fromkeys(upstreams))

    def among(self, address: Address, run_id: str, clients: Callable[[], bytes]) -> str:
        """Why the server is one of them; empty where it is none, as far as can be told. `clients` gives its CLIENT LIST."""
        end = monotonic() + ALL_S
        for upstream in self._upstreams:
            if address.port == upstream.port and address.host in _meant(upstream):
                return f"it is the upstream {upstream}: {DANGER}"
            if monotonic() < end and _is_same(upstream, run_id, clients):
                return f"it is the same server as the upstream {upstream}: {DANGER}"
        return ""


def _meant(upstream: Address) -> set[str]:
    with suppress(OSError, ValueError):
        return {str(each[4][0]) for each in socket.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)}
    return set()


def _is_same(upstream: Address, run_id: str, clients: Callable[[], bytes]) -> bool:
    try:
        asked = socket.create_connection((upstream.host, upstream.port), ASK_S)
    except (OSError, ValueError):
        return False
    with asked:
        told = _answer(asked)  # whatever it says: once it has answered, this connection is among its clients
        if run_id.encode("ascii") in _RUN_ID.findall(told):
            return True
        host, port, *_ = asked.getsockname()
        here = str(Address(str(host), int(port))).encode("ascii")
        return re.search(rb"\baddr=" + re.escape(here) + rb"\s", clients()) is not None


def _answer(asked: socket.socket) -> bytes:
    """What the broker says to somebody who is not logged in; nothing where it is silent or is no Redis."""
    got = bytearray()
    end = monotonic() + ASK_S
    with suppress(OSError):
        asked.sendall(QUESTION)
        while len(got) < ANSWER_BYTES and monotonic() < end and not _RUN_ID.search(got) and (not got or got.startswith(b"$")):
            data = asked.recv(ANSWER_BYTES)
            if not data:
                break
            got += data
    return bytes(got)
