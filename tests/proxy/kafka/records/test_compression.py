"""Streams that are cut, trailed by something, larger than they say, or framed in a way that hides something."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest

from proxy.protocols.kafka.records import BadRecords, Bounds, splice
from proxy.protocols.kafka.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress

from .edits import hide, leave
from .made import CODECS, XERIAL, Batch, Rec, joined, naive, pack, raw_snappy, record, unpack, xerial

PACKED = [codec for codec in CODECS if codec != "none"]
TEXT = b"".join(record(Rec(b"k%d" % at, b"S3CR3T %d" % (at * at), time=at, offset=at)) for at in range(4000))
MIB = 1024 * 1024
BOUNDS = Bounds()


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, 1))


def zstd_frame(*blocks: tuple[int, int, bytes], flags: int = 0, rest: bytes = b"\x38") -> bytes:
    """A frame of blocks: their type, the size they claim, their bytes. `rest` is a window of 128 KiB."""
    out = b"\x28\xb5\x2f\xfd" + bytes((flags,)) + rest
    for at, (kind, size, data) in enumerate(blocks):
        out += (size << 3 | kind << 1 | (at == len(blocks) - 1)).to_bytes(3, "little") + data
    return out


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 7, 65536, 400_000, 5 * MIB])
def test_every_codec_reads_what_it_wrote_in_the_framing_it_met(codec: str, size: int) -> None:
    data = (TEXT * (size // len(TEXT) + 1))[:size]

    made = compress(CODECS[codec], data, pack(codec, b"x"))

    assert bytes(decompress(CODECS[codec], made, Bounds(ratio=10_000))) == unpack(CODECS[codec], made) == data


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_that_is_cut_anywhere_is_refused(codec: str) -> None:
    recs = [Rec(b"k%d" % at, b"S3CR3T %d" % (at * at)) for at in range(300)]
    whole = pack(codec, b"".join(map(record, recs)))

    assert splice(Batch(codec=codec, packed=whole, count=300).bytes(), leave).records == 300
    for at in range(len(whole)):
        with pytest.raises(BadRecords):
            splice(Batch(codec=codec, packed=whole[:at], count=300).bytes(), leave)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("behind", [b"\0", b"S3CR3T", b"\0" * 64, b"\x50\x2a\x4d\x18\x06\0\0\0S3CR3T", b"\xff\xff\xff\xff"])
def test_what_stands_behind_a_stream_is_refused(codec: str, behind: bytes) -> None:
    batch = Batch(codec=codec, packed=pack(codec, record(Rec())) + behind, count=1)

    with pytest.raises(BadRecords):
        splice(batch.bytes(), leave)


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("gzip", gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:])),
        ("gzip", b"".join(gzip.compress(TEXT[at : at + 4000]) for at in range(0, len(TEXT), 4000))),
        ("zstd", zstd(TEXT[:500]) + zstd(b"") + zstd(TEXT[500:])),
        ("snappy", xerial(TEXT)),
        ("snappy", xerial(TEXT[:1], b"", TEXT[1:])),
        ("lz4", lz4.frame.compress(TEXT, block_linked=True, store_size=True, content_checksum=True, block_checksum=True)),
        ("lz4", lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    ],
)
def test_the_framings_that_producers_choose_are_read(codec: str, packed: bytes) -> None:
    data = Batch(codec=codec, packed=packed, count=4000).bytes()

    assert joined(splice(data, leave)) == data
    assert [rec.value for _, recs in naive(joined(splice(data, hide))) for rec in recs] == [b"####"] * 4000


def test_skippable_frames_dictionaries_and_other_formats_are_refused() -> None:
    one = record(Rec())
    skippable = b"\x50\x2a\x4d\x18\x06\0\0\0S3CR3T"
    for codec, packed in (
        ("zstd", skippable + zstd(one)),
        ("zstd", zstd(one[:3]) + skippable + zstd(one[3:])),
        ("zstd", zstd_frame((0, len(one), one), flags=1, rest=b"\x38\x07")),
        ("zstd", zstd_frame((0, len(one), one), flags=8)),
        ("zstd", zstd_frame((3, len(one), one))),
        ("zstd", zstd_frame((0, len(one), one), rest=b"\xff")),
        ("zstd", zlib.compress(one)),
        ("zstd", b""),
        ("lz4", skippable + pack("lz4", one)),
        ("lz4", pack("lz4", one[:3]) + pack("lz4", one[3:])),
        ("lz4", b"\x02\x21\x4c\x18" + pack("lz4", one)[4:]),
        ("lz4", b""),
        ("gzip", zlib.compress(one)),
        ("gzip", b""),
        ("gzip", gzip.compress(b"") * 64 + gzip.compress(one)),
        ("snappy", b""),
        ("snappy", XERIAL[:8]),
        ("snappy", XERIAL[:15] + b"\2" + xerial(one)[16:]),
        ("snappy", xerial(one) + b"\0\0\0\0"),
        ("snappy", XERIAL + b"\xff\xff\xff\xff" + one),
        ("snappy", xerial(one) + xerial(one)),
    ):
        with pytest.raises(BadRecords):
            splice(Batch(codec=codec, packed=packed, count=1).bytes(), leave)


def test_a_zstd_frame_of_raw_and_repeated_blocks_is_read() -> None:
    made = bytes(decompress(ZSTD, zstd_frame((0, 3, b"abc"), (1, 100_000, b"x"), (0, 0, b"")), BOUNDS))

    assert made == b"abc" + b"x" * 100_000


BIG = 80 * MIB


def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(BIG), 9)


def _snappy_bomb() -> bytes:
    return raw_snappy(bytes(BIG))


def _xerial_bomb() -> bytes:
    return xerial(*[bytes(MIB)] * 80)


def _lz4_bomb() -> bytes:
    made: bytes = lz4.frame.compress(bytes(BIG), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return made


def _zstd_bomb() -> bytes:
    return zstd(bytes(BIG))


def _repeated() -> bytes:
    return zstd_frame(*[(1, 131072, b"\0")] * 800)


def _claims_much() -> bytes:
    return zstd_frame((0, 1, b"x"), flags=0xE0, rest=(2**63).to_bytes(8, "little"))


BOMBS: list[tuple[int, Callable[[], bytes]]] = [
    (GZIP, _gzip_bomb),
    (SNAPPY, _snappy_bomb),
    (SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\0" * 40),
    (SNAPPY, _xerial_bomb),
    (LZ4, _lz4_bomb),
    (ZSTD, _zstd_bomb),
    (ZSTD, _repeated),
    (ZSTD, _claims_much),
]


@pytest.mark.parametrize(("codec", "bomb"), BOMBS)
@pytest.mark.parametrize("most", [2 * MIB, 64 * MIB])
def test_a_bomb_is_refused_and_takes_no_more_memory_than_is_allowed(codec: int, bomb: Callable[[], bytes], most: int) -> None:
    data = bomb()
    bounds = Bounds(opened_bytes=most)
    tracemalloc.start()
    try:
        with pytest.raises(BadRecords):
            decompress(codec, data, bounds)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2.5 * min(most, max(MIB, 100 * len(data))) + 8 * MIB


CHILD = """
import re, sys
from pathlib import Path
from proxy.protocols.kafka.records import BadRecords, Bounds
from proxy.protocols.kafka.records.compression import decompress

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024

bombs = sys.stdin.buffer.read()
before, at = peak(), 0
while at < len(bombs):
    size = int.from_bytes(bombs[at + 1 : at + 5], "big")
    try:
        decompress(bombs[at], bombs[at + 5 : at + 5 + size], Bounds(opened_bytes=4 * 1024 * 1024))
    except BadRecords:
        print(peak() - before)
    at += 5 + size
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="ru_maxrss starts from that of whoever started the process")
def test_bombs_take_no_memory_outside_of_python_either() -> None:
    """In a process of its own, whose peak is that of the bombs and not of what made them. In MiB."""
    made = [(codec, bomb()) for codec, bomb in BOMBS]
    given = b"".join(bytes((codec,)) + len(bomb).to_bytes(4, "big") + bomb for codec, bomb in made)
    ran = subprocess.run([sys.executable, "-c", CHILD], input=given, capture_output=True, check=True)
    peaks = [int(line) for line in ran.stdout.split()]

    assert len(peaks) == len(made)
    assert max(peaks) < 40


def test_a_panic_in_a_library_is_a_refusal_and_an_interrupt_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def panics(_: object) -> int:
        raise PanicException("S3CR3T")

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cramjam.snappy, "decompress_raw_len", panics)
    with pytest.raises(BadRecords):
        decompress(SNAPPY, b"x", BOUNDS)
    monkeypatch.setattr(cramjam.snappy, "decompress_raw_len", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decompress(SNAPPY, b"x", BOUNDS)


@pytest.mark.parametrize("codec", [codec for codec in PACKED if codec not in {"snappy", "xerial"}])
def test_the_ratio_counts_from_one_mebibyte_on(codec: str) -> None:
    most = Bounds(ratio=2)
    under, over = pack(codec, bytes(MIB)), pack(codec, bytes(MIB + 1))

    assert len(decompress(CODECS[codec], under, most)) == MIB
    with pytest.raises(BadRecords):
        decompress(CODECS[codec], over, most)


@pytest.mark.parametrize("codec", PACKED)
def test_the_bound_is_met_to_the_byte(codec: str) -> None:
    packed = pack(codec, TEXT)

    assert bytes(decompress(CODECS[codec], packed, Bounds(opened_bytes=len(TEXT)))) == TEXT
    with pytest.raises(BadRecords):
        decompress(CODECS[codec], packed, Bounds(opened_bytes=len(TEXT) - 1))


def test_a_codec_that_the_format_lacks_is_refused() -> None:
    with pytest.raises(BadRecords):
        decompress(5, b"x", BOUNDS)
    with pytest.raises(BadRecords):
        decompress(ZSTD, zstd(b"x"), BOUNDS, magic=1)


def test_what_is_raised_says_nothing_of_the_contents_and_has_no_cause() -> None:
    for codec in range(1, 5):
        with pytest.raises(BadRecords) as caught:
            decompress(codec, b"S3CR3T" * 9, BOUNDS)
        assert "S3CR3T" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__
