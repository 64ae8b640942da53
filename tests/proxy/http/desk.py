"""An HTTP session at hand: a tiny API of the tests' own, its policy and clock, and both its sides."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

import h11
import pytest

from proxy.core.errors import WireError
from proxy.core.session import HeaderReader, SessionSettings
from proxy.core.steps import Steps
from proxy.core.viewer import Viewer
from proxy.protocols.http import documents
from proxy.protocols.http.api import Answer, Call, Forward, Refuse, Verdict
from proxy.protocols.http.api import Desk as Judging
from proxy.protocols.http.session import HttpSession
from proxy.protocols.http.targets import Target
from rules.access import Reader
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Limits,
    Method,
    Platform,
    Redact,
    Refusal,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from tests.playbook import Play

SHOP = Connection("shop", Platform.RABBITMQ, "production")
CANARY = "c4n4ry-4111111111111111"
MASK = "••••"
UPSTREAM = b"broker.internal:15672"
HOST = b"mq.local"


def rule(name: str, queues: str, path: str, method: Method = Redact()) -> Rule:
    return Rule(
        name, Platform.RABBITMQ, ((Kind.QUEUE, (queues,)),), fields=(Field(FieldKind.JSON_PATH, method, parse_path(path)),)
    )


CARDS = rule("Cards", "orders*", "$.card")
NOTES = rule("Notes", "orders*", "$.note")
EVERYTHING = Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True))
BOOK = RuleBook("1", (CARDS,), AccessList(grants=(EVERYTHING,)))


class TinyApi:
    """`/contents/QUEUE` holds messages, `/open` nothing, `/danger` is refused while anything masks, and `/asking/NAME`
    first looks up `/facts/NAME`, as Veil where that is `/asking/NAME/veil`."""

    who = Target(("whoami",))

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.facts: list[Answer | None] = []

    def judge(self, call: Call, desk: Judging) -> Steps[Verdict]:
        self.calls.append(call)
        match call.target.segments:
            case ("danger",):
                view = desk.viewer.anything()
                if view.masks and view.may_lift:
                    (view,) = yield from desk.viewer.lift((view,), desk.viewer.begin(), "danger")
                if view.refusal is not None:
                    return Refuse(403, b'{"error":"not_authorised"}', view.refusal, "danger")
            case ("never",):
                return Refuse(400, b"{}", Refusal(None, reason="it never is"), "never")
            case ("contents", queue):
                method = "GET" if call.method == "HEAD" else ""
                return Forward(method, accept=b"application/json", show=lambda answer: self.shown(answer, queue, desk))
            case ("asking", name, *how):
                self.facts.append((yield from desk.look_up(Target(("facts", name)), as_veil=how == ["veil"])))
            case ("strict",):
                documents.parse(call.content)
            case ("claiming",):
                yield from desk.claim()
        return Forward()

    def shown(self, answer: Answer, queue: str, desk: Judging) -> Steps[Answer]:
        views = yield from desk.views(desk.viewer.resource(Kind.QUEUE, queue.encode()), "get")
        if not any(view.masks for view in views):
            return answer
        text, root = documents.parse(answer.content)
        changes = []
        for message in root.inside if root.is_array else ():
            payload = message.member("payload")
            data = payload.inside.encode()
            for view in views:
                data = view.value(data).data
            changes.append((payload, documents.written(data.decode())))
        marks = [(b"veil-masked", b"Cards")] if desk.settings.markers else []
        return Answer(answer.status, answer.fields, documents.spliced(text, changes), marks)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Desk:
    """`ask` and `answer` speak in bytes; `served` and `seen` are both sides read strictly."""

    def __init__(
        self,
        book: RuleBook = BOOK,
        *,
        fixed: str | None = None,
        header: HeaderReader | None = None,
        peer: str = "127.0.0.1:5",
        most: int = 1 << 20,
        api: TinyApi | None = None,
    ) -> None:
        self.policy = Policy(book)
        self.clock = Clock()
        self.viewer = Viewer(
            SHOP,
            "tiny",
            peer,
            lambda: self.policy,
            self.clock,
            fixed=None if fixed is None else Reader(fixed),
        )
        self.api = api or TinyApi()
        settings = SessionSettings(
            Limits(max_value_bytes=most),
            upstream=UPSTREAM.decode(),
            names=(HOST.decode(),),
            login=("veil", "pw"),
            header=header,
        )
        self.play = Play(HttpSession(self.viewer, settings, self.api))

    def ask(self, data: bytes) -> bytes:
        """What goes up because of bytes of the reader."""
        self.play.sent_up()
        self.play.reader(data)
        return self.play.sent_up()

    def answer(self, data: bytes) -> bytes:
        """What the reader gets because of bytes of the server."""
        return self.play.server(data)

    def get(self, path: str, *fields: str, method: str = "GET") -> bytes:
        return self.ask(request(path, *fields, method=method))

    def replace(self, *rules: Rule, grants: tuple[Grant, ...] = (EVERYTHING,)) -> None:
        self.policy = Policy(RuleBook("2", rules, AccessList(grants=grants)))

    def log_in(self, name: str, password: str = "pw") -> str:
        """The field of a login that the server has said yes to."""
        field = login(name, password)
        assert asked(self.get("/claiming", field)).target == b"/whoami"
        self.answer(answer(b"{}"))
        assert asked(self.play.sent_up()).target == b"/claiming"
        self.answer(answer(b"{}"))
        assert self.viewer.reader.name == name
        return field


def login(name: str, password: str = "pw") -> str:
    return "Authorization: Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def request(path: str, *fields: str, method: str = "GET", body: bytes | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST.decode()}", *fields]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def answer(body: bytes = b"", *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def messages(*payloads: str) -> bytes:
    return documents.written([{"payload_bytes": len(each), "payload": each} for each in payloads]).encode()


CARD = documents.written({"card": CANARY, "note": "n0t3-n0t3-n0t3"})


@dataclass
class Asked:
    method: bytes
    target: bytes
    fields: dict[bytes, bytes]
    body: bytes


_LINE = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/[!-~]*) HTTP/1\.1")
_FIELD = re.compile(rb"([a-z-]+): ([!-~\x80-\xff](?:[ -~\x80-\xff]*[!-~\x80-\xff])?|)")


def asked(data: bytes) -> Asked:
    """The one request that the bytes are, by the strictest reading and by h11's.

    Raises:
        AssertionError: they are anything else.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    assert end, "no whole head"
    first, *lines = head.split(b"\r\n")
    line = _LINE.fullmatch(first)
    assert line, f"a request line that is not one: {first!r}"
    fields: dict[bytes, bytes] = {}
    for each in lines:
        matched = _FIELD.fullmatch(each)
        assert matched, f"a field that is not one: {each!r}"
        assert matched[1] not in fields, f"{matched[1]!r} twice"
        fields[matched[1]] = matched[2]
    assert b"transfer-encoding" not in fields, "framed by chunks"
    assert len(body) == int(fields.get(b"content-length", b"0")), "another length than it says"
    assert fields[b"host"] == UPSTREAM
    other = h11.Connection(h11.SERVER)
    other.receive_data(data)
    event = other.next_event()
    assert isinstance(event, h11.Request)
    assert (event.method, event.target) == (line[1], line[2])
    told = b""
    while not isinstance(piece := other.next_event(), h11.EndOfMessage):
        assert isinstance(piece, h11.Data)
        told += bytes(piece.data)
    assert told == body
    assert other.trailing_data == (b"", False)
    return Asked(line[1], line[2], fields, body)


@dataclass
class Seen:
    status: int
    fields: dict[bytes, bytes]
    cookies: list[bytes]
    body: bytes


def seen(data: bytes, method: bytes = b"GET", *, ended: bool = False) -> Seen:
    """The one answer that a client reads in the bytes."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target=b"/", headers=[(b"host", b"x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    if ended:
        client.receive_data(b"")
    event = client.next_event()
    while isinstance(event, h11.InformationalResponse):
        event = client.next_event()
    assert isinstance(event, h11.Response), event
    told = b""
    while not isinstance(piece := client.next_event(), h11.EndOfMessage):
        assert isinstance(piece, h11.Data), piece
        told += bytes(piece.data)
    assert client.trailing_data[0] == b""
    given = list(event.headers)
    return Seen(event.status_code, dict(given), [value for name, value in given if name == b"set-cookie"], told)


def broken(desk: Desk, data: bytes) -> bytes:
    """What the reader is told when bytes of the server end the connection."""
    with pytest.raises(WireError) as caught:
        desk.answer(data)
    return caught.value.answer
