"""What tests with clients of others have in common: a rule, and the search for the broker's addresses."""

from __future__ import annotations

import re

from tests.brokers.kafka_server import ADVERTISED, KafkaServer

RULES = """
rules:
  - name: Cards
    platform: kafka
    resources: {topic: ["orders-*"]}
    fields:
      - {kind: json_path, path: $.card, method: redact}
"""


def assert_no_address(told: bytes | str, server: KafkaServer) -> None:
    """Returns when nothing says where the broker is: neither its name nor a port of its as a number of its own."""
    text = told.decode(errors="replace") if isinstance(told, bytes) else told
    ports = "|".join(str(port) for port in server.ports.values())
    found = re.search(rf"{ADVERTISED}|(?<![\d.])(?:{ports})(?!\d)", text)
    assert found is None, f"an address of the broker: {text[max(0, found.start() - 100) : found.end() + 100]!r}"
