from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import pytest

from proxy.protocols.kafka.records import BadRecords, Bounds, has_records, splice
from proxy.protocols.kafka.records.compression import _has_old_checksum, _header_checksum, _with_old_checksum

from .edits import Seen, Three, hide, leave, same
from .made import Batch, Rec, joined, marker, message, pack, unpack

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "corpora" / "kafka_legacy.jsonl").read_text(encoding="utf-8").splitlines()
]
CODECS = {"gzip": 1, "snappy": 2, "xerial": 2, "lz4": 3}
INNER = [(b"k%d" % at, b"S3CR3T" * at if at else None) for at in range(6)]


def wrapper(codec: str, *inner: bytes, magic: int = 1, attributes: int = 0, offset: int = 105, time: int = 9) -> bytes:
    packed = pack(codec, b"".join(inner))
    return message(None, packed, magic=magic, offset=offset, attributes=CODECS[codec] | attributes, time=time)


def entries(magic: int) -> list[bytes]:
    """Offsets as each format has them inside: absolute in v0, relative in v1."""
    return [message(*each, magic=magic, offset=at if magic else 100 + at, time=1000 + at) for at, each in enumerate(INNER)]


@pytest.mark.parametrize("line", CORPUS, ids=[line["id"] for line in CORPUS])
def test_no_line_of_the_corpus_gives_its_secret_away(line: dict[str, str]) -> None:
    data = base64.b64decode(line["b64"])
    seen = Seen()
    try:
        made = joined(splice(data, hide))
    except BadRecords:
        made = None
    else:
        assert joined(splice(data, seen)) in {data, b""}

    match line["verdict"]:
        case "mask":
            assert made is not None
            assert any(value == b'{"ssn":"S3CR3T"}' for _, value, _ in seen)
        case "drop" | "forward":
            assert made == b""
        case _:  # withheld, which hides more than a value masked whole
            assert made is None
    assert b"S3CR3T" not in (made or b"")
    if made:
        again = Seen()
        splice(made, again)
        assert all(value == b"####" for _, value, _ in again)
        assert len(again) == len(seen)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("value", [None, b"", b"S3CR3T"])
def test_a_message_is_masked_in_its_place(magic: int, key: bytes | None, value: bytes | None) -> None:
    attributes = 8 * magic
    data = message(key, value, magic=magic, offset=2**40, attributes=attributes)
    expected = message(
        None if key is None else b"##", None if value is None else b"####", magic=magic, offset=2**40, attributes=attributes
    )

    assert joined(splice(data, hide)) == expected
    assert joined(splice(data, leave)) == joined(splice(data, same)) == data
    assert has_records(data)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_wrapper_keeps_its_offsets_times_codec_and_framing(magic: int, codec: str) -> None:
    data = wrapper(codec, *entries(magic), magic=magic, attributes=8 * magic)
    made = joined(splice(data, hide))

    expected = b"".join(
        message(b"##", None if at == 0 else b"####", magic=magic, offset=at if magic else 100 + at, time=1000 + at)
        for at in range(len(INNER))
    )
    start = 34 if magic else 26
    assert unpack(CODECS[codec], made[start:]) == expected
    assert made == message(None, made[start:], magic=magic, offset=105, attributes=CODECS[codec] | 8 * magic, time=9)
    assert (made[start:].startswith(b"\x82SNAPPY\0")) == (codec == "xerial")
    assert joined(splice(data, leave)) == joined(splice(data, same)) == data


def test_one_changed_message_leaves_the_bytes_of_its_neighbours() -> None:
    def edit(key: bytes | None, value: bytes | None, headers: bytes) -> Three | None:
        return (key, b"V", b"\0") if key == b"k3" else None

    expected = entries(1)
    expected[3] = message(b"k3", b"V", magic=1, offset=3, time=1003)

    assert unpack(1, joined(splice(wrapper("gzip", *entries(1)), edit))[34:]) == b"".join(expected)


def test_headers_have_no_place_in_old_formats() -> None:
    data = message(b"k", b"v")
    seen = Seen()

    assert joined(splice(data, lambda k, v, h: (k, v, b"\x02\x02a\x02b"))) == data
    splice(data, seen)
    assert seen == [(b"k", b"v", b"\0")]


def resealed(data: bytes, at: int, put: bytes) -> bytes:
    """Other bytes at a place, and a checksum that fits them."""
    changed = data[:at] + put + data[at + len(put) :]
    return changed[:12] + zlib.crc32(changed[16:]).to_bytes(4, "big") + changed[16:]


PLAIN = message(b"k", b"S3CR3T")


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:-1] + b"X",
        resealed(PLAIN, 17, b"\x10"),
        resealed(PLAIN, 17, b"\x80"),
        resealed(message(b"k", b"S3CR3T", magic=0), 17, b"\x08"),
        resealed(PLAIN, 17, b"\x04"),
        resealed(PLAIN, 17, b"\x05"),
        resealed(PLAIN, 26, b"\xff\xff\xff\xfe"),
        resealed(PLAIN, 26, b"\x7f\xff\xff\xff"),
        resealed(PLAIN, 31, b"\xff\xff\xff\xfe"),
        resealed(PLAIN, 31, b"\0\0\0\7"),
        resealed(PLAIN, 31, b"\0\0\0\5"),
        resealed(PLAIN, 31, b"\xff\xff\xff\xff"),
        message(b"S3CR3T", pack("gzip", PLAIN), attributes=1),
        message(None, None, attributes=1),
        message(None, b"", attributes=1),
        message(None, b"S3CR3T", attributes=1),
        wrapper("gzip"),
        wrapper("gzip", message(b"k", b"v", magic=0)),
        wrapper("gzip", message(b"k", b"v", magic=1), magic=0),
        wrapper("gzip", PLAIN, message(b"k", b"v", magic=0)),
        wrapper("gzip", wrapper("gzip", PLAIN)),
        wrapper("gzip", PLAIN[:-1]),
        wrapper("gzip", PLAIN, b"\0"),
        wrapper("gzip", PLAIN, PLAIN[:30]),
        wrapper("gzip", PLAIN[:-1] + b"X"),
        wrapper("gzip", PLAIN[:8] + b"\xff\xff\xff\xff" + PLAIN[12:]),
        wrapper("gzip", PLAIN[:8] + b"\0\0\0\0" + PLAIN[12:]),
        wrapper("gzip", PLAIN, Batch([Rec()]).bytes()),
        wrapper("gzip", marker().bytes()),
        wrapper("gzip", *[PLAIN] * 30_000, bytes(2 * 1024 * 1024)),
        message(None, pack("zstd", PLAIN), attributes=4),
        message(None, pack("gzip", PLAIN) + b"S3CR3T", attributes=1),
    ],
)
def test_what_clients_could_read_differently_is_refused(data: bytes) -> None:
    with pytest.raises(BadRecords):
        splice(data, hide)


def test_a_wrapper_of_more_messages_than_allowed_or_grown_too_large_is_refused() -> None:
    data = wrapper("gzip", *[message(b"k", b"v")] * 11)

    assert splice(data, leave, bounds=Bounds(records=11)).records == 11
    with pytest.raises(BadRecords):
        splice(data, leave, bounds=Bounds(records=10))
    with pytest.raises(BadRecords):
        splice(data, lambda k, v, h: (k, b"V" * 2000, h), bounds=Bounds(opened_bytes=1000))


def _with_checksum_of_old_clients(frame: bytes) -> bytes:
    return frame[:6] + bytes((_header_checksum(frame[:6]),)) + frame[7:]


def test_lz4_with_the_header_checksum_of_old_clients_is_read_and_written_in_format_v0_alone() -> None:
    frame = _with_checksum_of_old_clients(pack_lz4(b"".join(entries(0))))
    data = message(None, frame, magic=0, attributes=3)
    made = joined(splice(data, hide))

    assert joined(splice(data, leave)) == data
    assert _has_old_checksum(made[26:])
    seen = Seen()
    splice(made, seen)
    assert {value for _, value, _ in seen} == {None, b"####"}
    for newer in (message(None, frame, attributes=3), Batch(codec="lz4", packed=frame, count=1).bytes()):
        with pytest.raises(BadRecords):
            splice(newer, leave)


def pack_lz4(data: bytes) -> bytes:
    made: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
    return made


def test_the_header_checksum_is_the_one_that_the_library_writes() -> None:
    for size in range(4, 8):
        for flags in ({}, {"content_checksum": True}, {"block_checksum": True}, {"store_size": True}):
            frame = lz4.frame.compress(b"x" * 9, block_size=size, **{"store_size": False, **flags})
            end = 14 if flags.get("store_size") else 6
            assert _header_checksum(frame[4:end]) == frame[end]
    assert _with_old_checksum(pack_lz4(b"x"))[6] != pack_lz4(b"x")[6]


def test_offsets_of_a_message_are_no_part_of_its_checksum_and_stay() -> None:
    data = struct.pack(">q", -1) + PLAIN[8:]

    assert joined(splice(data, hide))[:8] == b"\xff" * 8
