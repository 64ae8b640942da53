"""Connections to a broker, and probes, against a small server on loopback."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest
import trio
import trio.testing

from proxy.core.steps import Probe
from proxy.runtime import upstream as upstream_module
from proxy.runtime.certificates import Kept
from proxy.runtime.upstream import NO_S, Address, Upstream

NOWHERE = Address("127.0.0.1", 1)  # nothing listens on port 1


class Broker:
    """Answers each connection with `answer` and counts them."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.answer = b"no\n"
        self.address = NOWHERE

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            self.asked.append(bytes(await stream.receive_some()))
            if self.answer:
                await stream.send_all(self.answer)
            await stream.receive_some()


@asynccontextmanager
async def broker(host: str = "127.0.0.1") -> AsyncIterator[Broker]:
    running = Broker()
    listeners = await trio.open_tcp_listeners(0, host=host)
    running.address = Address(host, listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, running.serve, listeners)
        yield running
        nursery.cancel_scope.cancel()


def verdict(got: bytes) -> bool | None:
    return got == b"yes\n" if got.endswith(b"\n") else None


def probe(subject: str = "alice") -> Probe:
    return Probe(subject, lambda nonce: f"AUTH {subject} {nonce}".encode(), verdict)


def test_addresses_are_spelled_as_in_a_config() -> None:
    assert str(Address("::1", 6379)) == "[::1]:6379"
    assert str(Address("localhost", 6379)) == "localhost:6379"


async def test_addresses_are_tried_in_order() -> None:
    async with broker() as running:
        connected = await Upstream("shop", [NOWHERE, running.address]).connect()
        assert connected is not None
        assert connected.address == running.address
        await connected.stream.aclose()


async def test_the_address_of_a_connection_is_the_server_s_own_and_no_name() -> None:
    async with broker() as running:
        connected = await Upstream("shop", [Address("localhost", running.address.port)]).connect()
        assert connected is not None
        assert connected.address == running.address
        await connected.stream.aclose()


async def test_an_address_that_never_answers_is_given_up_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "CONNECT_S", 0.1)
    async with broker() as running:
        with ExitStack() as stack:
            hole = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for _ in range(4):  # its queue is full from now on, and what comes is dropped
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(hole.getsockname())
            silent = Address("127.0.0.1", hole.getsockname()[1])
            with trio.fail_after(3):
                connected = await Upstream("shop", [silent, running.address]).connect()
                assert await Upstream("shop", [silent]).connect() is None
        assert connected is not None
        assert connected.address == running.address
        await connected.stream.aclose()


async def test_where_none_takes_a_connection_there_is_none() -> None:
    assert await Upstream("shop", [NOWHERE, NOWHERE]).connect() is None


@pytest.mark.parametrize(("answer", "expected"), [(b"yes\n", True), (b"no\n", False)])
async def test_a_probe_has_the_verdict_of_the_broker(answer: bytes, expected: bool) -> None:
    async with broker() as running:
        running.answer = answer

        assert await Upstream("shop", [running.address]).ask(probe(), running.address) is expected


async def test_each_probe_has_a_password_of_its_own() -> None:
    async with broker() as running:
        upstream = Upstream("shop", [running.address])
        await upstream.ask(probe("a"), running.address)
        await upstream.ask(probe("b"), running.address)

    passwords = [asked.split()[-1] for asked in running.asked]
    assert len(set(passwords)) == 2
    assert all(len(password) == 32 for password in passwords)


async def test_no_answer_no_connection_and_an_end_are_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "PROBE_S", 0.1)
    async with broker() as running:
        running.answer = b""
        upstream = Upstream("shop", [running.address])

        assert await upstream.ask(probe(), running.address) is False
        assert await upstream.ask(probe(), NOWHERE) is False


async def test_an_endless_answer_is_a_no() -> None:
    async with broker() as running:
        running.answer = b"x" * (2 * upstream_module.PROBE_ANSWER_BYTES)

        assert await Upstream("shop", [running.address]).ask(probe(), running.address) is False


class Counting(Upstream):
    """Counts the probes that are really put."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        heard: Callable[[Probe, Address, bool], None] | None = None,
    ) -> None:
        super().__init__("shop", [NOWHERE], heard)
        self.put = 0
        self.yes = True
        self.meanwhile: Callable[[], None] = lambda: None

        async def put(probe: Probe, address: Address, host: str, tls: Kept | None) -> bool:
            self.put += 1
            self.meanwhile()
            return self.yes

        monkeypatch.setattr(upstream_module, "_put", put)


async def test_a_yes_is_worth_one_login(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Counting(monkeypatch)
    assert await upstream.ask(probe(), NOWHERE)
    upstream.yes = False

    assert not await upstream.ask(probe(), NOWHERE)


async def test_a_no_is_kept_for_a_minute(autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Counting(monkeypatch)
    upstream.yes = False
    await upstream.ask(probe(), NOWHERE)
    await trio.sleep(NO_S - 1)
    await upstream.ask(probe(), NOWHERE)
    assert upstream.put == 1
    await trio.sleep(2)
    await upstream.ask(probe(), NOWHERE)

    assert upstream.put == 2


async def test_verdicts_are_of_one_subject_at_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Counting(monkeypatch)
    upstream.yes = False
    await upstream.ask(probe("alice"), NOWHERE)
    await upstream.ask(probe("bob"), NOWHERE)
    await upstream.ask(probe("alice"), Address("127.0.0.1", 2))

    assert upstream.put == 3


async def test_a_lost_connection_drops_what_is_known_and_what_is_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Counting(monkeypatch)
    upstream.yes = False
    await upstream.ask(probe(), NOWHERE)
    upstream.lost()
    upstream.meanwhile = upstream.lost
    await upstream.ask(probe(), NOWHERE)
    await upstream.ask(probe(), NOWHERE)

    assert upstream.put == 3


async def test_a_connection_that_cannot_be_made_drops_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Counting(monkeypatch)
    upstream.yes = False
    await upstream.ask(probe(), NOWHERE)
    assert await upstream.connect() is None
    await upstream.ask(probe(), NOWHERE)

    assert upstream.put == 2


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "VERDICTS_KEPT", 2)
    upstream = Counting(monkeypatch)
    upstream.yes = False
    for name in ("a", "b", "c", "a"):
        await upstream.ask(probe(name), NOWHERE)

    assert upstream.put == 4


async def test_every_verdict_that_is_not_remembered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, bool]] = []
    upstream = Counting(monkeypatch, lambda probe, address, yes: told.append((probe.subject, yes)))
    await upstream.ask(probe("alice"), NOWHERE)
    upstream.yes = False
    await upstream.ask(probe("bob"), NOWHERE)
    await upstream.ask(probe("bob"), NOWHERE)

    assert told == [("alice", True), ("bob", False)]
