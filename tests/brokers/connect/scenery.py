"""Rules, readers, topics and connectors, for the tests of Kafka Connect's REST API through Veil."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rules.audit import broken_links
from tests.brokers.http_client import HttpAnswer, HttpClient
from tests.brokers.kafka_clients import create_topics, produce
from tests.brokers.kafka_connect import ConnectServer
from tests.brokers.kafka_server import USERS
from tests.brokers.processes import wait_until
from tests.brokers.veil import Veil
from tests.canary import Canary

RULES = """
rules:
  - name: Cards
    platform: kafka
    resources: {topic: ["cards-*"]}
    fields:
      - {kind: json_path, path: $.card, method: redact}
"""
ACCESS = """
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: installation}
  - {allow: messages.read.unmasked, to: {user: carol}, on: {platform: kafka, topic: ["cards-eu-*"]}}
"""
FILE = "org.apache.kafka.connect.file"
SINK, SOURCE = f"{FILE}.FileStreamSinkConnector", f"{FILE}.FileStreamSourceConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
MASK = "••••"


@contextmanager
def reader(veil: Veil, name: str | None = "bob", password: str | None = None) -> Iterator[HttpClient]:
    login = None if name is None else (name, password or USERS[name])
    with HttpClient(veil.host, veil.port, login) as client:
        yield client


def new_topic(server: ConnectServer, prefix: str, *values: bytes) -> str:
    """A topic that no test had, with these records in it."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    create_topics(server.kafka.address, name)
    if values:
        produce(server.kafka.address, name, list(values))
    return name


def sink(file: Path, topics: str, **more: str) -> dict[str, str]:
    """A sink that reads from the start and writes what it reads into the file; `__` stands for a dot."""
    told = {"connector.class": SINK, "tasks.max": "1", "topics": topics, "file": str(file)}
    told["consumer.override.auto.offset.reset"] = "earliest"
    return told | {key.replace("__", "."): value for key, value in more.items()}


def settled(client: HttpClient, method: str, path: str, body: object = None) -> HttpAnswer:
    """The answer, asked for again while the worker deals out its work."""
    found: list[HttpAnswer] = []

    def is_settled() -> bool:
        found.append(client.ask(method, path, body))
        return found[-1].status != 409

    wait_until(is_settled, f"{method} {path}")
    return found[-1]


def refused(answer: HttpAnswer, rule: str = "Cards") -> bool:
    """Whether it is Veil's refusal, in the form of this API."""
    if answer.status != 403 or answer.headers.get("veil-refused") != rule:
        return False
    told: dict[str, Any] = answer.json()
    return told["error_code"] == 403 and told["message"].startswith("veil: ") and rule in told["message"]


def holds(file: Path, text: str) -> bool:
    return file.exists() and text in file.read_text(errors="replace")


def card(secret: str) -> bytes:
    return json.dumps({"card": secret}).encode()


def whole_trail(veil: Veil, canary: Canary, *clients: HttpClient) -> None:
    """The end of a test: no canary anywhere, and the chain of the trail holds."""
    canary.assert_nowhere(veil, clients)
    assert list(broken_links(veil.audit_bytes().splitlines())) == []
