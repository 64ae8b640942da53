"""Answers become frames here, and nowhere else: what stands in them is Veil's own, without contents, or was let out by a
View."""

from __future__ import annotations

from rules.view import Shown, plain

from .. import schema, wire
from ..schema import Message


def shown(key: int, version: int, correlation_id: int, answer: Message) -> Shown:
    """The answer as the reader gets it."""
    body: list[bytes | memoryview] = []
    schema.response(key, version).write(answer, body)
    return plain(wire.response_frame(correlation_id, key, version, body))


def untouched(frame: bytes) -> Shown:
    """A broker's answer as it came: one that holds no contents, or none that any rule covers."""
    return plain(wire.sized(frame))
