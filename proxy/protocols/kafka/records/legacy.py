"""One entry of formats v0 and v1: a message, or a message whose value is a compressed set of messages.

     0 offset    8 size    12 CRC32 of all that follows    16 magic    17 attributes    18 timestamp (v1 alone)
     key length and key, value length and value; -1 is null

Offsets (in v0 absolute also inside, in v1 relative), times and attributes are passed over and stay. These formats have no
headers: an edit is given an empty section, and one that it fills has no place to go.

A wrapper with a key, without a value, around another format, around another wrapper or around nothing is BadRecords:
no client writes it, and clients do not agree on what they see in it.
Source: KIP-31, KIP-32; LegacyRecord and AbstractLegacyRecordBatch of Kafka's clients.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from .compression import compress, decompress
from .headers import NO_HEADERS
from .model import BadRecords, Bounds, Edit, Opened

LEAST = 26  # bytes of a message of format v0, with what stands before the CRC
CODEC = 0x07
KNOWN = (0x07, 0x0F)  # codec; in v1 also the type of the timestamp
HEAD_END = (18, 26)  # where the key's length stands
NULL = b"\xff\xff\xff\xff"


class _Message(NamedTuple):
    magic: int
    codec: int
    key: bytes | None
    value: bytes | None


def open_message(raw: memoryview, edit: Edit, bounds: Bounds) -> Opened:
    """One whole message or wrapper with each message's key and value handed to `edit`.

    Raises:
        BadRecords: CRC, attributes or lengths that are wrong, what `decompress` raises, a wrapper as above, more than
            `bounds` allow. Whatever `edit` raises.
    """
    data = bytes(raw)
    outer = _read(data)
    if not outer.codec:
        changed = _edited(data, outer, edit)
        return Opened(None if changed is None else [changed], 1, len(data))
    if outer.key is not None or outer.value is None:
        raise BadRecords("a wrapper with a key, or without a value")
    inner = bytes(decompress(outer.codec, outer.value, bounds, magic=outer.magic))
    most = bounds.grown(len(inner))
    parts: list[bytes] = []
    at = records = grown = 0
    any_changed = False
    while at < len(inner):
        size = int.from_bytes(inner[at + 8 : at + 12], "big", signed=True)
        end = at + 12 + size
        if len(inner) - at < LEAST or size < LEAST - 12 or end > len(inner):
            raise BadRecords("a message that does not end in its wrapper")
        one = inner[at:end]
        message = _read(one)
        if message.magic != outer.magic or message.codec:
            raise BadRecords("a wrapper around another format or another wrapper")
        records += 1
        if records > bounds.records:
            raise BadRecords("a wrapper of more messages than allowed")
        changed = _edited(one, message, edit)
        any_changed |= changed is not None
        parts.append(one if changed is None else changed)
        grown += len(parts[-1])
        if grown > most:
            raise BadRecords("a wrapper that is larger than allowed once masked")
        at = end
    if not records:
        raise BadRecords("a wrapper around nothing")
    if not any_changed:
        return Opened(None, records, len(inner))
    return Opened([_written(data, outer, None, compress(outer.codec, b"".join(parts), outer.value))], records, len(inner))


def _read(data: bytes) -> _Message:
    magic = data[16]
    if magic > 1:
        raise BadRecords("a message of another format")
    if crc32(data[16:]) != int.from_bytes(data[12:16], "big"):
        raise BadRecords("a message with a wrong CRC")
    attributes = data[17]
    if attributes & ~KNOWN[magic]:
        raise BadRecords("a message with attributes that are not known")
    key, at = _field(data, HEAD_END[magic])
    value, at = _field(data, at)
    if at != len(data):
        raise BadRecords("bytes behind the value of a message")
    return _Message(magic, attributes & CODEC, key, value)


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    start = at + 4
    length = int.from_bytes(data[at:start], "big", signed=True)
    if start > len(data) or length < -1 or start + length > len(data):
        raise BadRecords("a key or value that does not end in its message")
    return (None, start) if length == -1 else (data[start : start + length], start + length)


def _edited(data: bytes, message: _Message, edit: Edit) -> bytes | None:
    put = edit(message.key, message.value, NO_HEADERS)
    if put is None or (put[0] is message.key and put[1] is message.value):
        return None
    return _written(data, message, put[0], put[1])


def _written(data: bytes, message: _Message, key: bytes | None, value: bytes | None) -> bytes:
    """The message with its offset, attributes and time around another key and value."""
    parts = [data[16 : HEAD_END[message.magic]]]
    for each in (key, value):
        parts += (NULL,) if each is None else (len(each).to_bytes(4, "big"), each)
    body = b"".join(parts)
    return b"".join((data[:8], (len(body) + 4).to_bytes(4, "big"), crc32(body).to_bytes(4, "big"), body))
