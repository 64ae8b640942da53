"""The fixture against a real RabbitMQ: what a test asks of it, it does, and nothing of Veil's is in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from .processes import answers
from .rabbitmq_server import PLUGINS, RabbitServer

pytestmark = pytest.mark.slow


def test_it_has_the_plug_ins_and_listens_on_loopback_alone(rabbitmq_server: RabbitServer) -> None:
    told = rabbitmq_server.ask("GET", "/api/nodes").json()[0]

    assert set(PLUGINS) <= set(told["enabled_plugins"])
    assert answers("127.0.0.1", rabbitmq_server.amqp_port)
    # /proc tells whom a port listens for: 0100007F is 127.0.0.1, and ports are in hexadecimal.
    table = "".join(Path(f"/proc/net/{name}").read_text(encoding="ascii") for name in ("tcp", "tcp6"))
    listening = [fields[1] for line in table.splitlines() if (fields := line.split())[3] == "0A"]
    own = {f"{port:04X}" for port in (rabbitmq_server.amqp_port, rabbitmq_server.port, rabbitmq_server.stream_port)}
    assert {each.partition(":")[0] for each in listening if each.partition(":")[2] in own} == {"0100007F"}


def test_a_reset_leaves_nothing_of_a_test(rabbitmq_server: RabbitServer) -> None:
    rabbitmq_server.queue("q")
    rabbitmq_server.exchange("x")
    rabbitmq_server.ask("PUT", "/api/policies/%2F/p", {"pattern": "q", "definition": {"max-length": 1}})
    rabbitmq_server.ask("PUT", "/api/vhosts/other", {})

    rabbitmq_server.reset()

    told = rabbitmq_server.ask("GET", "/api/definitions").json()
    assert (told["queues"], told["exchanges"], told["policies"]) == ([], [], [])
    assert [each["name"] for each in told["vhosts"]] == ["/"]
