"""The mock cluster inside librdkafka: real TCP, up at once. No logins, no TLS, no ACLs, no CreateTopics.

Topics come into being when first named, with four partitions.
Source: librdkafka's rdkafka_mock.h, CONFIGURATION.md `test.mock.num.brokers`.
"""

from __future__ import annotations

from typing import Self

from confluent_kafka import Producer


class KafkaMock:
    """A cluster in this process, there as long as this object is."""

    def __init__(self, nodes: int = 1) -> None:
        self._producer: Producer | None = Producer({"test.mock.num.brokers": nodes, "log_level": 3})
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.nodes = {broker.id: (str(broker.host), int(broker.port)) for broker in brokers}
        """Where each node listens."""

    @property
    def address(self) -> str:
        """All nodes, as a client's bootstrap list."""
        return ",".join(f"{host}:{port}" for host, port in self.nodes.values())

    def close(self) -> None:
        self._producer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
