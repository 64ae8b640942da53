"""Kafka on the wire: requests and answers of the broker protocol, versions 0.11 to 4.2 of the broker."""

from __future__ import annotations

from proxy.core.session import ProtocolEntry
from rules.model import Platform

from . import schema
from .cluster import Cluster
from .session import KafkaSession
from .surface import row, surface_text

FIRST_ASKED = (18, 17, 36, 3, 10, 0, 1)  # ApiVersions, the login, Metadata, FindCoordinator, Produce, Fetch


def load() -> None:
    """Compiles the messages that every client begins with: about half a second, which no reader is to wait for."""
    for key in FIRST_ASKED:
        found = row(key)
        for version in () if found is None else found.versions:
            schema.request(key, version)
            schema.response(key, version)


PROTOCOL = ProtocolEntry(
    "kafka", frozenset({Platform.KAFKA}), KafkaSession, surface_text, shared=Cluster, load=load, has_nodes=True, has_tokens=True
)
