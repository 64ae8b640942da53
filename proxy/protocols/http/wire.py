"""HTTP/1.1 messages from bytes, strictly: a layer before h11 that lets nothing pass which two readers could read in two ways.

    bytes ──▶ head: checked byte by byte ──▶ h11 ──▶ agree ──▶ Head
          ──▶ body: framed here, by one length or by chunks

h11 reads the head as well, and what it reads has to be the same. It writes what is sent on, from what was judged.
Source: RFC 9110 and 9112; the checks beyond them are those of the known ways to smuggle a request.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass

import h11

from proxy.core.buffer import Buffer, Parse
from proxy.core.errors import LimitExceeded

from .errors import BadRequest, BadResponse

HEAD_BYTES = 16 * 1024
TARGET_BYTES = 8 * 1024
CHUNK_LINE_BYTES = 256 + 16  # an extension is dropped; a flood of it is refused
TRAILER_BYTES = 8 * 1024
METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
BODILESS = frozenset({b"GET", b"HEAD", b"DELETE", b"OPTIONS"})
"""Sent on without a body, whatever they came with: consoles send one along with DELETE, which no server looks at."""
_NEVER_A_BODY = BODILESS - {b"DELETE"}
NO_BODY = frozenset({204, 304})
_TOKEN = rb"[!#$%&'*.+^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(%b) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])" % _TOKEN)
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD = re.compile(rb"(%b):([\t\x20-\x7e\x80-\xff]*)" % _TOKEN)
_LENGTH = re.compile(rb"[0-9]{1,19}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,16})(?:[ \t]*;[\t\x20-\x7e]*)?")
_JSON = re.compile(rb"application/(?:[!#$&^_.+a-z0-9-]+\+)?json", re.IGNORECASE)
TEXT = re.compile(rb'text/plain(?:; ?charset="?utf-8"?)?', re.IGNORECASE)
_UTF_8 = re.compile(rb'charset="?(?:utf-8|us-ascii)"?', re.IGNORECASE)
SINGLE = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"expect",
        b"host",
        b"origin",
        b"transfer-encoding",
    }
)
_SINGLE_IN_ANSWERS = (b"content-encoding", b"content-length", b"content-type", b"location", b"transfer-encoding")

Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """A head. Names of fields are in lower case, in their order; `length` is None for a body in chunks."""

    method: bytes
    target: bytes
    fields: Fields
    length: int | None
    is_last: bool
    """The client wants the connection to end with the answer."""
    is_old: bool = False
    """The client speaks HTTP/1.0: it knows no chunks."""

    def one(self, name: bytes) -> bytes | None:
        """The field's value; of what may occur once alone, it occurs once."""
        return next((value for each, value in self.fields if each == name), None)

    def __repr__(self) -> str:
        return f"<Request {self.method.decode('ascii', 'replace')} with {len(self.fields)} fields>"


@dataclass(frozen=True, slots=True)
class Response:
    """A head. `length` is None where the body is in chunks or ends with the connection."""

    status: int
    fields: Fields
    length: int | None
    is_chunked: bool
    is_last: bool = False
    """The server says nothing more on this connection, or nothing more that it says there may be believed."""

    def one(self, name: bytes) -> bytes | None:
        return next((value for each, value in self.fields if each == name), None)

    def __repr__(self) -> str:
        return f"<Response {self.status} with {len(self.fields)} fields>"


def request(buffer: Buffer, most_bytes: int, *, takes_forms: bool = False, takes_texts: bool = False) -> Parse[Request]:
    """The next request's head.

    `takes_forms`: a form in parts is let in too, and whoever judges it looks after what is in it. `takes_texts`: so is
    what a script of the server's own console calls a text, for want of a name. A stranger's page can send one, but not
    with a login in its head.

    Raises:
        BadRequest: with the status to answer.
    """
    lines = yield from _request_lines(buffer)
    method, target, minor = _request_line(lines[0])
    fields = _fields(lines[1:], BadRequest(400, "a header field is not one"))
    names = [name for name, _ in fields]
    for name in SINGLE:
        if names.count(name) > 1:
            raise BadRequest(400, f"{name.decode()} stands there twice")
    if b"host" not in names:
        raise BadRequest(400, "there is no host")
    named = _connection(fields)
    if named - {b"keep-alive", b"close", b"upgrade", b"te"}:
        raise BadRequest(400, "the connection field names other fields")
    if b"upgrade" in names or b"upgrade" in named or b"http2-settings" in names:
        raise BadRequest(501, "upgrades are not carried through")
    told = dict(fields)
    length = _framing(told, method, minor)
    if length is not None and length > most_bytes:
        raise BadRequest(413, "the body is too large")
    _agree_on_request(lines, method, target, fields)
    if told.get(b"content-encoding", b"identity").lower() != b"identity":
        raise BadRequest(415, "coded bodies are not carried through")
    if length != 0 and method not in BODILESS and not _is_json(told.get(b"content-type")):
        kind = told.get(b"content-type") or b""
        is_form = takes_forms and kind.lower().startswith(b"multipart/form-data;")
        if not is_form and not (takes_texts and b"authorization" in names and TEXT.fullmatch(kind)):
            raise BadRequest(415, "a body is JSON in UTF-8, and its content-type says so")
    if told.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise BadRequest(417, "the expectation is not known")
    return Request(method, target, fields, length, minor == b"0" or b"close" in named, minor == b"0")


def _request_lines(buffer: Buffer) -> Parse[list[bytes]]:
    """The lines of a head."""
    seen = 0
    while True:
        head = buffer.span(0, HEAD_BYTES + 4)
        end = head.find(b"\r\n\r\n", max(0, seen - 3))
        _look_at_once(head if end < 0 else head[:end])
        if end >= 0:
            break
        if len(head) > HEAD_BYTES:
            raise BadRequest(431, "the head is too large")
        seen = len(head)
        yield
    buffer.skip(end + 4)
    return head[:end].split(b"\r\n")


def _request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Method, target, and the second number of the version."""
    if len(line) > TARGET_BYTES + 64:
        raise BadRequest(414, "the target is too long")
    matched = _REQUEST_LINE.fullmatch(line)
    if matched is None:
        raise BadRequest(400, "the request line is not one")
    method, target, major, minor = matched.groups()
    if (major, minor) not in ((b"1", b"1"), (b"1", b"0")):
        raise BadRequest(505, "the version is not HTTP/1.1")
    if len(target) > TARGET_BYTES:
        raise BadRequest(414, "the target is too long")
    if method not in METHODS:
        raise BadRequest(405, "the method is not carried through")
    return method, target, minor


def _is_json(media: bytes | None) -> bool:
    """Whether a body may be judged as JSON: what its sender calls a form, a text or another charset, a server may read as
    that. Without a name it is read as it is judged."""
    kind, *parameters = (b"application/json" if media is None else media).split(b";")
    if not _JSON.fullmatch(kind.strip()):
        return False
    return all(_UTF_8.fullmatch(each.strip()) for each in parameters if each.strip().lower().startswith(b"charset"))


def _look_at_once(head: bytes) -> None:
    """What no more bytes could mend: bare line ends, control characters, and what is not HTTP at all."""
    if head[:1] and not head[:1].isalpha():
        raise BadRequest(400, "not a request")
    lines = head.split(b"\r\n")
    if lines[-1].endswith(b"\r"):
        lines[-1] = lines[-1][:-1]  # perhaps half a line end
    if any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines):
        raise BadRequest(400, "a line end or a control character where none may be")
    if len(lines) > 1 or len(lines[0]) > TARGET_BYTES + 64:
        _request_line(lines[0])


def _fields(lines: list[bytes], otherwise: BadRequest | BadResponse) -> Fields:
    fields: Fields = []
    for line in lines:
        matched = _FIELD.fullmatch(line)
        if matched is None:
            raise otherwise
        fields.append((matched[1].lower(), matched[2].strip(b" \t")))
    return fields


def _agree_on_request(lines: list[bytes], method: bytes, target: bytes, fields: Fields) -> None:
    """h11 reads the same.

    Raises:
        BadRequest: it does not.
    """
    second = h11.Connection(h11.SERVER, HEAD_BYTES)
    try:
        second.receive_data(b"\r\n".join(lines) + b"\r\n\r\n")
        event = second.next_event()
    except h11.RemoteProtocolError as bad:
        raise BadRequest(bad.error_status_hint or 400, "the head is not one") from None
    if not isinstance(event, h11.Request) or (event.method, event.target) != (method, target):
        raise BadRequest(400, "the head can be read in two ways")
    if [(name, value) for name, value in event.headers if name != b"transfer-encoding"] != [
        (name, value)
        for name, value in fields
        if name != b"transfer-encoding"  # which h11 writes in lower case
    ]:
        raise BadRequest(400, "the head can be read in two ways")


def _connection(fields: Fields) -> set[bytes]:
    """What the connection field names."""
    told = (each.strip().lower() for name, value in fields if name == b"connection" for each in value.split(b","))
    return {each for each in told if each}


def _framing(told: dict[bytes, bytes], method: bytes, minor: bytes) -> int | None:
    """The body's length in bytes; None for chunks."""
    coding, length = told.get(b"transfer-encoding"), told.get(b"content-length")
    if coding is not None:
        if coding.lower() != b"chunked":
            raise BadRequest(501, "the transfer coding is not known")
        if length is not None or minor == b"0":
            raise BadRequest(400, "the body is framed in two ways")
        if method in _NEVER_A_BODY:
            raise BadRequest(400, "the method has no body")
        return None
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise BadRequest(413 if length.isdigit() else 400, "the length of the body is not one")
    if int(length) and method in _NEVER_A_BODY:
        raise BadRequest(400, "the method has no body")
    return int(length)


def body(buffer: Buffer, head: Request, most_bytes: int) -> Parse[bytes]:
    """The request's body, whole.

    Raises:
        BadRequest: it is not framed as it has to be, or too large.
    """
    if head.length is not None:
        return (yield from buffer.exact(head.length, most_bytes)) if head.length else b""
    whole = bytearray()
    try:
        for piece in _chunks(buffer):
            if piece is None:
                yield
                continue
            whole += piece
            if len(whole) > most_bytes:
                raise BadRequest(413, "the body is too large")
    except _BadChunks as bad:
        raise BadRequest(400, str(bad)) from None
    return bytes(whole)


class _BadChunks(Exception):
    pass


_Pieces = Generator[bytes | None, None, None]
"""Pieces of a body; None while more bytes must arrive."""


def _line(buffer: Buffer, most_bytes: int) -> Generator[None, None, bytes]:
    while (line := buffer.maybe_line(most_bytes)) is None:
        waiting = buffer.span(0, most_bytes + 2)
        is_long = len(waiting) > most_bytes and (len(waiting) > most_bytes + 1 or not waiting.endswith(b"\r"))
        if is_long or b"\n" in waiting or b"\r" in waiting[:-1]:
            raise _BadChunks("a line of the body is too long or ends in another way")
        yield None
    if b"\r" in line or b"\n" in line:
        raise _BadChunks("a line of the body ends in another way")
    return line


PIECE_BYTES = 64 * 1024


def _chunks(buffer: Buffer) -> _Pieces:
    """The pieces of a body in chunks; extensions and trailers are dropped."""
    while True:
        line = yield from _line(buffer, CHUNK_LINE_BYTES)
        matched = _CHUNK.fullmatch(line)
        if matched is None:
            raise _BadChunks("the size of a chunk is not one")
        left = int(matched[1], 16)
        if not left:
            break
        while left:
            piece = buffer.some(min(left, PIECE_BYTES))
            if piece:
                left -= len(piece)
                yield piece
            else:
                yield None
        if (yield from _line(buffer, 0)):
            raise _BadChunks("a chunk is longer than it says")
    size = 0
    while line := (yield from _line(buffer, TRAILER_BYTES)):
        size += len(line)
        if size > TRAILER_BYTES or not _FIELD.fullmatch(line):
            raise _BadChunks("the trailers are not any")


def response(buffer: Buffer, method: bytes) -> Parse[Response]:
    """The head of the next answer to a request of this method; interim answers are passed over.

    Raises:
        BadResponse: it is not one.
    """
    while True:
        bad = BadResponse("the server's answer is not HTTP/1.1")
        try:
            head = yield from buffer.line(HEAD_BYTES * 4, b"\r\n\r\n")
        except LimitExceeded:
            raise bad from None
        lines = head.split(b"\r\n")
        matched = _STATUS_LINE.fullmatch(lines[0])
        if matched is None or any(each in line for line in lines for each in (b"\r", b"\n", b"\0")):
            raise bad
        status = int(matched[2])
        if status == 101:
            raise bad
        if status >= 200:
            break
    fields = _fields(lines[1:], bad)
    names = [name for name, _ in fields]
    if any(names.count(name) > 1 for name in _SINGLE_IN_ANSWERS):
        raise bad
    told = dict(fields)
    coding, length = told.get(b"transfer-encoding"), told.get(b"content-length")
    if coding is not None and (coding.lower() != b"chunked" or length is not None or matched[1] == b"0"):
        raise bad
    if length is not None and not _LENGTH.fullmatch(length):
        raise bad
    named = _connection(fields)
    is_last = b"close" in named or (matched[1] == b"0" and b"keep-alive" not in named)
    if method == b"HEAD":
        return Response(status, fields, 0, False, is_last)
    if status in NO_BODY:
        return Response(status, fields, 0, False, is_last or coding is not None or bool(int(length or b"0")))
    if coding is None and length is None:
        is_last = True
    return Response(status, fields, None if length is None else int(length), coding is not None, is_last)


def pieces(buffer: Buffer, head: Response) -> _Pieces:
    """The answer's body, piece by piece; None while more bytes must arrive. Of a body that ends with the connection the
    last piece is followed by None for ever: the caller knows of the end.

    Raises:
        BadResponse: it is not framed as it says.
    """
    if head.is_chunked:
        try:
            yield from _chunks(buffer)
        except _BadChunks:
            raise BadResponse("the server's answer is not framed as it says") from None
        return
    left = head.length
    while left is None or left:
        piece = buffer.some(PIECE_BYTES if left is None else min(left, PIECE_BYTES))
        if not piece:
            yield None
            continue
        if left is not None:
            left -= len(piece)
        yield piece


def ends_with_connection(head: Response) -> bool:
    return head.length is None and not head.is_chunked


def request_bytes(method: bytes, target: bytes, fields: Fields, content: bytes) -> bytes:
    """A request of Veil's own making, framed by its length."""
    own = h11.Connection(h11.CLIENT)
    framed = [*fields]
    if content or method not in BODILESS:
        framed.append((b"content-length", b"%d" % len(content)))
    out = own.send(h11.Request(method=method, target=target, headers=framed)) or b""
    if content:
        out += own.send(h11.Data(data=content)) or b""
    return out + (own.send(h11.EndOfMessage()) or b"")


def response_bytes(status: int, fields: Fields, content: bytes, *, is_head: bool = False) -> bytes:
    """An answer whole, framed by its length; to a HEAD without its body and length."""
    head = response_head(
        status, [*fields, *([] if is_head or status in NO_BODY else [(b"content-length", b"%d" % len(content))])]
    )
    return head if is_head or status in NO_BODY else head + content


def response_head(status: int, fields: Fields) -> bytes:
    """The head of an answer whose body is written piece by piece."""
    told = h11.Response(status_code=status, headers=fields, reason=REASONS.get(status, b""))
    lines = [b"HTTP/1.1 %d %b" % (told.status_code, told.reason)]
    lines += [b"%b: %b" % (name, value) for name, value in told.headers.raw_items()]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """A piece of a body in chunks; the empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b"0\r\n\r\n"


REASONS = {
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    204: b"No Content",
    301: b"Moved Permanently",
    302: b"Found",
    303: b"See Other",
    304: b"Not Modified",
    307: b"Temporary Redirect",
    308: b"Permanent Redirect",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    406: b"Not Acceptable",
    409: b"Conflict",
    413: b"Content Too Large",
    414: b"URI Too Long",
    415: b"Unsupported Media Type",
    417: b"Expectation Failed",
    421: b"Misdirected Request",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    505: b"HTTP Version Not Supported",
}
