"""Messages read from a real RabbitMQ through Veil, in every form that its management API has for it."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest

from tests.canary import Canary

from ..http_client import HttpClient
from ..processes import wait_until
from ..rabbitmq_server import RabbitServer
from ..veil import VeilFactory
from .scenery import ACCESS, ASKING, EXCHANGES, MASK, RULES, VAULT, get, payload, peek, reader

pytestmark = pytest.mark.slow


def card(canary: Canary, note: str = "é") -> str:
    return f'{{"email":"{canary.text()}", "card": {canary.number()},"note":"{note}","big":1E400}}'


def test_fields_are_masked_and_every_other_byte_stays(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    rabbitmq_server.queue("orders")
    email = canary.text()
    sent = f'{{"email":"{email}",  "card": {canary.number()}, "note":"\\u00e9", "big":1E400}}'
    rabbitmq_server.publish("orders", sent, headers={"x-iban": canary.text(), "n": 5}, correlation_id=canary.text(), priority=3)
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        (message,) = peek(bob, "orders")
        expected = f'{{"email":"{email[0]}{"•" * 27}",  "card": 0, "note":"\\u00e9", "big":1E400}}'

        assert message["payload"] == expected
        assert message["payload_encoding"] == "string"
        assert message["payload_bytes"] == len(expected.encode())
        properties = message["properties"]
        assert properties["headers"]["x-iban"] == MASK
        assert properties["headers"]["n"] == 5
        assert properties["correlation_id"] == MASK
        assert properties["priority"] == 3
        marked = json.loads(properties["headers"]["veil-masked"])
        assert {"field": "$.card", "method": "redact", "rule": "Contact"} in marked
        assert {"field": "header:correlation_id", "method": "redact", "rule": "Contact"} in marked
        canary.assert_nowhere(one, [bob])


def test_no_way_of_asking_shows_more(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    rabbitmq_server.queue("orders")
    one = veil(RULES, upstream=rabbitmq_server)
    modes = ("ack_requeue_true", "reject_requeue_true", "ack_requeue_false", "reject_requeue_false")

    with reader(one) as bob:
        for encoding, ackmode, truncate in itertools.product(("auto", "base64"), modes, (None, 10, "10")):
            with rabbitmq_server.client() as admin:
                admin.ask("DELETE", "/api/queues/%2F/orders/contents")
            rabbitmq_server.publish("orders", card(canary))
            asking: dict[str, Any] = {"encoding": encoding, "ackmode": ackmode}
            if truncate is not None:
                asking["truncate"] = truncate
            (message,) = peek(bob, "orders", **asking)

            assert message["payload"].startswith('{"email":"')
            assert len(message["payload"]) == 10 or truncate is None
        canary.assert_nowhere(one, [bob])


def test_another_form_of_the_answer_is_not_to_be_had(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    rabbitmq_server.queue("orders")
    rabbitmq_server.publish("orders", card(canary))
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        for accept in ("application/bert", "*/*", "text/html"):
            answer = bob.ask("POST", "/api/queues/%2F/orders/get", ASKING, Accept=accept)

            assert answer.status == 200
            assert payload(answer.json()[0])["card"] == 0
        canary.assert_nowhere(one, [bob])


def test_bytes_that_are_no_text_are_masked_whole(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    rabbitmq_server.queue("orders")
    raw = b"\xff\xfe" + canary.text().encode()
    rabbitmq_server.publish("orders", base64.b64encode(raw).decode(), encoding="base64")
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        (message,) = peek(bob, "orders")

        assert (message["payload"], message["payload_encoding"]) == (MASK, "string")
        assert json.loads(message["properties"]["headers"]["veil-masked"]) == [{"whole": "not JSON", "rule": "Contact"}]
        canary.assert_nowhere(one, [bob])


def test_mask_all_takes_in_whatever_a_producer_sets_and_leaves_what_routes(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.queue("vault")
    texts = ("correlation_id", "message_id", "reply_to", "type", "app_id", "content_encoding")
    told: dict[str, Any] = {name: canary.text() for name in texts}
    headers = {"a": canary.text(), "n": canary.number(), "b": True, "t": {"k": canary.text()}, "l": [canary.text(), 7]}
    rabbitmq_server.publish(
        "vault", json.dumps({"k": [canary.text()]}), headers=headers, content_type="application/json", timestamp=1700000000, priority=4,
        delivery_mode=2, **told,
    )  # fmt: skip
    one = veil(VAULT, upstream=rabbitmq_server)

    with reader(one) as bob:
        (message,) = peek(bob, "vault")
        properties = message["properties"]
        shown = dict(properties["headers"])

        assert {properties[name] for name in texts} == {MASK}
        assert shown.pop("veil-masked")
        assert shown == {"a": MASK, "n": 0, "b": False, "t": {"k": MASK}, "l": [MASK, 0]}
        assert (properties["content_type"], properties["timestamp"], properties["priority"]) == (
            "application/json",
            1700000000,
            4,
        )
        assert message["routing_key"] == "vault"
        canary.assert_nowhere(one, [bob])


def test_a_queue_that_no_rule_covers_comes_as_it_is(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    rabbitmq_server.queue("free")
    rabbitmq_server.publish("free", '{"card": 5 }', headers={"veil-masked": "a producer's own"})
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        through = get(bob, "free")
    with rabbitmq_server.client() as admin:
        direct = get(admin, "free")
    expected = json.loads(direct.body)
    expected[0]["redelivered"] = through.json()[0]["redelivered"]

    assert through.json() == expected


def test_who_may_sees_it_as_it_is_once_it_is_on_record(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.queue("orders.eu")
    rabbitmq_server.queue("orders.us")
    for name in ("orders.eu", "orders.us"):
        rabbitmq_server.publish(name, card(canary))
    one = veil(RULES, ACCESS, upstream=rabbitmq_server)

    with reader(one, "erin") as erin, reader(one, "alice") as alice, reader(one) as bob:
        (eu,), (us,) = peek(erin, "orders.eu"), peek(erin, "orders.us")
        (all_of_it,) = peek(alice, "orders.us")
        (for_bob,) = peek(bob, "orders.eu")

    assert payload(eu)["card"] != 0
    assert payload(us)["card"] == 0
    assert payload(all_of_it)["card"] != 0
    assert payload(for_bob)["card"] == 0
    assert json.loads(eu["properties"]["headers"]["veil-unmasked"]) == ["Contact"]
    reads = [each for each in one.audit() if each["event"] == "broker.message.read-unmasked"]
    assert [(each["who"], each["resource"]) for each in reads] == [
        ("erin", {"queue": "orders.eu"}),
        ("alice", {"queue": "orders.us"}),
    ]
    canary.assert_not_in(bytes(bob.received), "what bob received")


def test_a_wrong_password_reads_nothing_and_lifts_nothing(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.queue("orders")
    rabbitmq_server.publish("orders", card(canary))
    one = veil(RULES, ACCESS, upstream=rabbitmq_server)

    with HttpClient(one.host, one.port, ("alice", "wrong")) as nobody:
        assert get(nobody, "orders").status == 401
        canary.assert_nowhere(one, [nobody])


def test_dead_letters_stay_covered_wherever_they_lie(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    rabbitmq_server.queue("orders", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graveyard"})
    rabbitmq_server.queue("graveyard")
    rabbitmq_server.publish("orders", card(canary))
    with rabbitmq_server.client() as admin:
        get(admin, "orders", ackmode="reject_requeue_false")
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        (message,) = peek(bob, "graveyard")
        moved = get(bob, "orders", ackmode="reject_requeue_false")

        assert payload(message)["card"] == 0
        assert moved.status == 403
        canary.assert_nowhere(one, [bob])


def test_a_rule_on_exchanges_follows_the_bindings_as_they_are(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.exchange("customers")
    rabbitmq_server.exchange("inner")
    for name in ("fed.eu", "alone"):
        rabbitmq_server.queue(name)
        rabbitmq_server.publish(name, card(canary))
    one = veil(EXCHANGES, ACCESS, upstream=rabbitmq_server)

    with reader(one) as bob, reader(one, "erin") as erin:
        (before,) = peek(bob, "fed.eu")
        rabbitmq_server.bind("customers", "inner", "e")
        rabbitmq_server.bind("inner", "fed.eu")
        (bound,) = peek(bob, "fed.eu")
        (lifted,) = peek(erin, "fed.eu")
        (other,) = peek(bob, "alone")

    assert payload(before)["card"] != 0
    assert payload(other)["card"] != 0
    assert payload(bound)["card"] == 0
    assert payload(lifted)["card"] != 0
    assert [each["resource"] for each in one.audit() if each["event"] == "broker.message.read-unmasked"] == [
        {"queue": "fed.eu"}
    ]


def test_a_message_tells_of_the_exchange_it_came_by_when_the_binding_is_gone(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.exchange("customers")
    rabbitmq_server.queue("q")
    rabbitmq_server.bind("customers", "q", key="k")
    rabbitmq_server.publish("k", json.dumps({"card": canary.text()}), exchange="customers")
    rabbitmq_server.ask("DELETE", "/api/bindings/%2F/e/customers/q/q/k")
    one = veil(EXCHANGES, upstream=rabbitmq_server)

    with reader(one) as bob:
        (message,) = peek(bob, "q")

        assert payload(message)["card"] == MASK
        canary.assert_nowhere(one, [bob])


def test_copies_that_the_firehose_made_are_covered_by_every_rule(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.queue("orders")
    rabbitmq_server.queue("fire")
    rabbitmq_server.bind("amq.rabbitmq.trace", "fire")
    rabbitmq_server.ask("PUT", "/api/vhosts/%2F", {"tracing": True})
    rabbitmq_server.publish("orders", card(canary), headers={"x-iban": canary.text()}, correlation_id=canary.text())
    with rabbitmq_server.client() as admin:
        wait_until(lambda: bool(peek(admin, "fire")), "the firehose has copied")
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        messages = peek(bob, "fire")

        assert messages
        assert all(payload(each)["card"] == 0 for each in messages)
        canary.assert_nowhere(one, [bob])


def test_what_can_be_read_in_two_ways_is_told_in_the_apis_own_words(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    rabbitmq_server.queue("orders")
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        for body in (
            b'{"count":1,"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}',
            b'\xef\xbb\xbf{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}',
            b'{"count":1,/* */"ackmode":"ack_requeue_true","encoding":"auto"}',
            b'{"count":1,"ackmode":"bogus","encoding":"auto"}',
            b'{"count":1,"ackmode":"ack_requeue_true","encoding":"auto","truncate":-1}',
            b"[]",
            b"",
        ):
            answer = bob.ask("POST", "/api/queues/%2F/orders/get", body)

            assert answer.status == 400, body
            assert answer.json()["error"] == "bad_request"
            assert answer.json()["reason"].startswith("veil: ")
