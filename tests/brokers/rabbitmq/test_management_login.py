"""`management` in veil.yaml: what Veil has to know of a queue it asks as itself, and a wrong password there uncovers nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.canary import Canary

from ..http_client import HttpClient
from ..rabbitmq_server import ADMIN, RabbitServer
from ..veil import Veil, VeilFactory
from .scenery import EXCHANGES, RULES, payload, peek, refused

pytestmark = pytest.mark.slow

DORA = "dora", "dora-password"
"""A user with the least tag that lets one in: what bindings there are it may see by itself."""
PLAIN = "plain", "plain-password"
"""A user without any tag: good for AMQP, and for nothing here."""
BOTH = RULES + EXCHANGES.replace("\nrules:\n", "")


@pytest.fixture
def dora(rabbitmq_server: RabbitServer) -> Iterator[tuple[str, str]]:
    for (name, password), tags in ((DORA, "management"), (PLAIN, "")):
        rabbitmq_server.ask("PUT", f"/api/users/{name}", {"password": password, "tags": tags})
        rabbitmq_server.ask("PUT", f"/api/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
    yield DORA
    for name, _ in (DORA, PLAIN):
        rabbitmq_server.ask("DELETE", f"/api/users/{name}")


def with_login(veil: VeilFactory, server: RabbitServer, user: str, password: str) -> Veil:
    login = {"url": f"http://{server.address}", "user": user, "password": password}
    return veil(BOTH, upstream=server, connection={"management": login})


def filled(server: RabbitServer, canary: Canary) -> None:
    server.exchange("customers")
    for name in ("bound", "alone", "orders"):
        server.queue(name)
        server.publish(name, json.dumps({"card": canary.number()}))
    server.bind("customers", "bound")


@pytest.mark.parametrize("login", [ADMIN, DORA, None])
def test_where_the_bindings_can_be_read_a_queue_that_no_rule_covers_is_shown(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, dora: tuple[str, str], login: tuple[str, str] | None
) -> None:
    filled(rabbitmq_server, canary)
    one = veil(BOTH, upstream=rabbitmq_server) if login is None else with_login(veil, rabbitmq_server, *login)

    with HttpClient(one.host, one.port, dora) as client:
        (alone,), (bound,), (orders,) = (peek(client, name) for name in ("alone", "bound", "orders"))

        assert payload(alone)["card"] != 0
        assert payload(bound)["card"] == payload(orders)["card"] == 0
        canary.values = canary.values[:1] + canary.values[2:]  # the one that is free to see
        canary.assert_nowhere(one, [client])
        assert ADMIN[1].encode() not in client.received
    assert ADMIN[1] not in one.log() + one.page("/metrics")[1] + one.page("/readyz")[1]


@pytest.mark.parametrize("login", [(ADMIN[0], "wrong"), ("nobody", "wrong"), PLAIN])
def test_where_the_bindings_cannot_be_read_every_queue_is_covered(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, dora: tuple[str, str], login: tuple[str, str]
) -> None:
    filled(rabbitmq_server, canary)
    one = with_login(veil, rabbitmq_server, *login)

    with HttpClient(one.host, one.port, dora) as client:
        for name in ("alone", "bound", "orders"):
            assert [payload(each)["card"] for each in peek(client, name)] == [0]
        binding = client.ask("POST", "/api/bindings/%2F/e/amq.topic/q/alone", {"routing_key": "#"})

        assert refused(binding, "Contact")
        canary.assert_nowhere(one, [client])


def test_the_login_of_veils_own_gives_no_reader_its_rights(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, dora: tuple[str, str]
) -> None:
    filled(rabbitmq_server, canary)
    one = with_login(veil, rabbitmq_server, *ADMIN)

    with HttpClient(one.host, one.port, dora) as client, HttpClient(one.host, one.port, None) as nobody:
        peek(client, "bound")
        told = client.ask("GET", "/api/whoami").json()
        users = client.ask("GET", "/api/users")
        stranger = nobody.ask(
            "POST", "/api/queues/%2F/bound/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        )

        assert told["name"] == DORA[0]
        assert users.status == 401
        assert stranger.status == 401
        canary.assert_nowhere(one, [client, nobody])
