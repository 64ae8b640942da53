"""One HTTP connection: a request is read whole, judged, written anew and sent; then its answer, before the next is looked at.

    reader ── bytes ──▶ wire ──▶ Call ──▶ Api.judge ──▶ wire ── bytes ──▶ server
    reader ◀── bytes ── wire ◀── shown or streamed ◀── wire ◀── bytes ── server

Requests that come one behind the other wait: at no time are two of them in flight. Who reads is what each request says of
itself, and counts from an answer on that a wrong password would not have got.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import inf

from proxy.core.buffer import Buffer
from proxy.core.errors import WireError
from proxy.core.outbox import Loop, Outbox
from proxy.core.session import SessionSettings
from proxy.core.steps import Close, EndServer, Hold, Probe, Steps
from proxy.core.viewer import Viewer
from rules.view import plain

from . import fields, targets, wire
from .api import Answer, Api, Call, Forward, Refuse
from .errors import BadRequest, BadResponse
from .targets import Target
from .wire import Fields, Request, Response

REFUSED_HEADER = b"veil-refused"
DENIED = frozenset({401, 403})


@dataclass(slots=True)
class Exchange:
    """A request that was sent and is not answered in full."""

    method: bytes
    name: str | None
    """Whom its login names, if the server accepts it."""
    show: Callable[[Answer], Steps[Answer]] | None = None
    is_head: bool = False
    is_ours: bool = False
    """A look-up: its answer goes no further."""
    answer: Answer | None = None
    takes_chunks: bool = True


class HttpSession:
    """See `proxy.core.session.Session`."""

    def __init__(self, viewer: Viewer, settings: SessionSettings, api: Api) -> None:
        self.viewer = viewer
        self.settings = settings
        self._api = api
        self._outbox = Outbox()
        self._requests = Buffer()
        self._answers = Buffer()
        self._exchange: Exchange | None = None
        self._credentials: bytes | None = None
        self._name: str | None = None
        self._accepted: bytes | None = None
        self._logged_in = False
        self._server_ended = False
        viewer.prove = self._prove
        self._reader_loop: Loop = self._read()
        self._server_loop: Loop = self._answer()

    def __repr__(self) -> str:
        return "<HttpSession>"

    @property
    def logged_in(self) -> bool:
        return self._logged_in

    @property
    def weight(self) -> int:
        return 0

    @property
    def wakes_at_s(self) -> float:
        return inf

    def wake(self) -> Steps[None]:
        yield from ()

    def policy_changed(self) -> Steps[None]:
        """Each answer looks at the rules itself."""
        self.viewer.look()
        yield from ()

    def from_reader(self, data: bytes) -> Steps[None]:
        if not data:
            yield EndServer() if self._exchange is not None else Close("the reader has ended")
            return
        self._requests.feed(data)
        try:
            yield from self._outbox.drive(self._reader_loop, self.viewer)
        except BadRequest as bad:
            raise WireError(bad.reason, _told(bad.status, bad.reason)) from None

    def from_server(self, data: bytes) -> Steps[None]:
        self._server_ended = not data
        self._answers.feed(data)
        try:
            yield from self._outbox.drive(self._server_loop, self.viewer)
        except BadResponse as bad:
            raise WireError(str(bad), _told(502, "the server's answer cannot be carried through")) from None
        if not data:
            yield Close("the server closed the connection")

    # From the reader

    def _read(self) -> Loop:
        most = self.settings.limits.max_value_bytes
        while True:
            request = yield from wire.request(self._requests, most)
            self._check_host(request)
            target = targets.parse(request.target)
            if request.one(b"expect") is not None and request.length != 0:
                self._outbox.say(plain(b"HTTP/1.1 100 Continue\r\n\r\n"))
                yield from self._outbox.flush()
            content = yield from wire.body(self._requests, request, most)
            call = Call(request.method.decode(), target, self._identified(request), content)
            yield from self._handle(call, request)
            yield from self._outbox.flush()
            if request.is_last:
                yield Close("the reader wanted the connection to end")

    def _check_host(self, request: Request) -> None:
        host = (request.one(b"host") or b"").lower()
        if not is_own(host, self.settings.names):
            raise BadRequest(421, "the host is not one of this address")

    def _identified(self, request: Request) -> Fields:
        """The fields, with one credential at most: a server that takes another one for the reader would be asked with the
        rights of two."""
        given = request.one(b"authorization")
        kept = [(name, value) for name, value in request.fields if name != b"cookie" or given is None]
        self._credentials = given
        self._name = basic_name(given)
        return kept

    def _handle(self, call: Call, request: Request) -> Steps[None]:
        if self._credentials != self._accepted:
            self.viewer.named(None)
        verdict = yield from self._api.judge(call, self)
        match verdict:
            case Refuse():
                yield self.viewer.refused(verdict.why, verdict.resource, verdict.operation)
                own: Fields = [(b"content-type", verdict.content_type), (b"cache-control", b"no-store")]
                if verdict.why.rule is not None:
                    own.append((REFUSED_HEADER, _ascii(verdict.why.rule)))
                is_head = call.method == "HEAD"
                self._outbox.say(plain(wire.response_bytes(verdict.status, own, verdict.content, is_head=is_head)))
            case Forward():
                method = (verdict.method or call.method).encode()
                target = verdict.target or call.target
                content = call.content if verdict.content is None else verdict.content
                sent = fields.to_server(call.fields, self._host, self._own_hosts, accept=verdict.accept)
                yield from self._send(
                    wire.request_bytes(method, target.encode(), sent, content),
                    Exchange(method, self._name, verdict.show, call.method == "HEAD", takes_chunks=not request.is_last),
                )

    def _send(self, data: bytes, exchange: Exchange) -> Steps[None]:
        """Returns when the answer was carried through."""
        self._exchange = exchange
        self._outbox.send(data)
        yield from self._outbox.flush()
        while self._exchange is exchange:
            yield Hold()

    @property
    def _host(self) -> bytes:
        return self.settings.upstream.encode()

    @property
    def _own_hosts(self) -> frozenset[bytes]:
        return frozenset(each.encode() for each in self.settings.names)

    # For the judge

    def look_up(self, target: Target, *, as_veil: bool = False) -> Steps[Answer | None]:
        """See `Desk`."""
        own: Fields = [(b"accept", b"application/json"), (b"user-agent", b"veil")]
        name = None
        login = self.settings.login
        if as_veil and login is not None:
            own.append((b"authorization", _basic(login[0], login[1])))
        elif self._credentials is not None:
            own.append((b"authorization", self._credentials))
            name = self._name
        exchange = Exchange(b"GET", name, is_ours=True)
        sent = fields.to_server(own, self._host, self._own_hosts)
        yield from self._send(wire.request_bytes(b"GET", target.encode(), sent, b""), exchange)
        return exchange.answer

    def claim(self) -> Steps[None]:
        """See `Desk`."""
        if self._name is not None and self._accepted != self._credentials:
            yield from self.look_up(self._api.who)

    def _prove(self, name: str) -> Probe:
        def request(nonce: str) -> bytes:
            own: Fields = [(b"authorization", _basic(name, nonce))]
            return wire.request_bytes(b"GET", self._api.who.encode(), fields.to_server(own, self._host, ()), b"")

        def verdict(data: bytes) -> bool | None:
            if b"\r\n" not in data:
                return None
            return data.startswith((b"HTTP/1.1 401", b"HTTP/1.0 401"))

        return Probe(f"user {name}", request, verdict)

    # From the server

    def _answer(self) -> Loop:
        most = self.settings.limits.max_value_bytes
        while True:
            while not len(self._answers):
                yield None
            exchange = self._exchange
            if exchange is None:
                raise WireError("an answer without a request")
            head = yield from wire.response(self._answers, exchange.method)
            yield from self._named(exchange, head.status)
            if exchange.is_ours:
                content = yield from self._whole(head, most)
                exchange.answer = None if content is None else Answer(head.status, head.fields, content)
            elif exchange.show is not None:
                yield from self._shown(exchange, head, most)
            else:
                yield from self._streamed(exchange, head)
            self._exchange = None
            yield from self._outbox.flush()

    def _named(self, exchange: Exchange, status: int) -> Steps[None]:
        """The server has looked at the login: a name counts from here on, for as long as requests bear the same one."""
        self._logged_in = True
        if status in DENIED or self._credentials is None:
            self._accepted = None
            self.viewer.named(None)
        elif self._accepted != self._credentials and not (exchange.is_ours and exchange.name is None):
            self._accepted = self._credentials
            self.viewer.named(exchange.name)
            yield from self._outbox.flushed(self.viewer.settle())

    def _whole(self, head: Response, most: int) -> Generator[None, None, bytes | None]:
        """The answer's body, decoded; None where it is too large or in a coding that is not known."""
        parts: list[bytes] = []
        size = 0
        for piece in wire.pieces(self._answers, head):
            if piece is None:
                if self._server_ended and wire.ends_with_connection(head):
                    break
                if self._server_ended:
                    raise BadResponse("the server's answer ends early")
                yield None
                continue
            size += len(piece)
            if size <= most:
                parts.append(piece)
        if size > most:
            return None
        return decoded(b"".join(parts), head.one(b"content-encoding"), most)

    def _shown(self, exchange: Exchange, head: Response, most: int) -> Loop:
        content = yield from self._whole(head, most)
        if content is None:
            raise BadResponse("an answer with contents that cannot be looked at")
        assert exchange.show is not None
        while True:
            answer = yield from exchange.show(Answer(head.status, head.fields, content))
            if not self.viewer.look():
                break
        own = [*fields.to_reader(answer.fields, self._host, holds_contents=True), *answer.marks]
        self._outbox.say(plain(wire.response_bytes(answer.status, own, answer.content, is_head=exchange.is_head)))

    def _streamed(self, exchange: Exchange, head: Response) -> Loop:
        own = fields.to_reader(head.fields, self._host, holds_contents=False)
        if exchange.method == b"HEAD" or head.status in wire.NO_BODY:
            self._outbox.say(plain(wire.response_head(head.status, own)))
            return
        is_framed = head.length is not None
        in_chunks = not is_framed and exchange.takes_chunks
        if is_framed:
            own.append((b"content-length", b"%d" % (head.length or 0)))
        elif in_chunks:
            own.append((b"transfer-encoding", b"chunked"))
        else:
            own.append((b"connection", b"close"))
        self._outbox.say(plain(wire.response_head(head.status, own)))
        for piece in wire.pieces(self._answers, head):
            if piece is None:
                if self._server_ended and wire.ends_with_connection(head):
                    break
                if self._server_ended:
                    yield Close("the server's answer ends early")
                yield from self._outbox.flush()
                yield None
                continue
            self._outbox.say(plain(wire.chunk(piece) if in_chunks else piece))
            if self._outbox.is_long:
                yield from self._outbox.flush()
        if in_chunks:
            self._outbox.say(plain(wire.chunk(b"")))


def decoded(content: bytes, coding: bytes | None, most: int) -> bytes | None:
    """The body without its coding, though none was asked for; None where that cannot be done within bounds."""
    if coding is None or coding.lower() == b"identity":
        return content
    if coding.lower() not in (b"gzip", b"x-gzip", b"deflate"):
        return None
    opener = zlib.decompressobj(47)
    try:
        opened = opener.decompress(content, most + 1)
    except zlib.error:
        return None
    return opened if opener.eof and not opener.unused_data and len(opened) <= most else None


def basic_name(given: bytes | None) -> str | None:
    """The user of a Basic login; None for any other."""
    scheme, _, coded = (given or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, _ = base64.b64decode(coded.strip(), validate=True).partition(b":")
        return name.decode("utf-8") or None if colon else None
    except (binascii.Error, ValueError):
        return None


def _basic(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


def is_own(host: bytes, names: tuple[str, ...]) -> bool:
    """Whether a Host is one by which readers call Veil: a number, this machine, or a name that the config lists. A page of
    a stranger can have its own name lead here, and no number."""
    name, _, _ = host.rpartition(b":") if not host.endswith(b"]") and b":" in host else (host, b"", b"")
    bare = name.strip(b"[]")
    if bare == b"localhost" or not bare.strip(b"0123456789.") or (name.startswith(b"[") and b":" in bare):
        return True
    return host.decode("ascii", "replace") in names or name.decode("ascii", "replace") in names


def _told(status: int, reason: str) -> bytes:
    own: Fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    return wire.response_bytes(status, own, f"veil: {reason}\n".encode())


def _ascii(text: str) -> bytes:
    return "".join(each if " " <= each <= "~" else "?" for each in text[:128]).encode()
