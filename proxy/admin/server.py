"""The admin port: one HTTP/1.1 request a connection, small and in time."""

from __future__ import annotations

import h11
import trio

from proxy.runtime.listen import accept_for_ever
from proxy.runtime.log import Log
from proxy.runtime.upstream import Address

from .routes import TEXT, Reply, Routes, path_of

HEAD_BYTES = 16 * 1024
REQUEST_S = 5.0  # for all of a request, so that a client that sends a byte a second holds nothing
REPLY_S = 10.0
CONNECTIONS = 64  # probes and a few scrapers; beyond it the oldest is closed, so that idle ones cannot keep a probe out
CHUNK_BYTES = 16 * 1024


class AdminServer:
    def __init__(self, routes: Routes, address: Address, log: Log) -> None:
        self._routes = routes
        self._address = address
        self._log = log
        self._open: dict[trio.CancelScope, None] = {}  # in the order of their arrival

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Serves until it is cancelled."""
        try:
            async with trio.open_nursery() as nursery:

                def take(stream: trio.SocketStream) -> None:
                    if len(self._open) >= CONNECTIONS:
                        oldest = next(iter(self._open))
                        del self._open[oldest]
                        oldest.cancel()
                    scope = trio.CancelScope()
                    self._open[scope] = None
                    nursery.start_soon(self._serve, stream, scope)

                for listener in listeners:
                    nursery.start_soon(accept_for_ever, listener, take, self._log, self._address)
        finally:
            for listener in listeners:
                listener.socket.close()

    async def _serve(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._answer_one(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # gone before it had its answer
        except Exception as fault:  # noqa: BLE001  a fault in one request closes that request, not the process
            self._log.failed("admin-fault", fault)
        finally:
            self._open.pop(scope, None)
            await trio.aclose_forcefully(stream)

    async def _answer_one(self, stream: trio.SocketStream) -> None:
        wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        method = b""
        with trio.move_on_after(REQUEST_S) as limit:
            try:
                request = await _request(wire, stream)
                if request is None:
                    return
                method = request.method
                target = request.target.decode("ascii")
                if self._routes.renew is not None and path_of(target) in ("/readyz", "/metrics"):
                    await self._routes.renew()
                reply = self._routes.answer(method.decode("ascii"), target)
            except h11.RemoteProtocolError as nonsense:
                reply = Reply(nonsense.error_status_hint, TEXT, b"bad request\n")
        if limit.cancelled_caught:
            reply = Reply(408, TEXT, b"too slow\n")
        if wire.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [
            ("Content-Type", reply.content_type),
            ("Content-Length", str(len(reply.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        if reply.allow:
            headers.append(("Allow", reply.allow))
        out = wire.send(h11.Response(status_code=reply.status, headers=headers)) or b""
        if method != b"HEAD":
            out += wire.send(h11.Data(data=reply.body)) or b""
        with trio.move_on_after(REPLY_S):
            await stream.send_all(out)
            await stream.send_eof()
            while await stream.receive_some(CHUNK_BYTES):  # unread bytes would turn the close into a reset
                pass


async def _request(wire: h11.Connection, stream: trio.SocketStream) -> h11.Request | None:
    """The head of the one request; None when the client has gone. Bodies are never read.

    Raises:
        h11.RemoteProtocolError: not HTTP, or a head larger than `HEAD_BYTES`.
    """
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            data = await stream.receive_some(CHUNK_BYTES)
            if not data:
                return None
            wire.receive_data(data)
        elif isinstance(event, h11.Request):
            return event
        else:
            return None
