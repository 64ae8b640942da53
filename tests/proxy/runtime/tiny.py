"""A protocol as small as can be whose servers name each other, the servers that speak it, and Veil before them.

A server answers `name` with its own and `nodes` with `nodes 1=127.0.0.1:9001 2=…`; readers get that with the addresses
that they are to use. `python -m tests.proxy.runtime.tiny CONFIG` runs two workers of it.
"""

from __future__ import annotations

import io
import json
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import trio

from proxy import supervisor, worker
from proxy.app import App, Bound
from proxy.core.addresses import Node
from proxy.core.session import ProtocolEntry, Session, SessionSettings
from proxy.core.steps import EndServer, Steps, ToReader, ToServer, advertise
from proxy.core.viewer import Viewer
from proxy.runtime.log import Log
from proxy.runtime.upstream import Address
from proxy.settings import load_configuration
from rules.model import Platform
from rules.view import plain
from tests.brokers.veil import TREE

WORKERS = 2


class Tiny:
    logged_in = True
    wakes_at_s = math.inf
    weight = 0
    missing_bytes = 0

    def __init__(self, viewer: Viewer, settings: SessionSettings) -> None:
        self.settings = settings

    def from_reader(self, data: bytes) -> Steps[None]:
        yield ToServer(data) if data else EndServer()

    def from_server(self, data: bytes) -> Steps[None]:
        word, _, told = data.decode().partition(" ")
        if word == "nodes":
            where = yield from advertise(tuple(map(node_of, told.split())))
            data = "".join(f" {number}={at.host}:{at.port}" for number, at in sorted(where.items())).encode() or b" -"
        if data:
            yield ToReader(plain(data))

    def policy_changed(self) -> Steps[None]:
        yield from ()

    def wake(self) -> Steps[None]:
        yield from ()


SESSIONS: list[Tiny] = []


def session(viewer: Viewer, settings: SessionSettings) -> Session:
    SESSIONS.append(Tiny(viewer, settings))
    return SESSIONS[-1]


PROTOCOLS = {
    "kafka": ProtocolEntry(
        "kafka", frozenset({Platform.KAFKA}), session, lambda: "", shared=object, has_nodes=True, has_tokens=True
    )
}


def node_of(spelled: str) -> Node:
    number, _, address = spelled.partition("=")
    host, _, port = address.rpartition(":")
    return Node(int(number), host, int(port))


class Server:
    """One server of a cluster."""

    def __init__(self, name: str, listener: trio.SocketListener) -> None:
        self.name = name
        self.nodes = ""
        self.port = int(listener.socket.getsockname()[1])

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                while data := await stream.receive_some():
                    await stream.send_all(self.answer(data))
            except trio.BrokenResourceError:
                return

    def answer(self, data: bytes) -> bytes:
        return f"nodes {self.nodes}".encode() if data == b"nodes" else self.name.encode()


class Cluster:
    """Servers, the first of which readers are sent to at first; all tell the same nodes."""

    def __init__(self, servers: dict[int, Server]) -> None:
        self.servers = servers
        self.tell()

    def tell(self, more: str = "", only: Iterable[int] | None = None) -> None:
        told = [f"{number}=127.0.0.1:{self.servers[number].port}" for number in (self.servers if only is None else only)]
        for each in self.servers.values():
            each.nodes = " ".join([*told, more]).strip()

    @property
    def upstream(self) -> Address:
        return Address("127.0.0.1", next(iter(self.servers.values())).port)


@asynccontextmanager
async def cluster(*numbers: int) -> AsyncIterator[Cluster]:
    async with trio.open_nursery() as nursery:
        servers = {}
        for number in numbers:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            servers[number] = Server(f"server {number}", listener)
            nursery.start_soon(trio.serve_listeners, servers[number].serve, [listener])
        yield Cluster(servers)
        nursery.cancel_scope.cancel()


def free_ports(count: int) -> range:
    """So many ports in a row, below those that the kernel gives to connections."""
    for first in range(20_000 + os.getpid() % 50 * 200, 32_000, count):
        ports = range(first, first + count)
        with ExitStack() as held, suppress(OSError):
            for port in ports:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports
    raise OSError("no free ports")


def spelled(ports: range) -> str:
    return f"{ports.start}-{ports.stop - 1}"


def config(folder: Path, upstream: Address, brokers: str, *, tls: str = "", port: int = 0, admin: int = 0) -> Path:
    (folder / "rules.d").mkdir(exist_ok=True)
    (folder / "rules.d" / "rules.yaml").write_text("rules: []\n")
    path = folder / "veil.yaml"
    path.write_text(
        f"""\
store: {{files: {{directory: rules.d}}}}
audit: {{file: {{path: audit.jsonl}}}}
admin: {{listen: "127.0.0.1:{admin}"}}
markers: false
connections:
  - name: orders
    platform: kafka
    listeners:
      - {{protocol: kafka, listen: "127.0.0.1:{port}", upstream: "{upstream}", token_claim: sub, brokers: {brokers}{tls}}}
"""
    )
    return path


class Running:
    def __init__(self, app: App, bound: Bound, log: io.StringIO) -> None:
        self.app = app
        self.at = bound.listeners[0][1]
        self.log = log

    async def ask(self, question: bytes, port: int | None = None) -> bytes:
        return await ask(port or self.at.port, question)

    def logged(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


async def ask(port: int, question: bytes) -> bytes:
    """An answer; empty where the connection was closed.

    Raises:
        OSError: nobody listens.
    """
    with trio.fail_after(10):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            try:
                await stream.send_all(question)
                return bytes(await stream.receive_some())
            except trio.BrokenResourceError:
                return b""


@asynccontextmanager
async def veil(path: Path) -> AsyncIterator[Running]:
    stream = io.StringIO()
    log = Log(stream)
    app = App(load_configuration(path, {}, PROTOCOLS), PROTOCOLS, log)
    async with trio.open_nursery() as nursery:

        async def start(task_status: trio.TaskStatus[Bound]) -> None:
            await app.run(signals=False, task_status=task_status)

        yield Running(app, await nursery.start(start), stream)
        app.stop()
        app.stop()
    assert log.unknown_keys == 0
    assert not [line for line in stream.getvalue().splitlines() if "session-fault" in line]


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not holds():
            await trio.sleep(0.01)


def main(given: str, *descriptor: str) -> int:
    if descriptor:
        return worker.run(given, int(descriptor[-1]), PROTOCOLS)

    def command(given: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "tests.proxy.runtime.tiny", given, "--worker")

    supervisor._command = command
    supervisor._environment = lambda: {**os.environ, "PYTHONPATH": str(TREE)}
    supervisor.run(given, PROTOCOLS, WORKERS)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
