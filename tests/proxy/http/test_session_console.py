"""What the API of a console may have of its own: bodies that its scripts call a text, and its own form of an error."""

from __future__ import annotations

import json

import pytest

from proxy.core.errors import WireError
from tests.canary import assert_no_canary

from .desk import CANARY, Desk, TinyApi, asked, broken, login, request

TEXT = "Content-Type: text/plain;charset=UTF-8"


class ConsoleApi(TinyApi):
    takes_texts = True

    def error(self, status: int, reason: str) -> bytes:
        return json.dumps({"error": "bad", "reason": reason}).encode()


def told(desk: Desk, data: bytes) -> bytes:
    with pytest.raises(WireError) as caught:
        desk.ask(data)
    assert_no_canary(caught.value.answer, CANARY)
    return caught.value.answer


def test_a_text_with_a_login_in_its_head_goes_up_as_json() -> None:
    desk = Desk(api=ConsoleApi())

    sent = asked(desk.ask(request("/strict", TEXT, login("bob"), method="POST", body=b'{"a":1}')))

    assert (sent.body, sent.fields[b"content-type"]) == (b'{"a":1}', b"application/json")


@pytest.mark.parametrize("fields", [(TEXT,), (TEXT, "Cookie: auth=YWxpY2U6cHc="), ("Content-Type: text/plain;charset=utf-16", login("bob")), ("Content-Type: text/html", login("bob"))])  # fmt: skip
def test_a_text_that_a_strangers_page_could_send_goes_nowhere(fields: tuple[str, ...]) -> None:
    data = request("/strict", *fields, method="POST", body=b"{}")

    assert told(Desk(api=ConsoleApi()), data).startswith(b"HTTP/1.1 415 ")


def test_elsewhere_no_text_is_let_in() -> None:
    assert told(Desk(), request("/strict", TEXT, login("bob"), method="POST", body=b"{}")).startswith(b"HTTP/1.1 415 ")


def test_what_is_not_understood_is_told_in_the_apis_own_form() -> None:
    head, _, body = told(Desk(api=ConsoleApi()), request("/a/../b")).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert b"connection: close" in head
    assert json.loads(body) == {"error": "bad", "reason": "the target could mean two places"}


def test_an_answer_that_cannot_be_read_is_told_in_the_apis_own_form() -> None:
    desk = Desk(api=ConsoleApi())
    desk.get("/contents/orders")

    head, _, body = broken(
        desk, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" + CANARY.encode()
    ).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 502 ")
    assert json.loads(body)["error"] == "bad"
    assert_no_canary(desk.play.to_reader + head + body, CANARY)


def test_without_such_a_form_it_is_a_text() -> None:
    assert told(Desk(), request("/a/../b")).endswith(b"\r\n\r\nveil: the target could mean two places\n")
