"""What supervisor and worker say to each other: lines of JSON over a pair of UNIX sockets, each bounded.

Names of rules and connections, counts and problems travel here; never contents.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

import trio

from proxy.core.errors import ProxyError

LINE_BYTES = 32 * 1024 * 1024  # a report with a hundred thousand counts fits
CHUNK_BYTES = 64 * 1024

Message = dict[str, Any]


class ChannelBroken(ProxyError):
    """The other side said something that is no message."""


def encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """
    Raises:
        ChannelBroken: it is no message.
    """
    try:
        told = json.loads(line)
    except ValueError:
        raise ChannelBroken("not a message") from None
    if not isinstance(told, dict):
        raise ChannelBroken("not a message")
    return told


class Channel:
    """One end, for tasks; any of them may send. `begun` is what was received before it was made."""

    def __init__(self, own: socket.socket, begun: bytes = b"") -> None:
        own.setblocking(False)
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(own))
        self._sending = trio.Lock()
        self._held = bytearray(begun)
        self._looked = 0

    async def send(self, message: Mapping[str, Any]) -> bool:
        """False where the other side is gone."""
        try:
            async with self._sending:
                await self._stream.send_all(encode(message))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def receive(self) -> Message | None:
        """The next message; None where the other side is gone.

        Raises:
            ChannelBroken: it is none, or too long.
        """
        while (stop := self._held.find(b"\n", self._looked)) < 0:
            self._looked = len(self._held)
            if self._looked > LINE_BYTES:
                raise ChannelBroken("too long a message")
            try:
                data = await self._stream.receive_some(CHUNK_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not data:
                return None
            self._held += data
        line = bytes(self._held[:stop])
        del self._held[: stop + 1]
        self._looked = 0
        return decode(line)

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)


def first_message(own: socket.socket) -> tuple[Message, bytes]:
    """The first message, before there is a loop, and what came behind it.

    Raises:
        ChannelBroken: there is none.
    """
    own.setblocking(True)
    held = bytearray()
    while b"\n" not in held:
        try:
            data = own.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data or len(held) > LINE_BYTES:
            raise ChannelBroken("no first message")
        held += data
    line, _, behind = bytes(held).partition(b"\n")
    return decode(line), behind
