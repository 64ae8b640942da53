"""Listeners: the accept loop, and what is put together for each reader."""

from __future__ import annotations

import errno
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import trio

from proxy.core.addresses import Endpoint, Node
from proxy.core.errors import ProxyError
from proxy.core.session import ProtocolEntry, SessionSettings
from proxy.core.steps import Probe
from proxy.core.tally import Tally
from proxy.core.viewer import LAPSE_S, Viewer
from rules.access import Reader
from rules.audit import Entry, Receipt
from rules.model import Connection

from .certificates import Kept
from .clock import utc_seconds
from .current import Current
from .journal import Journal
from .log import Log
from .relay import Relay, Times
from .tls import expired, reader_name
from .tlsstream import TOO_SLOW, HandshakeFailed, TlsStream
from .upstream import Address, Connected, Upstream, tune

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
EXHAUSTED_S = 0.1  # accept fails at once and again until a descriptor is free
BACKLOG = 1024
HANDSHAKE_S = 30.0  # where the config sets no limit to logging in
DOUBTS_KEPT = 100  # for a person to read; the log has them all


class CannotBind(ProxyError):
    """An address that cannot be listened on; the message names it and the reason."""


class Census:
    """How many readers there are, over all listeners, and how many there were."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open = 0
        self.total = 0
        self.turned_away = 0
        self.of_connection: Counter[str] = Counter()
        """connection -> readers accepted."""
        self.unreached: Counter[str] = Counter()
        """connection -> readers hung up on because its broker could not be reached."""
        self.relays: set[Relay] = set()


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """One listener, ready to be bound."""

    connection: Connection
    protocol: ProtocolEntry
    address: Address
    upstream: tuple[Address, ...]
    session: SessionSettings = SessionSettings()
    times: Times = Times()
    fixed: str | None = None
    verify_names: bool = True
    lapse_s: float = LAPSE_S
    named_by: str | None = None
    """Where in the reader's certificate its name is, where that says who reads."""
    tls: Kept | None = None
    upstream_tls: Kept | None = None


@dataclass(frozen=True, slots=True)
class House:
    """What the listeners share."""

    current: Current
    journal: Journal
    census: Census
    log: Log
    tallies: dict[str, Tally] = field(default_factory=dict)
    doubts: OrderedDict[tuple[str, str], str] = field(default_factory=OrderedDict)
    """(connection, subject of a probe) -> why that login proves nothing there, for /readyz."""


@dataclass(frozen=True, slots=True)
class _ReaderServices:
    """What the relay asks for, for one reader's upstream."""

    journal: Journal
    upstream: Upstream
    connected: Connected
    tally: Tally

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None:
        return await self.journal.record(entries)

    def note(self, entry: Entry) -> None:
        self.journal.note(entry)

    async def ask(self, probe: Probe) -> bool:
        return await self.upstream.ask(probe, self.connected.address, self.connected.host)

    async def advertise(self, nodes: tuple[Node, ...]) -> Mapping[int, Endpoint]:
        return {}

    def worked(self, seconds: float) -> None:
        self.tally.worked(seconds)


async def bind(address: Address) -> list[trio.SocketListener]:
    """Sockets that listen on the address (several where a name means several).

    Raises:
        CannotBind: the address is taken, not this machine's, or not allowed.
    """
    try:
        return await trio.open_tcp_listeners(address.port, host=address.host, backlog=BACKLOG)
    except (OSError, ValueError, UnicodeError) as failed:
        reason = failed.strerror if isinstance(failed, OSError) and failed.strerror else "not an address"
        raise CannotBind(f"cannot listen on {address}: {reason}") from None


async def accept_for_ever(
    listener: trio.SocketListener, take: Callable[[trio.SocketStream], object], log: Log, address: Address
) -> None:
    """Hands each connection to `take`, which may not wait. Survives running out of descriptors."""
    told = False
    while True:
        try:
            stream = await listener.accept()
        except OSError as failed:
            if failed.errno not in EXHAUSTED:
                raise
            if not told:
                log.error("accept-exhausted", listener=str(address), reason=errno.errorcode.get(failed.errno or 0, "?"))
            told = True
            await trio.sleep(EXHAUSTED_S)
        else:
            told = False
            take(stream)


class Listener:
    """Serves the readers of one address."""

    def __init__(self, settings: ListenerSettings, house: House) -> None:
        self._settings = settings
        self._house = house
        self._upstream = Upstream(settings.connection.name, settings.upstream, self._heard, settings.upstream_tls)
        self._tally = house.tallies.setdefault(settings.connection.name, Tally())

    async def run(self, listeners: list[trio.SocketListener], readers: trio.Nursery) -> None:
        """Accepts until it is cancelled, then closes the sockets; readers live on in their nursery."""

        def take(stream: trio.SocketStream) -> None:
            census = self._house.census
            if census.open >= census.most:
                census.turned_away += 1
                stream.socket.close()
                return
            census.open += 1
            census.total += 1
            census.of_connection[self._settings.connection.name] += 1
            readers.start_soon(self._serve, stream)

        try:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(accept_for_ever, listener, take, self._house.log, self._settings.address)
        finally:
            for listener in listeners:
                listener.socket.close()

    def _heard(self, probe: Probe, address: Address, yes: bool) -> None:
        """A login that proves nothing is told: its reader has the permission and is masked all the same."""
        connection, doubts = self._settings.connection.name, self._house.doubts
        about = (connection, probe.subject)
        doubts.pop(about, None)
        if yes:
            return
        reason = f"{probe.subject} is an ordinary reader: {address} did not refuse a wrong password"
        doubts[about] = f"{connection}: {reason}"
        if len(doubts) > DOUBTS_KEPT:
            doubts.popitem(last=False)
        self._house.log.warning("login-proves-nothing", connection=connection, upstream=str(address), reason=reason)

    async def _serve(self, stream: trio.SocketStream) -> None:
        log = self._house.log
        told = {"connection": self._settings.connection.name, "protocol": self._settings.protocol.name}
        try:
            await self._relay(stream, told)
        except Exception as fault:  # noqa: BLE001  a fault in one reader's session closes that reader, not the process
            log.failed("session-fault", fault, **told)
        finally:
            self._house.census.open -= 1
            await trio.aclose_forcefully(stream)

    async def _relay(self, stream: trio.SocketStream, told: dict[str, str]) -> None:
        settings, house = self._settings, self._house
        try:
            tune(stream)
            peer = spell_peer(stream.socket.getpeername())
        except OSError:  # gone between accept and here
            return
        try:
            inside, fixed = await self._let_in(stream)
        except HandshakeFailed as failed:
            house.log.info("tls-handshake-failed", peer=peer, reason=str(failed), listener=str(settings.address), **told)
            return
        connected = await self._upstream.connect()
        if connected is None:
            house.census.unreached[settings.connection.name] += 1
            upstream, reason = ", ".join(map(str, settings.upstream)), self._upstream.trouble
            house.log.warning("upstream-unreachable", peer=peer, upstream=upstream, reason=reason, **told)
            return
        try:
            await self._carry(inside, fixed, connected, peer, told)
        finally:
            await trio.aclose_forcefully(connected.stream)

    async def _let_in(self, stream: trio.SocketStream) -> tuple[trio.abc.HalfCloseableStream, Reader | None]:
        """The stream to speak the protocol on, and who reads where that is known by now.

        Raises:
            HandshakeFailed: TLS is wanted and did not come about in time.
        """
        settings = self._settings
        fixed = None if settings.fixed is None else Reader(settings.fixed)
        if settings.named_by is not None:
            fixed = Reader(None)  # unless a certificate says otherwise
        if settings.tls is None:
            return stream, fixed
        inside = TlsStream(stream, settings.tls.now.context, server_side=True)
        with trio.move_on_after(settings.times.login_s or HANDSHAKE_S) as limit:
            await inside.handshake()
        if limit.cancelled_caught:
            raise HandshakeFailed(TOO_SLOW)
        try:
            certificate = inside.certificate()
        except ValueError:
            raise HandshakeFailed("a certificate that cannot be read") from None
        if expired(certificate, utc_seconds()):
            raise HandshakeFailed("certificate not accepted: certificate has expired")
        if settings.named_by is not None:
            fixed = Reader(reader_name(certificate, settings.named_by))
        return inside, fixed

    async def _carry(
        self,
        stream: trio.abc.HalfCloseableStream,
        fixed: Reader | None,
        connected: Connected,
        peer: str,
        told: dict[str, str],
    ) -> None:
        settings, house = self._settings, self._house
        viewer = Viewer(
            settings.connection,
            settings.protocol.name,
            peer,
            house.current.get,
            trio.lowlevel.current_clock().current_time,  # as trio.current_time, for any thread
            tally=self._tally,
            fixed=fixed,
            verify_names=settings.verify_names,
            lapse_s=settings.lapse_s,
        )
        session = settings.protocol.session(viewer, settings.session)
        services = _ReaderServices(house.journal, self._upstream, connected, self._tally)
        relay = Relay(session, stream, connected.stream, services, settings.times)
        house.current.subscribe(relay.policy_changed)
        house.census.relays.add(relay)
        try:
            reason = await relay.run()
        finally:
            house.census.relays.discard(relay)
            house.current.unsubscribe(relay.policy_changed)
            if relay.server_lost:
                self._upstream.lost()
        house.log.info("reader-gone", peer=peer, who=viewer.who, reason=reason, **told)


def spell_peer(name: tuple[object, ...]) -> str:
    """`127.0.0.1:51234` or `[::1]:51234`."""
    return str(Address(str(name[0]), int(str(name[1]))))
