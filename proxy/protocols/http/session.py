"""One HTTP connection: a request is read whole, judged, written anew and sent; then its answer, before the next is looked at.

    reader ── bytes ──▶ wire ──▶ Call ──▶ Api.judge ──▶ wire ── bytes ──▶ server
    reader ◀── bytes ── wire ◀── shown or streamed ◀── wire ◀── bytes ── server

Requests that come one behind the other wait: at no time are two of them in flight. Who reads is what each request says of
itself. It counts once the server has said yes to that login at a place where it says no to every other: elsewhere it may
say yes to anybody.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import inf

from proxy.core.buffer import Buffer
from proxy.core.errors import WireError
from proxy.core.outbox import Loop, Outbox
from proxy.core.session import SessionSettings
from proxy.core.steps import Close, Hold, Probe, Steps
from proxy.core.viewer import Viewer
from rules.access import Reader
from rules.model import Resource
from rules.view import View, plain

from . import fields, logins, targets, wire
from .api import Answer, Api, Call, Forward, Refuse, Show, Verdict
from .codings import decoded
from .documents import NotStrict
from .errors import BadRequest, BadResponse
from .targets import Target
from .wire import Fields, Request, Response

REFUSED_HEADER = b"veil-refused"
DENIED = frozenset({401, 403})
ACCEPTED_S = 600.0  # a login that a connection keeps using is tried anew: it may be nobody's by now
MOST_ASKED = 90  # by then the connection ends at our word: servers end theirs after 100 or 1000, in the midst of a call
TRIES = 5  # of a verdict or an answer, while new rules come in: they come once a second at most


@dataclass(slots=True)
class Exchange:
    """A request that was sent and is not answered in full."""

    method: bytes
    name: str | None = None
    """Whom its login names, if the server accepts it."""
    bears: bool = False
    """It bears the reader's own login."""
    proves: bool = False
    """It asks for what no stranger gets."""
    show: Show | None = None
    is_head: bool = False
    is_old: bool = False
    is_last: bool = False
    is_ours: bool = False
    """A look-up: its answer goes no further."""
    answer: Answer | None = None


class HttpSession:
    """See `proxy.core.session.Session`; for the judges, `Desk`."""

    def __init__(self, viewer: Viewer, settings: SessionSettings, api: Api) -> None:
        self.viewer = viewer
        self.settings = settings
        self.judged = viewer.policy
        self._api = api
        self._outbox = Outbox()
        self._requests = Buffer()
        self._answers = Buffer()
        self._exchange: Exchange | None = None
        self._credentials: bytes | None = None
        """Of the request that is looked at now."""
        self._name: str | None = None
        self._accepted: bytes | None = None
        """By which the viewer's reader is named."""
        self._accepted_at_s = -inf
        """When the server said yes to them where it says no to others; minus infinity: it has not."""
        self._denied: bytes | None = None
        self._asked = 0
        self._is_waiting = False
        """The reader has asked and got no byte of an answer."""
        self._logged_in = False
        self._server_ended = False
        self._server_is_done = False
        viewer.prove = self._prove
        self._reader_loop: Loop = self._read()
        self._server_loop: Loop = self._answer()

    def __repr__(self) -> str:
        return "<HttpSession>"

    @property
    def logged_in(self) -> bool:
        return self._logged_in

    @property
    def missing_bytes(self) -> int:
        return 0

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
            yield Close("the reader has ended")
            return
        self._requests.feed(data)
        try:
            yield from self._outbox.drive(self._reader_loop, self.viewer)
        except BadRequest as bad:
            raise WireError(bad.reason, self._told(bad.status, bad.reason)) from None
        except BadResponse as bad:
            raise self._broken(bad) from None

    def from_server(self, data: bytes) -> Steps[None]:
        self._server_ended = not data
        self._answers.feed(data)
        try:
            yield from self._outbox.drive(self._server_loop, self.viewer)
        except BadResponse as bad:
            raise self._broken(bad) from None
        if data:
            return
        if self._is_waiting:
            raise self._broken(BadResponse("the server ended before its answer"))
        yield Close("the server closed the connection")

    def _broken(self, bad: BadResponse) -> WireError:
        """What ends the connection. Within an answer nothing is said: it would pass for a part of it."""
        return WireError(str(bad), self._told(502, str(bad)) if self._is_waiting else b"")

    def _told(self, status: int, reason: str) -> bytes:
        """An answer of Veil's own, the last one, in the API's form of an error where it has one."""
        form = getattr(self._api, "error", None)
        kind, content = b"text/plain; charset=utf-8", f"veil: {reason}\n".encode()
        if form is not None:
            kind, content = b"application/json", form(status, reason)
        return wire.response_bytes(status, [(b"content-type", kind), (b"connection", b"close")], content)

    # From the reader

    def _read(self) -> Loop:
        most = self.settings.limits.max_value_bytes
        while True:
            request = yield from wire.request(
                self._requests,
                most,
                takes_forms=getattr(self._api, "takes_forms", False),
                takes_texts=getattr(self._api, "takes_texts", False),
            )
            if not logins.is_own(request.one(b"host") or b"", self.settings.names):
                raise BadRequest(421, "the host is not one of this address")
            target = targets.parse(request.target)
            given = self._identified(request)
            if request.one(b"expect") is not None and request.length != 0:
                self._outbox.say(plain(b"HTTP/1.1 100 Continue\r\n\r\n"))
                yield from self._outbox.flush()
            content = yield from wire.body(self._requests, request, most)
            if request.method in wire.BODILESS:
                content = b""
            yield from self._handle(Call(request.method.decode(), target, given, content), request)
            yield from self._outbox.flush()
            if self._parting(request.is_last):
                yield Close("the last request of its connection was answered")

    def _identified(self, request: Request) -> Fields:
        """The fields, with one credential at most: a server that takes another one for the reader would be asked with the
        rights of two."""
        given = request.one(b"authorization")
        kept = [(name, value) for name, value in request.fields if name != b"cookie" or given is None]
        self._credentials = given
        if self.settings.header is None:
            self._name = logins.basic_name(given)
        else:
            self._name = logins.header_name(request.fields, self.settings.header, self.viewer.peer)
        return kept

    def _handle(self, call: Call, request: Request) -> Steps[None]:
        self._is_waiting = True
        verdict = yield from self._verdict(call)
        match verdict:
            case Refuse():
                yield self.viewer.refused(verdict.why, verdict.resource, verdict.operation)
                own: Fields = [(b"content-type", verdict.content_type), (b"cache-control", b"no-store")]
                own += self._parting(request.is_last)
                if verdict.why.rule is not None:
                    own.append((REFUSED_HEADER, _ascii(verdict.why.rule)))
                self._say(wire.response_bytes(verdict.status, own, verdict.content, is_head=call.method == "HEAD"))
            case Forward():
                method = (verdict.method or call.method).encode()
                content = call.content if verdict.content is None else verdict.content
                also = getattr(self._api, "fields", {}).get(call.method, frozenset())
                sent = fields.to_server(call.fields, self._host, accept=verdict.accept, also=also)
                exchange = Exchange(
                    method,
                    self._name,
                    bears=True,
                    show=verdict.show,
                    is_head=call.method == "HEAD",
                    is_old=request.is_old,
                    is_last=request.is_last,
                )
                target = (verdict.target or call.target).encode()
                yield from self._send(
                    wire.request_bytes(method, target, sent, b"" if method in wire.BODILESS else content), exchange
                )

    def _verdict(self, call: Call) -> Steps[Verdict]:
        """Of one policy: while a judge waited for a look-up, another may have come."""
        for _ in range(TRIES):
            self.judged = self.viewer.policy
            yield from self._recognised()
            try:
                verdict = yield from self._api.judge(call, self)
            except NotStrict:
                raise BadRequest(400, "the body is not JSON that all read alike") from None
            if self.viewer.is_still(self.judged):
                return verdict
        raise BadResponse("the rules change too fast")

    def _say(self, data: bytes) -> None:
        """The head of an answer to the reader, or all of it."""
        self._is_waiting = False
        self._outbox.say(plain(data))

    def _send(self, data: bytes, exchange: Exchange) -> Steps[None]:
        """Returns when the answer was carried through."""
        if self._server_is_done:
            raise BadResponse("the server has ended the connection: ask again")
        self._asked += 1
        self._exchange = exchange
        self._outbox.send(data)
        yield from self._outbox.flush()
        while self._exchange is exchange:
            yield Hold()

    @property
    def _host(self) -> bytes:
        return self.settings.upstream.encode()

    # Who reads

    def _recognised(self) -> Steps[None]:
        """Whoever sent the request before, this one is by whom it says, or by nobody."""
        if self.settings.header is not None:
            self.viewer.vouched(self._name)
            return
        if self._credentials is None or self._credentials != self._accepted:
            self._forget()
        if self._name is not None and self._may_lift(self._name):
            yield from self.claim()

    def _forget(self) -> None:
        self._accepted, self._accepted_at_s = None, -inf
        self.viewer.named(None)

    def _may_lift(self, name: str) -> bool:
        return self.viewer.policy.may_lift_somewhere(Reader(name), self.viewer.connection)

    @property
    def _now_s(self) -> float:
        return self.viewer.begin().started_s

    def claim(self) -> Steps[None]:
        """See `Desk`."""
        if self._exchange is not None or self._name is None or self._credentials == self._denied:
            return
        if self.settings.header is not None or self.viewer.is_fixed:
            return
        if self._credentials != self._accepted or self._now_s >= self._accepted_at_s + ACCEPTED_S:
            self._forget()
            yield from self.look_up(self._api.who)

    def _heard(self, exchange: Exchange, status: int) -> Steps[None]:
        """What the server's answer says of the reader's login."""
        if status != 401:
            self._logged_in = True
        if not exchange.bears or self.settings.header is not None:
            return
        if exchange.proves and status in DENIED:
            self._forget()
            self._denied = self._credentials
        elif status == 401:  # a place that is not for this reader, or a login that is no longer one: it is tried anew
            self._forget()
        elif exchange.name is not None and 200 <= status < 300:
            if exchange.proves:
                self._denied = None
                self._accepted, self._accepted_at_s = self._credentials, self._now_s
                self.viewer.named(exchange.name)
                yield from self._outbox.flushed(self.viewer.settle())
            elif self._accepted != self._credentials and not self._may_lift(exchange.name):
                self._accepted = self._credentials  # good enough for the trail
                self.viewer.named(exchange.name)

    def _prove(self, name: str) -> Probe:
        def request(nonce: str) -> bytes:
            own: Fields = [(b"authorization", logins.basic(name, nonce))]
            return wire.request_bytes(b"GET", self._api.who.encode(), fields.to_server(own, self._host), b"")

        def verdict(data: bytes) -> bool | None:
            if b"\r\n" not in data:
                return None
            return data.startswith((b"HTTP/1.1 401 ", b"HTTP/1.0 401 ", b"HTTP/1.1 401\r", b"HTTP/1.0 401\r"))

        return Probe(f"user {name}", request, verdict)

    # For the judge

    def look_up(self, target: Target, *, as_veil: bool = False) -> Steps[Answer | None]:
        """See `Desk`."""
        if self._exchange is not None:
            return None
        own: Fields = [(b"accept", b"application/json"), (b"user-agent", b"veil")]
        exchange = Exchange(b"GET", is_ours=True)
        login = self.settings.login
        if as_veil and login is not None:
            own.append((b"authorization", logins.basic(login[0], login[1])))
        elif self._credentials is not None:
            own.append((b"authorization", self._credentials))
            exchange.name, exchange.bears, exchange.proves = self._name, True, target == self._api.who
        sent = fields.to_server(own, self._host)
        yield from self._send(wire.request_bytes(b"GET", target.encode(), sent, b""), exchange)
        return exchange.answer

    def views(self, resource: Resource, operation: str) -> Steps[tuple[View, ...]]:
        """See `Desk`."""
        read = self.viewer.begin()
        (view,) = yield from self.viewer.lift((self.viewer.view(resource),), read, operation)
        if self.judged is self.viewer.policy:
            return (view,)
        return (view, self.viewer.recorded(self.viewer.view(resource, self.judged), read))

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
            self._server_is_done = head.is_last
            yield from self._heard(exchange, head.status)
            if exchange.is_ours:
                content = yield from self._whole(head, most)
                exchange.answer = None if content is None else Answer(head.status, head.fields, content)
            elif exchange.show is not None:
                yield from self._shown(exchange, exchange.show, head, most)
            else:
                yield from self._streamed(exchange, head)
            if len(self._answers):  # what stands behind an answer must not pass for the next one
                raise BadResponse("the server says more than it was asked")
            yield from self._outbox.flush()
            self._exchange = None

    def _whole(self, head: Response, most: int) -> Generator[None, None, bytes | None]:
        """The answer's body, decoded; None where it is in a coding that is not known.

        Raises:
            BadResponse: it is too large.
        """
        whole = bytearray()
        for piece in wire.pieces(self._answers, head):
            if piece is None:
                if not self._server_ended:
                    yield None
                    continue
                if wire.ends_with_connection(head):
                    break
                raise BadResponse("the server's answer ends early")
            whole += piece
            if len(whole) > most:
                raise BadResponse("the server's answer is too large to be looked at")
        return decoded(bytes(whole), head.one(b"content-encoding"), most)

    def _shown(self, exchange: Exchange, show: Show, head: Response, most: int) -> Loop:
        content = yield from self._whole(head, most)
        if content is None:
            raise BadResponse("the server's answer is in a coding that cannot be looked through")
        for _ in range(TRIES):
            now = self.viewer.policy
            if self._is_doubtful(exchange):
                self._forget()
            try:
                answer = yield from show(Answer(head.status, head.fields, content))
            except NotStrict:
                raise BadResponse("the server's answer is not JSON that all read alike") from None
            if self.viewer.is_still(now):
                break
        else:
            raise BadResponse("the rules change too fast")
        own = [
            *fields.to_reader(answer.fields, self._host, holds_contents=True),
            *answer.marks,
            *self._parting(exchange.is_last),
        ]
        self._say(wire.response_bytes(answer.status, own, answer.content, is_head=exchange.is_head))

    def _is_doubtful(self, exchange: Exchange) -> bool:
        """A grant came for a name that was good enough for the trail alone."""
        is_sure = self._accepted_at_s > -inf or self.settings.header is not None or self.viewer.is_fixed
        return exchange.name is not None and not is_sure and self._may_lift(exchange.name)

    def _parting(self, is_last: bool) -> Fields:
        """Whether the connection ends with this answer."""
        is_last = is_last or self._server_is_done or self._asked >= MOST_ASKED
        return [(b"connection", b"close")] if is_last else []

    def _streamed(self, exchange: Exchange, head: Response) -> Loop:
        """An answer without contents, as it comes."""
        own = [*fields.to_reader(head.fields, self._host, holds_contents=False), *self._parting(exchange.is_last)]
        is_empty = exchange.is_head or exchange.method == b"HEAD" or head.status in wire.NO_BODY
        in_chunks = head.length is None and not exchange.is_old and not is_empty
        if in_chunks:
            own.append((b"transfer-encoding", b"chunked"))
        elif head.length is not None and not is_empty:
            own.append((b"content-length", b"%d" % head.length))
        self._say(wire.response_head(head.status, own))
        for piece in wire.pieces(self._answers, head):
            if piece is None:
                if self._server_ended and wire.ends_with_connection(head):
                    break
                if self._server_ended:
                    yield Close("the server's answer ends early")
                yield from self._outbox.flush()
                yield None
                continue
            if is_empty:
                continue
            self._outbox.say(plain(wire.chunk(piece) if in_chunks else piece))
            if self._outbox.is_long:
                yield from self._outbox.flush()
        if in_chunks:
            self._outbox.say(plain(wire.chunk(b"")))


def _ascii(text: str) -> bytes:
    return "".join(each if " " <= each <= "~" else "?" for each in text[:128]).strip().encode()
