"""Batches made by hand from KIP-98 and KIP-32, in whatever framing a test wants, and a naive reader of them."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cramjam
import lz4.frame  # type: ignore[import-untyped]
from crc32c import crc32c

from proxy.protocols.kafka.records import Spliced

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "xerial": 2, "lz4": 3, "zstd": 4}
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


@dataclass(frozen=True)
class Rec:
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    time: int = 0
    offset: int = 0
    attributes: int = 0


@dataclass(frozen=True)
class Batch:
    """Format v2; what is not said is what a producer would write."""

    recs: Sequence[Rec] = ()
    codec: str = "none"
    base_offset: int = 1000
    leader_epoch: int = 7
    attributes: int = 0  # besides the codec
    last_offset_delta: int | None = None
    base_time: int = 1_700_000_000_000
    max_time: int = 1_700_000_000_999
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    section: bytes | None = field(default=None)  # before compression
    packed: bytes | None = field(default=None)  # behind it

    def bytes(self) -> bytes:
        section = b"".join(map(record, self.recs)) if self.section is None else self.section
        packed = pack(self.codec, section) if self.packed is None else self.packed
        count = len(self.recs) if self.count is None else self.count
        last = max((rec.offset for rec in self.recs), default=0) if self.last_offset_delta is None else self.last_offset_delta
        kept = struct.pack(
            ">hiqqqhii",
            self.attributes | CODECS[self.codec],
            last,
            self.base_time,
            self.max_time,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count,
        )
        rest = kept + packed
        return struct.pack(">qiibI", self.base_offset, len(rest) + 9, self.leader_epoch, 2, crc32c(rest)) + rest


def varint(number: int) -> bytes:
    raw = number << 1 ^ number >> 63
    out = b""
    while raw > 127:
        out += bytes((raw & 127 | 128,))
        raw >>= 7
    return out + bytes((raw,))


def blob(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(rec: Rec) -> bytes:
    body = bytes((rec.attributes,)) + varint(rec.time) + varint(rec.offset) + blob(rec.key) + blob(rec.value)
    body += varint(len(rec.headers)) + b"".join(blob(name) + blob(value) for name, value in rec.headers)
    return varint(len(body)) + body


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial(*blocks: bytes) -> bytes:
    return XERIAL + b"".join(len(each).to_bytes(4, "big") + each for each in map(raw_snappy, blocks))


def pack(codec: str, data: bytes) -> bytes:
    match codec:
        case "none":
            return data
        case "gzip":
            return gzip.compress(data, mtime=0)
        case "snappy":
            return raw_snappy(data)
        case "xerial":
            return xerial(*(data[at : at + 3000] for at in range(0, len(data), 3000)))
        case "lz4":
            made: bytes = lz4.frame.compress(data, block_linked=False)
            return made
        case _:
            return bytes(cramjam.zstd.compress(data, 3))


def unpack(codec: int, data: bytes) -> bytes:
    match codec:
        case 0:
            return data
        case 1:
            return gzip.decompress(data)
        case 2 if data.startswith(XERIAL[:8]):
            out, at = b"", 16
            while at < len(data):
                size = int.from_bytes(data[at : at + 4], "big")
                out += bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + size]))
                at += 4 + size
            return out
        case 2:
            return bytes(cramjam.snappy.decompress_raw(data))
        case 3:
            made: bytes = lz4.frame.decompress(data)
            return made
        case _:
            return bytes(cramjam.zstd.decompress(data))


def _number(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        raw |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return raw >> 1 ^ -(raw & 1), at


def _blob(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _number(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def naive(data: bytes) -> list[tuple[Batch, list[Rec]]]:
    """All batches of format v2 in well-formed `data`: their header (with no records in it) and their records."""
    found: list[tuple[Batch, list[Rec]]] = []
    while data:
        base, size, epoch, _, crc = struct.unpack_from(">qiibI", data)
        one, data = data[: 12 + size], data[12 + size :]
        assert crc32c(one[21:]) == crc
        attributes, last, first, most, pid, pepoch, sequence, count = struct.unpack_from(">hiqqqhii", one, 21)
        header = Batch((), "none", base, epoch, attributes, last, first, most, pid, pepoch, sequence, count)
        section, at, recs = unpack(attributes & 7, one[61:]), 0, []
        for _ in range(count):
            length, at = _number(section, at)
            end = at + length
            flags = section[at]
            time, at = _number(section, at + 1)
            offset, at = _number(section, at)
            key, at = _blob(section, at)
            value, at = _blob(section, at)
            headers, (many, at) = [], _number(section, at)
            for _ in range(many):
                name, at = _blob(section, at)
                inside, at = _blob(section, at)
                assert name is not None
                headers.append((name, inside))
            assert at == end
            recs.append(Rec(key, value, tuple(headers), time, offset, flags))
        assert at == len(section)
        found.append((header, recs))
    return found


def message(
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    offset: int = 0,
    attributes: int = 0,
    time: int = 1_500_000_000_000,
) -> bytes:
    """One entry of format v0 or v1."""
    body = bytes((magic, attributes)) + (time.to_bytes(8, "big") if magic else b"")
    for each in (key, value):
        body += b"\xff\xff\xff\xff" if each is None else len(each).to_bytes(4, "big") + each
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def marker(kind: int = 1, **changed: object) -> Batch:
    """A transaction marker as a coordinator writes it."""
    rec = Rec(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 12))
    made = Batch((rec,), attributes=0x30, producer_id=4, producer_epoch=2)
    return replace(made, **changed)  # type: ignore[arg-type]


def joined(made: Spliced) -> bytes:
    return b"".join(made.parts)
