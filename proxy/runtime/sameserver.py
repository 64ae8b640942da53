"""Whether a server that Veil keeps something of its own on is one of the brokers: there readers could write it.

Three signs, each enough: an address that leads to both; the id of the run, or of the replicated data, that both tell;
and that a connection made to the broker shows up among the clients of the server. The last needs no login at the broker.

Blocking: called from a thread. Bounded: each broker is knocked at in a thread of its own, since looking up a name cannot
be given a limit. A broker that is down is asked again at the next look, which is to come every few seconds.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from .upstream import Address

ASK_S = 1.0  # connecting; as long again for the answers
INFO_BYTES = 64 * 1024
WAYS = 8  # addresses of one broker's name that are knocked at
UNFINISHED = 64  # knocks that hang in a resolver; beyond, nobody is knocked at
QUESTION = b"*1\r\n$4\r\nINFO\r\n"  # all that is told by default: the run, and the replication
_IDS = re.compile(rb"^(?:run_id|master_replid):([0-9a-f]{40})\r?$", re.MULTILINE)
_HEAD = re.compile(rb"\$([0-9]{1,6})\r\n")
_NO_ID = "0" * 40
_THIS_MACHINE = frozenset({"0.0.0.0", "::", "127.0.0.1", "::1"})  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class Same:
    """The broker that is this server; `by_address`: known without asking it."""

    broker: Address
    by_address: bool

    def __str__(self) -> str:
        return f"it is {'' if self.by_address else 'the same server as '}the upstream {self.broker}"


def ids_of(info: bytes) -> frozenset[str]:
    """The ids in an answer to INFO; two servers that tell one of them hold the same data."""
    return frozenset(each.decode("ascii") for each in _IDS.findall(info)) - {_NO_ID}


class Brokers:
    """The addresses that readers are connected to."""

    def __init__(self, upstreams: Iterable[Address]) -> None:
        self._upstreams = tuple(dict.fromkeys(upstreams))
        self._unfinished: set[_Knock] = set()

    def among(
        self, at: Collection[Address], ids: Collection[str], clients: Callable[[], bytes], ask_s: float = ASK_S
    ) -> Same | None:
        """The broker that is the server, or None as far as can be told in twice `ask_s`.

        `at` are the addresses of the server, as it was asked for and as it was reached; `ids` what it tells (`ids_of`);
        `clients` gives its CLIENT LIST, and whatever that raises is passed on.
        """
        knocks = [_Knock(each, ask_s) for each in self._upstreams]
        try:
            self._begin(knocks)
            end_s = monotonic() + ask_s
            for knock in knocks:
                knock.done.wait(max(0.0, end_s - monotonic()))
            return _by_address(knocks, at) or _by_clients(knocks, clients) or _by_ids(knocks, ids, ask_s)
        finally:
            for knock in knocks:
                knock.end()

    def _begin(self, knocks: list[_Knock]) -> None:
        self._unfinished = {knock for knock in self._unfinished if not knock.done.is_set()}
        for knock in knocks:
            if len(self._unfinished) >= UNFINISHED:
                return
            with suppress(RuntimeError):  # no thread can be started
                threading.Thread(target=knock.run, daemon=True).start()
                self._unfinished.add(knock)


class _Knock:
    """Connections to one broker, by each of its addresses."""

    def __init__(self, broker: Address, limit_s: float) -> None:
        self.broker = broker
        self.done = threading.Event()
        self.hosts: frozenset[str] = frozenset()
        self.sockets: list[socket.socket] = []
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._ended = False

    def run(self) -> None:
        try:
            found = socket.getaddrinfo(self.broker.host, self.broker.port, type=socket.SOCK_STREAM)
            self.hosts = frozenset(str(each[4][0]) for each in found)
            for host in sorted(self.hosts)[:WAYS]:
                with suppress(OSError):
                    self._keep(socket.create_connection((host, self.broker.port), self._limit_s))
        except (OSError, ValueError):  # a name that leads nowhere, or is none
            pass
        finally:
            self.done.set()

    def _keep(self, connected: socket.socket) -> None:
        with self._lock:
            if self._ended:
                connected.close()
            else:
                self.sockets.append(connected)

    def open(self) -> list[socket.socket]:
        with self._lock:
            return list(self.sockets)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for each in self.sockets:
                each.close()


def _by_address(knocks: Iterable[_Knock], at: Collection[Address]) -> Same | None:
    own = {(host, each.port) for each in at for host in _spellings({each.host})}
    for knock in knocks:
        ways = {(host, knock.broker.port) for host in _spellings(knock.hosts)}
        if knock.broker in at or not own.isdisjoint(ways):
            return Same(knock.broker, by_address=True)
    return None


def _spellings(hosts: Collection[str]) -> frozenset[str]:
    """Where one of them stands for this machine, all that do."""
    return frozenset(hosts) | (_THIS_MACHINE if not _THIS_MACHINE.isdisjoint(hosts) else frozenset())


def _by_clients(knocks: Iterable[_Knock], clients: Callable[[], bytes]) -> Same | None:
    made = [(knock.broker, each) for knock in knocks for each in knock.open()]
    if not made:
        return None
    clients()  # once it is answered, whoever had connected before has been let in
    listed = clients()
    for broker, each in made:
        with suppress(OSError):  # it was hung up on at once
            host, port, *_ = each.getsockname()
            here = str(Address(str(host), int(port))).encode("ascii")
            if re.search(rb"\baddr=" + re.escape(here) + rb"\s", listed):
                return Same(broker, by_address=False)
    return None


def _by_ids(knocks: Iterable[_Knock], ids: Collection[str], limit_s: float) -> Same | None:
    asked = [(knock.broker, each) for knock in knocks for each in knock.open()]
    end_s = monotonic() + limit_s
    for _, each in asked:
        with suppress(OSError):
            each.sendall(QUESTION)
    for broker, each in asked:
        if not ids_of(_answer(each, end_s)).isdisjoint(ids):
            return Same(broker, by_address=False)
    return None


def _answer(asked: socket.socket, end_s: float) -> bytes:
    """What a broker says to somebody who is not logged in; what there is of it where it is slow or no Redis."""
    got = bytearray()
    with suppress(OSError):
        while not _whole(got) and (left_s := end_s - monotonic()) > 0:
            asked.settimeout(left_s)
            data = asked.recv(INFO_BYTES)
            if not data:
                break
            got += data
    return bytes(got)


def _whole(got: bytearray) -> bool:
    if not got:
        return False
    head = _HEAD.match(got)
    if head is not None:
        return len(got) >= head.end() + min(int(head[1]), INFO_BYTES)
    return not got.startswith(b"$") or len(got) >= INFO_BYTES or b"\n" in got
