"""RESP2 and RESP3 as bytes <-> commands and replies, losslessly: `encode(tree(b)) == b` for every legal b.

Knows types, counts and lengths. Does not know which reply belongs to which command: that is session.py.
Left out: the streamed RESP3 forms (`$?`, `*?`, `;`, `.`), which no server sends; they are a WireError.
Source: the Redis serialization protocol specification; networking.c and sds.c of Redis 7 for the request side.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from proxy.core.buffer import Buffer, Parse
from proxy.core.errors import LimitExceeded, WireError

from .inline import broken, split_inline

MAX_INLINE = 64 * 1024  # PROTO_INLINE_MAX_SIZE
MAX_LINE = 64 * 1024 * 1024  # a simple string may be a MONITOR line that holds a whole command
MAX_ARGS = 1024 * 1024  # Redis' own limit of a multibulk
MAX_BULK = 512 * 1024 * 1024  # proto-max-bulk-len
MAX_COMMAND = 1024 * 1024 * 1024  # all bulks of one command
MAX_DEPTH = 64
SHORT = 64  # a line of a length or a count
MAX_HELD = 256 * 1024 * 1024  # bytes of one reply that is held to be masked; NODE_COST counts for each node
NODE_COST = 128
MAX_ASIDE = 4096  # pushes in the middle of one reply
DROPPED = "••••".encode()  # what stands for a blob over the limit, whose bytes are gone

ARRAY, SET, PUSH, MAP, ATTRIBUTE = b"*~>%|"
BULK, BULK_ERROR, VERBATIM = b"$!="
SIMPLE, ERROR, INTEGER, DOUBLE, BOOLEAN, NULL, BIG_NUMBER = b"+-:,#_("
LINES = frozenset(b"+-:,#_(")
BLOBS = frozenset(b"$!=")
TREES = frozenset(b"*~>%|")
PAIRED = frozenset(b"%|")  # the count is of pairs


@dataclass(slots=True)
class Node:
    """One RESP value.

    `line` is what follows the type byte on its line. A blob has its `body`, a tree its `kids` (a map's are
    key, value, key, value …). A null has neither. `large`: a blob over the limit, whose bytes were dropped.
    """

    kind: int
    line: bytes
    body: bytes | None = field(default=None, repr=False)
    kids: list[Node] | None = field(default=None, repr=False)
    large: bool = False

    @property
    def is_null(self) -> bool:
        """`$-1`, `*-1` and `_`."""
        return self.kind == NULL or (self.body is None and self.kids is None and not self.large and self.kind not in LINES)

    @property
    def is_error(self) -> bool:
        return self.kind in (ERROR, BULK_ERROR)


def bulk(data: bytes) -> Node:
    return Node(BULK, b"%d" % len(data), data)


def simple(text: bytes) -> Node:
    return Node(SIMPLE, text)


def integer(value: int) -> Node:
    return Node(INTEGER, b"%d" % value)


def tree(kind: int, kids: list[Node]) -> Node:
    """An aggregate with its count line; of MAP and ATTRIBUTE the kids are key, value, key, value …"""
    return Node(kind, b"%d" % (len(kids) // 2 if kind in PAIRED else len(kids)), None, kids)


def with_body(node: Node, body: bytes) -> Node:
    """A blob of the same type around other bytes."""
    return Node(node.kind, b"%d" % len(body), body)


def encode(node: Node) -> bytes:
    """The bytes of a Node. A `large` one reads `••••`, wherever it stands: its bytes are gone."""
    out: list[bytes] = []
    todo = [node]
    while todo:
        each = todo.pop()
        if each.large:
            each = with_body(each, b"txt:" + DROPPED if each.kind == VERBATIM else DROPPED)
        out += (b"%c" % each.kind, each.line, b"\r\n")
        if each.body is not None:
            out += (each.body, b"\r\n")
        elif each.kids is not None:
            todo.extend(reversed(each.kids))
    return b"".join(out)


def encode_command(argv: Sequence[bytes]) -> bytes:
    """A command in its canonical form, an array of bulks."""
    parts = [b"*%d\r\n" % len(argv)]
    for arg in argv:
        parts += (b"$%d\r\n" % len(arg), arg, b"\r\n")
    return b"".join(parts)


def count_of(line: bytes, most: int) -> int:
    """A length or count line of a reply: decimal, -1 for null.

    Raises:
        WireError: not canonical decimal.
        LimitExceeded: above `most`.
    """
    if line == b"-1":
        return -1
    if not line.isdigit() or len(line) > 10 or (len(line) > 1 and line[0] == 48):
        raise WireError("a RESP length that is not a number")
    count = int(line)
    if count > most:
        raise LimitExceeded("a RESP length above the limit")
    return count


# --- replies ---------------------------------------------------------------------------------------------------------


def head(buffer: Buffer) -> Parse[tuple[int, bytes]]:
    """The type byte of the next value and the rest of its line.

    Raises:
        WireError: not a RESP type byte, or a null that says more.
    """
    while (kind := buffer.peek()) < 0:
        yield
    if kind not in LINES and kind not in BLOBS and kind not in TREES:
        raise WireError("not a RESP type byte")
    line = buffer.maybe_line(SHORT)
    if line is None:
        line = yield from buffer.line(MAX_LINE)
    if kind == NULL and len(line) > 1:
        raise WireError("a RESP null with text")  # a null is never masked, so it must hold nothing
    return kind, line[1:]


def kids_of(kind: int, line: bytes) -> int:
    """How many values follow an aggregate's head; 0 for null."""
    count = max(0, count_of(line, 2**31 - 1))
    return count * 2 if kind in PAIRED else count


class Aside:
    """Pushes that came in the middle of another value, in their order.

    A server of before Redis 7.2 puts the message of a PUBLISH into the array of the very EXEC that published it, and
    the event of a ZPOPMIN, or of a key that MGET finds expired, between two elements of the reply. A push counts for
    no element, wherever it stands: who took it for one would give every later value to the wrong command.
    """

    __slots__ = ("_count", "_left", "_pushes")

    def __init__(self) -> None:
        self._pushes: list[Node] = []
        self._count = 0
        self._left = MAX_HELD

    def take(self, buffer: Buffer, line: bytes) -> Parse[None]:
        """The push whose head was taken; one that is too large is dropped.

        Raises:
            LimitExceeded: there are too many. WireError: not RESP, or a push within the push.
        """
        self._count += 1
        if self._count > MAX_ASIDE:
            raise LimitExceeded("too many pushes in the middle of a reply")
        node = yield from read(buffer, PUSH, line, MAX_BULK, max(0, self._left))
        if node is not None:
            self._pushes.append(node)
            self._left -= weight(node)

    def release(self) -> list[Node]:
        """All of them; it is empty then."""
        pushes, self._pushes = self._pushes, []
        self._count, self._left = 0, MAX_HELD
        return pushes


def weight(node: Node) -> int:
    """What a value counts for in what is held."""
    own = NODE_COST + len(node.line) + len(node.body or b"")
    return own + sum(weight(kid) for kid in node.kids or ())


def head_within(buffer: Buffer, aside: Aside) -> Parse[tuple[int, bytes]]:
    """The head of the next element of an array that is read one by one; attributes are dropped, pushes set aside."""
    while True:
        kind, line = yield from head(buffer)
        if kind == ATTRIBUTE:
            yield from discard(buffer, kids_of(kind, line))
        elif kind == PUSH:
            yield from aside.take(buffer, line)
        else:
            return kind, line


def _set_aside(buffer: Buffer, line: bytes, aside: Aside | None) -> Parse[None]:
    if aside is None:
        raise WireError("a push where none may stand")
    yield from aside.take(buffer, line)


def discard(buffer: Buffer, values: int, aside: Aside | None = None) -> Parse[None]:
    """Takes that many whole values (attributes and pushes before one do not count) and keeps nothing.

    Raises:
        WireError: not RESP, or a push where nothing sets it aside.
    """
    while values:
        kind, line = yield from head(buffer)
        if kind == PUSH:
            yield from _set_aside(buffer, line, aside)
            continue
        values += _rest_of(kind, line)
        if kind in BLOBS:
            yield from drop(buffer, count_of(line, MAX_BULK))


def _rest_of(kind: int, line: bytes) -> int:
    """How the number of values still to come changes with this head."""
    if kind == ATTRIBUTE:
        return kids_of(kind, line)
    return kids_of(kind, line) - 1 if kind in TREES else -1


def drop(buffer: Buffer, count: int) -> Parse[None]:
    """Takes a blob's bytes and its CRLF; nothing for null."""
    if count < 0:
        return
    while count:
        taken = len(buffer.some(count))
        count -= taken
        if not taken:
            yield
    yield from end_of_blob(buffer)


def end_of_blob(buffer: Buffer) -> Parse[None]:
    if (yield from buffer.exact(2, 2)) != b"\r\n":
        raise WireError("a RESP blob that does not end in CRLF")


@dataclass(slots=True)
class _Open:
    node: Node
    left: int


def read(
    buffer: Buffer, kind: int, line: bytes, most_bytes: int, most_held: int = MAX_HELD, aside: Aside | None = None
) -> Parse[Node | None]:
    """The value whose head was taken, as a tree; attributes inside it are dropped, pushes set aside.

    A blob above `most_bytes` comes back `large`, without its bytes. None: the whole is larger than
    `most_held`; its bytes are taken all the same.

    Raises:
        WireError: not RESP, or a push inside it where nothing sets it aside. LimitExceeded: nested deeper than MAX_DEPTH.
    """
    stack: list[_Open] = []
    held = 0
    to_come = 0  # values whose head is not yet taken
    while True:
        if kind == ATTRIBUTE:
            yield from discard(buffer, kids_of(kind, line))
            kind, line = yield from head(buffer)
            continue
        if kind == PUSH and stack:
            yield from _set_aside(buffer, line, aside)
            kind, line = yield from head(buffer)
            continue
        node = Node(kind, line)
        held += NODE_COST + len(line)
        if kind in BLOBS:
            count = count_of(line, MAX_BULK)
            if count > most_bytes or held + count > most_held:
                yield from drop(buffer, count)
                node.large = True
            elif count >= 0:
                node.body = buffer.maybe_blob(count)
                if node.body is None:
                    node.body = yield from buffer.exact(count, MAX_BULK)
                    yield from end_of_blob(buffer)
                held += count
        elif kind in TREES and count_of(line, 2**31 - 1) >= 0:
            node.kids = []
            if left := kids_of(kind, line):
                stack.append(_Open(node, left))
                to_come += left
                if len(stack) > MAX_DEPTH:
                    raise LimitExceeded("RESP nested too deeply")
        if held > most_held:
            yield from discard(buffer, to_come, aside)
            return None
        if not (stack and stack[-1].node is node):
            while stack:
                parent = stack[-1]
                assert parent.node.kids is not None
                parent.node.kids.append(node)
                parent.left -= 1
                if parent.left:
                    break
                node = stack.pop().node
            else:
                return node
        kind, line = yield from head(buffer)
        to_come -= 1


READY_BYTES = 64 * 1024


def ready(buffer: Buffer, kind: int, line: bytes) -> bytes | None:
    """All bytes of the value whose head was taken, if it is a line or a blob that has arrived whole."""
    if kind in LINES:
        return b"%c%b\r\n" % (kind, line)
    if kind not in BLOBS:
        return None
    count = count_of(line, MAX_BULK)
    if count < 0:
        return b"%c-1\r\n" % kind
    if count > READY_BYTES or len(buffer) < count + 2:
        return None
    blob = buffer.some(count + 2)
    if not blob.endswith(b"\r\n"):
        raise WireError("a RESP blob that does not end in CRLF")
    return b"%c%b\r\n%b" % (kind, line, blob)


def stream(
    buffer: Buffer, kind: int, line: bytes, keep_attributes: bool, aside: Aside | None = None
) -> Generator[bytes | None, None, None]:
    """The bytes of the value whose head was taken, as they come, without holding it: yields pieces, and
    None when more must arrive. Attributes inside it are dropped unless they are kept, pushes set aside.

    Raises:
        WireError: not RESP, or a push inside it where nothing sets it aside.
    """
    to_come = 1
    is_inside = False
    while True:
        if kind == PUSH and is_inside:
            yield from _set_aside(buffer, line, aside)
        elif kind == ATTRIBUTE and not keep_attributes:
            yield from discard(buffer, kids_of(kind, line))
        else:
            to_come += _rest_of(kind, line)
            count = count_of(line, MAX_BULK) if kind in BLOBS else -1
            blob = buffer.maybe_blob(count) if count >= 0 else None
            if blob is not None:
                yield b"%c%b\r\n%b\r\n" % (kind, line, blob)
            else:
                yield b"%c%b\r\n" % (kind, line)
                left = count
                while left > 0:
                    piece = buffer.some(left)
                    left -= len(piece)
                    yield piece or None
                if count >= 0:
                    yield from end_of_blob(buffer)
                    yield b"\r\n"
        if not to_come:
            return
        is_inside = True
        kind, line = yield from head(buffer)


# --- commands --------------------------------------------------------------------------------------------------------


def command(buffer: Buffer, most_args: int = MAX_ARGS, most_bytes: int = MAX_COMMAND) -> Parse[tuple[bytes, ...]]:
    """The next command, as its arguments; an empty tuple for `*0`, `*-1` and an empty line, which Redis skips.

    Raises:
        WireError: anything a Redis server would hang up on, and what it would wait on for ever.
        LimitExceeded: more arguments or bytes than allowed.
    """
    while (first := buffer.peek()) < 0:
        yield
    if first == ARRAY and (ready := _ready_command(buffer)) is not None:
        return _no_browser(ready)
    if first != ARRAY:
        return _no_browser(split_inline((yield from _inline(buffer))))
    count = yield from _number(buffer, 2**31 - 1, "invalid multibulk length", null=True)
    if count > most_args:
        raise broken("invalid multibulk length")
    argv: list[bytes] = []
    total = 0
    for _ in range(count):
        while (first := buffer.peek()) < 0:
            yield
        if first != BULK:
            raise broken(f"expected '$', got '{chr(first) if 32 < first < 127 else '?'}'")
        length = yield from _number(buffer, MAX_BULK, "invalid bulk length", null=False)
        total += length + 16
        if total > most_bytes:
            raise broken("too big command")
        argv.append((yield from buffer.exact(length, MAX_BULK)))
        if (yield from buffer.exact(2, 2)) != b"\r\n":
            raise broken("a bulk that does not end in CRLF")
    return _no_browser(tuple(argv))


_READY_COUNT = re.compile(rb"\*([1-9][0-9]{0,2})\r\n")
_READY_LENGTH = re.compile(rb"\$(0|[1-9][0-9]{0,5})\r\n")


def _ready_command(buffer: Buffer) -> tuple[bytes, ...] | None:
    """A command that has arrived whole and is small, the way nearly all of them are; None leaves it to be read
    piece by piece, which also says what is wrong with it."""
    found = buffer.match(_READY_COUNT)
    if found is None:
        return None
    at = found.end() - found.start()
    argv: list[bytes] = []
    for _ in range(int(found[1])):
        found = buffer.match(_READY_LENGTH, at)
        if found is None:
            return None
        start = at + found.end() - found.start()
        length = int(found[1])
        data = buffer.span(start, start + length + 2)
        if len(data) != length + 2 or not data.endswith(b"\r\n"):
            return None
        argv.append(data[:-2])
        at = start + length + 2
    buffer.skip(at)
    return tuple(argv)


def _no_browser(argv: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The command, unless it is the first line of an HTTP request: Redis hangs up on these two as well."""
    if argv and argv[0].lower() in (b"post", b"host:"):
        raise WireError("an HTTP request on a Redis port")
    return argv


def _number(buffer: Buffer, most: int, fault: str, null: bool) -> Parse[int]:
    try:
        line = (yield from _crlf_line(buffer))[1:]
    except LimitExceeded:
        raise broken("too big count string") from None
    if line == b"-1" and null:
        return 0
    if not line.isdigit() or len(line) > 10 or int(line) > most or (len(line) > 1 and line[0] == 48):
        raise broken(fault)
    return int(line)


def _crlf_line(buffer: Buffer) -> Parse[bytes]:
    """A line of the array form. A line feed without its carriage return would leave a server waiting."""
    line = yield from buffer.line(32, b"\n")
    if line[-1:] != b"\r":
        raise broken("a line that does not end in CRLF")
    return line[:-1]


def _inline(buffer: Buffer) -> Parse[bytes]:
    first = buffer.peek()
    if first < 32 and first not in b"\r\n\t":
        raise broken("not a printable character")  # a TLS greeting on the plain port, say
    try:
        line = yield from buffer.line(MAX_INLINE, b"\n")
    except LimitExceeded:
        raise broken("too big inline request") from None
    return line[:-1] if line.endswith(b"\r") else line
