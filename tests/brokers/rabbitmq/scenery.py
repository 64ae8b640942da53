"""Rules, readers and the way to a broker through Veil, for the tests of RabbitMQ's management API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from ..http_client import HttpAnswer, HttpClient
from ..rabbitmq_server import USERS
from ..veil import Veil

RULES = """
rules:
  - name: Contact
    platform: rabbitmq
    resources: {queue: ["orders*"]}
    fields:
      - {kind: json_path, path: $.email, method: partial, keep_first: 1}
      - {kind: json_path, path: $.card, method: redact}
      - {kind: header, name: x-iban, method: redact}
      - {kind: header, name: correlation_id, method: redact}
"""
VAULT = """
rules:
  - name: Vault
    platform: rabbitmq
    resources: {queue: ["vault*"]}
    mask_all: true
"""
EXCHANGES = """
rules:
  - name: Customers
    platform: rabbitmq
    resources: {exchange: ["customers*"]}
    fields: [{kind: json_path, path: $.card, method: redact}]
"""
ACCESS = """
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: installation}
  - {allow: messages.read.unmasked, to: {user: erin}, on: {platform: rabbitmq, queue: ["orders.eu", "fed.eu"]}}
"""
MASK = "••••"
ASKING = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}


@contextmanager
def reader(veil: Veil, name: str = "bob") -> Iterator[HttpClient]:
    with HttpClient(veil.host, veil.port, (name, USERS[name])) as client:
        yield client


def peek(client: HttpClient, queue: str, *, vhost: str = "/", **asking: object) -> list[dict[str, Any]]:
    """The messages of a queue, which stay in it."""
    answer = get(client, queue, vhost=vhost, **asking)
    assert answer.status == 200, answer
    messages: list[dict[str, Any]] = answer.json()
    return messages


def get(client: HttpClient, queue: str, *, vhost: str = "/", **asking: object) -> HttpAnswer:
    return client.ask("POST", f"/api/queues/{quote(vhost, safe='')}/{quote(queue, safe='')}/get", ASKING | asking)


def payload(message: dict[str, Any]) -> Any:
    return json.loads(message["payload"])


def refused(answer: HttpAnswer, rule: str) -> bool:
    """Whether it is Veil's refusal, in the form that the console shows."""
    told = answer.json() if answer.status == 403 else {}
    return told.get("error") == "not_authorised" and rule in told["reason"] and answer.headers.get("veil-refused") == rule
