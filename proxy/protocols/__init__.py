"""The table of protocols: a line each, and the only place that names them all."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.core.session import ProtocolEntry

from .http.apis.kafka_connect import PROTOCOL as KAFKA_CONNECT
from .http.apis.rabbitmq_management import PROTOCOL as RABBITMQ_MANAGEMENT
from .kafka import PROTOCOL as KAFKA
from .redis import PROTOCOL as REDIS

PROTOCOLS: Mapping[str, ProtocolEntry] = {entry.name: entry for entry in (KAFKA, KAFKA_CONNECT, RABBITMQ_MANAGEMENT, REDIS)}
