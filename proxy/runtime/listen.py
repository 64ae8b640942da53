"""Listeners: the accept loop, and what is put together for each reader."""

from __future__ import annotations

import errno
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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
from .nodetable import MOST_NODES, NodeSettings
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
    nodes: NodeSettings | None = None
    """How the nodes behind it are reached, where its protocol names some."""


class Cluster(Protocol):
    """The nodes behind a listener."""

    async def advertise(self, nodes: tuple[Node, ...]) -> Mapping[int, Endpoint]: ...

    async def serves(self, slot: int | None, name: str | None) -> tuple[Address, ...]:
        """Who serves a reader that came to a node's port, or to the listener's own and asked for a server name.
        Nobody does where that is a node which is not known."""
        ...


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
    cluster: Cluster | None = None

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None:
        return await self.journal.record(entries)

    def note(self, entry: Entry) -> None:
        self.journal.note(entry)

    async def ask(self, probe: Probe) -> bool:
        return await self.upstream.ask(probe, self.connected.address, self.connected.host)

    async def advertise(self, nodes: tuple[Node, ...]) -> Mapping[int, Endpoint]:
        return {} if self.cluster is None else await self.cluster.advertise(nodes)

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
    """Serves the readers of one address. `slot` is that of a node's port."""

    def __init__(
        self, settings: ListenerSettings, house: House, cluster: Cluster | None = None, slot: int | None = None
    ) -> None:
        self._settings = settings
        self._house = house
        self._cluster = cluster
        self._slot = slot
        self._upstreams: dict[tuple[Address, ...], Upstream] = {}
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

    async def _upstream(self, inside: trio.abc.Stream) -> Upstream | None:
        """Who serves the reader; None where that is a node which is not known."""
        addresses = self._settings.upstream
        if self._cluster is not None:
            name = inside.server_name if isinstance(inside, TlsStream) else None
            addresses = await self._cluster.serves(self._slot, name)
        if not addresses:
            return None
        if addresses not in self._upstreams:
            if len(self._upstreams) > MOST_NODES:  # addresses of nodes that have moved
                self._upstreams.clear()
            settings = self._settings
            self._upstreams[addresses] = Upstream(settings.connection.name, addresses, self._heard, settings.upstream_tls)
        return self._upstreams[addresses]

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
        upstream = await self._upstream(inside)
        if upstream is None:
            house.log.info("node-unknown", peer=peer, listener=str(settings.address), **told)
            return
        connected = await upstream.connect()
        if connected is None:
            house.census.unreached[settings.connection.name] += 1
            tried = ", ".join(map(str, upstream.addresses))
            house.log.warning("upstream-unreachable", peer=peer, upstream=tried, reason=upstream.trouble, **told)
            return
        try:
            await self._carry(inside, fixed, upstream, connected, peer, told)
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
        upstream: Upstream,
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
        services = _ReaderServices(house.journal, upstream, connected, self._tally, self._cluster)
        relay = Relay(session, stream, connected.stream, services, settings.times)
        house.current.subscribe(relay.policy_changed)
        house.census.relays.add(relay)
        try:
            reason = await relay.run()
        finally:
            house.census.relays.discard(relay)
            house.current.unsubscribe(relay.policy_changed)
            if relay.server_lost:
                upstream.lost()
        house.log.info("reader-gone", peer=peer, who=viewer.who, reason=reason, **told)


def spell_peer(name: tuple[object, ...]) -> str:
    """`127.0.0.1:51234` or `[::1]:51234`."""
    return str(Address(str(name[0]), int(str(name[1]))))
