"""Programs that speak the management API with clients from PyPI, through Veil."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.canary import Canary
from tests.consoles.pip import program

from ..processes import wait_until
from ..rabbitmq_server import USERS, RabbitServer
from ..veil import Veil, VeilFactory
from .scenery import ACCESS, MASK, RULES

pytestmark = pytest.mark.slow

AMQPSTORM = """
import json, sys
from amqpstorm.management import ApiError, ManagementApi
url, user, password = sys.argv[1:]
api = ManagementApi(url, user, password, timeout=30)
def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ApiError as error:
        return [error.error_code, str(error)]
    return None
got = api.basic.get("orders", requeue=True, to_dict=True, count=5)
print(json.dumps({
    "whoami": api.user.get(user)["name"],
    "messages": [[each["payload"], each["properties"]] for each in got],
    "queues": sorted(each["name"] for each in api.queue.list()),
    "published": api.basic.publish("a new one", "free")["routed"],
    "written_back": refused(api.basic.publish, got[0]["payload"], "orders"),
    "bound": refused(api.queue.bind, queue="mine", exchange="amq.topic", routing_key="#"),
    "user": refused(api.user.create, "eve", "eve-password", tags="administrator"),
    "purged": api.queue.purge("free"),
    "overview": api.overview()["listeners"],
}))
"""
PYRABBIT = """
import json, sys
from pyrabbit2.api import Client
from pyrabbit2.http import HTTPError
url, user, password = sys.argv[1:]
client = Client(url.removeprefix("http://"), user, password, timeout=30)
def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except HTTPError as error:
        return [error.status, error.reason]
    return None
got = client.get_messages("/", "orders", count=5, requeue=True)
print(json.dumps({
    "whoami": client.get_whoami()["name"],
    "messages": [[each["payload"], each["properties"]] for each in got],
    "queues": sorted(each["name"] for each in client.get_queues()),
    "published": client.publish("/", "amq.default", "free", "a new one"),
    "written_back": refused(client.publish, "/", "amq.default", "orders", got[0]["payload"]),
    "bound": refused(client.create_binding, "/", "amq.topic", "mine", "#"),
    "user": refused(client.create_user, "eve", "eve-password", tags="administrator"),
    "purged": client.purge_queue("/", "free"),
    "overview": client.get_overview()["listeners"],
}))
"""
CLIENTS = {"amqpstorm[management]": ("3.1.4", AMQPSTORM), "pyrabbit2": ("1.0.7", PYRABBIT)}


def run(name: str, veil: Veil, user: str) -> tuple[dict[str, Any], str]:
    """What the program tells, and all that it printed."""
    version, text = CLIENTS[name]
    python: Path = program(name, version, "python", required_as="console")
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", text, f"http://{veil.address}", user, USERS[user]],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told, done.stdout + done.stderr


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_reads_masks_and_is_refused_what_a_person_is(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, name: str
) -> None:
    for queue in ("orders", "mine", "free"):
        rabbitmq_server.queue(queue)
    rabbitmq_server.bind("amq.topic", "orders")
    secret = {"email": canary.text(), "card": canary.text(), "note": "seen"}
    rabbitmq_server.publish("orders", json.dumps(secret), headers={"x-iban": canary.text()}, correlation_id=canary.text())
    wait_until(lambda: len(rabbitmq_server.ask("GET", "/api/queues").json()) == 3, "the queues are listed")
    one = veil(RULES, ACCESS, upstream=rabbitmq_server)

    told, printed = run(name, one, "bob")

    ((payload, properties),) = told["messages"]
    document = json.loads(payload)
    assert (document["note"], document["card"]) == ("seen", MASK)
    assert document["email"] == canary.values[0][0] + "•" * 27
    assert properties["headers"]["x-iban"] == properties["correlation_id"] == MASK
    assert "veil-masked" in properties["headers"]
    assert told["whoami"] == "bob"
    assert told["queues"] == ["free", "mine", "orders"]
    assert told["published"]
    for call in ("written_back", "bound", "user"):
        assert told[call][0] == 403, call
    assert told["overview"] == []
    canary.assert_not_in(printed, "what the program printed")
    canary.assert_nowhere(one)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_of_one_who_may_reads_the_originals_on_record(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, name: str
) -> None:
    for queue in ("orders", "mine", "free"):
        rabbitmq_server.queue(queue)
    rabbitmq_server.publish("orders", json.dumps({"card": canary.text()}))
    one = veil(RULES, ACCESS, upstream=rabbitmq_server)

    told, _ = run(name, one, "alice")

    assert json.loads(told["messages"][0][0])["card"] == canary.values[0]
    reads = [(each["who"], each["resource"]) for each in one.audit() if each["event"] == "broker.message.read-unmasked"]
    assert ("alice", {"queue": "orders"}) in reads
    canary.assert_nowhere(one)
