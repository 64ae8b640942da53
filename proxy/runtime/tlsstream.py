"""TLS over a byte stream, with the half-close that a relay needs.

    plain bytes ── send_all ──▶ ┌─────┐ ──▶ inner.send_all
    plain bytes ◀─ receive ──── │ TLS │ ◀── inner.receive_some
                                └─────┘

Knows records and alerts. Does not know certificates: the context that it is given decides about those.
All that has arrived is decrypted at once, so that no bytes of a peer lie unread when `send_eof` says goodbye:
OpenSSL takes such bytes for an offence then.

An end of the inner stream without the goodbye of TLS is an end like any other: whoever can cut the connection
can do so with or without TLS, and a session never takes half a command or half a reply for a whole one.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

import trio

from proxy.core.errors import ProxyError

CHUNK_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024  # encrypted at a time: a large value must not be held twice
HANDSHAKE_RECORD = 22  # the first byte of every connection of TLS 1.0 and later
HANDSHAKE_BYTES = 256 * 1024  # certificates of a chain and a client are some 10 KiB

NOT_TLS = "not TLS"
HUNG_UP = "hung up during the handshake"
TOO_SLOW = "the handshake took too long"


class HandshakeFailed(ProxyError):
    """No TLS came about; the message is the reason, for the log."""


class Asked(ssl.SSLObject):
    """What contexts of a server side make (`sslobject_class`), so that their `sni_callback` can leave here which
    name was asked for: OpenSSL tells it nowhere else."""

    server_name: str | None = None


class TlsStream(trio.abc.HalfCloseableStream):
    """One side of a TLS connection. Nothing may be sent or received before `handshake` has returned."""

    def __init__(
        self,
        inner: trio.abc.HalfCloseableStream,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_name: str | None = None,
    ) -> None:
        """`server_name` is what a client side asks for and wants to see in the certificate.

        Raises:
            HandshakeFailed: `server_name` is no name that TLS could ask for.
        """
        self._inner = inner
        self._server_side = server_side
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(self._in, self._out, server_side=server_side, server_hostname=server_name)
        except (ValueError, UnicodeError):
            raise HandshakeFailed("not a server name") from None
        self._plain = bytearray()
        self._sending = trio.Lock()
        self._ended = False
        self._failed = False
        self._cut = False
        self._said_goodbye = False

    def __repr__(self) -> str:
        return f"<TlsStream with {len(self._plain)} bytes decrypted>"

    @property
    def server_name(self) -> str | None:
        """The name that the reader asked for, on a server side after the handshake; None where it asked for none."""
        return self._tls.server_name if isinstance(self._tls, Asked) else None

    def certificate(self) -> dict[str, object]:
        """What the other side's certificate says, once it was verified; empty where there is none.

        Raises:
            ValueError: it cannot be read as text.
        """
        return dict(self._tls.getpeercert() or {})

    async def handshake(self) -> None:
        """
        Raises:
            HandshakeFailed: there is no agreement, or the other side's certificate will not do. What TLS has to
                say about it was sent.
        """
        taken = 0
        while not self._agreed():
            await self._say_what_is_due()
            data = await self._more()
            if not data:
                raise HandshakeFailed(HUNG_UP)
            if not taken and self._server_side and data[0] != HANDSHAKE_RECORD:
                raise HandshakeFailed(NOT_TLS)  # and nothing is said: it would not be understood
            taken += len(data)
            if taken > HANDSHAKE_BYTES:
                raise HandshakeFailed("the handshake is too long")
            self._in.write(data)
            try:
                self._agreed()
            except HandshakeFailed:
                await self._say_what_is_due()  # the alert
                raise
        await self._say_what_is_due()
        self._decrypt()  # what came with the last message of the handshake

    def _agreed(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ssl.CertificateError, ValueError) as failed:
            raise HandshakeFailed(reason_of(failed)) from None
        return True

    async def _more(self) -> bytes:
        try:
            return bytes(await self._inner.receive_some(CHUNK_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def _say_what_is_due(self) -> None:
        try:
            async with self._sending:
                await self._push()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the other side is gone, which reading will tell

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Decrypted bytes; b"" is the end.

        Raises:
            trio.BrokenResourceError: the connection broke, or what came is not what the other side can have sent.
        """
        await trio.lowlevel.checkpoint()
        while not self._plain and not self._ended and not self._failed:
            data = await self._inner.receive_some(CHUNK_BYTES)
            if not data:
                self._ended = True
                break
            self._in.write(data)
            self._decrypt()
            if self._out.pending and not self._sending.locked():  # whoever holds the lock sends this too
                await self._say_what_is_due()
        if not self._plain and self._failed:
            raise trio.BrokenResourceError("TLS failed")
        count = len(self._plain) if max_bytes is None else max_bytes
        data = bytes(self._plain[:count])
        del self._plain[:count]
        return data

    def _decrypt(self) -> None:
        while True:
            try:
                data = self._tls.read(CHUNK_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError:
                self._failed = True
                return
            if not data:
                self._ended = True
                return
            self._plain += data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """
        Raises:
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: `send_eof` was called.
        """
        async with self._sending:
            if self._said_goodbye:
                raise trio.ClosedResourceError("nothing can be sent after the end")
            view = memoryview(data)
            for at in range(0, len(view), PIECE_BYTES):
                try:
                    self._tls.write(view[at : at + PIECE_BYTES])
                except ssl.SSLError:
                    self._failed = True
                    raise trio.BrokenResourceError("TLS failed") from None
                await self._push()

    async def _push(self) -> None:
        """Sends what was encrypted. Cut off in the middle of it, nothing more can be said on this connection."""
        while self._out.pending:
            if self._cut:
                raise trio.BrokenResourceError("a record was cut off")
            self._cut = True
            await self._inner.send_all(self._out.read())
            self._cut = False

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Says goodbye: nothing more will be sent. What the other side still says can be received.

        After a record that was cut off there is no goodbye, so that the other side can tell.

        Raises:
            trio.BrokenResourceError: the connection broke.
        """
        async with self._sending:
            if self._said_goodbye:
                await trio.lowlevel.checkpoint()
                return
            self._said_goodbye = True
            if not self._cut:
                with suppress(ssl.SSLError, ValueError):  # it wants to hear the other side's goodbye, which may never come
                    self._tls.unwrap()
                await self._push()
            await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


def reason_of(failed: Exception) -> str:
    """OpenSSL's own word for what went wrong, or what it says against a certificate; nothing that a peer sent."""
    if isinstance(failed, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {failed.verify_message}"
    reason = failed.reason if isinstance(failed, ssl.SSLError) else None
    return str(reason or type(failed).__name__).lower().replace("_", " ")
