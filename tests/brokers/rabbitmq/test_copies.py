"""Whatever would carry messages to where a rule does not reach, tried on a real RabbitMQ through Veil."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.canary import Canary

from ..http_client import HttpClient
from ..processes import wait_until
from ..rabbitmq_server import USERS, RabbitServer
from ..veil import VeilFactory
from .scenery import ACCESS, ASKING, EXCHANGES, RULES, peek, reader, refused

pytestmark = pytest.mark.slow

BOTH = RULES + EXCHANGES.replace("\nrules:\n", "")
PARAMETER = "/api/parameters/shovel/%2F/s"
TO = {"dest-uri": "amqp://", "dest-queue": "mine"}


def shovel(**source: Any) -> dict[str, Any]:
    return {"value": {"src-uri": "amqp://", **TO, **{name.replace("_", "-"): value for name, value in source.items()}}}


# What is refused to bob, whom the rule `Contact` on the queues orders* masks for.
COPIES: list[tuple[str, str, Any]] = [
    ("PUT", PARAMETER, shovel(src_queue="orders")),
    ("PUT", "/api/parameters/%73hovel/%2F/Move%20from%20orders", {"component": "shovel", "vhost": "/", "name": "Move from orders"}
     | shovel(src_queue="orders", src_protocol="amqp091", src_delete_after="queue-length")),
    ("PUT", PARAMETER, b'{"value":{"src-uri":"amqp://","src-\\u0071ueue":"orders","dest-uri":"amqp://","dest-queue":"mine"}}'),
    ("PUT", PARAMETER, shovel(src_exchange="amq.topic", src_exchange_key="#")),
    ("PUT", PARAMETER, shovel(src_queue="free", src_exchange="amq.topic")),
    ("PUT", PARAMETER, shovel(src_queue="")),
    ("PUT", PARAMETER, shovel(src_queue=["orders"])),
    ("PUT", PARAMETER, shovel()),
    ("PUT", PARAMETER, shovel(src_protocol="amqp10", src_address="free")),
    ("PUT", PARAMETER, shovel(src_protocol="new", src_queue="free")),
    ("PUT", "/api/parameters/federation-upstream/%2F/u", {"value": {"uri": "amqp://", "queue": "orders"}}),
    ("PUT", "/api/parameters/federation-upstream/%2F/u", {"value": {"uri": "amqp://"}}),
    ("PUT", "/api/parameters/federation-upstream/%2F/u", {"value": {"uri": "amqp://elsewhere", "exchange": "amq.topic"}}),
    ("PUT", "/api/parameters/federation-upstream-set/%2F/u", {"value": [{"upstream": "u"}]}),
    ("PUT", "/api/parameters/what-is-new/%2F/u", {"value": {}}),
    ("PUT", "/api/global-parameters/what-is-new", {"value": {}}),
    ("DELETE", "/api/shovels/vhost/%2F/none/restart", None),
    ("DELETE", "/api/federation-links/vhost/%2F/none/none/restart", None),
    ("PUT", "/api/policies/%2F/p", {"pattern": "^free", "definition": {"dead-letter-exchange": "mine"}}),
    ("PUT", "/api/policies/%2F/p", {"pattern": "^orders$", "definition": {"message-ttl": 1}}),
    ("PUT", "/api/policies/%2F/p", {"pattern": ".*", "definition": {"expires": 1000}}),
    ("PUT", "/api/policies/%2F/p", {"pattern": "x", "apply-to": "exchanges", "definition": {"alternate-exchange": "mine"}}),
    ("PUT", "/api/policies/%2F/p", {"pattern": "x", "definition": {"federation-upstream-set": "all"}}),
    ("PUT", "/api/operator-policies/%2F/p", {"pattern": "^ord", "definition": {"message-ttl": 1}}),
    ("PUT", "/api/vhosts/%2F", {"tracing": True}),
    ("PUT", "/api/vhosts/%2F", {"tracing": "true"}),
    ("PUT", "/api/traces/%2F/t", {"format": "json", "pattern": "#"}),
    ("GET", "/api/trace-files/t.log", None),
    ("POST", "/api/bindings/%2F/e/amq.topic/q/mine", {"routing_key": "#"}),
    ("POST", "/api/bindings/%2F/e/amq.topic/e/amq.fanout", {"routing_key": "#"}),
    ("POST", "/api/bindings/%2F/e/amq.rabbitmq.trace/q/mine", {"routing_key": "#"}),
    ("POST", "/api/bindings/%2F/e/amq.headers/q/mine", {"routing_key": "", "arguments": {"x-match": "all-with-x", "x-iban": "1"}}),
    ("PUT", "/api/queues/%2F/orders.new", {"arguments": {"x-dead-letter-exchange": "mine"}}),
    ("POST", "/api/definitions", {"queues": [{"name": "orders.new", "vhost": "/", "arguments": {"x-dead-letter-exchange": ""}}]}),
    ("POST", "/api/all-configuration", {"parameters": [{"component": "shovel", "vhost": "/", "name": "s", **shovel(src_queue="orders")}]}),
    ("POST", "/api/definitions/%2F", {"policies": [{"name": "p", "pattern": ".*", "definition": {"dead-letter-exchange": "x"}}]}),
    ("POST", "/api/definitions", {"bindings": [{"source": "amq.topic", "vhost": "/", "destination": "mine", "destination_type": "queue",
                                                "routing_key": "#", "arguments": {}}]}),
    ("POST", "/api/definitions", {"users": [{"name": "me", "password": "p", "tags": "administrator"}]}),
    ("POST", "/api/definitions", {"what-is-new": []}),
    ("PUT", "/api/users/me", {"password": "p", "tags": "administrator"}),
    ("POST", "/api/users/bulk-delete", {"users": ["x"]}),
    ("PUT", "/api/permissions/%2F/bob", {"configure": ".*", "write": ".*", "read": ".*"}),
    ("GET", "/api/what-is-new", None),
    ("GET", "/api/top/veil@localhost", None),
    ("POST", "/api/exchanges/%2F/amq.default/publish", {"properties": {}, "routing_key": "orders", "payload": '{"card":"••••"}', "payload_encoding": "string"}),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", {"properties": {"headers": {"x-iban": "••••"}}, "routing_key": "k", "payload": "", "payload_encoding": "string"}),
    ("POST", "/api/exchanges/%2F/amq.default/publish", {"properties": {"headers": {"veil-masked": "[]"}}, "routing_key": "free", "payload": "x", "payload_encoding": "string"}),
]  # fmt: skip


def scene(server: RabbitServer) -> None:
    for name in ("orders", "free", "mine"):
        server.queue(name)
    server.bind("amq.topic", "orders", key="k")


def state(server: RabbitServer) -> dict[str, Any]:
    """What of the broker a copy would change."""
    told = server.ask("GET", "/api/definitions").json()
    told["vhosts"] = server.ask("GET", "/api/vhosts?columns=name,tracing").json()
    return dict(told)


def test_every_copy_is_refused_and_nothing_changes(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    scene(rabbitmq_server)
    one = veil(RULES, upstream=rabbitmq_server)
    before = state(rabbitmq_server)

    with reader(one) as bob:
        for method, path, body in COPIES:
            answer = bob.ask(method, path, body)

            assert refused(answer, "Contact"), (method, path, body, answer)
    assert state(rabbitmq_server) == before
    told = b'"event":"masking.refused"'
    wait_until(lambda: one.audit_bytes().count(told) == len(COPIES), "each refusal is on the trail")


def test_the_form_of_the_console_for_definitions_is_judged_like_the_json_in_it(
    rabbitmq_server: RabbitServer, veil: VeilFactory
) -> None:
    scene(rabbitmq_server)
    one = veil(RULES, upstream=rabbitmq_server)

    def form(told: Any) -> bytes:
        return (
            b'--edge\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\nContent-Type: application/json\r\n\r\n'
            + json.dumps(told).encode()
            + b'\r\n--edge\r\nContent-Disposition: form-data; name="redirect"\r\n\r\n../#/import-succeeded\r\n--edge--\r\n'
        )

    kind = "multipart/form-data; boundary=edge"
    with reader(one) as bob:
        bad = bob.ask("POST", "/api/definitions", form({"users": []} | {"users": [{"name": "x"}]}), Content_Type=kind)
        good = bob.ask(
            "POST",
            "/api/definitions",
            form({"queues": [{"name": "new", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}]}),
            Content_Type=kind,
        )
        odd = bob.ask("POST", "/api/definitions", form({}).replace(b"--edge--", b"--edge\r\n\r\n--edge--"), Content_Type=kind)

    assert refused(bad, "Contact")
    assert good.status in {204, 303}
    assert odd.status == 415
    assert rabbitmq_server.ask("GET", "/api/queues/%2F/new").json()["name"] == "new"


def test_what_copies_nothing_covered_goes_on(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    scene(rabbitmq_server)
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        for method, path, body in (
            ("PUT", PARAMETER, shovel(src_queue="free")),
            ("PUT", "/api/parameters/federation-upstream/%2F/u", {"value": {"uri": "amqp://", "queue": "free"}}),
            ("PUT", "/api/policies/%2F/p", {"pattern": "^free$", "definition": {"max-length": 10}}),
            ("DELETE", "/api/policies/%2F/p", None),
            ("PUT", "/api/queues/%2F/new", {"arguments": {"x-dead-letter-exchange": "mine"}}),
            ("PUT", "/api/queues/%2F/orders.new", {}),
            ("PUT", "/api/exchanges/%2F/new", {"type": "fanout"}),
            ("POST", "/api/bindings/%2F/e/new/q/mine", {"routing_key": ""}),
            ("POST", "/api/bindings/%2F/e/new/q/orders", {"routing_key": ""}),
            ("PUT", "/api/vhosts/other", {}),
            ("POST", "/api/exchanges/%2F/amq.default/publish", {"properties": {}, "routing_key": "orders", "payload": '{"card":5}', "payload_encoding": "string"}),
            ("POST", "/api/exchanges/%2F/amq.default/publish", {"properties": {}, "routing_key": "free", "payload": '{"card":"••••"}', "payload_encoding": "string"}),
            ("DELETE", PARAMETER, None),
            ("DELETE", "/api/queues/%2F/orders", None),
        ):  # fmt: skip
            answer = bob.ask(method, path, body)

            assert answer.status < 300, (method, path, answer)


def test_rules_on_exchanges_keep_their_bindings(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    rabbitmq_server.exchange("customers")
    rabbitmq_server.exchange("inner")
    rabbitmq_server.exchange("other")
    rabbitmq_server.queue("q")
    rabbitmq_server.bind("customers", "inner", "e", key="k")
    rabbitmq_server.bind("inner", "q", key="k")
    rabbitmq_server.bind("other", "q", key="k")
    one = veil(EXCHANGES, upstream=rabbitmq_server)

    with reader(one) as bob:
        for method, path, body in (
            ("DELETE", "/api/bindings/%2F/e/inner/q/q/k", None),
            ("DELETE", "/api/bindings/%2F/e/customers/e/inner/k", None),
            ("DELETE", "/api/exchanges/%2F/customers", None),
            ("DELETE", "/api/exchanges/%2F/inner", None),
            ("PUT", PARAMETER, shovel(src_queue="q")),
            ("PUT", "/api/exchanges/%2F/customers.new", {"type": "fanout", "arguments": {"alternate-exchange": "mine"}}),
        ):
            assert refused(bob.ask(method, path, body), "Customers"), (method, path)
        assert bob.ask("DELETE", "/api/bindings/%2F/e/other/q/q/k").status == 204
        assert bob.ask("DELETE", "/api/exchanges/%2F/other").status == 204


def test_who_may_copies_and_it_is_on_record(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    scene(rabbitmq_server)
    one = veil(RULES, ACCESS, upstream=rabbitmq_server)

    with reader(one, "alice") as alice:
        answer = alice.ask("PUT", PARAMETER, shovel(src_queue="orders"))

    assert answer.status == 201
    (entry,) = [each for each in one.audit() if each["event"] == "broker.message.read-unmasked"]
    assert (entry["who"], entry["resource"]) == ("alice", {"queue": "orders"})


def test_a_shovel_is_not_set_going_again(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    scene(rabbitmq_server)
    rabbitmq_server.ask("PUT", PARAMETER, shovel(src_queue="orders"))
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        assert refused(bob.ask("DELETE", "/api/shovels/vhost/%2F/s/restart"), "Contact")


def test_passwords_their_hashes_and_ways_round_veil_are_not_told(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary
) -> None:
    scene(rabbitmq_server)
    secret = canary.text()
    rabbitmq_server.ask(
        "PUT",
        PARAMETER,
        shovel(src_queue="free") | {"value": {"src-uri": f"amqp://u:{secret}@127.0.0.1:1", "src-queue": "free", **TO}},
    )
    hashes = [each["password_hash"] for each in rabbitmq_server.ask("GET", "/api/users").json()]
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        for path in (
            "/api/definitions", "/api/all-configuration", "/api/definitions/%2F", "/api/users", "/api/users/bob", "/api/parameters",
            "/api/parameters/shovel", PARAMETER, "/api/shovels", "/api/overview", "/api/nodes", "/api/nodes/veil@localhost",
        ):  # fmt: skip
            assert bob.ask("GET", path).status == 200, path
        received = bytes(bob.received)

        assert not [each for each in hashes if each.encode() in received]
        assert not [port for port in rabbitmq_server.secrets if port in received]
        canary.assert_nowhere(one, [bob])


def test_statistics_tell_no_lengths_and_are_not_sorted_by_them(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    scene(rabbitmq_server)
    rabbitmq_server.publish("orders", json.dumps({"card": "x" * 4321}), timestamp=1700000000)
    rabbitmq_server.publish("free", "x" * 9000)
    wait_until(lambda: rabbitmq_server.ask("GET", "/api/queues/%2F/orders").json().get("message_bytes", 0) > 4321, "counted")
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        told = bob.ask("GET", "/api/queues/%2F/orders").json()
        listed = bob.ask("GET", "/api/queues?sort=message_bytes").json()

    assert {value for name, value in told.items() if name.startswith("message_bytes")} == {0}
    assert not told.get("head_message_timestamp")
    assert (told["memory"], told["messages"]) == (0, 1)
    assert [each["name"] for each in listed] == ["free", "mine", "orders"]


def test_rabbitmqadmin_comes_through_veil_and_is_masked_and_refused(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    scene(rabbitmq_server)
    rabbitmq_server.publish("orders", json.dumps({"card": canary.text(), "note": "seen"}))
    one = veil(RULES, upstream=rabbitmq_server)
    program = tmp_path / "rabbitmqadmin"
    with HttpClient(one.host, one.port, ("bob", USERS["bob"])) as client:
        program.write_bytes(client.ask("GET", "/cli/rabbitmqadmin").body)

    def admin(*arguments: str) -> subprocess.CompletedProcess[str]:
        login = ["-H", one.host, "-P", str(one.port), "-u", "bob", "-p", USERS["bob"]]
        command = [sys.executable, "-W", "ignore", str(program), *login, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    got = admin("get", "queue=orders", "ackmode=ack_requeue_true")
    bound = admin("declare", "binding", "source=amq.topic", "destination=mine", "routing_key=#")
    policy = admin("declare", "policy", "name=p", "pattern=.*", 'definition={"dead-letter-exchange":"x"}')
    listed = admin("list", "queues", "name", "messages")

    assert "seen" in got.stdout
    assert "••••" in got.stdout
    assert bound.returncode != 0
    assert "Contact" in bound.stdout + bound.stderr
    assert policy.returncode != 0
    assert "Contact" in policy.stdout + policy.stderr
    assert "orders" in listed.stdout, listed
    canary.assert_not_in(got.stdout + got.stderr, "what rabbitmqadmin printed")


def test_without_rules_everything_goes_on(rabbitmq_server: RabbitServer, veil: VeilFactory) -> None:
    scene(rabbitmq_server)
    rabbitmq_server.publish("orders", '{"card": 5}')
    one = veil("rules: []\n", upstream=rabbitmq_server)

    with reader(one) as bob:
        assert peek(bob, "orders")[0]["payload"] == '{"card": 5}'
        assert bob.ask("PUT", PARAMETER, shovel(src_queue="free")).status == 201
        assert bob.ask("POST", "/api/queues/%2F/orders/get", ASKING).status == 200
        assert bob.ask("GET", "/api/top/veil@localhost").status == 200
