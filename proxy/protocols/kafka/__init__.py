"""Kafka on the wire: requests and answers of the broker protocol, versions 0.10 to 4.2 of the broker."""

from __future__ import annotations

from proxy.core.session import ProtocolEntry
from rules.model import Platform

from . import schema
from .cluster import Cluster
from .session import KafkaSession
from .surface import surface_text


def begin() -> Cluster:
    """What the sessions of one connection share. Loads what they read messages by: left to the first message, that would
    hold up every reader of the process for a second and longer, and their time-outs would run meanwhile."""
    schema.load()
    return Cluster()


PROTOCOL = ProtocolEntry(
    "kafka", frozenset({Platform.KAFKA}), KafkaSession, surface_text, shared=begin, has_nodes=True, has_tokens=True
)
