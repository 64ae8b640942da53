"""A masked payload without mask text that is published back to where it came from, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.core.renditions import Renditions
from proxy.core.session import SessionSettings
from proxy.protocols.http.apis.rabbitmq_management import API
from rules.model import AccessList, RuleBook

from .bench import Judge
from .test_rabbitmq_contents import CARDS, FED, GRANTS, SHOP, graph, message
from .test_rabbitmq_copies import publish, refused

PUBLISH = "/api/exchanges/%2F/amq.default/publish"
NUMBER = '{"card":4711471147114711,"n":1}'
SHOWN = '{"card":0,"n":1}'
ASKING = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


def shop(*rules: Any) -> Judge:
    book = RuleBook("1", rules or (CARDS,), AccessList(grants=GRANTS))
    return Judge(API, SHOP, book, settings=SessionSettings(shared=Renditions()))


def looked_at(one: Judge, queue: str = "orders", payload: str = NUMBER, **asking: Any) -> str:
    verdict = one.call("POST", f"/api/queues/%2F/{queue}/get", ASKING | asking)
    told: list[dict[str, Any]] = json.loads(one.shows(verdict, [message(payload)]).content)
    return str(told[0]["payload"])


def test_it_is_refused_where_it_was_shown_and_goes_elsewhere() -> None:
    one = shop()
    graph(one, queues=("orders", "orders.eu", "free"))
    before = refused(one.call("POST", PUBLISH, publish(SHOWN)))

    assert looked_at(one) == SHOWN

    assert before is None
    assert refused(one.call("POST", PUBLISH, publish(SHOWN))) == "Cards"
    assert refused(one.call("POST", PUBLISH, publish(SHOWN, routing_key="free"))) is None
    assert refused(one.call("POST", PUBLISH, publish(SHOWN, routing_key="orders.eu"))) is None
    assert refused(one.call("POST", PUBLISH, publish('{"card":0,"n":2}'))) is None


def test_it_is_refused_in_base64_and_by_way_of_an_exchange() -> None:
    one = shop()
    graph(one, ("x1", "x.x2"), ("x2", "orders"), queues=("orders",))
    looked_at(one)

    assert refused(one.call("POST", PUBLISH, publish("eyJjYXJkIjowLCJuIjoxfQ==", payload_encoding="base64"))) == "Cards"
    assert refused(one.call("POST", "/api/exchanges/%2F/x1/publish", publish(SHOWN, routing_key="any"))) == "Cards"


def test_where_the_bindings_cannot_be_read_it_is_refused_everywhere() -> None:
    one = shop()
    looked_at(one)

    assert refused(one.call("POST", PUBLISH, publish(SHOWN, routing_key="free"))) == "Cards"
    assert refused(one.call("POST", PUBLISH, publish('{"card":1}'))) is None


def test_of_a_rule_on_exchanges_it_is_known_too() -> None:
    one = shop(FED)
    graph(one, ("customers", "q"), queues=("q", "alone"))
    looked_at(one, "q")

    assert refused(one.call("POST", PUBLISH, publish(SHOWN, routing_key="q"))) == "Fed"
    assert refused(one.call("POST", PUBLISH, publish(SHOWN, routing_key="alone"))) is None


@pytest.mark.parametrize("truncate", [5, 12])
def test_what_was_truncated_is_known_as_it_was_shown(truncate: int) -> None:
    one = shop()
    graph(one, queues=("orders",))

    shown = looked_at(one, truncate=truncate)

    assert shown == SHOWN[:truncate]
    assert refused(one.call("POST", PUBLISH, publish(shown))) == "Cards"
    assert refused(one.call("POST", PUBLISH, publish(SHOWN))) == "Cards"


def test_what_was_not_masked_is_written_as_often_as_anybody_likes() -> None:
    one = shop()
    graph(one, queues=("orders",))
    payload = '{"other":0}'

    assert looked_at(one, payload=payload) == payload
    assert refused(one.call("POST", PUBLISH, publish(payload))) is None
