"""The corpus of known ways to smuggle a request, and whatever else may come, against a session."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.core.errors import WireError
from tests.canary import assert_no_canary

from .desk import Desk, answer, asked

CORPUS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "corpora" / "http_smuggling.jsonl").read_text().splitlines()
]
SENTINEL = "S3CR3T-"


def splits(data: bytes, how: str) -> list[bytes]:
    if how == "whole":
        return [data]
    if how == "bytes":
        return [data[at : at + 1] for at in range(len(data))]
    chance = random.Random(how + str(len(data)))
    cuts = sorted(chance.sample(range(1, len(data)), min(9, len(data) - 1)))
    return [data[at:end] for at, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class Fed:
    """A session fed with pieces; each request that goes up is answered at once, as a server would."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.desk = Desk()
        self.went_up: list[bytes] = []
        self.error: WireError | None = None
        for piece in pieces:
            if self.error is not None or self.desk.play.closed:
                break
            try:
                self.desk.play.reader(piece)
                self._serve()
            except WireError as bad:
                self.error = bad
                self.desk.play.to_reader += bad.answer

    def _serve(self) -> None:
        while data := self.desk.play.sent_up():
            self.went_up.append(data)
            self.desk.play.server(answer(b"[]", "Content-Type: application/json"))


@pytest.mark.parametrize("how", ["whole", "bytes", "a", "b"])
@pytest.mark.parametrize("case", CORPUS, ids=[each["id"] for each in CORPUS])
def test_what_two_servers_could_read_in_two_ways_goes_nowhere(case: dict[str, Any], how: str) -> None:
    fed = Fed(splits(base64.b64decode(case["b64"]), how))

    if case["verdict"] == "reject":
        assert fed.error is not None
        assert fed.error.answer.startswith(b"HTTP/1.1 %d " % case["status"])
        assert b"\r\nconnection: close\r\n" in fed.error.answer
        assert fed.went_up == []
    else:
        assert fed.error is None
        assert fed.went_up
        for each in fed.went_up:
            told = asked(each)
            banned = ("transfer_encoding", "x-forwarded-user", "trailer", "x-original-url", "x-rewrite-url", "if-")
            assert not [name for name in told.fields if name.decode().startswith(banned)]
    assert_no_canary(fed.desk.play.to_reader, SENTINEL)


def test_each_of_two_pipelined_requests_is_judged_and_the_second_waits_for_the_first_answer() -> None:
    case = next(each for each in CORPUS if each["id"] == "pipelined")
    desk = Desk()

    assert asked(desk.ask(base64.b64decode(case["b64"]))).target == b"/api/queues"
    desk.answer(answer(b"[]")[:-1])
    assert desk.play.sent_up() == b""
    desk.answer(b"]")

    assert asked(desk.play.sent_up()).target == b"/api/definitions"


def test_a_target_is_decoded_once_and_sent_as_it_was_judged() -> None:
    case = next(each for each in CORPUS if each["id"] == "double_enc")
    fed = Fed([base64.b64decode(case["b64"])])

    assert asked(fed.went_up[0]).target == b"/api/queues/%252F/orders"
    assert fed.desk.api.calls[0].target.segments == ("api", "queues", "%2F", "orders")


BODIES = st.sampled_from(
    [b"", b"{}", b"[1,2]", b"0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"2;x\r\n{}\r\n0\r\nA: b\r\n\r\n", b"\0\xff"]
)
NAMES = st.sampled_from(
    [
        b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"Authorization", b"Cookie", b"Content-Type",
        b"X-Forwarded-User", b"Upgrade", b"Content-Encoding", b"Origin", b"TE", b"transfer_encoding", b" Host", b"", b"X\0",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        b"mq.local", b"127.0.0.1:80", b"evil", b"2", b"0", b"12", b"+2", b"chunked", b"Chunked", b"gzip", b"identity", b"close",
        b"keep-alive", b"upgrade", b"100-continue", b"application/json", b"text/plain", b"\xe9", b"a\tb", b"", b"a\rb", b"Basic YTpi",
    ]
)  # fmt: skip
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n "])
METHODS = st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"get", b"TRACE", b"PRI", b"POST"])
TARGETS = st.sampled_from(
    [b"/", b"/a", b"/a/", b"/a?b=c", b"//a", b"/%2e%2e/a", b"*", b"http://mq.local/", b"/a b", b"/%zz", b"/\xc3"]
)
VERSIONS = st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 "])


@st.composite
def likely(draw: st.DrawFn) -> bytes:
    """Bytes near to requests, one or two behind each other."""
    out = b""
    for _ in range(draw(st.integers(1, 2))):
        body = draw(BODIES)
        fields = draw(st.lists(st.tuples(NAMES, VALUES, ENDS), max_size=3))
        out += draw(METHODS) + b" " + draw(TARGETS) + b" " + draw(VERSIONS) + draw(ENDS)
        if draw(st.booleans()):
            out += b"Host: mq.local\r\n"
        if draw(st.booleans()):
            out += b"Content-Length: %d\r\n" % len(body)
        elif draw(st.booleans()):
            out += b"Transfer-Encoding: chunked\r\n"
        out += b"".join(b"%b: %b%b" % each for each in fields) + draw(ENDS) + body
    return out


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(likely(), st.binary(max_size=200)), st.sampled_from(["whole", "bytes", "a"]))
def test_whatever_comes_only_single_requests_go_up_and_only_wire_errors_come_out(data: bytes, how: str) -> None:
    fed = Fed(splits(data, how) if data else [])

    assert len(fed.went_up) == len(fed.desk.api.calls)
    for each, call in zip(fed.went_up, fed.desk.api.calls, strict=True):
        told = asked(each)
        assert (told.method, told.target, told.body) == (call.method.encode(), call.target.encode(), call.content)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(likely())
def test_it_is_all_the_same_in_which_pieces_bytes_come(data: bytes) -> None:
    whole, slowly = Fed([data]), Fed(splits(data, "bytes"))

    assert whole.went_up == slowly.went_up
    assert (whole.error is None) == (slowly.error is None)  # with two faults, which of them is told may depend on it


ANSWERS = st.lists(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 204 No\r\n", b"HTTP/1.1 304 \r\n", b"HTTP/1.1 100 Continue\r\n",
            b"HTTP/1.1 101 Up\r\n", b"Content-Length: 2\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n",
            b"\r\n", b"{}", b"2\r\n{}\r\n0\r\n\r\n", b"0\r\n\r\n", b"Content-Encoding: gzip\r\n", b"Connection: close\r\n", b"\n", b"\xff",
            b"Location: /a\r\n", b"Set-Cookie: a=b; Domain=x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        ]
    ),
    max_size=9,
).map(b"".join)  # fmt: skip


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(ANSWERS, st.binary(max_size=100)),
    st.sampled_from(["whole", "bytes"]),
    st.sampled_from(["/open", "/contents/free"]),
)
def test_whatever_a_server_says_a_client_reads_one_answer_or_a_broken_one(data: bytes, how: str, path: str) -> None:
    desk = Desk()
    desk.get(path)
    said = b""
    try:
        for piece in splits(data, how) if data else []:
            said += desk.answer(piece)
        said += desk.answer(b"")
    except WireError as bad:
        said += desk.play.to_reader[len(said) :] + bad.answer
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=b"GET", target=b"/", headers=[(b"host", b"x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(said)
    client.receive_data(b"")
    responses = 0
    try:
        while not isinstance(event := client.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
            responses += isinstance(event, h11.Response)
    except h11.RemoteProtocolError:
        return  # a broken one, which every client notices

    assert responses <= 1
    assert client.trailing_data[0] == b""
