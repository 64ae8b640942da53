"""Connections to the broker: one for each reader and never shared, and probes on connections of their own."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import trio

from proxy.core.errors import ProxyError
from proxy.core.steps import Probe

from .certificates import Kept
from .tls import ClientFiles
from .tlsstream import TOO_SLOW, HandshakeFailed, TlsStream

CONNECT_S = 5.0  # per address; a broker on the next host answers in milliseconds
PROBE_S = 2.0
PROBE_ANSWER_BYTES = 64 * 1024  # more than any answer to a login
PROBES_AT_A_TIME = 16
NO_S = 60.0  # an upstream that was slow or down must not make a name ordinary for long
VERDICTS_KEPT = 4096  # names come from readers
KEEPALIVE_IDLE_S = 60  # a peer that vanished without a word is found within about two minutes
KEEPALIVE_EVERY_S = 15
KEEPALIVE_TRIES = 4
CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen or connect. `str` spells it as it is written in a config."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def meant(host: str) -> frozenset[str]:
    """The addresses that a host stands for on every machine; any other name stands for itself. Nobody is asked."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.lower().rstrip(".")
        return frozenset({"127.0.0.1", "::1"} if name == "localhost" else {name})
    return frozenset({str(address), "127.0.0.1", "::1"} if address.is_unspecified else {str(address)})


def tune(stream: trio.SocketStream) -> None:
    """Small packets go at once (the stream does that itself); a peer that vanished is noticed."""
    wanted = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_EVERY_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_TRIES),
    )
    for level, option, value in wanted:
        stream.setsockopt(level, option, value)


class Unreachable(ProxyError):
    """An address that no connection came about with; the message is the reason, for the log."""


@dataclass(frozen=True, slots=True)
class Connected:
    """`address` is the server's own, with no name to be looked up again; `host` is what the config calls it, which
    is the name that its certificate bears."""

    stream: trio.abc.HalfCloseableStream
    address: Address
    host: str


class Upstream:
    """The broker's addresses as one listener knows them, and what probes said of names there."""

    def __init__(
        self,
        connection: str,
        addresses: Sequence[Address],
        heard: Callable[[Probe, Address, bool], None] | None = None,
        tls: Kept | None = None,
    ) -> None:
        """`heard` is told of every verdict that did not come from memory."""
        self._tls = tls
        self.trouble = ""
        """Why the last connection did not come about."""
        self._connection = connection
        self._heard = heard
        self._addresses = tuple(addresses)
        self._refused_until_s: OrderedDict[tuple[str, Address, str], float] = OrderedDict()
        self._epoch = 0
        self._probes = trio.CapacityLimiter(PROBES_AT_A_TIME)

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self._addresses

    async def connect(self) -> Connected | None:
        """A new connection to the first address that takes one, or None when none does."""
        for address in self._addresses:
            try:
                stream, reached = await _dial(address, address.host, self._tls, CONNECT_S)
            except Unreachable as failed:
                self.trouble = f"{address}: {failed}"
            else:
                return Connected(stream, reached, address.host)
        self.lost()
        return None

    def lost(self) -> None:
        """A connection broke off or could not be made: the broker may be another one now, with other users."""
        self._epoch += 1
        self._refused_until_s.clear()

    async def ask(self, probe: Probe, address: Address, host: str = "") -> bool:
        """The probe's verdict. A no is remembered for a while; a yes never, for it speaks of one login: the next
        may be let in without a password, the users of the broker having changed meanwhile.

        The probe travels as the session itself: by TLS where that does, to the same `host` by name.
        """
        key = (self._connection, address, probe.subject)
        async with self._probes:
            if trio.current_time() < self._refused_until_s.get(key, -inf):
                return False
            epoch = self._epoch
            yes = False
            with trio.move_on_after(PROBE_S):
                yes = await _put(probe, address, host or address.host, self._tls)
        if epoch == self._epoch and not yes:
            self._refused_until_s[key] = trio.current_time() + NO_S
            self._refused_until_s.move_to_end(key)
            if len(self._refused_until_s) > VERDICTS_KEPT:
                self._refused_until_s.popitem(last=False)
        if self._heard is not None:
            self._heard(probe, address, yes)
        return yes


def _reached(stream: trio.SocketStream, address: Address) -> Address:
    """The one server among those that a name stands for: what it thinks of a login, another cannot tell."""
    try:
        host, port, *_ = stream.socket.getpeername()
    except OSError:  # reset already; whatever is asked there, the session is over
        return address
    return Address(str(host), int(port))


async def _dial(address: Address, host: str, tls: Kept | None, limit_s: float) -> tuple[trio.abc.HalfCloseableStream, Address]:
    """A connection, inside TLS where that is wanted, and whom it has reached.

    Raises:
        Unreachable: with the reason.
    """
    with trio.move_on_after(limit_s):
        try:
            stream = await trio.open_tcp_stream(address.host, address.port)
        except (OSError, ValueError, UnicodeError):  # ValueError: a name that cannot be encoded
            raise Unreachable("no connection") from None
        try:
            tune(stream)
            reached = _reached(stream, address)
            if tls is None:
                return stream, reached
            return await _inside_tls(stream, host, tls), reached
        except OSError:  # reset already
            await trio.aclose_forcefully(stream)
            raise Unreachable("no connection") from None
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
    raise Unreachable(TOO_SLOW if tls is not None else "no answer")


async def _inside_tls(stream: trio.SocketStream, host: str, tls: Kept) -> TlsStream:
    """
    Raises:
        Unreachable: the server speaks no TLS, or its certificate will not do.
    """
    wanted = tls.files.server_name if isinstance(tls.files, ClientFiles) else None
    try:
        inside = TlsStream(stream, tls.now.context, server_side=False, server_name=wanted or host)
        await inside.handshake()
    except HandshakeFailed as failed:
        raise Unreachable(f"TLS: {failed}") from None
    return inside


async def _put(probe: Probe, address: Address, host: str, tls: Kept | None) -> bool:
    try:
        stream, _ = await _dial(address, host, tls, PROBE_S)
    except Unreachable:
        return False
    try:
        got = bytearray()
        await stream.send_all(probe.request(secrets.token_hex(16)))
        while len(got) <= PROBE_ANSWER_BYTES:
            data = await stream.receive_some(CHUNK_BYTES)
            if not data:
                return False
            got += data
            verdict = probe.verdict(bytes(got))
            if isinstance(verdict, bytes):
                await stream.send_all(verdict)
            elif verdict is not None:
                return verdict
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return False
    finally:
        await trio.aclose_forcefully(stream)
    return False
