"""What the console's own calls have of their own, on a real RabbitMQ through Veil; and what must not come back by them."""

from __future__ import annotations

import json

import pytest

from tests.canary import Canary

from ..http_client import HttpClient
from ..rabbitmq_server import USERS, RabbitServer
from ..veil import VeilFactory
from .scenery import ASKING, RULES, VAULT, peek, reader, refused

pytestmark = pytest.mark.slow

PUBLISH = "/api/exchanges/%2F/amq.default/publish"
TEXT = "text/plain;charset=UTF-8"


def form(redirect: str, told: object) -> bytes:
    edge = b"------WebKitFormBoundaryAAAAAAAAAAAAAAAA"
    parts = (
        b'name="file"; filename="a.json"\r\nContent-Type: application/json\r\n\r\n' + json.dumps(told).encode(),
        b'name="redirect"\r\n\r\n' + redirect.encode(),
    )
    return b"".join(edge + b"\r\nContent-Disposition: form-data; " + each + b"\r\n" for each in parts) + edge + b"--\r\n"


def test_a_masked_message_without_mask_text_is_not_written_back_by_anybody(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    for name in ("orders", "free"):
        rabbitmq_server.queue(name)
    rabbitmq_server.publish("orders", json.dumps({"card": canary.number()}))
    one = veil(RULES, upstream=rabbitmq_server)
    told = {"properties": {}, "routing_key": "orders", "payload": '{"card": 0}', "payload_encoding": "string"}

    with reader(one) as bob, reader(one, "carol") as carol:
        before = bob.ask("POST", PUBLISH, told)
        shown = [each["payload"] for each in peek(bob, "orders")]
        again = carol.ask("POST", PUBLISH, told)
        elsewhere = carol.ask("POST", PUBLISH, told | {"routing_key": "free"})

        assert before.json() == elsewhere.json() == {"routed": True}
        assert shown == ['{"card": 0}'] * 2
        assert refused(again, "Contact")
        canary.assert_nowhere(one, [bob, carol])


def test_a_text_is_judged_as_json_with_a_login_and_refused_without(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.queue("orders")
    rabbitmq_server.publish("orders", json.dumps({"card": canary.text()}))
    one = veil(RULES, upstream=rabbitmq_server)
    path = "/api/queues/%2F/orders/get"

    with reader(one) as bob, HttpClient(one.host, one.port, None) as stranger:
        shown = bob.ask("POST", path, ASKING, Content_Type=TEXT)
        twice = bob.ask("POST", path, b'{"count":1,"count":1}', Content_Type=TEXT)
        without = stranger.ask("POST", path, ASKING, Content_Type=TEXT)

        assert [each["payload"] for each in shown.json()] == ['{"card": "••••"}']
        assert (twice.status, without.status) == (400, 415)
        assert without.json()["error"] == "bad_request"
        canary.assert_nowhere(one, [bob, stranger])


def test_lists_are_of_the_chosen_virtual_host_and_an_import_is_of_those_that_it_names(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.ask("PUT", "/api/vhosts/other", {})
    rabbitmq_server.ask("PUT", "/api/permissions/other/bob", {"configure": ".*", "write": ".*", "read": ".*"})
    rabbitmq_server.queue("here")
    rabbitmq_server.queue("there", vhost="other")
    rabbitmq_server.publish("here", canary.text())
    one = veil(RULES, upstream=rabbitmq_server)
    queue = {"name": "imported", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}

    with reader(one) as bob:
        every, chosen = bob.ask("GET", "/api/queues"), bob.ask("GET", "/api/queues", x_vhost="other")
        imported = bob.ask("POST", "/api/definitions", {"queues": [queue]}, x_vhost="other")

        assert sorted(each["name"] for each in every.json()) == ["here", "there"]
        assert [each["name"] for each in chosen.json()] == ["there"]
        assert imported.status == 204
        assert rabbitmq_server.ask("GET", "/api/queues/%2F/imported").json()["name"] == "imported"
        canary.assert_nowhere(one, [bob])


def test_after_an_import_by_form_the_browser_is_led_back_to_where_it_was(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    rabbitmq_server.queue("vault")
    rabbitmq_server.publish("vault", canary.text())
    one = veil(VAULT, upstream=rabbitmq_server)
    kind = "multipart/form-data; boundary=----WebKitFormBoundaryAAAAAAAAAAAAAAAA"
    queue = {"name": "imported", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    policy = {"vhost": "/", "name": "p", "pattern": "v", "definition": {"dead-letter-exchange": "mine"}}

    with reader(one) as bob:
        good = bob.ask("POST", "/api/definitions", form("../#/import-succeeded", {"queues": [queue]}), Content_Type=kind)
        bad = bob.ask("POST", "/api/definitions", form("../#/import-succeeded", {"policies": [policy]}), Content_Type=kind)

        assert (good.status, good.headers["location"]) == (303, "../#/import-succeeded")
        assert refused(bad, "Vault")
        canary.assert_nowhere(one, [bob])


def test_a_login_in_the_address_names_nobody(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    rabbitmq_server.queue("vault")
    rabbitmq_server.publish("vault", canary.text())
    access = "grants: [{allow: messages.read.unmasked, to: {user: alice}, on: installation}]\n"
    one = veil(VAULT, access, upstream=rabbitmq_server)

    with HttpClient(one.host, one.port, None) as nobody, HttpClient(one.host, one.port, ("alice", USERS["alice"])) as alice:
        hidden = nobody.ask("GET", "/api/definitions?download=a.json&auth=YWxpY2U6YWxpY2UtcGFzc3dvcmQ%3D")
        shown = alice.ask("GET", "/api/definitions?download=a.json&auth=Ym9ndXM%3D")

        assert {each["password_hash"] for each in hidden.json()["users"]} == {""}
        assert all(each["password_hash"] for each in shown.json()["users"])
        assert {each["who"] for each in one.audit() if each["event"] == "broker.message.read-unmasked"} == {"alice"}
        canary.assert_nowhere(one, [nobody, alice])
    assert "YWxpY2U6" not in one.log()
