"""A blocking RESP client that keeps every byte it received and every type it parsed.

Not for speed, and not Veil's own codec: tests must not read the wire with the code they test.
Source: the Redis serialization protocol, versions 2 and 3.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias


class Simple(bytes):
    """`+`"""


class Fault(bytes):
    """`-` and `!`: an error, returned and not raised."""


class Double(bytes):
    """`,` in the spelling of the server."""


class BigNumber(bytes):
    """`(`"""


class Verbatim(bytes):
    """`=` with its three-letter type in front."""


class RespSet(list["Reply"]):
    """`~` in the order of the wire."""


class Push(list["Reply"]):
    """`>`"""


class Pairs(list[tuple["Reply", "Reply"]]):
    """`%` in the order of the wire, duplicates and all."""


@dataclass(frozen=True)
class Attributed:
    """`|` and the reply behind it."""

    attributes: Pairs
    reply: Reply


Reply: TypeAlias = bytes | int | bool | list["Reply"] | Pairs | Attributed | None
Word: TypeAlias = bytes | str | int


def encode(*words: Word) -> bytes:
    """A command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


class RespClient:
    """One connection. `received` is all that ever came."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 10.0) -> None:
        self.received = bytearray()
        self._at = 0
        self._socket = socket.create_connection((host, port), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def end_of_writing(self) -> None:
        """Half-closes: nothing more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._socket.sendall(data)

    def send(self, *words: Word) -> None:
        self.raw(encode(*words))

    def call(self, *words: Word) -> Reply:
        """The reply to one command."""
        self.send(*words)
        return self.read()

    def pipeline(self, *commands: tuple[Word, ...]) -> list[Reply]:
        """The replies to commands sent in one packet."""
        self.raw(b"".join(encode(*command) for command in commands))
        return [self.read() for _ in commands]

    def login(self, user: str, password: str, *, version: int = 2) -> Reply:
        """HELLO with AUTH; the answer's map, or a Fault."""
        return self.call("HELLO", version, "AUTH", user, password)

    def read(self) -> Reply:
        """The next reply.

        Raises:
            EOFError: the connection ended in front of or inside it.
            TimeoutError: nothing came.
        """
        line = self._line()
        kind, rest = line[:1], line[1:]
        match kind:
            case b"+":
                return Simple(rest)
            case b"-":
                return Fault(rest)
            case b":":
                return int(rest)
            case b"," | b"(":
                return (Double if kind == b"," else BigNumber)(rest)
            case b"#":
                return rest == b"t"
            case b"_":
                return None
            case b"$" | b"=" | b"!":
                return self._blob(kind, int(rest))
            case b"*" | b"~" | b">":
                if rest == b"-1":
                    return None
                items = [self.read() for _ in range(int(rest))]
                return items if kind == b"*" else RespSet(items) if kind == b"~" else Push(items)
            case b"%":
                return self._pairs(int(rest))
            case b"|":
                attributes = self._pairs(int(rest))
                return Attributed(attributes, self.read())
            case _:
                raise ValueError(f"not RESP: {kind!r}")

    @property
    def place(self) -> int:
        """How much of `received` was read as replies."""
        return self._at

    def forget(self) -> None:
        """Drops what was read, so that a long run does not grow."""
        del self.received[: self._at]
        self._at = 0

    def at_end(self) -> bool:
        """Whether the other side has closed, with nothing unread in front of it."""
        try:
            self._more()
        except EOFError:
            return True
        except TimeoutError:
            return False
        return False

    def everything(self) -> bytes:
        """Reads until the other side closes; all that was ever received."""
        while not self.at_end():
            self._at = len(self.received)
        return bytes(self.received)

    def _pairs(self, count: int) -> Pairs:
        return Pairs((self.read(), self.read()) for _ in range(count))

    def _blob(self, kind: bytes, length: int) -> Reply:
        if length < 0:
            return None
        while len(self.received) < self._at + length + 2:
            self._more()
        data = bytes(self.received[self._at : self._at + length])
        end = bytes(self.received[self._at + length : self._at + length + 2])
        if end != b"\r\n":
            raise ValueError(f"a blob of {length} bytes ends in {end!r}")
        self._at += length + 2
        return data if kind == b"$" else Verbatim(data) if kind == b"=" else Fault(data)

    def _line(self) -> bytes:
        while (stop := self.received.find(b"\r\n", self._at)) < 0:
            self._more()
        line = bytes(self.received[self._at : stop])
        self._at = stop + 2
        return line

    def _more(self) -> None:
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError("the connection has ended")
        self.received += data
