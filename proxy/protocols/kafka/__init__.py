"""Kafka on the wire: requests and answers of the broker protocol, versions 0.10 to 4.2 of the broker."""

from __future__ import annotations

from proxy.core.session import ProtocolEntry
from rules.model import Platform

from .cluster import Cluster
from .session import KafkaSession
from .surface import surface_text

PROTOCOL = ProtocolEntry(
    "kafka", frozenset({Platform.KAFKA}), KafkaSession, surface_text, shared=Cluster, has_nodes=True, has_tokens=True
)
