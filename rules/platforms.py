"""A row a platform: what rules may name there and which protocols reach it. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from .model import FieldKind, Kind, Platform


@dataclass(frozen=True, slots=True)
class Row:
    """The first kind is the one that a plain list of patterns means."""

    kinds: tuple[Kind, ...]
    field_kinds: tuple[FieldKind, ...]
    protocols: tuple[str, ...]


PLATFORMS: dict[Platform, Row] = {
    Platform.KAFKA: Row(
        kinds=(Kind.TOPIC,),
        field_kinds=(FieldKind.JSON_PATH, FieldKind.HEADER, FieldKind.RECORD_KEY, FieldKind.WHOLE_VALUE),
        protocols=("kafka", "kafka-connect", "kafka-rest", "ksqldb"),
    ),
    Platform.RABBITMQ: Row(
        kinds=(Kind.QUEUE, Kind.EXCHANGE),
        field_kinds=(FieldKind.JSON_PATH, FieldKind.HEADER, FieldKind.WHOLE_VALUE),
        protocols=("amqp", "amqp1", "rabbitmq-stream", "rabbitmq-management", "mqtt", "stomp"),
    ),
    Platform.ARTEMIS: Row(
        kinds=(Kind.QUEUE, Kind.ADDRESS),
        field_kinds=(FieldKind.JSON_PATH, FieldKind.HEADER, FieldKind.WHOLE_VALUE),
        protocols=("amqp1", "jolokia", "mqtt", "stomp"),
    ),
    Platform.REDIS: Row(
        kinds=(Kind.KEY,),
        field_kinds=(FieldKind.JSON_PATH, FieldKind.WHOLE_VALUE, FieldKind.FIELD),
        protocols=("redis",),
    ),
    Platform.MEMCACHED: Row(
        kinds=(Kind.KEY,),
        field_kinds=(FieldKind.JSON_PATH, FieldKind.WHOLE_VALUE),
        protocols=("memcached",),
    ),
}

GRANTED = frozenset({Kind.TOPIC, Kind.QUEUE, Kind.KEY})
"""Kinds that a grant may name. An exchange or address stands for contents held elsewhere, so none is granted by it."""
