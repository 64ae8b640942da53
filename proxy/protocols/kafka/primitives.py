"""What Kafka's messages are made of, as bytes <-> values: numbers, strings, records, arrays, tags.

Every length is checked against the bytes that are left before anything is allocated or looped over. Which field is
made of what is schema.py.
Source: the Kafka protocol guide; KIP-482 for varints, compact lengths and tags, KIP-893 for nullable structs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from proxy.core.errors import LimitExceeded, WireError

Chunk: TypeAlias = bytes | memoryview
Write: TypeAlias = Callable[[Any, list[Chunk]], None]

MAX_TAGS = 1024  # of one section; Kafka's own messages define at most a handful
NO_TAGS = b"\x00"
FIXED = {
    "bool": "b",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
"""What has always the same size -> its code in the module struct."""
MAX_ELEMENTS = 1_000_000
"""Of all arrays in one message. Three bytes of a frame can become a dict of 250: without a limit a frame of 100 MiB
would be one of 8 GiB. A Metadata answer has an element for each partition of the cluster, and for each eight replicas."""


class Room:
    """How many more elements the arrays of one message may have, and what becomes of tagged fields that nobody knows."""

    __slots__ = ("_elements", "dropped", "keeps_unknown")

    def __init__(self, *, keeps_unknown: bool = True) -> None:
        self._elements = MAX_ELEMENTS
        self.keeps_unknown = keeps_unknown
        self.dropped = False
        """A tagged field was left out."""

    def take(self, elements: int) -> None:
        """Raises LimitExceeded when that is more than there is room for."""
        self._elements -= elements
        if self._elements < 0:
            raise LimitExceeded(f"a message of more than {MAX_ELEMENTS} elements")


Read: TypeAlias = Callable[[bytes, int, int, Room], tuple[Any, int]]
"""(frame, at, end, room) -> the value and the position behind it, which is at most `end`; else WireError."""


def uvarint(frame: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned varint of 32 bits in its shortest form, and the position behind it.

    Raises:
        WireError: cut, longer than five bytes, above 2**32 - 1, or padded (no client or broker pads them; taking it
            would lose the spelling).
    """
    value = shift = 0
    while at < end and shift < 35:
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (byte == 0 and shift) or value > 0xFFFFFFFF:
                break
            return value, at
        shift += 7
    raise WireError("a varint is cut, too long or out of range")


def uvarint_bytes(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tags(frame: bytes, at: int, end: int) -> tuple[list[tuple[int, int, int]], int]:
    """The tagged fields of a section, each as (tag, from, to), and the position behind the section.

    Raises:
        WireError: more than MAX_TAGS or than there is room for, one twice or out of order, or longer than what is left.
    """
    count, at = uvarint(frame, at, end)
    if count > min(MAX_TAGS, (end - at) // 2):
        raise WireError("more tagged fields than are taken")
    found = []
    last = -1
    for _ in range(count):
        tag, at = uvarint(frame, at, end)
        size, at = uvarint(frame, at, end)
        if tag <= last:
            raise WireError("tagged fields are out of order")
        if size > end - at:
            raise WireError("a tagged field is longer than what is left")
        found.append((tag, at, at + size))
        last = tag
        at += size
    return found, at


def fixed(code: str) -> tuple[Read, Write]:
    form = struct.Struct(">" + code)
    size, unpack, pack = form.size, form.unpack_from, form.pack

    def read(frame: bytes, at: int, end: int, room: Room) -> tuple[Any, int]:
        if size > end - at:
            raise WireError("a message is cut")
        return unpack(frame, at)[0], at + size

    def write(value: Any, out: list[Chunk]) -> None:
        out.append(pack(value))

    return read, write


ReadLength: TypeAlias = Callable[[bytes, int, int], tuple[int, int]]
"""(frame, at, end) -> a length or count, -1 for null, and the position behind it."""


def _lengths(form: str, *, nullable: bool) -> tuple[ReadLength, Callable[[int], bytes]]:
    """How a length is read and written: `form` is a code of the module struct, or "" for a varint of one more (KIP-482).

    Null (-1 written as a number, 0 as a varint) is a WireError where it is not allowed, any other negative always.
    """
    least = -1 if nullable else 0
    if not form:

        def read_compact(frame: bytes, at: int, end: int) -> tuple[int, int]:
            if at < end and (length := frame[at]) < 0x80:
                at += 1
            else:
                length, at = uvarint(frame, at, end)
            if length <= least:
                raise WireError("null where it is not allowed")
            return length - 1, at

        return read_compact, lambda length: uvarint_bytes(length + 1)

    form_of = struct.Struct(">" + form)
    size, unpack = form_of.size, form_of.unpack_from

    def read_number(frame: bytes, at: int, end: int) -> tuple[int, int]:
        if size > end - at:
            raise WireError("a message is cut")
        length: int = unpack(frame, at)[0]
        if length < least:
            raise WireError("a length is negative")
        return length, at + size

    return read_number, form_of.pack


def blob(form: str, *, nullable: bool) -> tuple[Read, Write]:
    """A string or bytes."""
    read_length, length_bytes = _lengths(form, nullable=nullable)

    def read(frame: bytes, at: int, end: int, room: Room) -> tuple[bytes | None, int]:
        length, at = read_length(frame, at, end)
        if length < 0:
            return None, at
        if length > end - at:
            raise WireError("a string is longer than what is left")
        return frame[at : at + length], at + length

    def write(value: bytes | None, out: list[Chunk]) -> None:
        if value is not None:
            out.append(length_bytes(len(value)) + value)
        elif nullable:
            out.append(length_bytes(-1))
        else:
            raise TypeError("null where it is not allowed")

    return read, write


def records(form: str, *, nullable: bool) -> tuple[Read, Write]:
    """A section of records: a slice of the frame without a copy. It may be written from a list of pieces."""
    read_length, length_bytes = _lengths(form, nullable=nullable)

    def read(frame: bytes, at: int, end: int, room: Room) -> tuple[memoryview | None, int]:
        length, at = read_length(frame, at, end)
        if length < 0:
            return None, at
        if length > end - at:
            raise WireError("records are longer than what is left")
        return memoryview(frame)[at : at + length], at + length

    def write(value: Chunk | list[Chunk] | None, out: list[Chunk]) -> None:
        if isinstance(value, list):
            out.append(length_bytes(sum(map(len, value))))
            out += value
        elif value is not None:
            out += (length_bytes(len(value)), value)
        elif nullable:
            out.append(length_bytes(-1))
        else:
            raise TypeError("null where it is not allowed")

    return read, write


def array(form: str, element: tuple[Read, Write], least_bytes: int, code: str, *, nullable: bool) -> tuple[Read, Write]:
    """An array of elements that take `least_bytes` each; numbers (`code`) are read at once.

    An element of no bytes is counted as one, so that no count goes beyond the size of the frame.
    """
    read_count, count_bytes = _lengths(form, nullable=nullable)
    read_element, write_element = element
    least = max(1, least_bytes)
    at_once = code if len(code) == 1 else ""

    def read(frame: bytes, at: int, end: int, room: Room) -> tuple[list[Any] | None, int]:
        count, at = read_count(frame, at, end)
        if count < 0:
            return None, at
        if count > (end - at) // least:
            raise WireError("an array is longer than what is left")
        room.take(count // 8 if at_once else count)
        if at_once:
            return list(struct.unpack_from(f">{count}{at_once}", frame, at)), at + count * least
        elements = []
        for _ in range(count):
            value, at = read_element(frame, at, end, room)
            elements.append(value)
        return elements, at

    def write(value: Sequence[Any] | None, out: list[Chunk]) -> None:
        if value is None:
            if not nullable:
                raise TypeError("null where it is not allowed")
            out.append(count_bytes(-1))
            return
        out.append(count_bytes(len(value)))
        if at_once:
            out.append(struct.pack(f">{len(value)}{at_once}", *value))
            return
        for each in value:
            write_element(each, out)

    return read, write


def nullable_struct(inner: tuple[Read, Write]) -> tuple[Read, Write]:
    """A struct behind a byte that says whether it is there: 1, or -1 for null (KIP-893)."""
    read_inner, write_inner = inner

    def read(frame: bytes, at: int, end: int, room: Room) -> tuple[Any, int]:
        if at >= end:
            raise WireError("a message is cut")
        match frame[at]:
            case 1:
                return read_inner(frame, at + 1, end, room)
            case 0xFF:
                return None, at + 1
        raise WireError("a struct is neither there nor null")

    def write(value: Any, out: list[Chunk]) -> None:
        if value is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            write_inner(value, out)

    return read, write
