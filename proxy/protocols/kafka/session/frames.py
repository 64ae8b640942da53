"""Answers become frames here, and nowhere else: what stands in them is Veil's own, without contents, or was let out by a
View."""

from __future__ import annotations

from rules.view import Shown, plain

from .. import refuse, schema, wire
from ..schema import Message

API_VERSIONS = 18


def shown(key: int, version: int, correlation_id: int, answer: Message) -> Shown:
    """The answer as the reader gets it."""
    body: list[bytes | memoryview] = []
    schema.response(key, version).write(answer, body)
    return framed(key, version, correlation_id, body)


def framed(key: int, version: int, correlation_id: int, body: list[bytes | memoryview]) -> Shown:
    """The same of a body that is written already; it holds no contents, or what was let out."""
    return plain(wire.response_frame(correlation_id, key, version, body))


def untouched(frame: bytes) -> Shown:
    """A broker's answer as it came: one that holds no contents, or none that any rule covers."""
    return plain(wire.sized(frame))


def versions_of_versions(correlation_id: int, lowest: int, highest: int) -> Shown:
    """To a client that asks for versions in a version that is not known: which it may ask in, in the oldest form (KIP-511)."""
    told = schema.response(API_VERSIONS, 0).blank()
    told["error_code"] = refuse.UNSUPPORTED_VERSION
    told["api_keys"] = [{"api_key": API_VERSIONS, "min_version": lowest, "max_version": highest}]
    return shown(API_VERSIONS, 0, correlation_id, told)
