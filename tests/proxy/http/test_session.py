"""Requests and answers through a session: one at a time, and nothing that was not judged."""

from __future__ import annotations

import pytest

from proxy.core.errors import WireError
from proxy.protocols.http.session import MOST_ASKED
from tests.canary import assert_no_canary

from .desk import CANARY, CARD, HOST, MASK, Desk, answer, asked, broken, login, messages, request, seen


def refused(desk: Desk, data: bytes) -> bytes:
    with pytest.raises(WireError) as caught:
        desk.ask(data)
    return caught.value.answer


def test_a_masked_message_comes_with_its_new_length_and_a_mark() -> None:
    desk = Desk()
    assert asked(desk.get("/contents/orders")).fields[b"accept"] == b"application/json"

    told = seen(desk.answer(answer(messages(CARD), "ETag: x", "Content-MD5: y", "Content-Type: application/json")))

    assert told.status == 200
    assert MASK.encode() in told.body
    assert told.fields == {
        b"content-type": b"application/json",
        b"veil-masked": b"Cards",
        b"content-length": b"%d" % len(told.body),
    }
    assert_no_canary(desk.play.to_reader, CANARY)


def test_the_answer_is_the_same_in_whatever_pieces_it_comes() -> None:
    whole, slowly = Desk(), Desk()
    data = answer(messages(CARD))
    for desk in (whole, slowly):
        desk.get("/contents/orders")

    expected = whole.answer(data)
    got = b"".join(slowly.answer(data[at : at + 1]) for at in range(len(data)))

    assert got == expected


def test_a_head_on_contents_is_a_get_whose_length_stays_behind() -> None:
    desk = Desk()
    assert asked(desk.get("/contents/orders", method="HEAD")).method == b"GET"

    told = desk.answer(answer(messages(CARD)))

    assert told.endswith(b"\r\n\r\n")
    assert b"content-length" not in told
    assert seen(told, b"HEAD").body == b""


def test_a_head_elsewhere_is_a_head() -> None:
    desk = Desk()
    assert asked(desk.get("/open", method="HEAD")).method == b"HEAD"

    assert desk.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\nETag: x\r\n\r\n") == b"HTTP/1.1 200 OK\r\netag: x\r\n\r\n"
    assert asked(desk.get("/open")).method == b"GET"


def test_a_refusal_names_its_rule_and_goes_nowhere() -> None:
    desk = Desk()

    assert desk.get("/danger") == b""
    told = seen(desk.play.to_reader)

    assert (told.status, told.body) == (403, b'{"error":"not_authorised"}')
    assert told.fields[b"veil-refused"] == b"Cards"
    assert [note.operation for note in desk.play.notes] == ["danger"]
    assert asked(desk.get("/open")).target == b"/open"


def test_a_refused_head_has_no_body() -> None:
    desk = Desk()
    desk.get("/danger", method="HEAD")

    assert desk.play.to_reader.endswith(b"\r\n\r\n")


def test_a_body_in_chunks_goes_up_by_its_length() -> None:
    chunks = b'3;x=y\r\n{"a\r\n3 \r\n":1\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n'
    told = asked(Desk().ask(request("/open", "Transfer-Encoding: chunked", method="POST") + chunks.replace(b"3 \r", b"3\r")))

    assert told.body == b'{"a":1}'
    assert told.fields[b"content-length"] == b"7"


CHUNKED = request("/open", "Transfer-Encoding: chunked", method="POST")


@pytest.mark.parametrize(
    "chunks",
    [
        b"0x2\r\n{}\r\n", b"2 \r\n{}\r\n", b" 2\r\n{}\r\n", b"+2\r\n", b"-1\r\n", b"\r\n", b"g\r\n", b"2\n{}\n", b"2\r{}", b"2\r\n{}x", b"2\r\n{}\n",
        b"2\r\n{}\rx", b"00000000000000002\r\n{}", b"2;" + b"a" * 300, b"2;\0\r\n", b"0\r\n X: y\r\n", b"0\r\nX\r\n", b"0\r\nX : y\r\n", b"0\r\nX: y\n\r\n",
        b"0\r\n" + b"X: y\r\n" * 3000, b"0\r\nX: " + b"y" * 9000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_slow", [False, True])
def test_chunks_that_could_be_read_in_two_ways_are_refused_as_soon_as_that_is_known(chunks: bytes, is_slow: bool) -> None:
    desk = Desk()
    data = CHUNKED + chunks
    pieces = (data[at : at + 1] for at in range(len(data))) if is_slow else [data]
    with pytest.raises(WireError) as caught:
        any(desk.ask(piece) for piece in pieces)

    assert caught.value.answer.startswith(b"HTTP/1.1 400 ")


def test_a_body_in_chunks_is_bounded() -> None:
    assert refused(Desk(most=10), CHUNKED + b"6\r\n123456\r\n" * 2).startswith(b"HTTP/1.1 413 ")


def test_a_body_along_with_delete_is_read_and_goes_nowhere() -> None:
    desk = Desk()
    told = asked(desk.ask(request("/open", "Content-Type: application/json", method="DELETE", body=b'{"vhost":"/"}')))

    assert (told.method, told.body) == (b"DELETE", b"")
    assert desk.api.calls[0].content == b""


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_body_where_none_may_be_is_refused(method: str) -> None:
    assert refused(Desk(), request("/open", method=method, body=b"{}")).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "media",
    [
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/jsonx",
        "application/json; charset=utf-8; charset=utf-7", "text/json", "",
    ],
)  # fmt: skip
def test_a_body_that_is_not_called_json_is_refused(media: str) -> None:
    assert refused(Desk(), request("/open", f"Content-Type: {media}", method="POST", body=b"{}")).startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize(
    "media", ["application/json", "Application/JSON; Charset=UTF-8", 'application/vnd.ksql.v1+json;charset="utf-8"']
)
def test_a_body_that_is_called_json_goes_up(media: str) -> None:
    assert asked(Desk().ask(request("/open", f"Content-Type: {media}", method="POST", body=b"{}"))).body == b"{}"


def test_a_judge_that_meets_two_readings_of_a_body_ends_it() -> None:
    assert refused(Desk(), request("/strict", method="POST", body=b'{"a":1,"a":2}')).startswith(b"HTTP/1.1 400 ")


def test_a_reader_that_expects_to_go_on_is_told_so_by_veil() -> None:
    desk = Desk()
    head, body = request("/open", "Expect: 100-continue", method="POST", body=b"{}").split(b"{}")[0], b"{}"

    assert desk.ask(head) == b""
    assert desk.play.to_reader == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert b"expect" not in asked(desk.ask(body)).fields


@pytest.mark.parametrize("fields", [("Connection: Upgrade", "Upgrade: websocket"), ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"), ("Upgrade: h2c",), ("Connection: keep-alive, upgrade",)])  # fmt: skip
def test_no_other_protocol_is_begun(fields: tuple[str, ...]) -> None:
    assert refused(Desk(), request("/open", *fields))[9:12] in (b"501", b"400")


def test_the_preface_of_http_2_and_of_tls_is_no_request() -> None:
    assert refused(Desk(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").startswith(b"HTTP/1.1 505 ")
    assert refused(Desk(), b"\x16\x03\x01").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("name", ["Authorization", "Host", "Cookie", "Content-Type", "Content-Length", "Origin"])
def test_a_field_that_stands_there_twice_is_refused(name: str) -> None:
    value = "2" if name == "Content-Length" else HOST.decode()
    data = request("/open", f"{name}: {value}", f"{name}: {value}", method="POST")

    assert refused(Desk(), data).startswith(b"HTTP/1.1 400 ")


def test_text_beyond_ascii_in_a_field_goes_up_as_it_came() -> None:
    told = asked(Desk().ask(b"GET /open HTTP/1.1\r\nHost: mq.local\r\nUser-Agent: caf\xc3\xa9 \xff\r\n\r\n"))

    assert told.fields[b"user-agent"] == b"caf\xc3\xa9 \xff"


def test_a_reader_of_http_1_0_gets_no_chunks_and_an_end() -> None:
    desk = Desk()
    desk.ask(b"GET /open HTTP/1.0\r\nHost: mq.local\r\nConnection: keep-alive\r\n\r\n")
    told = desk.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")

    assert told == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nab"
    assert desk.play.closed


def test_the_connection_ends_when_the_reader_wants_it() -> None:
    desk = Desk()
    desk.get("/open", "Connection: close")
    told = seen(desk.answer(answer(b"ab")))

    assert told.fields[b"connection"] == b"close"
    assert desk.play.closed


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_the_connection_ends_with_the_servers(head: bytes) -> None:
    desk = Desk()
    desk.ask(request("/open") * 2)
    told = seen(desk.answer(head + b"Content-Length: 2\r\n\r\nab"))

    assert told.fields[b"connection"] == b"close"
    assert desk.play.closed
    assert desk.play.sent_up() == b""


def test_a_connection_ends_before_the_server_would_end_it_within_a_call() -> None:
    desk = Desk()
    for _ in range(MOST_ASKED):
        assert not desk.play.closed
        asked(desk.get("/open"))
        desk.answer(answer())

    assert desk.play.closed
    assert desk.play.to_reader.count(b"connection: close") == 1


def test_a_look_up_goes_ahead_of_its_call_and_no_further() -> None:
    desk = Desk()
    assert asked(desk.get("/asking/x", login("bob"))).target == b"/facts/x"
    assert desk.answer(answer(b"[1]")) == b""
    assert asked(desk.play.sent_up()).target == b"/asking/x"
    assert seen(desk.answer(answer(b"ab"))).body == b"ab"

    (fact,) = desk.api.facts
    assert fact is not None
    assert fact.content == b"[1]"


def test_a_server_that_ends_with_a_look_up_is_told_of() -> None:
    desk = Desk()
    desk.get("/asking/x")

    with pytest.raises(WireError) as caught:
        desk.answer(answer(b"[1]", "Connection: close"))
    assert caught.value.answer.startswith(b"HTTP/1.1 502 ")


def test_what_stands_behind_a_look_up_is_not_the_calls_answer() -> None:
    desk = Desk()
    desk.get("/asking/x")

    assert broken(desk, answer(b"[1]") + answer(CANARY.encode())).startswith(b"HTTP/1.1 502 ")
    assert desk.play.sent_up() == b""


def test_a_reader_that_ends_is_let_go() -> None:
    desk = Desk()
    desk.ask(b"GET /open HTTP/1.1\r\n")
    desk.ask(b"")

    assert desk.play.closed == "the reader has ended"
