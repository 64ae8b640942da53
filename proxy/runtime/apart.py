"""Whether a server that Veil keeps something of its own in is one of the brokers that its readers write to.

Told by the address that was reached, and by the id of the server's run, which every address of one server answers
alike. A broker that tells nothing without a login is known by its address alone. Blocking: called from a thread.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic

from .upstream import Address

ASK_S = 1.0  # one broker
ALL_S = 4.0  # all of them: a broker that is down must not keep the rules from being read
ANSWER_BYTES = 64 * 1024
QUESTION = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
_RUN_ID = re.compile(rb"^run_id:([0-9a-f]{40})\r?$", re.MULTILINE)


class Brokers:
    """The addresses that readers are connected to."""

    def __init__(self, upstreams: Iterable[Address]) -> None:
        self._upstreams = tuple(dict.fromkeys(upstreams))

    def among(self, address: Address, run_id: str) -> str:
        """Why the server is one of them; empty where it is none, as far as can be told."""
        end = monotonic() + ALL_S
        for upstream in self._upstreams:
            if address.port == upstream.port and address.host in _meant(upstream):
                return f"it is the upstream {upstream}: whoever writes there could write the rules"
            if monotonic() < end and run_id in _run_ids(upstream):
                return f"it is the same server as the upstream {upstream}: whoever writes there could write the rules"
        return ""


def _meant(upstream: Address) -> set[str]:
    with suppress(OSError, ValueError):
        return {str(each[4][0]) for each in socket.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)}
    return set()


def _run_ids(upstream: Address) -> set[str]:
    """What the broker says to somebody who is not logged in: one id, or nothing."""
    got = bytearray()
    with suppress(OSError, ValueError), socket.create_connection((upstream.host, upstream.port), ASK_S) as asked:
        asked.sendall(QUESTION)
        end = monotonic() + ASK_S
        while len(got) < ANSWER_BYTES and monotonic() < end and not _RUN_ID.search(got):
            data = asked.recv(ANSWER_BYTES)
            if not data or got[:1] == b"-":
                break
            got += data
            if got[:1] != b"$" and got:
                break
    return {each.decode("ascii") for each in _RUN_ID.findall(got)}
