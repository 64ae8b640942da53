"""A relay wired to sessions that follow a script, for the tests of the relay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import trio
import trio.testing

from proxy.core.addresses import Endpoint, Node
from proxy.core.steps import EndServer, Hold, Probe, Step, Steps, ToReader, ToServer
from proxy.runtime.relay import Relay, Times
from rules.audit import Entry, Receipt
from rules.view import plain

Feed = Callable[[bytes], Steps[None]]


class Scripted:
    """A session made of two functions; left out, bytes pass and the reader's end ends the server's side."""

    def __init__(self, from_reader: Feed | None = None, from_server: Feed | None = None) -> None:
        self._from_reader = from_reader
        self._from_server = from_server
        self.logged_in = True
        self.wakes_at_s = math.inf
        self.weight = 0
        self.missing_bytes = 0
        self.policy_changes = 0

    def from_reader(self, data: bytes) -> Steps[None]:
        if self._from_reader is not None:
            yield from self._from_reader(data)
        elif data:
            yield ToServer(data)
        else:
            yield EndServer()

    def from_server(self, data: bytes) -> Steps[None]:
        if self._from_server is not None:
            yield from self._from_server(data)
        elif data:
            yield ToReader(plain(data))

    def policy_changed(self) -> Steps[None]:
        self.policy_changes += 1
        yield ToReader(plain(b"!news!"))

    def wake(self) -> Steps[None]:
        self.wakes_at_s = math.inf
        yield ToReader(plain(b"!woken!"))


def asking_fifty_times() -> Scripted:
    """A session that holds before each question until the one before was answered."""
    replies = 0

    def from_reader(data: bytes) -> Steps[None]:
        nonlocal replies
        for _ in range(50):
            yield ToServer(b"q")
            while not replies:
                yield Hold()
            replies -= 1
        yield ToServer(b"done")

    def from_server(data: bytes) -> Steps[None]:
        nonlocal replies
        replies += len(data)
        yield ToReader(plain(b"."))

    return Scripted(from_reader, from_server)


class Desk:
    """Services under a test's hand."""

    def __init__(self) -> None:
        self.notes: list[Entry] = []
        self.recorded: list[Entry] = []
        self.spans_s: list[float] = []
        self.may_go_on = trio.Event()
        self.answer: tuple[Receipt, ...] | None = None

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None:
        self.recorded += entries
        await self.may_go_on.wait()
        return self.answer

    def note(self, entry: Entry) -> None:
        self.notes.append(entry)

    async def ask(self, probe: Probe) -> bool:
        return probe.subject == "yes"

    async def advertise(self, nodes: tuple[Node, ...]) -> Mapping[int, Endpoint]:
        return {node.id: Endpoint("veil", node.id) for node in nodes if node.id < 100}

    def worked(self, seconds: float) -> None:
        self.spans_s.append(seconds)


class Wired:
    """A relay between two memory streams; `reader` and `server` are the far ends."""

    def __init__(self, session: Scripted, times: Times = Times()) -> None:
        self.reader, near_reader = trio.testing.memory_stream_pair()
        self.server, near_server = trio.testing.memory_stream_pair()
        self.desk = Desk()
        self.session = session
        self.relay = Relay(session, near_reader, near_server, self.desk, times)
        self.ended: str | None = None

    async def run(self) -> None:
        self.ended = await self.relay.run()


async def take(stream: trio.abc.ReceiveStream, count: int) -> bytes:
    got = b""
    while len(got) < count:
        data = await stream.receive_some(count - len(got))
        if not data:
            break
        got += data
    return got


async def rest(stream: trio.abc.ReceiveStream) -> bytes:
    return await take(stream, 1 << 40)


def steps(*given: Step) -> Steps[None]:
    yield from given
