"""Kafka messages as bytes <-> dicts, losslessly: whatever `read` takes, `write` gives back byte for byte.

Knows the fields of every API and version, from the metadata of kio's dataclasses, which were generated from Kafka's
own message definitions. They are compiled on first use into closures that check each length against the bytes that
are left before anything is allocated or looped over. Does not know headers and frames (wire.py), what an API exposes
(surface.py) or what stands in records (records/). kio's own reader never gets bytes from a socket: it allocates what
an array announces, and the process aborts.

    message     dict: field name -> value; tagged fields only where they were present
    int, bool   int (a bool is its byte: 2 stays 2); so are error codes, and durations and times in milliseconds
    string      bytes, or None where the field is nullable
    uuid        16 bytes
    records     a memoryview into the frame, or None; to write: bytes, a memoryview, or a list of these
    array       list, or None where the field is nullable
    struct      message, or None where the field is nullable
    "_tags"     tagged fields that the version does not know: tag -> bytes

Source: KIP-482 (flexible versions, tagged fields), KIP-893 (nullable structs), the Kafka protocol guide.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import typing
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any, TypeAlias

from proxy.core.errors import WireError

from .primitives import FIXED, Chunk, Read, Room, Write, array, blob, fixed, nullable_struct, records, tags, uvarint_bytes

Message: TypeAlias = dict[str, Any]
ReadInto: TypeAlias = Callable[[Message, bytes, int, int, Room], int]

TAGS = "_tags"
MILLISECOND = timedelta(milliseconds=1)
API_VERSIONS = 18


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """One field, compiled. `code` is set where it has always the same size, `item` where it holds structs."""

    name: str
    tag: int | None
    code: str
    least_bytes: int
    read: Read
    write: Write
    blank: Callable[[], Any]
    item: Codec | None


class Codec:
    """The fields of one struct in one version, or of a whole request or response."""

    __slots__ = ("_fields", "_plain", "_prefixes", "_tagged", "flexible", "least_bytes", "reader", "writer")

    def __init__(self, fields: Sequence[_Field], *, flexible: bool) -> None:
        self.flexible = flexible
        self._fields = {field.name: field for field in fields}
        self._plain = [field for field in fields if field.tag is None]
        self._tagged = {field.tag: field for field in sorted(fields, key=lambda each: each.tag or 0) if field.tag is not None}
        self.least_bytes = sum(field.least_bytes for field in self._plain) + flexible
        """No message of this is shorter."""
        self._prefixes: dict[str, tuple[list[ReadInto], list[Write]]] = {}
        self.reader = self._reader()
        self.writer = self._writer()

    def __repr__(self) -> str:
        return f"<Codec of {len(self._fields)} fields>"

    def read(self, frame: bytes, at: int) -> Message:
        """The message that takes up the whole rest of the frame.

        Raises:
            WireError: it is anything else.
            LimitExceeded: its arrays have more than MAX_ELEMENTS elements.
        """
        return self._whole(frame, at, Room())

    def known(self, frame: bytes, at: int) -> tuple[Message, bool]:
        """The same without tagged fields that the version does not know, and whether there were any. They may hold
        anything: an address, or records. Raises as `read`."""
        room = Room(keeps_unknown=False)
        return self._whole(frame, at, room), room.dropped

    def front(self, frame: bytes, at: int) -> Message:
        """As `read`, whatever stands behind the message: brokers take no notice of it, and librdkafka leaves bytes there."""
        return typing.cast(Message, self.reader(frame, at, len(frame), Room())[0])

    def _whole(self, frame: bytes, at: int, room: Room) -> Message:
        message, behind = self.reader(frame, at, len(frame), room)
        if behind != len(frame):
            raise WireError("bytes are left behind a message")
        return typing.cast(Message, message)

    def read_until(self, frame: bytes, at: int, field: str) -> tuple[Message, int]:
        """The untagged fields up to and with `field`, and the position behind it; what follows is not looked at. Tagged
        fields that the version does not know are left out.

        Raises:
            WireError: they are not there.
            LookupError: no such field in this version.
        """
        message: Message = {}
        room = Room(keeps_unknown=False)
        for step in self._prefix(field)[0]:
            at = step(message, frame, at, len(frame), room)
        return message, at

    def write(self, message: Message, out: list[Chunk]) -> None:
        """Appends the message, in pieces. Every untagged field has to be in it.

        Raises:
            KeyError, TypeError, struct.error: the message was not made for this version. Nothing read by this codec
                brings one about.
        """
        self.writer(message, out)

    def write_until(self, message: Message, out: list[Chunk], field: str) -> None:
        """Appends the untagged fields up to and with `field`: the counterpart of `read_until`."""
        for step in self._prefix(field)[1]:
            step(message, out)

    def blank(self) -> Message:
        """Every untagged field at its default: the definition's own, or else 0, b"", [] or a blank struct.

        Null only where the definition says so; records are empty, as brokers send them beside an error.
        """
        return {field.name: field.blank() for field in self._plain}

    def has(self, field: str) -> bool:
        """Whether this version has the field, tagged or not."""
        return field in self._fields

    def item(self, field: str) -> Codec:
        """The codec of a field's struct, or of the structs in its array.

        Raises:
            LookupError: no such field in this version, or it holds none.
        """
        item = self._fields[field].item
        if item is None:
            raise LookupError(f"{field} holds no structs")
        return item

    def _prefix(self, field: str) -> tuple[list[ReadInto], list[Write]]:
        prefix = self._prefixes.get(field)
        if prefix is None:
            names = [each.name for each in self._plain]
            if field not in names:
                raise LookupError(f"no untagged field {field} in this version")
            fields = self._plain[: names.index(field) + 1]
            prefix = self._prefixes[field] = _read_steps(fields), _write_steps(fields)
        return prefix

    def _reader(self) -> Read:
        steps = _read_steps(self._plain)
        if not self.flexible:

            def read_legacy(frame: bytes, at: int, end: int, room: Room) -> tuple[Message, int]:
                message: Message = {}
                for step in steps:
                    at = step(message, frame, at, end, room)
                return message, at

            return read_legacy

        known = self._tagged

        def read_flexible(frame: bytes, at: int, end: int, room: Room) -> tuple[Message, int]:
            message: Message = {}
            for step in steps:
                at = step(message, frame, at, end, room)
            if at < end and frame[at] == 0:
                return message, at + 1
            found, behind_all = tags(frame, at, end)
            for tag, start, stop in found:
                if tag in known:
                    field = known[tag]
                    message[field.name], behind = field.read(frame, start, stop, room)
                    if behind != stop:
                        raise WireError("a tagged field is longer than what it holds")
                elif room.keeps_unknown:
                    message.setdefault(TAGS, {})[tag] = frame[start:stop]
                else:
                    room.dropped = True
            return message, behind_all

        return read_flexible

    def _writer(self) -> Write:
        steps = _write_steps(self._plain)
        if not self.flexible:

            def write_legacy(message: Message, out: list[Chunk]) -> None:
                for step in steps:
                    step(message, out)

            return write_legacy

        known = self._tagged

        def write_flexible(message: Message, out: list[Chunk]) -> None:
            for step in steps:
                step(message, out)
            sections: dict[int, list[Chunk]] = {tag: [raw] for tag, raw in message.get(TAGS, {}).items()}
            for tag, field in known.items():
                if field.name in message:
                    field.write(message[field.name], sections.setdefault(tag, []))
            out.append(uvarint_bytes(len(sections)))
            for tag in sorted(sections):
                out.append(uvarint_bytes(tag) + uvarint_bytes(sum(map(len, sections[tag]))))
                out += sections[tag]

        return write_flexible


def _read_steps(fields: Sequence[_Field]) -> list[ReadInto]:
    """The steps that read these fields; neighbours of fixed size are one step."""
    steps: list[ReadInto] = []
    for sized, group in groupby(fields, lambda field: bool(field.code)):
        if sized:
            steps.append(_read_run(list(group)))
        else:
            steps += [_read_one(field) for field in group]
    return steps


def _read_run(run: list[_Field]) -> ReadInto:
    form = struct.Struct(">" + "".join(field.code for field in run))
    names, size, unpack = tuple(field.name for field in run), form.size, form.unpack_from

    def step(message: Message, frame: bytes, at: int, end: int, room: Room) -> int:
        if size > end - at:
            raise WireError("a message is cut")
        message.update(zip(names, unpack(frame, at), strict=True))
        return at + size

    return step


def _read_one(field: _Field) -> ReadInto:
    name, read = field.name, field.read

    def step(message: Message, frame: bytes, at: int, end: int, room: Room) -> int:
        message[name], at = read(frame, at, end, room)
        return at

    return step


def _write_steps(fields: Sequence[_Field]) -> list[Write]:
    steps: list[Write] = []
    for sized, group in groupby(fields, lambda field: bool(field.code)):
        if sized:
            steps.append(_write_run(list(group)))
        else:
            steps += [_write_one(field) for field in group]
    return steps


def _write_run(run: list[_Field]) -> Write:
    names, pack = tuple(field.name for field in run), struct.Struct(">" + "".join(field.code for field in run)).pack

    def step(message: Message, out: list[Chunk]) -> None:
        out.append(pack(*[message[name] for name in names]))

    return step


def _write_one(field: _Field) -> Write:
    name, write = field.name, field.write

    def step(message: Message, out: list[Chunk]) -> None:
        write(message[name], out)

    return step


@functools.cache
def _compiled(entity: type) -> Codec:
    flexible: bool = entity.__flexible__  # type: ignore[attr-defined]
    hints = typing.get_type_hints(entity)
    fields = [_field(field, hints[field.name], flexible=flexible) for field in dataclasses.fields(entity)]
    return Codec(fields, flexible=flexible)


def _field(field: dataclasses.Field[Any], hint: Any, *, flexible: bool) -> _Field:
    nullable, hint = _without_none(hint)
    many = typing.get_origin(hint) is tuple
    element = _without_none(typing.get_args(hint)[0])[1] if many else hint
    item = _compiled(element) if dataclasses.is_dataclass(element) and isinstance(element, type) else None
    kind: str = "struct" if item else field.metadata["kafka_type"]
    code = FIXED.get(kind, "")
    # Which one of the fields of fixed size is null is a value: the zero uuid, the time -1.
    inner_nullable = nullable and not many
    if item is not None:
        pair = nullable_struct((item.reader, item.writer)) if inner_nullable else (item.reader, item.writer)
        least = 1 if inner_nullable else item.least_bytes
    elif code:
        pair, least = fixed(code), struct.calcsize(">" + code)
    elif kind in {"string", "bytes", "records"}:
        form = "" if flexible else "h" if kind == "string" else "i"
        pair = (records if kind == "records" else blob)(form, nullable=inner_nullable)
        least = struct.calcsize(">" + form) or 1
    else:
        raise TypeError(f"a field of an unknown type, {kind}")
    if many:
        pair = array("" if flexible else "i", pair, least, code, nullable=nullable)
        code, least = "", 1 if flexible else 4
    tag: int | None = field.metadata.get("tag")
    blank = _default(field.default, kind, item, many=many)
    return _Field(field.name, tag, code if tag is None else "", least, *pair, blank, item)


def _without_none(hint: Any) -> tuple[bool, Any]:
    """Whether None is allowed, and the type without it."""
    kinds = typing.get_args(hint)
    if type(None) not in kinds:
        return False, hint
    (kind,) = (each for each in kinds if each is not type(None))
    return True, kind


def _default(default: Any, kind: str, item: Codec | None, *, many: bool) -> Callable[[], Any]:
    """What makes the default of a field, as it stands on the wire."""
    if many:
        return (lambda: None) if default is None else list
    if item is not None:
        return (lambda: None) if default is None else item.blank
    value = _value(default, kind)
    return lambda: value


def _value(default: Any, kind: str) -> Any:
    match default:
        case dataclasses.MISSING:
            return {"uuid": bytes(16), "string": b"", "bytes": b"", "records": b"", "float64": 0.0}.get(kind, 0)
        case None:
            return {"uuid": bytes(16), "datetime_i64": -1}.get(kind)
        case str():
            return default.encode()
        case timedelta():
            return default // MILLISECOND
        case bytes() | float():
            return default
    return int(default)


def request(key: int, version: int) -> Codec:
    """The body of a request.

    Raises:
        LookupError: no such API, or not in this version.
    """
    return _compiled(_entity(key, version, answer=False))


def response(key: int, version: int) -> Codec:
    """The body of a response. Raises as `request`."""
    return _compiled(_entity(key, version, answer=True))


@functools.cache
def versions(key: int) -> range:
    """The versions of an API whose fields are known, without a gap; empty where it is not known at all."""
    from kio.schema.index import api_key_map, schema_name_map

    name = api_key_map.get(key)
    if name is None:
        return range(0)
    known = sorted(schema_name_map[name])
    return range(known[0], known[-1] + 1)


@functools.cache
def request_header_is_flexible(key: int, version: int) -> bool:
    """Whether the header of a request has a section of tags. Raises as `request`."""
    flexible: bool = _entity(key, version, answer=False).__header_schema__.__flexible__  # type: ignore[attr-defined]
    return flexible


@functools.cache
def response_header_is_flexible(key: int, version: int) -> bool:
    """The same of a response. Never of ApiVersions', which a client reads before it knows the version (KIP-511)."""
    flexible: bool = _entity(key, version, answer=True).__header_schema__.__flexible__  # type: ignore[attr-defined]
    return flexible and key != API_VERSIONS


@functools.cache
def _entity(key: int, version: int, *, answer: bool) -> type:
    from kio.index import load_request_schema, load_response_schema

    if version not in versions(key):
        raise LookupError(f"no version {version} of API {key} is known")
    return load_response_schema(key, version) if answer else load_request_schema(key, version)
