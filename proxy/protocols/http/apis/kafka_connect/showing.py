"""What of an answer is hidden: traces and what stands in offsets, secrets, addresses of workers, texts of errors.

Knows documents. Does not know who may see them: that is the judge's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rules.methods import MASK_TEXT

from ... import documents
from ...documents import Value
from .configs import PLACEHOLDER, SECRET

Changes = list[tuple[Value, str]]
TRACES = frozenset({"trace", "worker_trace"})
WORKER = "worker_id"
MASK = documents.written(MASK_TEXT)
_TOLD = 400  # characters of Veil's own errors
_THROWN = re.compile(r"((?:org\.apache\.kafka|java)\.[\w.$]{1,200}(?:Exception|Error))(?=[:\r\n]|$)", re.ASCII)
"""The class that a trace begins with. Those of others may begin theirs with anything."""
_IN_TEXTS = re.compile(r"://[^/\s:@]*:[^/\s@]+@|(?:passw(?:or)?d|pwd|secret|token|sig|api[._-]?key)\s*=", re.IGNORECASE)
_ELSEWHERE = re.compile(r"\$\{[^{}]*\}")
_NAME = r"[A-Za-z0-9._-]{1,249}"
_HARMLESS = re.compile(
    rf"Connector {_NAME} (?:not found|already exists)\.?|No status found for connector {_NAME}"
    r"|Cannot complete request (?:momentarily )?due to [a-z ]+|HTTP [0-9]{3} [A-Za-z ]+",
    re.ASCII,
)
"""Texts of errors that quote nothing but the connector's name."""
_OF_SINKS = {"kafka_topic", "kafka_partition"}, {"kafka_offset"}


@dataclass(slots=True)
class Hidden:
    """What changes: of `contents` whoever may read unmasked sees the originals, of `places` nobody."""

    contents: Changes
    places: Changes


def hidden(told: Value, echoed: Collection[str] = ()) -> Hidden:
    """What to hide of an answer. `echoed` are keys whose values the worker has looked up in a place of its own."""
    found = Hidden([], [])
    for each in documents.everything(told):
        if not isinstance(each.inside, dict):
            continue
        for name, value in each.inside.items():
            if value.is_text and name == WORKER:
                found.places.append((value, MASK))
            elif name in TRACES and value.inside:
                found.contents.append((value, documents.written(trace(value.inside)) if value.is_text else MASK))
            elif value.is_text and _is_secret(name, value.inside, each.text("name")):
                found.contents.append((value, MASK))
        if echoed:
            found.contents += _echoes(each, echoed)
        offsets = each.member("offsets")
        if offsets is not None and offsets.is_array:
            found.contents += [change for one in offsets.inside for change in _offset(one)]
    return found


def outermost(changes: Changes) -> Changes:
    """One change for each place: what is hidden with all that is in it needs no more."""
    kept: Changes = []
    for change in sorted(changes, key=lambda change: (change[0].start, -change[0].end)):
        if not kept or change[0].start >= kept[-1][0].end:
            kept.append(change)
    return kept


def trace(text: str) -> str:
    """A trace without what it quotes: the class of what was thrown, where it is Kafka's or Java's own."""
    thrown = _THROWN.match(text)
    return MASK_TEXT if thrown is None else f"{thrown[1]}: {MASK_TEXT}"


def error(code: int, message: str) -> bytes:
    """An error in the API's own form."""
    return documents.written({"error_code": code, "message": message[:_TOLD]}).encode()


def is_harmless(told: Value, *, is_own: bool) -> bool:
    """Whether an error tells no more than its reader knows. `is_own`: it can quote nothing but what the reader sent."""
    names = set(told.inside) if isinstance(told.inside, dict) else set()
    message = told.text("message") or ""
    if names == {"status", "message"}:  # of the worker's health
        return told.text("status") in ("starting", "unhealthy", "healthy") and len(message) < _TOLD
    if names != {"error_code", "message"}:
        return False
    return is_own or _HARMLESS.fullmatch(message) is not None


def _is_secret(name: str, text: str, named: str | None) -> bool:
    if not text or _ELSEWHERE.fullmatch(text):
        return False
    if SECRET.search(name) or _IN_TEXTS.search(text):
        return True
    return name == "value" and named is not None and SECRET.search(named) is not None


def _echoes(each: Value, echoed: Collection[str]) -> Iterator[tuple[Value, str]]:
    """What validation says of keys whose values it looked up, and its errors: they quote such values too."""
    value, errors = each.member("value"), each.member("errors")
    if value is not None and value.is_text and each.text("name") in echoed:
        yield value, MASK
    if errors is not None and errors.is_array:
        yield from ((one, MASK) for one in errors.inside if one.is_text)


def _offset(told: Value) -> Iterator[tuple[Value, str]]:
    """A source keeps what it likes in its offsets, values among it; a sink has the worker's own."""
    partition, offset = told.member("partition"), told.member("offset")
    is_sinks = all(
        side is not None and isinstance(side.inside, dict) and set(side.inside) == names
        for side, names in zip((partition, offset), _OF_SINKS, strict=True)
    )
    if is_sinks and partition is not None and offset is not None:
        numbers = partition.inside["kafka_partition"], offset.inside["kafka_offset"]
        if all(each.number or each.inside is None for each in numbers) and partition.inside["kafka_topic"].is_text:
            return
    for each in documents.everything(told):
        if each.is_text or each.number:
            yield each, "0" if each.number else MASK


def looked_up(config: dict[str, str]) -> frozenset[str]:
    """The keys of a config whose values the worker looks up."""
    return frozenset(key for key, value in config.items() if PLACEHOLDER in value)
