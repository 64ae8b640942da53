"""Requests that two servers read in two ways, sent at a real RabbitMQ through Veil."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path

import pytest

from tests.canary import Canary

from ..rabbitmq_server import USERS, RabbitServer
from ..veil import VeilFactory
from .scenery import RULES, peek, reader

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parents[2] / "corpora" / "http_smuggling.jsonl"
LOGIN = b"Authorization: Basic " + base64.b64encode(f"bob:{USERS['bob']}".encode()) + b"\r\n"


def exchanged(host: str, port: int, data: bytes) -> bytes:
    """All that comes back until the other side closes or falls silent."""
    received = b""
    with socket.create_connection((host, port), timeout=2) as reader_side:
        reader_side.sendall(data)
        reader_side.shutdown(socket.SHUT_WR)
        while True:
            try:
                piece = reader_side.recv(65536)
            except (TimeoutError, ConnectionResetError):
                return received
            if not piece:
                return received
            received += piece


def test_nothing_of_the_corpus_gets_a_message_out(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> None:
    for name in ("orders", "q"):
        rabbitmq_server.queue(name)
        rabbitmq_server.publish(name, json.dumps({"card": canary.text()}))
    rules = RULES.replace('["orders*"]', '["orders*", "q"]')
    one = veil(rules, upstream=rabbitmq_server)

    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    for line in lines:
        raw = base64.b64decode(line["b64"]).replace(b"mq.local", f"{one.host}:{one.port}".encode())
        head, end, rest = raw.partition(b"\r\n")
        with_login = head + end + LOGIN + rest if end and b"uthorization" not in raw else raw
        for sent in (raw, with_login):
            answer = exchanged(one.host, one.port, sent)

            canary.assert_not_in(answer, f"the answer to {line['id']}")
            if line["verdict"] == "reject":
                assert answer[:12] != b"HTTP/1.1 200", (line["id"], answer)

    assert len(lines) > 40
    with reader(one) as bob:
        assert len(peek(bob, "orders")) == 1
        canary.assert_nowhere(one, [bob])


@pytest.mark.parametrize(
    "path",
    [
        "/api/queues/%2f/orders/%67et",
        "/%61pi/%71ueues/%2F/orders/get",
        "/api/queues/%2F/orders/get/",
        "/api/queues/%2F/orders/get?x=1",
    ],
)
def test_the_same_place_in_another_spelling_is_the_same_place(
    rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary, path: str
) -> None:
    rabbitmq_server.queue("orders")
    rabbitmq_server.publish("orders", json.dumps({"card": canary.text(), "note": "seen"}))
    one = veil(RULES, upstream=rabbitmq_server)

    with reader(one) as bob:
        answer = bob.ask("POST", path, {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})

        assert answer.status == 200
        assert b"seen" in answer.body
        canary.assert_nowhere(one, [bob])
