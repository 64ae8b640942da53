"""Messages of every API and version, filled by chance: kio's dataclasses, and what our codec is to make of them.

Everything hangs on one `random.Random`, so that a seed says it all. kio's writer is the oracle; its reader is not used.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import typing
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_writer

from proxy.protocols.kafka import schema
from proxy.protocols.kafka.schema import Codec, Message

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
ERRORS = list(ErrorCode)


def every() -> Iterator[tuple[int, int, bool]]:
    """(key, version, whether the response) of all that kio knows."""
    for key in sorted(api_key_map):
        for version in schema.versions(key):
            yield key, version, False
            yield key, version, True


def codec_of(key: int, version: int, *, answer: bool) -> Codec:
    return schema.response(key, version) if answer else schema.request(key, version)


def entity_of(key: int, version: int, *, answer: bool) -> type[Any]:
    return load_response_schema(key, version) if answer else load_request_schema(key, version)


def written(entity: Any) -> bytes:
    """By kio."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def made(kind: type[Any], rng: Random, most: int = 3) -> tuple[Any, Message]:
    """An entity, and the message that its bytes are to be read as."""
    values: dict[str, Any] = {}
    message: Message = {}
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        tagged = "tag" in field.metadata
        value, ours = _made_field(field, hints[field.name], rng, most)
        if tagged and rng.random() < 0.4 and field.default is not dataclasses.MISSING:
            values[field.name] = field.default
            continue
        values[field.name] = value
        if not (tagged and _is_default(field, value)):
            message[field.name] = ours
    return kind(**values), message


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    from kio.serial._implicit_defaults import get_tagged_field_default

    return bool(value == get_tagged_field_default(field))


def _made_field(field: dataclasses.Field[Any], hint: Any, rng: Random, most: int) -> tuple[Any, Any]:
    nullable, hint = _plain(hint)
    if typing.get_origin(hint) is not tuple:
        return _made_one(field, hint, rng, most, nullable=nullable)
    # kio's writer writes no null for a tagged field.
    if nullable and "tag" not in field.metadata and rng.random() < 0.2:
        return None, None
    inner = typing.get_args(hint)[0]
    pairs = [
        _made_one(field, _plain(inner)[1], rng, most - 1, nullable=_plain(inner)[0])
        for _ in range(rng.randint(0, max(1, most)))
    ]
    return tuple(each for each, _ in pairs), [ours for _, ours in pairs]


def _plain(hint: Any) -> tuple[bool, Any]:
    kinds = typing.get_args(hint)
    if type(None) in kinds:
        return True, next(each for each in kinds if each is not type(None))
    return False, hint


def _made_one(field: dataclasses.Field[Any], kind: Any, rng: Random, most: int, *, nullable: bool) -> tuple[Any, Any]:
    name = field.metadata.get("kafka_type", "struct")
    null = nullable and "tag" not in field.metadata and rng.random() < 0.2
    match name:
        case "struct":
            return (None, None) if null else made(kind, rng, most)
        case "string":
            text = rng.choice(("", "a", "topic-1", "é日😀", "x" * 130))
            return (None, None) if null else (text, text.encode())
        case "bytes" | "records":
            data = rng.randbytes(rng.choice((0, 1, 61, 127, 128, 300)))
            return (None, None) if null else (kind(data), data)
        case "uuid":
            data = bytes(16) if rng.random() < 0.2 else rng.randbytes(16)
            return (None if nullable and not any(data) else uuid.UUID(bytes=data)), data
        case "bool":
            yes = rng.random() < 0.5
            return yes, int(yes)
        case "error_code":
            code = rng.choice(ERRORS)
            return code, int(code)
        case "float64":
            return kind(number := rng.random() * 1e9), number
        case "uint16":
            return kind(number := rng.randrange(1 << 16)), number
        case "timedelta_i32" | "timedelta_i64":
            number = rng.choice((0, -1, 1, 30_000, 2**31 - 1))
            return number * MILLISECOND, number
        case "datetime_i64":
            number = -1 if null else rng.choice((0, 1, 999, 1_700_000_000_123))
            return (None if null else EPOCH + number * MILLISECOND), number
    bits = BITS[name]
    number = rng.choice((0, -1, 1, 100, -(1 << bits - 1), (1 << bits - 1) - 1))
    return kind(number), number


def plain(value: Any) -> Any:
    """With memoryviews as bytes, to be compared."""
    match value:
        case memoryview():
            return bytes(value)
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
    return value
