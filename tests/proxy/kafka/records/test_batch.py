from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.kafka.records import BadRecords, Bounds, has_records, splice

from .edits import Seen, Three, hide, hide_value, leave, same
from .made import CODECS, XERIAL, Batch, Rec, joined, marker, naive, pack, record, varint

LONG = tuple(
    Rec(b"key-%d" % at, b'{"id":%d,"pad":"%s"}' % (at, b"x" * (at * 7 % 900)), ((b"h", b"%d" % at), (b"n", None)), at * 40, at)
    for at in range(70)
)
ODD = (
    Rec(None, None, (), -5, 0),
    Rec(b"", b"", ((b"", b""),), 2**62, 5),
    Rec(b"k" * 64, b"v" * 8191, tuple((b"h%d" % at, b"x" * 63) for at in range(70)), -(2**63), 2**31 - 1, 255),
    Rec(b"k" * 9000, b"v" * 70000, ((b"n" * 200, None), (b"n" * 63, b"x" * 64)), 63, 70),
    Rec(b"k" * 63, b"v" * 63, (), 64, 64),
    Rec(b"k", b"v" * 8192, (), 8191, 8192),
    Rec(b"k", b"v" * 64, (), 8192, 63),
)
HEADERS: list[dict[str, Any]] = [
    {"base_offset": 2**62, "leader_epoch": -1, "base_time": -1, "max_time": 2**63 - 1},
    {"attributes": 0x08, "base_sequence": 2**31 - 1, "producer_id": 2**63 - 1, "producer_epoch": 32767},
    {"attributes": 0x10, "producer_id": 77, "producer_epoch": 3, "base_sequence": 9},
    {"attributes": 0x58, "last_offset_delta": 900, "base_offset": 0, "leader_epoch": 2**31 - 1},
]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("edit", [leave, same])
@pytest.mark.parametrize("recs", [LONG, ODD])
def test_what_is_not_changed_goes_out_as_the_bytes_that_came(codec: str, edit: Any, recs: tuple[Rec, ...]) -> None:
    data = Batch(recs, codec).bytes()

    assert joined(splice(data, edit)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("header", HEADERS)
def test_a_changed_batch_differs_in_what_the_edit_changed_alone(codec: str, header: dict[str, Any]) -> None:
    batch = Batch(LONG + ODD, codec, **header)
    made = splice(batch.bytes(), hide_value)

    expected = [replace(rec, value=None if rec.value is None else b"####") for rec in batch.recs]
    [(before, _)] = naive(batch.bytes())
    [(after, recs)] = naive(joined(made))
    assert (after, recs) == (before, expected)
    assert made.records == len(batch.recs)
    assert made.size == len(joined(made))


@pytest.mark.parametrize("codec", CODECS)
def test_a_changed_batch_keeps_its_codec_and_framing(codec: str) -> None:
    data = Batch(LONG, codec).bytes()
    made = joined(splice(data, hide))

    assert made[21:23] == data[21:23]
    assert (made[61:77] == XERIAL) == (codec == "xerial")


@pytest.mark.parametrize("at", range(3))
def test_one_changed_record_leaves_the_bytes_of_its_neighbours(at: int) -> None:
    def edit(key: bytes | None, value: bytes | None, headers: bytes) -> Three | None:
        return (b"K", b"V", b"\0") if value == b"%d" % at else None

    recs = [Rec(b"k", b"%d" % each, ((b"a", b"b"),), each, each) for each in range(3)]
    expected = [*recs]
    expected[at] = Rec(b"K", b"V", (), at, at)

    assert joined(splice(Batch(recs).bytes(), edit)) == Batch(expected).bytes()


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        ((None, None, b"\0"), Rec(None, None)),
        ((b"", b"", b"\0"), Rec(b"", b"")),
        ((b"K" * 64, b"v", b"\0"), Rec(b"K" * 64, b"v")),
        ((b"K" * 9000, None, b"\0"), Rec(b"K" * 9000, None)),
        ((None, b"V" * 8191, b"\0"), Rec(None, b"V" * 8191)),
        ((b"k", b"V" * 8192, b"\x02\x02a\1"), Rec(b"k", b"V" * 8192, ((b"a", None),))),
        ((b"k", b"V" * 3_000_000, b"\0"), Rec(b"k", b"V" * 3_000_000)),
    ],
)
def test_lengths_of_every_width_are_written_as_they_are_read(put: Three, expected: Rec) -> None:
    assert joined(splice(Batch([Rec()]).bytes(), lambda *_: put)) == Batch([expected]).bytes()


def test_only_the_key_or_only_the_headers_can_be_changed() -> None:
    data = Batch([Rec(b"k", b"v", ((b"a", b"b"),))]).bytes()

    assert joined(splice(data, lambda k, v, h: (b"K", v, h))) == Batch([Rec(b"K", b"v", ((b"a", b"b"),))]).bytes()
    assert joined(splice(data, lambda k, v, h: (k, v, b"\0"))) == Batch([Rec(b"k", b"v")]).bytes()


def test_a_longer_spelling_of_a_number_is_read_and_stays_where_nothing_is_changed() -> None:
    body = b"\0\x80\x00\x82\x80\x00" + b"\x82\x00k" + b"\x82\x80\x80\x00v" + b"\x82\x00\x82\x00a\x81\x00"
    data = Batch(section=bytes((len(body) << 1 | 128, 0x80, 0x00)) + body, count=1).bytes()
    seen = Seen()

    assert joined(splice(data, seen)) == data
    assert seen == [(b"k", b"v", b"\x82\x00\x82\x00a\x81\x00")]


def test_batches_that_hold_nothing_go_out_untouched_and_unseen() -> None:
    data = b"".join(
        (
            marker(0).bytes(),
            marker(1).bytes(),
            marker(1, base_time=-(2**62), recs=(replace(marker().recs[0], time=2**62),), attributes=0x70).bytes(),
            Batch(last_offset_delta=4, producer_id=4, base_sequence=3).bytes(),
            Batch(attributes=0x30).bytes(),
        )
    )

    assert joined(splice(data, hide)) == data
    assert splice(data, hide).records == 0
    assert not has_records(data)


GOOD = marker().recs[0]


@pytest.mark.parametrize(
    "batch",
    [
        Batch([Rec(b"kkkk", b"S3CR3T")], attributes=0x20),
        Batch([Rec(b"\0\0\0\1", b"S3CR3T")], attributes=0x20),
        Batch([Rec(b"\0\0\0\1", b"\0\0\0\0\0\0S3CR3T")], attributes=0x20),
        Batch([GOOD, Rec(b"k", b"S3CR3T")], attributes=0x20),
        Batch([replace(GOOD, headers=((b"a", b"S3CR3T"),))], attributes=0x20),
        Batch([replace(GOOD, attributes=1)], attributes=0x20),
        Batch([replace(GOOD, key=b"\0\0\0\2")], attributes=0x20),
        Batch([replace(GOOD, key=b"\0\0\0\6")], attributes=0x20),
        Batch([replace(GOOD, key=b"\0\1\0\1")], attributes=0x20),
        Batch([replace(GOOD, key=None)], attributes=0x20),
        Batch([replace(GOOD, value=None)], attributes=0x20),
        Batch([replace(GOOD, value=b"\0\1\0\0\0\0")], attributes=0x20),
        Batch([replace(GOOD, value=b"\0\0\0\0\0")], attributes=0x20),
        Batch([GOOD], "gzip", attributes=0x20),
        Batch([GOOD], count=2, attributes=0x20),
        Batch([GOOD], count=0, attributes=0x20),
        Batch([GOOD], section=record(GOOD) + b"x", attributes=0x20),
        Batch([], section=b"", count=1, attributes=0x20),
        Batch([], section=record(Rec(b"k", b"S3CR3T"))),
        Batch([], section=b"\0"),
        Batch([], "gzip"),
    ],
)
def test_a_batch_that_claims_to_hold_nothing_and_does_is_refused(batch: Batch) -> None:
    with pytest.raises(BadRecords):
        splice(batch.bytes(), leave)
    assert has_records(batch.bytes())


@pytest.mark.parametrize("attributes", [0x80, 0x100, 0x4000, -0x8000, 5, 6, 7])
def test_attributes_that_nobody_knows_are_refused(attributes: int) -> None:
    for recs in ((), (Rec(),)):
        with pytest.raises(BadRecords):
            splice(Batch(recs, attributes=attributes).bytes(), leave)


def test_every_flipped_bit_is_refused_or_stands_where_no_checksum_looks() -> None:
    data = Batch(LONG[:2], "gzip").bytes()
    for at in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[at >> 3] ^= 1 << (at & 7)
        try:
            made = joined(splice(bytes(flipped), leave))
        except BadRecords:
            assert at >> 3 not in range(8)
        else:
            assert at >> 3 < 16
            assert made in {bytes(flipped), b""}  # a longer length makes it a partial batch


def _section(*parts: bytes) -> Batch:
    body = b"".join(parts)
    return Batch(section=varint(len(body)) + body, count=1)


@pytest.mark.parametrize(
    "batch",
    [
        Batch([Rec()], count=-1),
        Batch([Rec()], count=2),
        Batch([Rec(), Rec()], count=1),
        Batch([Rec()], count=2**31 - 1),
        Batch([Rec(), Rec()], section=record(Rec()) + b"\0" * 20),
        Batch([Rec()], section=record(Rec())[:-1]),
        Batch([Rec()], section=record(Rec()) + b"\0"),
        Batch([Rec()], section=varint(-1) + record(Rec())[1:]),
        Batch([Rec()], section=varint(2**40) + record(Rec())[1:]),
        Batch([Rec()], section=b"\xff" * 12),
        Batch([Rec()], section=b"\x8c\x80\x80\x80\x10" + record(Rec())[1:]),
        Batch([Rec()], section=b"\x8c\x80\x80\x80\x80\x00" + record(Rec())[1:]),
        _section(b"\0\0\0", varint(-2), b"\0\0"),
        _section(b"\0\0\0", varint(500), b"k\0\0"),
        _section(b"\0\0\0", varint(3), b"k\0\0"),
        _section(b"\0\0\0", varint(1), b"k", varint(-2), b"\0"),
        _section(b"\0\0\0", varint(1), b"k", varint(1), b"\0"),
        _section(b"\0\0\0", varint(1), b"k", varint(2), b"\0"),
        _section(b"\0\0\0", varint(1), b"k", varint(90000), b"\0"),
        _section(b"\0\0\0\1\1", varint(-1)),
        _section(b"\0\0\0\1\1", varint(1), varint(-1), b"\1"),
        _section(b"\0\0\0\1\1", varint(1), varint(1), b"a", varint(-2)),
        _section(b"\0\0\0\1\1", varint(1), varint(1), b"a", varint(9)),
        _section(b"\0\0\0\1\1", varint(2), varint(1), b"a", varint(0)),
        _section(b"\0\0\0\1\1", varint(0), b"S3CR3T"),
        _section(b"\0\0\0\1\1", varint(70), b"\0\1" * 69),
        _section(b"\0", b"\xff" * 9 + b"\2", b"\0\1\1\0\0"),
        _section(b"\0", b"\xff" * 10 + b"\0", b"\0\1\1\0\0"),
        _section(b"\0\0", b"\xff" * 4 + b"\x10", b"\1\1\0\0"),
        _section(b"\0\0", b"\xff" * 5 + b"\0", b"\1\1\0\0"),
        _section(b""),
        _section(b"\0\0\0"),
    ],
)
def test_numbers_that_do_not_meet_are_refused(batch: Batch) -> None:
    with pytest.raises(BadRecords):
        splice(batch.bytes(), leave)


def test_a_wrong_checksum_is_refused_before_anything_is_shown_to_the_edit() -> None:
    data = bytearray(Batch(LONG).bytes())
    data[-1] ^= 1
    seen = Seen()

    with pytest.raises(BadRecords):
        splice(bytes(data), seen)
    assert not seen


@pytest.mark.parametrize("size", range(49))
def test_a_batch_that_is_shorter_than_its_header_is_refused(size: int) -> None:
    data = bytearray(Batch().bytes())
    data[8:12] = size.to_bytes(4, "big")

    with pytest.raises(BadRecords):
        splice(bytes(data), leave)


def test_records_beyond_the_bound_are_refused() -> None:
    data = Batch([Rec()] * 11).bytes()

    assert splice(data, leave, bounds=Bounds(records=11)).records == 11
    with pytest.raises(BadRecords):
        splice(data, leave, bounds=Bounds(records=10))


def test_a_batch_that_an_edit_makes_too_large_is_refused_before_it_is_all_made() -> None:
    asked = 0

    def marks(key: bytes | None, value: bytes | None, headers: bytes) -> Three:
        nonlocal asked
        asked += 1
        return key, value, b"\x02\x02a\xd0\x0f" + bytes(1000)

    with pytest.raises(BadRecords):
        splice(Batch([Rec()] * 100_000, "zstd").bytes(), marks, bounds=Bounds(opened_bytes=1024 * 1024))
    assert asked < 10_000


def test_what_an_edit_raises_is_not_taken_for_a_fault_of_the_wire() -> None:
    def fails(key: bytes | None, value: bytes | None, headers: bytes) -> None:
        raise IndexError

    with pytest.raises(IndexError):
        splice(Batch([Rec()]).bytes(), fails)


BLOBS = st.none() | st.binary(max_size=40) | st.integers(0, 300).map(bytes)
RECS = st.builds(
    Rec,
    BLOBS,
    BLOBS,
    st.lists(st.tuples(st.binary(max_size=9), BLOBS), max_size=4).map(tuple),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 255),
)


@given(
    st.lists(st.tuples(st.lists(RECS, min_size=1, max_size=6), st.sampled_from(list(CODECS))), min_size=1, max_size=3),
    st.lists(st.none() | st.tuples(BLOBS, BLOBS), min_size=18, max_size=18),
)
def test_a_naive_reader_sees_what_the_edit_said_and_all_the_rest_unchanged(
    batches: list[tuple[list[Rec], str]], puts: list[tuple[bytes | None, bytes | None] | None]
) -> None:
    data = b"".join(Batch(recs, codec).bytes() for recs, codec in batches)
    left = iter(puts)

    def edit(key: bytes | None, value: bytes | None, headers: bytes) -> Three | None:
        put = next(left)
        return None if put is None else (put[0], put[1], headers)

    made = naive(joined(splice(data, edit)))

    said = iter(puts)
    expected = [
        (header, [rec if (put := next(said)) is None else replace(rec, key=put[0], value=put[1]) for rec in recs])
        for header, recs in naive(data)
    ]
    assert made == expected


def test_the_helper_packs_each_codec_so_that_it_can_be_told() -> None:
    assert len({pack(codec, b"x" * 100)[:4] for codec in CODECS}) == len(CODECS)
