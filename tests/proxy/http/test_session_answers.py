"""Answers of servers that are odd or hostile: a reader gets one whole answer, or one that is broken for all to see."""

from __future__ import annotations

import gzip
import zlib

import pytest

from proxy.core.steps import ToReader
from tests.canary import assert_no_canary

from .desk import CANARY, CARD, MASK, Desk, answer, asked, broken, messages, request, seen


def test_an_answer_that_ends_with_its_connection_is_carried_to_its_end() -> None:
    desk = Desk()
    desk.get("/open")
    got = desk.answer(b"HTTP/1.1 200 OK\r\n\r\nab") + desk.answer(b"cd") + desk.answer(b"")

    assert seen(got).body == b"abcd"


def test_an_answer_with_contents_that_ends_with_its_connection_is_masked() -> None:
    desk = Desk()
    desk.get("/contents/orders")
    got = desk.answer(b"HTTP/1.0 200 OK\r\n\r\n" + messages(CARD)) + desk.answer(b"")

    assert MASK.encode() in seen(got).body
    assert_no_canary(desk.play.to_reader, CANARY)


def test_trailers_and_extensions_of_an_answer_are_dropped() -> None:
    desk = Desk()
    desk.get("/open")
    got = desk.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\nSet-Cookie: a\r\n\r\n")

    assert got.endswith(b"\r\n\r\n2\r\nab\r\n0\r\n\r\n")


def test_interim_answers_go_no_further() -> None:
    desk = Desk()
    desk.get("/open")
    got = desk.answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + answer(b"ab"))

    assert seen(got).body == b"ab"
    assert b"HTTP/1.1 1" not in got


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n", b"HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nLocation: /a\r\nLocation: /b\r\n\r\n", b"HTTP/1.1 200 OK\r\nX" + b"x" * 70_000, b"hello\r\n\r\n", b"HTTP/1.1 600 OK\r\n\r\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/open", "/contents/orders", "/asking/x"])
def test_an_answer_that_could_be_read_in_two_ways_is_none(data: bytes, path: str) -> None:
    desk = Desk()
    desk.get(path)

    assert broken(desk, data).startswith(b"HTTP/1.1 502 ")
    assert desk.play.to_reader == b""


@pytest.mark.parametrize("end", [b"3\r\nabcd", b"zz\r\n", b"2\nab"])
def test_within_an_answer_nothing_is_said_of_its_fault(end: bytes) -> None:
    desk = Desk()
    desk.get("/open")
    desk.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")

    assert broken(desk, end) == b""
    assert not desk.play.to_reader.endswith(b"0\r\n\r\n")


def test_a_server_that_ends_within_an_answer_leaves_it_broken() -> None:
    desk = Desk()
    desk.get("/open")
    desk.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
    desk.answer(b"")

    assert desk.play.closed == "the server's answer ends early"
    assert desk.play.to_reader.endswith(b"\r\n\r\nab")


def test_a_server_that_ends_within_contents_leaves_none() -> None:
    desk = Desk()
    desk.get("/contents/orders")
    data = answer(messages(CARD))
    desk.answer(data[:-3])

    assert broken(desk, b"").startswith(b"HTTP/1.1 502 ")
    assert desk.play.to_reader == b""


@pytest.mark.parametrize("path", ["/open", "/asking/x"])
def test_a_server_that_ends_before_its_answer_is_told_of(path: str) -> None:
    desk = Desk()
    desk.get(path)

    assert broken(desk, b"").startswith(b"HTTP/1.1 502 ")


def test_a_server_that_ends_a_silent_connection_ends_the_readers() -> None:
    desk = Desk()
    desk.get("/open")
    desk.answer(answer())
    assert desk.answer(b"") == b""

    assert desk.play.closed == "the server closed the connection"


def test_what_stands_behind_an_answer_is_not_the_next_ones() -> None:
    desk = Desk()
    desk.ask(request("/open") * 2)

    assert broken(desk, answer(b"ab") + answer(CANARY.encode())) == b""
    assert desk.play.sent_up() == b""
    assert seen(desk.play.to_reader).body == b"ab"
    assert_no_canary(desk.play.to_reader, CANARY)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    desk = Desk()

    assert broken(desk, answer(CANARY.encode())) == b""
    assert desk.play.to_reader == b""


@pytest.mark.parametrize(
    "head",
    [b"204 No Content\r\nContent-Length: 2", b"304 Not Modified\r\nContent-Length: 2", b"204 No\r\nTransfer-Encoding: chunked"],
)
def test_a_body_where_none_may_be_ends_the_connection(head: bytes) -> None:
    desk = Desk()
    desk.ask(request("/open") * 2)
    got = desk.answer(b"HTTP/1.1 " + head + b"\r\n\r\n")

    assert got.endswith(b"connection: close\r\n\r\n")
    assert desk.play.closed
    assert desk.play.sent_up() == b""


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("X-GZIP", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
def test_contents_in_a_coding_that_was_not_asked_for_are_masked(coding: str, pack: object) -> None:
    desk = Desk()
    assert asked(desk.get("/contents/orders", "Accept-Encoding: gzip")).fields[b"accept-encoding"] == b"identity"
    told = seen(desk.answer(answer(pack(messages(CARD)), f"Content-Encoding: {coding}")))  # type: ignore[operator]

    assert MASK.encode() in told.body
    assert b"content-encoding" not in told.fields


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("br", b"x"), ("gzip, gzip", gzip.compress(b"[]")), ("gzip", gzip.compress(b"[]")[:-1]), ("gzip", gzip.compress(b"[]") + b"x"), ("gzip", b"x"),
        ("gzip", gzip.compress(b"[]") * 2), ("gzip", gzip.compress(b" " * (1 << 22))), ("identity", b" " * ((1 << 20) + 1)),
    ],
)  # fmt: skip
def test_contents_that_cannot_be_opened_within_bounds_are_not_shown(coding: str, body: bytes) -> None:
    desk = Desk()
    desk.get("/contents/orders")

    assert broken(desk, answer(body, f"Content-Encoding: {coding}")).startswith(b"HTTP/1.1 502 ")
    assert desk.play.to_reader == b""


def test_contents_that_can_be_read_in_two_ways_are_not_shown() -> None:
    desk = Desk()
    desk.get("/contents/orders")

    assert broken(desk, answer(b'[{"payload":"a","payload":"b"}]')).startswith(b"HTTP/1.1 502 ")


def test_a_long_answer_goes_out_as_it_comes() -> None:
    desk = Desk()
    desk.get("/open")
    desk.answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 24))
    for _ in range(1 << 8):
        assert len(desk.answer(b"x" * (1 << 16))) == 1 << 16

    assert asked(desk.get("/open")).target == b"/open"


def test_a_slow_reader_holds_the_server_back() -> None:
    desk = Desk()
    desk.get("/open")
    desk.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    desk.play.stop_at = ToReader
    desk.answer(b"x" * 1_000_000)

    (waiting,) = desk.play.waiting
    assert len(waiting.step.data) <= 1 << 17  # type: ignore[union-attr]


def test_cookies_and_locations_lead_back_through_veil() -> None:
    desk = Desk()
    desk.get("/open")
    fields = (
        "Set-Cookie: a=1; Domain=broker.internal",
        "Set-Cookie: b=2",
        "Location: http://broker.internal:15672/x",
        "Refresh: 0",
    )
    told = seen(desk.answer(answer(b"", *fields, status="302 Found")))

    assert told.cookies == [b"a=1", b"b=2"]
    assert told.fields[b"location"] == b"/x"
    assert b"refresh" not in told.fields
