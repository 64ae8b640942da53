"""RESP2 and RESP3 as bytes <-> commands and replies, losslessly: `encode(tree(b)) == b` for every legal b.

Knows types, counts and lengths. Does not know which reply belongs to which command: that is session.py.
Left out: the streamed RESP3 forms (`$?`, `*?`, `;`, `.`), which no server sends; they are a WireError.
Source: the Redis serialization protocol specification; networking.c and sds.c of Redis 7 for the request side.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from proxy.core.buffer import Buffer, Parse
from proxy.core.errors import LimitExceeded, WireError

MAX_INLINE = 64 * 1024  # PROTO_INLINE_MAX_SIZE
MAX_LINE = 64 * 1024 * 1024  # a simple string may be a MONITOR line that holds a whole command
MAX_ARGS = 1024 * 1024  # Redis' own limit of a multibulk
MAX_BULK = 512 * 1024 * 1024  # proto-max-bulk-len
MAX_COMMAND = 1024 * 1024 * 1024  # all bulks of one command
MAX_DEPTH = 64
SHORT = 64  # a line of a length or a count
MAX_HELD = 256 * 1024 * 1024  # bytes of one reply that is held to be masked; NODE_COST counts for each node
NODE_COST = 128
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


def discard(buffer: Buffer, values: int) -> Parse[None]:
    """Takes that many whole values (attributes before one do not count) and keeps nothing."""
    while values:
        kind, line = yield from head(buffer)
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


def read(buffer: Buffer, kind: int, line: bytes, most_bytes: int, most_held: int = MAX_HELD) -> Parse[Node | None]:
    """The value whose head was taken, as a tree; attributes inside it are dropped.

    A blob above `most_bytes` comes back `large`, without its bytes. None: the whole is larger than
    `most_held`; its bytes are taken all the same.

    Raises:
        WireError: not RESP. LimitExceeded: nested deeper than MAX_DEPTH.
    """
    stack: list[_Open] = []
    held = 0
    to_come = 0  # values whose head is not yet taken
    while True:
        if kind == ATTRIBUTE:
            yield from discard(buffer, kids_of(kind, line))
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
            yield from discard(buffer, to_come)
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


def stream(buffer: Buffer, kind: int, line: bytes, keep_attributes: bool) -> Generator[bytes | None, None, None]:
    """The bytes of the value whose head was taken, as they come, without holding it: yields pieces, and
    None when more must arrive. Attributes inside it are dropped unless they are kept.

    Raises:
        WireError: not RESP.
    """
    to_come = 1
    while True:
        if kind == ATTRIBUTE and not keep_attributes:
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
        kind, line = yield from head(buffer)


# --- commands --------------------------------------------------------------------------------------------------------

PROTOCOL_ERROR = b"-ERR Protocol error: %b\r\n"


def _broken(what: str) -> WireError:
    return WireError(f"not a Redis command: {what}", PROTOCOL_ERROR % what.encode())


def command(buffer: Buffer, most_args: int = MAX_ARGS, most_bytes: int = MAX_COMMAND) -> Parse[tuple[bytes, ...]]:
    """The next command, as its arguments; an empty tuple for `*0`, `*-1` and an empty line, which Redis skips.

    Raises:
        WireError: anything a Redis server would hang up on, and what it would wait on for ever.
        LimitExceeded: more arguments or bytes than allowed.
    """
    while (first := buffer.peek()) < 0:
        yield
    if first != ARRAY:
        return _no_browser(split_inline((yield from _inline(buffer))))
    count = yield from _number(buffer, 2**31 - 1, "invalid multibulk length", null=True)
    if count > most_args:
        raise _broken("invalid multibulk length")
    argv: list[bytes] = []
    total = 0
    for _ in range(count):
        while (first := buffer.peek()) < 0:
            yield
        if first != BULK:
            raise _broken(f"expected '$', got '{chr(first) if 32 < first < 127 else '?'}'")
        length = yield from _number(buffer, MAX_BULK, "invalid bulk length", null=False)
        total += length + 16
        if total > most_bytes:
            raise _broken("too big command")
        arg = buffer.maybe_blob(length)
        if arg is None:
            arg = yield from buffer.exact(length, MAX_BULK)
            if (yield from buffer.exact(2, 2)) != b"\r\n":
                raise _broken("a bulk that does not end in CRLF")
        argv.append(arg)
    return _no_browser(tuple(argv))


def _no_browser(argv: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The command, unless it is the first line of an HTTP request: Redis hangs up on these two as well."""
    if argv and argv[0].lower() in (b"post", b"host:"):
        raise WireError("an HTTP request on a Redis port")
    return argv


def _number(buffer: Buffer, most: int, fault: str, null: bool) -> Parse[int]:
    line = buffer.maybe_line(32, b"\n")
    if line is None:
        try:
            line = yield from buffer.line(32, b"\n")
        except LimitExceeded:
            raise _broken("too big count string") from None
    if line[-1:] != b"\r":  # a line feed without its carriage return would leave a server waiting
        raise _broken("a line that does not end in CRLF")
    line = line[1:-1]
    if line == b"-1" and null:
        return 0
    if not line.isdigit() or len(line) > 10 or int(line) > most or (len(line) > 1 and line[0] == 48):
        raise _broken(fault)
    return int(line)


def _inline(buffer: Buffer) -> Parse[bytes]:
    first = buffer.peek()
    if first < 32 and first not in b"\r\n\t":
        raise _broken("not a printable character")  # a TLS greeting on the plain port, say
    try:
        line = yield from buffer.line(MAX_INLINE, b"\n")
    except LimitExceeded:
        raise _broken("too big inline request") from None
    return line[:-1] if line.endswith(b"\r") else line


_ESCAPES = {ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("b"): b"\b", ord("a"): b"\a"}
_SPACE = frozenset(b" \t\n\v\f\r")  # isspace: skipped before a word, wanted behind a closing quote
_END = frozenset(b" \t\n\r")  # what ends a word without quotes
_HEX = frozenset(b"0123456789abcdefABCDEF")


def split_inline(line: bytes) -> tuple[bytes, ...]:
    """The words of an inline command, by the server's own quoting (sdssplitargs).

    Raises:
        WireError: unbalanced quotes, a closing quote with text behind it, or NUL, behind which a server would
            never find the end of the line.
    """
    if b"\0" in line:
        raise _broken("NUL in an inline request")
    words: list[bytes] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _SPACE:
            at += 1
        if at == len(line):
            return tuple(words)
        word, at = _word(line, at)
        words.append(word)


def _word(line: bytes, at: int) -> tuple[bytes, int]:
    out = bytearray()
    while at < len(line) and line[at] not in _END:
        quote = line[at]
        if quote not in b"\"'":
            out.append(quote)
            at += 1
            continue
        at = _quoted(line, at + 1, quote, out)
        if at < len(line) and line[at] not in _SPACE:
            raise _broken("unbalanced quotes in request")
        return bytes(out), at
    return bytes(out), at


def _quoted(line: bytes, at: int, quote: int, out: bytearray) -> int:
    """Takes up to the closing quote and returns the place behind it."""
    while at < len(line):
        byte = line[at]
        if byte == quote:
            return at + 1
        if byte == 0x5C and quote == 0x22 and at + 1 < len(line):
            code = line[at + 2 : at + 4]
            if line[at + 1] == 0x78 and len(code) == 2 and _HEX.issuperset(code):
                out.append(int(code, 16))
                at += 4
                continue
            out += _ESCAPES.get(line[at + 1], line[at + 1 : at + 2])
            at += 2
            continue
        if byte == 0x5C and quote == 0x27 and line[at + 1 : at + 2] == b"'":
            out += b"'"
            at += 2
            continue
        out.append(byte)
        at += 1
    raise _broken("unbalanced quotes in request")
