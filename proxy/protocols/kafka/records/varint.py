"""Variable-length integers of format v2: zigzag, seven bits a byte, the lowest first.

Stricter than Kafka's own readers, of which some cut what is above 32 or 64 bits and some do not: nobody may read another
number than we do. Longer spellings than needed are legal for all of them.
Source: KIP-98; ByteUtils.readVarint and readVarlong of Kafka's clients.
"""

from __future__ import annotations

from .model import BadRecords

NULL = b"\x01"  # a length of -1
LENGTHS = 8192  # of one and two bytes


def read_raw(data: bytes, at: int) -> tuple[int, int]:
    """An int as it stands, zigzag not undone (so an odd one is negative), and where it ends.

    Raises:
        BadRecords: more than 32 bits, or more than five bytes.
        IndexError: the data ends before.
    """
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[at]
        at += 1
        if byte < 128:
            if shift == 28 and byte > 0x0F:
                break
            return value | byte << shift, at
        value |= (byte & 127) << shift
    raise BadRecords("a varint of more than 32 bits")


def skip_long(data: bytes, at: int) -> int:
    """Where a long ends that starts here.

    Raises:
        BadRecords: more than 64 bits, or more than ten bytes.
        IndexError: the data ends before.
    """
    for stop in range(at, at + 10):
        byte = data[stop]
        if byte < 128:
            if stop == at + 9 and byte > 1:
                break
            return stop + 1
    raise BadRecords("a varlong of more than 64 bits")


def write_length(length: int) -> bytes:
    """A length, which is not negative; null is NULL."""
    return SPELLED[length] if length < LENGTHS else _spell(length)


def _spell(length: int) -> bytes:
    raw = length << 1
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


SPELLED = tuple(map(_spell, range(LENGTHS)))
"""Lengths that are met all the time."""
