"""TLS over a stream: the bytes, the ends, and what is no TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trio.testing

from proxy.runtime.tls import ClientFiles, Pair, ServerFiles, load_client, load_server
from proxy.runtime.tlsstream import HUNG_UP, NOT_TLS, HandshakeFailed, TlsStream
from tests.certificates import Authority


@dataclass(frozen=True)
class Contexts:
    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def contexts(tmp_path: Path, request: pytest.FixtureRequest) -> Contexts:
    authority = Authority(tmp_path)
    made = authority.server()
    server = load_server(ServerFiles((Pair(made.certificate, made.key),)))
    client = load_client(ClientFiles(authority.path))
    client.context.maximum_version = request.param
    return Contexts(server.context, client.context)


async def linked(contexts: Contexts, name: str = "localhost") -> tuple[TlsStream, TlsStream]:
    near, far = trio.testing.memory_stream_pair()
    server = TlsStream(near, contexts.server, server_side=True)
    client = TlsStream(far, contexts.client, server_side=False, server_name=name)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.handshake)
            nursery.start_soon(client.handshake)
    return server, client


class Held(trio.abc.HalfCloseableStream):
    """Lets the first `count` bytes of each sending through and keeps the others; `stuck`: and never returns from it."""

    def __init__(self, inner: trio.abc.HalfCloseableStream, count: int, *, stuck: bool = False) -> None:
        self._inner = inner
        self._count = count
        self._stuck = stuck
        self._kept = b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._kept += bytes(data)[self._count :]
        await self._inner.send_all(bytes(data)[: self._count])
        if self._stuck:
            await trio.sleep_forever()

    async def rest(self) -> None:
        await self._inner.send_all(self._kept)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._inner.receive_some(max_bytes))

    async def aclose(self) -> None:
        await self._inner.aclose()


async def rest(stream: trio.abc.ReceiveStream) -> bytes:
    got = b""
    with trio.fail_after(5):
        while data := await stream.receive_some():
            got += data
    return got


async def test_bytes_pass_both_ways_whatever_their_number(contexts: Contexts) -> None:
    server, client = await linked(contexts)
    large = bytes(range(256)) * 2000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, large)
        got = b""
        while len(got) < len(large):
            data = await server.receive_some(1000)
            assert len(data) <= 1000
            got += data
    await server.send_all(b"back")

    assert got == large
    assert await client.receive_some() == b"back"


async def test_after_its_end_a_side_still_hears_the_other(contexts: Contexts) -> None:
    server, client = await linked(contexts)
    await client.send_all(b"last")
    await client.send_eof()
    assert await rest(server) == b"last"
    await server.send_all(b"answer")
    await server.send_eof()

    assert await rest(client) == b"answer"
    with pytest.raises(trio.ClosedResourceError):
        await client.send_all(b"more")


async def test_an_end_in_the_middle_of_the_other_side_s_record_loses_nothing(contexts: Contexts) -> None:
    server, client = await linked(contexts)
    held = Held(client._inner, 100)
    client._inner = held
    await client.send_all(b"x" * 500)
    with trio.move_on_after(0.05):
        await server.receive_some()
    await server.send_eof()
    await held.rest()

    with trio.fail_after(5):
        assert await server.receive_some() == b"x" * 500


async def test_an_end_without_a_goodbye_is_an_end(contexts: Contexts) -> None:
    server, client = await linked(contexts)
    await client.send_all(b"half a com")
    await client.aclose()

    assert await rest(server) == b"half a com"


async def test_what_was_changed_on_the_way_is_no_data(contexts: Contexts) -> None:
    server, client = await linked(contexts)
    await client.send_all(b"good")
    await client._inner.send_all(b"\x17\x03\x03\x00\x20" + b"x" * 32)

    assert await server.receive_some() == b"good"
    with pytest.raises(trio.BrokenResourceError):
        await server.receive_some()


async def test_nothing_follows_a_record_that_was_cut_off(contexts: Contexts) -> None:
    server, client = await linked(contexts)
    held = Held(server._inner, 20, stuck=True)
    server._inner = held
    with trio.move_on_after(0.05) as cut:
        await server.send_all(b"nobody takes it")
    with pytest.raises(trio.BrokenResourceError):
        await server.send_all(b"more")
    await server.send_eof()

    assert cut.cancelled_caught
    assert await rest(client) == b""


@pytest.mark.parametrize("plain", [b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\x00\x02"])
async def test_plain_bytes_are_told_from_tls_and_not_answered(contexts: Contexts, plain: bytes) -> None:
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(plain)
    with pytest.raises(HandshakeFailed, match=NOT_TLS):
        await TlsStream(near, contexts.server, server_side=True).handshake()
    await near.aclose()

    assert await rest(far) == b""


async def test_whoever_hangs_up_during_the_handshake_is_told_as_such(contexts: Contexts) -> None:
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(b"\x16\x03\x01")
    await far.aclose()

    with pytest.raises(HandshakeFailed, match=HUNG_UP):
        await TlsStream(near, contexts.server, server_side=True).handshake()


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x00\x05hello", b"\x16" + b"\xff" * 70_000])
async def test_junk_that_begins_like_tls_is_refused(contexts: Contexts, junk: bytes) -> None:
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(junk)
    await far.send_eof()

    with pytest.raises(HandshakeFailed) as caught:
        await TlsStream(near, contexts.server, server_side=True).handshake()
    assert "hello" not in str(caught.value)


@pytest.mark.parametrize("name", ["elsewhere.test", "127.0.0.2"])
async def test_a_server_of_another_name_is_refused_and_hears_why(contexts: Contexts, name: str) -> None:
    near, far = trio.testing.memory_stream_pair()
    reasons: dict[str, str] = {}

    async def side(which: str, stream: TlsStream) -> None:
        try:
            await stream.handshake()
            await stream.receive_some()
        except (HandshakeFailed, trio.BrokenResourceError) as failed:
            reasons[which] = str(failed)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side, "server", TlsStream(near, contexts.server, server_side=True))
            nursery.start_soon(side, "client", TlsStream(far, contexts.client, server_side=False, server_name=name))

    assert reasons["client"].startswith("certificate not accepted: ")
    assert "mismatch" in reasons["client"]
    assert "server" in reasons


def test_a_name_that_nothing_can_have_is_refused(contexts: Contexts) -> None:
    near, _ = trio.testing.memory_stream_pair()

    with pytest.raises(HandshakeFailed, match="not a server name"):
        TlsStream(near, contexts.client, server_side=False, server_name=".bad")


async def test_what_comes_with_the_last_message_of_the_handshake_is_kept(contexts: Contexts) -> None:
    near, far = trio.testing.memory_stream_pair()
    server = TlsStream(near, contexts.server, server_side=True)
    client = TlsStream(far, contexts.client, server_side=False, server_name="localhost")

    async def eager() -> None:
        await client.handshake()
        await client.send_all(b"at once")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(eager)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(server.handshake)

    assert await server.receive_some() == b"at once"
    assert "at once" not in repr(server)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_a_server_side_tells_the_name_that_was_asked_for(contexts: Contexts, name: str) -> None:
    server, client = await linked(contexts, name)

    assert server.server_name == (None if name == "127.0.0.1" else "localhost"), "an address is none"
    assert client.server_name is None
