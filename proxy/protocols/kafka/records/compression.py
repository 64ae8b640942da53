"""Compressed sections, opened within bounds and closed again in the codec and the framing they came in.

Nothing is allocated because the wire claims it, beyond what the bounds allow for so many compressed bytes. All of the
input is looked at: what stands behind a stream, or beside it in a skippable frame, is contents that nobody has seen.

    gzip     several members in a row (Java's reader joins them), nothing behind them
    snappy   raw, or in xerial's frame of blocks (`\\x82SNAPPY\\0`), which is kept
    lz4      one frame; in format v0 also with the header checksum of KAFKA-3160, which is kept
    zstd     several frames in a row, none of them skippable or with a dictionary; format v2 alone has it

Source: KIP-110; RFC 1952; RFC 8878; the LZ4 frame format 1.6; xerial's SnappyOutputStream; KafkaLZ4BlockInputStream.
"""

from __future__ import annotations

import zlib

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from .model import BadRecords, Bounds

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

MAX_MEMBERS = 64  # of gzip: producers write one; each costs a copy of what stands behind it
LZ4_STEP = 4 * 1024 * 1024  # of output at a time: the library allocates what it may write
XERIAL = b"\x82SNAPPY\0"
XERIAL_START = XERIAL + b"\0\0\0\1" * 2  # version 1, readable from version 1 on: there is no other
XERIAL_BLOCK = 32 * 1024  # what its own writer takes
LZ4_MAGIC = b"\x04\x22\x4d\x18"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_BLOCK = 128 * 1024


def decompress(codec: int, data: bytes, bounds: Bounds, *, magic: int = 2) -> bytes | memoryview:
    """The section inside of a batch of this format.

    Raises:
        BadRecords: no such codec there, not whole, not all of it one section, or more than `bounds` allow.
    """
    most = bounds.most(len(data))
    try:
        match codec:
            case 1:
                return _gunzip(data, most)
            case 2:
                return _unsnappy(data, most)
            case 3:
                return _unlz4(data, most, magic == 0)
            case 4 if magic == 2:
                return _unzstd(data, most)
    except BadRecords:
        raise
    except BaseException as fault:  # a panic of cramjam's Rust is no Exception
        if not isinstance(fault, Exception) and type(fault).__name__ != "PanicException":
            raise
        raise BadRecords("a compressed batch that cannot be read") from None
    raise BadRecords("a codec that this format does not have")


def compress(codec: int, section: bytes, like: bytes) -> bytes:
    """The section in the codec and framing of `like`, which `decompress` has read."""
    match codec:
        case 1:
            return bytes(cramjam.gzip.compress(section, 1))
        case 2:
            return _xerial(section) if like.startswith(XERIAL) else bytes(cramjam.snappy.compress_raw(section))
        case 3:
            # Java reads frames of independent blocks alone; librdkafka takes them too.
            made: bytes = lz4.frame.compress(section, block_linked=False, store_size=False)
            return _with_old_checksum(made) if _has_old_checksum(like) else made
        case _:
            return bytes(cramjam.zstd.compress(section, 1))


def _too_large() -> BadRecords:
    return BadRecords("a batch that is larger than allowed once decompressed")


def _gunzip(data: bytes, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(wbits=31)  # gzip alone, its CRC and length checked
        part = member.decompress(data, left + 1)
        if len(part) > left:
            raise _too_large()
        if not member.eof:
            raise BadRecords("gzip that ends early")
        left -= len(part)
        parts.append(part)
        data = member.unused_data
        if not data:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise BadRecords("gzip in too many members")


def _unsnappy(data: bytes, most: int) -> bytes | memoryview:
    if not data.startswith(XERIAL):
        return _raw_snappy(data, most)
    if not data.startswith(XERIAL_START):
        raise BadRecords("a version of snappy framing that is not known")
    parts: list[bytes | memoryview] = []
    left, at, size = most, len(XERIAL_START), len(data)
    while at < size:
        start = at + 4
        at = start + int.from_bytes(data[at:start], "big")
        if start > size or at > size:
            raise BadRecords("a snappy block that ends early")
        part = _raw_snappy(data[start:at], left)
        left -= len(part)
        parts.append(part)
    return b"".join(parts)


def _raw_snappy(data: bytes, most: int) -> memoryview:
    if not data:
        raise BadRecords("snappy without its length")
    if cramjam.snappy.decompress_raw_len(data) > most:
        raise _too_large()
    return memoryview(cramjam.snappy.decompress_raw(data))


def _xerial(section: bytes) -> bytes:
    parts = [XERIAL_START]
    for at in range(0, len(section), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(section[at : at + XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unlz4(data: bytes, most: int, oldest: bool) -> bytes:
    if not data.startswith(LZ4_MAGIC):
        raise BadRecords("not an LZ4 frame")
    if oldest and _has_old_checksum(data):
        data = data[:6] + bytes((_header_checksum(data[4:6]),)) + data[7:]
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    left = most
    while not frame.eof:
        part: bytes = frame.decompress(data, max_length=min(left + 1, LZ4_STEP))
        if len(part) > left:
            raise _too_large()
        if not part and not frame.eof:
            raise BadRecords("an LZ4 frame that ends early")
        left -= len(part)
        parts.append(part)
        data = b""  # the library keeps what it has not read
    if frame.unused_data:
        raise BadRecords("bytes behind an LZ4 frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _header_checksum(data: bytes) -> int:
    """The second byte of xxHash32 with seed 0, of fewer than 16 bytes."""
    mask = 0xFFFFFFFF
    value = 374761393 + len(data)
    at = 0
    while at + 4 <= len(data):
        value = value + int.from_bytes(data[at : at + 4], "little") * 3266489917 & mask
        value = (value << 17 | value >> 15) * 668265263 & mask
        at += 4
    for byte in data[at:]:
        value = value + byte * 374761393 & mask
        value = (value << 11 | value >> 21) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return (value ^ value >> 16) >> 8 & 0xFF


def _has_old_checksum(frame: bytes) -> bool:
    """Whether the header checksum takes in the magic number, as the clients before 0.10 had it (KAFKA-3160).

    With a content size or a dictionary in the header it is never looked at: those clients wrote neither.
    """
    return len(frame) > 7 and not frame[4] & 0x09 and frame[6] == _header_checksum(frame[:6]) != _header_checksum(frame[4:6])


def _with_old_checksum(frame: bytes) -> bytes:
    return frame[:6] + bytes((_header_checksum(frame[:6]),)) + frame[7:]


def _unzstd(data: bytes, most: int) -> memoryview:
    room = bytearray(min(most, _zstd_most(data, most)))
    try:
        size = cramjam.zstd.decompress_into(data, room)
    except cramjam.DecompressionError:
        if len(room) == most:
            raise BadRecords("zstd that cannot be read, or is larger than allowed") from None
        raise
    return memoryview(room)[:size]


def _zstd_most(data: bytes, most: int) -> int:
    """The bytes that these frames can come to at most, from the lengths of their blocks.

    Raises:
        BadRecords: frames that are no zstd (skippable ones are not), name a dictionary, end early, or announce
            more than `most`.
        IndexError: as for a frame that ends early.
    Source: RFC 8878, 3.1.1.
    """
    at, size, total = 0, len(data), 0
    while at < size or not at:
        if data[at : at + 4] != ZSTD_MAGIC:
            raise BadRecords("not a zstd frame")
        flags = data[at + 4]
        at += 5
        if flags & 0x0B:  # reserved, or a dictionary
            raise BadRecords("a zstd frame with a dictionary")
        block = ZSTD_BLOCK
        if not flags & 0x20:
            exponent, mantissa = data[at] >> 3, data[at] & 7
            block = min(block, (8 + mantissa) << (7 + exponent))
            at += 1
        width = (1 if flags & 0x20 else 0, 2, 4, 8)[flags >> 6]
        announced = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
        if announced > most:
            raise _too_large()
        at += width
        frame = 0
        last = 0
        while not last:
            head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            last = head & 1
            kind, length = head >> 1 & 3, head >> 3
            frame += block if kind == 2 else length
            at += 3 + (1 if kind == 1 else length)
        at += 4 if flags & 0x04 else 0
        if at > size:
            raise BadRecords("a zstd frame that ends early")
        total += min(frame, announced) if width else frame
    return total
