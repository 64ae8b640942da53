"""Every node of a cluster, reached through Veil: by a port each, or by a server name each on the listener's own port.

    answer that names nodes ── advertise ──▶ table ──▶ a port of the range begins to listen ──▶ answer goes out
    reader ──▶ port or server name ── serves ──▶ the node's address of this moment ──▶ upstream

All ports are held from the start and refuse connections until their node is known, so that nobody else can take
one and no reader is told an address that does not answer. Several processes that share a table look after each
other's entries.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import trio

from proxy.core.addresses import Endpoint, Node
from proxy.core.errors import ConfigError

from .bounded import NoAnswer, in_thread
from .listen import BACKLOG, CannotBind, House, Listener, ListenerSettings
from .nodetable import Found, Seat, Table, TableError, is_served, seated
from .upstream import Address, meant
from .workers.ports import take

POLL_S = 1.0  # how long a node that another process was told of is served there alone
DISK_S = 5.0  # as for rules and certificates
REFUSED_KEPT = 1000  # nodes that found no slot, so that they are looked at once and not with every answer

NO_ANSWER = "does not answer"


def open_table(settings: ListenerSettings) -> Found:
    """The table of a listener that has nodes.

    Raises:
        ConfigError: it is damaged, or could not be written.
    """
    told = settings.nodes
    assert told is not None
    try:
        return Table(told.table, told.slots).open()
    except TableError as bad:
        raise ConfigError([f"{settings.connection.name}: {settings.address}: {bad}"]) from None


class Nodes:
    """The nodes behind one listener: `bind` or `hold`, then `run`, and `close` at last."""

    def __init__(self, settings: ListenerSettings, house: House, found: Found) -> None:
        """`found` is what `open_table` came back with."""
        assert settings.nodes is not None
        self._settings = settings
        self._told = settings.nodes
        self._house = house
        self._table = Table(self._told.table, self._told.slots)
        self._seen = found.seen
        self._thread = trio.CapacityLimiter(1)
        self._changing = trio.Lock()
        self._held: list[list[socket.socket]] = []
        self._listening: set[int] = set()
        self._deaf: set[int] = set()
        self._seats = found.seats
        self._in_slot: dict[int, Node] = {}
        self._endpoints: dict[int, Endpoint] = {}
        self._refused: set[Node] = set()
        self._unwritten: dict[int, Node] = {}
        self._looked_s = -1.0
        self._port = settings.address.port
        self._nurseries: tuple[trio.Nursery, trio.Nursery] | None = None
        self.trouble = ""
        """Why the table does not hold what is served."""
        before, _, after = self._told.sni.lower().rstrip(".").partition("{id}")
        self._name = re.compile(f"{re.escape(before)}(0|[1-9][0-9]{{0,9}}){re.escape(after)}")

    # Its life

    async def bind(self) -> None:
        """Takes the ports.

        Raises:
            CannotBind: one is taken; those before it are held until `close`.
        """
        for port in self._told.ports:
            taken = await take(Address(self._told.host, port))
            self._held.append(list(taken.held))
            for own in taken.held:  # for one process there is nobody to share it with
                own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)

    def hold(self, sockets: Sequence[Sequence[socket.socket]]) -> None:
        """Takes over sockets that are bound to the ports: some for each."""
        self._held = [list(each) for each in sockets]

    async def run(
        self, address: Address, readers: trio.Nursery, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serves all nodes that are known or will be, until it is cancelled. `address` is the listener's real one."""
        self._port = address.port
        try:
            async with trio.open_nursery() as own:
                self._nurseries = own, readers
                try:
                    self._adopt(self._seats)
                    task_status.started()
                    while True:
                        await trio.sleep(POLL_S)
                        async with self._changing:
                            await self._look()
                finally:  # before the nursery takes nobody any more
                    self._nurseries = None
        finally:
            self.close()

    def close(self) -> None:
        for own in self._held:
            for each in own:
                each.close()

    # What it tells

    @property
    def count(self) -> int:
        """How many nodes are known."""
        return len(self._seats)

    @property
    def connection(self) -> str:
        return self._settings.connection.name

    @property
    def warning(self) -> str:
        """For /readyz; empty while all is well."""
        return f"{self._where}: {self.trouble}" if self.trouble else ""

    @property
    def _where(self) -> str:
        return f"{self.connection}: {self._settings.address}"

    async def advertise(self, nodes: tuple[Node, ...]) -> Mapping[int, Endpoint]:
        """Where readers reach the nodes, by their numbers. One that is served nowhere is missing: its port could not
        be had, or its address is none, or Veil's own. Without news nothing is waited for."""
        newest = {node.id: node for node in nodes}
        if any(map(self._is_new, newest.values())):
            async with self._changing:
                news = [node for node in newest.values() if self._is_new(node)]
                if news:
                    await self._learn(news)
        return {
            number: self._endpoints[number]
            for number, node in newest.items()
            if number in self._endpoints and self._seats[number].node == node
        }

    async def serves(self, slot: int | None, name: str | None) -> tuple[Address, ...]:
        """See `listen.Cluster`."""
        if slot is not None:
            return _address(self._in_slot.get(slot))
        found = self._name.fullmatch(name.lower().rstrip(".")) if self._told.sni and name else None
        if found is None:
            return self._settings.upstream
        number = int(found[1])
        if number not in self._seats:  # another process may have been told of it, and have told this reader
            asked_s = trio.current_time()
            async with self._changing:
                if number not in self._seats and self._looked_s <= asked_s:
                    await self._look()
        return _address(self._seats[number].node if number in self._seats else None)

    # What it learns

    def _is_new(self, node: Node) -> bool:
        if node.id in self._seats and self._seats[node.id].node == node:
            return False
        return self._nurseries is not None and node not in self._refused

    async def _learn(self, news: Sequence[Node]) -> None:
        """Seats the nodes, in the file as well if that can be had. Returns when their ports listen."""
        good = [node for node in news if is_served(node) and not self._leads_here(node)]
        named = {**self._unwritten, **{node.id: node for node in good}}
        try:
            work = partial(self._table.take, dict(self._seats), tuple(named.values()))
            seats, self._seen = await in_thread(work, self._thread, DISK_S)
        except (NoAnswer, TableError) as failed:
            seats = seated({}, self._seats, good, self._told.slots)
            self._unwritten = {number: node for number, node in named.items() if number in seats}
            self._say(str(failed) if isinstance(failed, TableError) else f"the node table {self._table.path} {NO_ANSWER}")
        else:
            self._unwritten = {}
            self._say("")
        self._adopt(seats)
        for node in news:
            if node.id not in seats or seats[node.id].node != node:
                self._refuse(node, "no port is free" if node in good else "not an address of another server")

    async def _look(self) -> None:
        """Takes what other processes have put into the table, and puts there what could not be written before."""
        self._looked_s = trio.current_time()
        try:
            changed = await in_thread(self._table.look, self._thread, DISK_S) != self._seen
        except NoAnswer:
            return
        if changed:
            self._refused.clear()  # room may have been made by hand
        if changed or self.trouble:
            await self._learn(())
        elif len(self._endpoints) < len(self._seats):
            self._adopt(self._seats)  # a port that could not listen may do so now

    def _adopt(self, seats: dict[int, Seat]) -> None:
        self._seats = seats
        self._in_slot = {seat.slot: seat.node for seat in seats.values()}
        self._endpoints = {number: self._endpoint(seat) for number, seat in seats.items() if self._listens(seat)}

    def _endpoint(self, seat: Seat) -> Endpoint:
        if self._told.sni:
            return Endpoint(self._told.sni.replace("{id}", str(seat.node.id)), self._told.sni_port or self._port)
        return Endpoint(self._told.advertise, self._told.ports[seat.slot])

    def _listens(self, seat: Seat) -> bool:
        """Whether readers can reach the seat, after a try."""
        if self._told.sni or seat.slot in self._listening:
            return True
        if self._nurseries is None:  # draining
            return False
        address = Address(self._told.host, self._told.ports[seat.slot])
        try:
            listeners = [listening(address, each) for each in self._held[seat.slot]]
        except CannotBind as failed:
            if seat.slot not in self._deaf:
                self._deaf.add(seat.slot)
                self._house.log.error("node-not-served", connection=self.connection, listener=str(address), reason=str(failed))
            return False
        self._listening.add(seat.slot)
        self._deaf.discard(seat.slot)
        own, readers = self._nurseries
        node = Address(seat.node.host, seat.node.port)
        settings = replace(self._settings, address=address, upstream=(node,))
        own.start_soon(Listener(settings, self._house, self, seat.slot).run, listeners, readers)
        self._house.log.info(
            "listening",
            connection=self.connection,
            protocol=settings.protocol.name,
            listener=str(address),
            upstream=str(node),
        )
        return True

    def _leads_here(self, node: Node) -> bool:
        """Whether a connection to the node would arrive at Veil, as far as its spelling tells: it would go round."""
        hosts = meant(node.host)
        told = self._told
        if node.port == self._port and not hosts.isdisjoint(meant(self._settings.address.host)):
            return True
        if told.sni:
            is_port = node.port == (told.sni_port or self._port)
            return is_port and self._name.fullmatch(node.host.lower().rstrip(".")) is not None
        return node.port in told.ports and not hosts.isdisjoint(meant(told.host) | meant(told.advertise))

    def _refuse(self, node: Node, reason: str) -> None:
        if len(self._refused) >= REFUSED_KEPT:
            self._refused.clear()
        self._refused.add(node)
        told = f"{node.host}:{node.port}"
        self._house.log.warning("node-not-served", connection=self.connection, upstream=told, reason=reason)

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            self._house.log.warning("node-table-not-written", connection=self.connection, reason=trouble)
        elif self.trouble and not trouble:
            self._house.log.info("node-table-written", connection=self.connection)
        self.trouble = trouble


def listening(address: Address, own: socket.socket) -> trio.SocketListener:
    """A socket that was held begins to listen.

    Raises:
        CannotBind: somebody listens there alone.
    """
    try:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier Veil may linger
        own.listen(BACKLOG)
    except OSError as failed:
        raise CannotBind(f"cannot listen on {address}: {failed.strerror}") from None
    return trio.SocketListener(trio.socket.from_stdlib_socket(own))


def _address(node: Node | None) -> tuple[Address, ...]:
    return () if node is None else (Address(node.host, node.port),)
