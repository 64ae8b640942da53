"""What is made to take long, or is told a little wrong: an answer or an error, soon, and never an exception nobody meant."""

from __future__ import annotations

import time

import pytest

from proxy.core.errors import WireError
from proxy.protocols.http import wire
from proxy.protocols.http.apis.kafka_connect import configs
from proxy.protocols.http.apis.rabbitmq_management import API
from tests.proxy.http.apis.bench import Judge
from tests.proxy.http.apis.test_rabbitmq_contents import CARDS, graph, judge

from .desk import Desk, answer, broken, request, seen

SOON_S = 2.0


@pytest.mark.parametrize("told", ["domain=x; a=b", "a=b ;Domain=x", "domain=x", " ; domain=x ; "])
def test_a_cookie_is_told_on_without_the_domain_whatever_stands_around_it(told: str) -> None:
    desk = Desk()
    desk.get("/open")
    cookies = seen(desk.answer(answer(b"{}", f"Set-Cookie: {told}"))).cookies

    assert all(b"omain" not in each and each == each.strip() for each in cookies)


def test_a_head_of_blanks_is_looked_through_at_once() -> None:
    began = time.process_time()
    with pytest.raises(WireError):
        Desk().ask(request("/open", "X:" + " " * 16_000 + "\x01"))
    desk = Desk()
    desk.get("/open")
    broken(desk, answer(b"", "X:" + " " * 60_000 + "\x01"))

    assert time.process_time() - began < SOON_S


def test_blanks_around_a_value_are_none_of_it() -> None:
    assert wire._fields([b"X: \ta b\t ", b"y:", b"z:  "], ValueError()) == [(b"x", b"a b"), (b"y", b""), (b"z", b"")]  # type: ignore[arg-type]


def test_long_texts_are_looked_through_at_once() -> None:
    one = judge(CARDS)
    began = time.process_time()
    one.shows(one.call("GET", "/api/global-parameters"), [{"name": "cluster_name", "value": "://" + "a" * 200_000}])
    configs.reads({"connector.class": "A", "topic" * 20_000: "x"}, [configs.Plugin("A", configs.SOURCE)])

    assert time.process_time() - began < SOON_S


def test_an_import_of_many_bindings_is_judged_at_once() -> None:
    one: Judge = judge(CARDS)
    names = tuple(f"q{number}" for number in range(1000))
    graph(one, *(("x1", name) for name in names), queues=names)
    binding = {
        "vhost": "/",
        "source": "x1",
        "destination": "free",
        "destination_type": "queue",
        "routing_key": "",
        "arguments": {},
    }
    began = time.process_time()
    one.call("POST", "/api/definitions", {"bindings": [binding] * 2000})

    assert time.process_time() - began < SOON_S
    assert one.api is API
