"""The running process: everything is opened, put together and ended here.

journal ◀── listeners ──▶ upstreams          signals: TERM, INT  drain, then stop; a second one: at once
   ▲            │                                     HUP        read rules and certificates now
watch ──▶ current policy ──▶ admin port

As one of several processes it is a `Part`: it is handed its sockets, and has a supervisor in place of an admin port.
"""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import trio

from proxy.admin.routes import Routes, State
from proxy.admin.server import AdminServer
from proxy.core.errors import ConfigError
from proxy.core.session import ProtocolEntry, SessionSettings
from proxy.process import prepare, room_for_readers, unwrapped
from proxy.release import scanner, version
from proxy.runtime.certificates import Certificates, Kept, keep
from proxy.runtime.current import Current
from proxy.runtime.hear import Ears
from proxy.runtime.journal import LIMIT_S, Journal
from proxy.runtime.listen import Census, House, Listener, ListenerSettings, bind
from proxy.runtime.log import Log
from proxy.runtime.metrics import CONTENT_TYPE, Counted, Metrics
from proxy.runtime.nodes import Nodes, listening, open_table
from proxy.runtime.relay import Times
from proxy.runtime.sameserver import Brokers, ids_of
from proxy.runtime.tls import ClientFiles, ServerFiles, TlsError
from proxy.runtime.trail import FileTrail, Trail
from proxy.runtime.trail.stream import StreamTrail
from proxy.runtime.upstream import Address
from proxy.runtime.watch import Watch
from proxy.runtime.workers.desk import Desk
from proxy.runtime.workers.figures import figures_of
from proxy.runtime.workers.report import Report
from proxy.settings import Configuration
from proxy.settings.brokers import node_settings
from proxy.settings.model import ConnectionSection, ListenerSection
from rules.access import UNMASKED, Access, Reader
from rules.model import AccessList, Connection, Limits, Platform, Resource
from rules.store.redis import Admit, RedisStore, Server

DRAIN_S = 10.0  # below the 30 s that orchestrators give
QUIET_S = 0.05  # a connection that was silent for so long when the drain begins is idle
STILL_QUIET_S = 0.5  # later on: one that fell silent meanwhile
LOOK_S = 0.1
FIRST_READ_S = 2.0  # a worker takes no readers before it has read the rules: others have them in force meanwhile


@dataclass(frozen=True, slots=True)
class Bound:
    """Where everything listens, once it does. Ports are the real ones where the config says 0."""

    admin: Address
    listeners: tuple[tuple[ListenerSettings, Address], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What one of several processes has of the whole: room for so many readers, and a socket or more for each address:
    a listener's own, then those of its nodes, then the next one's. They are bound and not listening yet."""

    most: int
    sockets: Sequence[Sequence[socket.socket]]
    desk: Desk


def listener_settings(configuration: Configuration, protocols: Mapping[str, ProtocolEntry]) -> list[ListenerSettings]:
    """Every listener of the config, in its order.

    Raises:
        ConfigError: the files of one's TLS will not do (any more).
    """
    found = []
    for connection in configuration.settings.connections:
        shared: dict[str, object] = {}  # one for each protocol, whichever of the listeners a reader comes to
        for listener in connection.listeners:
            protocol = protocols[listener.protocol]
            if protocol.shared is not None and protocol.name not in shared:
                shared[protocol.name] = protocol.shared()
            found.append(_one_listener(configuration, connection, listener, protocol, shared.get(protocol.name)))
    return found


def trail_of(configuration: Configuration) -> Trail:
    """Where the config wants the audit trail."""
    redis = configuration.settings.audit.redis
    if redis is None:
        return FileTrail(configuration.audit_path)
    return StreamTrail(configuration.redis_at(redis), redis.stream, brokers_of(configuration))


def brokers_of(configuration: Configuration) -> Brokers:
    """Every server that readers are connected to."""
    return Brokers(
        each
        for connection in configuration.settings.connections
        for listener in connection.listeners
        for each in listener.upstream
    )


def admission(brokers: Brokers) -> Admit:
    """Why rules may not be kept on a server."""

    def admit(server: Server) -> str:
        same = brokers.among((Address(server.host, server.port),), ids_of(server.info), server.clients)
        return "" if same is None else f"{same}: whoever writes there could write the rules"

    return admit


def limits_of(configuration: Configuration) -> Limits:
    return Limits(configuration.settings.limits.max_value, configuration.settings.limits.max_depth)


def _one_listener(
    configuration: Configuration,
    connection: ConnectionSection,
    listener: ListenerSection,
    protocol: ProtocolEntry,
    shared: object,
) -> ListenerSettings:
    settings = configuration.settings

    def kept(where: str, files: ServerFiles | ClientFiles | None) -> Kept | None:
        return None if files is None else keep(where, connection.name, listener.protocol, files)

    try:
        tls = kept(str(listener.listen), configuration.server_files(listener, protocol.alpn))
        upstream_tls = kept(f"upstream of {listener.listen}", configuration.client_files(listener))
    except TlsError as bad:
        raise ConfigError([str(problem) for problem in bad.problems]) from None
    return ListenerSettings(
        Connection(connection.name, Platform(connection.platform), connection.environment),
        protocol,
        listener.listen,
        listener.upstream,
        SessionSettings(limits_of(configuration), listener.writes, settings.markers, listener.token_claim, shared),
        Times(settings.limits.login_timeout, settings.limits.idle_timeout),
        fixed=connection.reader.user,
        verify_names=listener.verify_names,
        lapse_s=settings.unmasked_lapse,
        named_by=connection.reader.named_by,
        tls=tls,
        upstream_tls=upstream_tls,
        nodes=node_settings(configuration, connection, listener) if protocol.has_nodes else None,
    )


class App:
    """One run. Everything it opens is closed when `run` returns."""

    def __init__(
        self, configuration: Configuration, protocols: Mapping[str, ProtocolEntry], log: Log, part: Part | None = None
    ) -> None:
        """Opens the audit trail.

        Raises:
            ConfigError: the audit file, a table of nodes or a file of TLS will not do.
        """
        self.configuration = configuration
        self._log = log
        self._part = part
        self._settings = listener_settings(configuration, protocols)
        for load in {each.protocol.load for each in self._settings if each.protocol.load is not None}:
            load()
        tables = [None if each.nodes is None else open_table(each) for each in self._settings]
        self.current = Current()
        self.journal = Journal(trail_of(configuration), log)
        self._wanted = configuration.settings.limits.max_connections if part is None else part.most
        held = sum(each.nodes.descriptors for each in self._settings if each.nodes is not None)
        self._census = Census(min(self._wanted, room_for_readers(resource.getrlimit(resource.RLIMIT_NOFILE)[0], held)))
        self._house = House(self.current, self.journal, self._census, log)
        self._nodes = [
            None if found is None else Nodes(each, self._house, found)
            for each, found in zip(self._settings, tables, strict=True)
        ]
        self._clusters = [nodes for nodes in self._nodes if nodes is not None]
        self._store = configuration.store(admission(brokers_of(configuration)))
        self.watch = Watch(self._store, self.current, self.journal, limits_of(configuration), log)
        self._connections = tuple(dict.fromkeys(each.connection for each in self._settings))
        secured = [kept for each in self._settings for kept in (each.tls, each.upstream_tls) if kept is not None]
        self.certificates = Certificates(secured, log)
        self._bound: Bound | None = None
        self._warnings: tuple[str, ...] = ()
        self._draining = False
        self._stop = trio.Event()
        self._stop_now = trio.Event()

    def stop(self) -> None:
        """Drains and stops; called again, stops at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()

    def drain(self) -> None:
        """Drains and stops, however often it is called."""
        self._stop.set()

    def stop_now(self) -> None:
        self._stop.set()
        self._stop_now.set()

    def reread(self) -> None:
        """Reads the rules and the files of TLS now."""
        self.watch.reread()
        self.certificates.reread()

    async def run(self, *, signals: bool = True, task_status: trio.TaskStatus[Bound] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until it is told to stop, by `stop` or a signal.

        Raises:
            CannotBind: an address cannot be listened on; nothing was served.
        """
        written = trio.Event()

        async def write() -> None:
            await self.journal.run()
            written.set()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                await self._serve(signals=signals, task_status=task_status)
                self.journal.close()
                with trio.move_on_after(LIMIT_S):  # a disk that hangs must not hold the stop up
                    await written.wait()
                nursery.cancel_scope.cancel()
        finally:
            self.journal.release()

    async def _serve(self, *, signals: bool, task_status: trio.TaskStatus[Bound]) -> None:
        opened: list[trio.SocketListener] = []
        try:
            async with trio.open_nursery() as nursery:
                admin_address = self.configuration.settings.admin.listen
                admin_sockets: list[trio.SocketListener] = []
                sockets: list[list[trio.SocketListener]] = []
                if self._part is None:
                    admin_sockets = await bind(admin_address)
                    opened += admin_sockets
                    admin_address = _real(admin_address, admin_sockets)
                    for each, nodes in zip(self._settings, self._nodes, strict=True):
                        sockets.append(await bind(each.address))
                        opened += sockets[-1]
                        if nodes is not None:
                            await nodes.bind()
                if signals:
                    await nursery.start(self._obey_signals)
                nursery.start_soon(self.watch.run)
                nursery.start_soon(self.certificates.run)
                if isinstance(self._store, RedisStore):
                    nursery.start_soon(Ears(self._store.hear, self.watch.look).run)
                nursery.start_soon(self._warn_of_fixed_readers)
                if self._part is None:
                    routes = Routes(self._state, self._metrics().page, CONTENT_TYPE)
                    nursery.start_soon(AdminServer(routes, admin_address, self._log).run, admin_sockets)
                else:
                    nursery.start_soon(self._part.desk.run, self)
                    with trio.move_on_after(FIRST_READ_S):
                        await self.watch.first_read.wait()
                    handed = iter(self._part.sockets)
                    for each, nodes in zip(self._settings, self._nodes, strict=True):
                        sockets.append([listening(each.address, one) for one in next(handed)])
                        opened += sockets[-1]
                        if nodes is not None and each.nodes is not None:
                            nodes.hold([next(handed) for _ in each.nodes.ports])
                bound = Bound(
                    admin_address,
                    tuple((each, _real(each.address, own)) for each, own in zip(self._settings, sockets, strict=True)),
                )
                await self._serve_readers(sockets, bound, task_status)
                if self._part is not None:
                    await self._part.desk.farewell(self)
                nursery.cancel_scope.cancel()
        finally:
            for listener in opened:
                listener.socket.close()
            for nodes in self._clusters:
                nodes.close()

    async def _serve_readers(
        self,
        sockets: list[list[trio.SocketListener]],
        bound: Bound,
        task_status: trio.TaskStatus[Bound],
    ) -> None:
        async with trio.open_nursery() as readers:
            async with trio.open_nursery() as acceptors:
                for (settings, address), own, nodes in zip(bound.listeners, sockets, self._nodes, strict=True):
                    if nodes is not None:
                        await acceptors.start(nodes.run, address, readers)
                    acceptors.start_soon(Listener(settings, self._house, nodes).run, own, readers)
                self._bound = bound
                for settings, address in bound.listeners:
                    self._log.info(
                        "listening",
                        connection=settings.connection.name,
                        protocol=settings.protocol.name,
                        listener=str(address),
                        upstream=", ".join(map(str, settings.upstream)),
                    )
                if self._census.most < self._wanted:
                    reason = "max_connections is more than the open files that are allowed"
                    self._log.warning("few-descriptors", count=self._census.most, reason=reason)
                if self._part is None:
                    self._log.info("serving", version=version(), scanner=scanner(), address=str(bound.admin))
                task_status.started(bound)
                await self._stop.wait()
                self._draining = True
                acceptors.cancel_scope.cancel()
            await self._drain()
            readers.cancel_scope.cancel()

    async def _drain(self) -> None:
        """Closes the idle at once, the others as they fall silent, and whoever is left after `DRAIN_S`."""
        self._log.info("draining", count=self._census.open)
        quiet_s = QUIET_S
        with trio.move_on_after(DRAIN_S):
            while self._census.open and not self._stop_now.is_set():
                for relay in tuple(self._census.relays):
                    relay.drain()
                    if relay.quiet_for_s() >= quiet_s:
                        relay.end("draining")
                quiet_s = STILL_QUIET_S
                with trio.move_on_after(LOOK_S):
                    await self._stop_now.wait()
        self._log.info("stopped", count=self._census.open)

    async def _obey_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            task_status.started()
            async for number in received:
                self._log.info("signal", signal=signal.Signals(number).name)
                if number == signal.SIGHUP:
                    self.reread()
                elif self._part is not None:  # the supervisor is told as well, and says what is to be done at once
                    self.drain()
                else:
                    self.stop()

    async def _warn_of_fixed_readers(self) -> None:
        """A fixed reader with the permission means that whoever reaches the port reads unmasked."""
        while True:
            heard = trio.Event()
            self.current.subscribe(heard.set)
            if self.watch.book is not None:
                self._look_at_fixed_readers(self.watch.book.access)
            await heard.wait()
            self.current.unsubscribe(heard.set)
            await trio.lowlevel.checkpoint()

    def _look_at_fixed_readers(self, access: AccessList) -> None:
        warnings = []
        for each in self._settings:
            if each.fixed is None or not may_unmask(access, each.fixed, each.connection):
                continue
            told = f"{each.connection.name}: everybody at {each.address} reads as {each.fixed}, who may read unmasked"
            warnings.append(told)
            if told not in self._warnings:
                self._log.warning(
                    "fixed-reader-unmasked", connection=each.connection.name, who=each.fixed, listener=str(each.address)
                )
        self._warnings = tuple(dict.fromkeys(warnings))

    def _state(self) -> State:
        return State(
            rules_read=self.current.is_read,
            bound=self._bound is not None,
            draining=self._draining,
            audit_failing=self.journal.failing,
            problems=self.current.problems,
            warnings=(
                *self._warnings,
                *self._house.doubts.values(),
                *self.certificates.warnings,
                *(nodes.warning for nodes in self._clusters if nodes.warning),
            ),
        )

    def report(self) -> Report:
        """What a supervisor is told."""
        state = self._state()
        return Report(
            state.rules_read,
            state.bound,
            state.draining,
            state.audit_failing,
            self.current.policy.version if self.current.is_read else "",
            state.problems,
            state.warnings,
            figures_of(self._metrics().families()),
        )

    def _metrics(self) -> Metrics:
        house = self._house
        return Metrics(
            Counted(
                version(),
                house.census,
                house.current,
                house.journal,
                house.log,
                house.tallies,
                self._connections,
                self.certificates.kept,
                self._clusters,
            )
        )


def _real(address: Address, sockets: list[trio.SocketListener]) -> Address:
    return Address(address.host, int(sockets[0].socket.getsockname()[1]))


def may_unmask(access: AccessList, user: str, connection: Connection) -> bool:
    """Whether the user may read anything of the connection unmasked: tried on a name for each pattern that a
    grant or role has there."""
    held = Access(access)
    reader = Reader(user)
    if held.may_everywhere(reader, UNMASKED, connection).yes:
        return True
    extents = [grant.on for grant in access.grants if grant.allow] + [role.on for role in access.roles if role.on]
    return any(
        held.may(reader, UNMASKED, Resource(connection, kind, glob.replace("*", "x").replace("?", "x").encode())).yes
        for extent in extents
        for kind, globs in extent.resources
        for glob in globs
    )


def run(
    configuration: Configuration,
    protocols: Mapping[str, ProtocolEntry],
    log: Log | None = None,
    part: Callable[[], Part | None] = lambda: None,
) -> None:
    """Runs until a signal.

    Raises:
        ConfigError: the audit file or a table of nodes will not do.
        CannotBind: an address cannot be listened on.
    """
    log = log or Log()
    prepare(log)

    async def main() -> None:
        await App(configuration, protocols, log, part()).run()

    unwrapped(lambda: trio.run(main))
