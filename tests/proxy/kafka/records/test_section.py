from __future__ import annotations

import pytest

from proxy.protocols.kafka.records import (
    BadRecords,
    Bounds,
    Spliced,
    has_records,
    read_headers,
    splice,
    whole_batches,
    write_headers,
)

from .edits import Seen, Three, hide, leave
from .made import CODECS, Batch, Rec, joined, marker, message, naive, record

ONE = Batch([Rec(b"a", b"S3CR3T" * 30)], base_offset=1).bytes()
TWO = Batch([Rec(b"b", b"S3CR3T" * 30)] * 2, "gzip", base_offset=2).bytes()
THREE = Batch([Rec(b"c", b"S3CR3T" * 30)], base_offset=4).bytes()
OLD = message(b"d", b"S3CR3T" * 30, magic=0)
ALL = [ONE, TWO, OLD, THREE, marker().bytes()]


def hide_b(key: bytes | None, value: bytes | None, headers: bytes) -> Three | None:
    return hide(key, value, headers) if key == b"b" else None


def test_a_section_without_a_byte_stays_one() -> None:
    assert splice(b"", hide) == Spliced([], 0, 0, cut=False)
    assert splice(memoryview(b""), hide) == Spliced([], 0, 0, cut=False)


def test_formats_may_be_mixed_and_keep_their_order() -> None:
    seen = Seen()
    data = b"".join(ALL)
    made = splice(data, seen)

    assert joined(made) == data
    assert [key for key, _, _ in seen] == [b"a", b"b", b"b", b"d", b"c"]
    assert made == Spliced([data], len(data), 5, cut=False)


@pytest.mark.parametrize("kind", [bytes, memoryview, lambda data: memoryview(bytearray(b"xx" + data + b"yy"))[2:-2]])
def test_it_reads_bytes_and_views_of_them(kind: type[bytes]) -> None:
    made = splice(kind(b"".join(ALL)), hide_b)

    assert made.size == len(joined(made))
    assert joined(made).startswith(ONE)
    assert joined(made).endswith(OLD + THREE + marker().bytes())


@pytest.mark.parametrize("last", [*ALL, message(b"k", b"S3CR3T", magic=1), Batch([Rec(b"S3CR3T")], "zstd").bytes()])
@pytest.mark.parametrize("before", [b"", ONE])
def test_a_partial_batch_at_the_end_is_dropped_whatever_its_length(before: bytes, last: bytes) -> None:
    for size in range(len(last)):
        made = splice(before + last[:size], leave)

        assert joined(made) == before
        assert made.size == len(before)
        assert not made.cut
        assert has_records(before + last[:size]) == bool(before or size)


def _sizes(data: list[bytes]) -> list[int]:
    return [splice(b"".join(data[:count]), hide).size for count in range(len(data) + 1)]


@pytest.mark.parametrize("at_least_one", [True, False])
def test_it_ends_before_the_batch_that_the_room_does_not_take_as_masked(at_least_one: bool) -> None:
    sizes = _sizes(ALL)
    for room in range(sizes[-1] + 3):
        made = splice(b"".join(ALL), hide, room=room, at_least_one=at_least_one)

        fitting = max(count for count, size in enumerate(sizes) if size <= room)
        count = max(fitting, 1 if at_least_one else 0)
        assert (made.size, made.cut) == (sizes[count], count < len(ALL))
        assert made.records == [0, 1, 3, 4, 5, 5][count]
        assert joined(made) == joined(splice(b"".join(ALL[:count]), hide))


def test_a_batch_for_which_there_is_no_room_left_is_not_opened() -> None:
    seen = Seen()
    made = splice(ONE + b"\xff" * 8 + TWO[8:16] + b"\x09" + TWO[17:], seen, room=len(ONE))

    assert (joined(made), made.cut, len(seen)) == (ONE, True, 1)


def test_batches_beyond_the_bound_of_a_call_are_left_out_but_the_first() -> None:
    large = Rec(b"x" * 5000)
    big = Batch([large], "zstd").bytes()
    one = len(ONE) - 61
    two = one + len(record(large))

    for total, expected in ((1, 1), (one, 1), (two - 1, 1), (two, 2), (two + one - 1, 2), (two + one, 3)):
        made = splice(ONE + big + THREE, leave, bounds=Bounds(total_bytes=total))
        assert made.records == expected
        assert made.cut == (expected < 3)
    made = splice(ONE + TWO + THREE, leave, bounds=Bounds(records=2))
    assert (made.records, made.cut) == (1, True)
    made = splice(ONE + THREE + TWO, leave, bounds=Bounds(records=2))
    assert (made.records, made.cut) == (2, True)


@pytest.mark.parametrize("magic", [3, 4, 127, 128, 255])
def test_a_format_that_nobody_knows_is_refused(magic: int) -> None:
    data = bytearray(THREE)
    data[16] = magic

    with pytest.raises(BadRecords):
        splice(ONE + bytes(data), leave)
    assert has_records(bytes(data))


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 13])
def test_a_length_that_no_format_has_is_refused_even_at_the_end(length: int) -> None:
    for behind in (b"", b"\0" * 40):
        data = ONE + bytes(8) + length.to_bytes(4, "big", signed=True) + behind

        with pytest.raises(BadRecords):
            splice(data, leave)
        assert has_records(data)
        assert whole_batches(data, 10_000, at_least_one=True) == len(ONE)


def test_a_section_has_records_unless_it_would_pass_unseen() -> None:
    empty = marker().bytes() + Batch(producer_id=3).bytes()

    assert not has_records(b"")
    assert not has_records(empty)
    for data in (ONE, empty + ONE, OLD, empty + OLD, empty[:-1], empty + b"\0", Batch([Rec(None, None)]).bytes()):
        assert has_records(data)
    for one in (marker().bytes(), Batch(producer_id=3).bytes()):
        for at in range(16, len(one)):
            assert has_records(empty + one[:at] + bytes((one[at] ^ 1,)) + one[at + 1 :])


def test_whole_batches_are_counted_by_their_lengths_alone() -> None:
    junk = bytes(8) + (20).to_bytes(4, "big") + b"\xff" * 20
    data = ONE + junk + THREE

    for room in range(len(data) + 2):
        fitting = max(size for size in (0, len(ONE), len(ONE + junk), len(data)) if size <= room)
        assert whole_batches(data, room, at_least_one=False) == fitting
        assert whole_batches(data, room, at_least_one=True) == max(fitting, len(ONE))
    assert whole_batches(data[:-1], 10_000, at_least_one=True) == len(ONE + junk)
    assert whole_batches(ONE[:-1], 10_000, at_least_one=True) == 0
    assert whole_batches(b"", 0, at_least_one=True) == 0


def test_compaction_gaps_and_batches_without_records_stay_as_they_are() -> None:
    gaps = [Rec(b"k%d" % at, b"S3CR3T", (), at, at) for at in (0, 3, 4, 90)]
    data = (
        Batch(gaps, "lz4", last_offset_delta=120).bytes()
        + Batch(base_offset=5000, last_offset_delta=9, base_sequence=4).bytes()
    )
    made = joined(splice(data, hide))

    assert [header for header, _ in naive(made)] == [header for header, _ in naive(data)]
    assert [rec.offset for _, recs in naive(made) for rec in recs] == [0, 3, 4, 90]
    assert made.endswith(Batch(base_offset=5000, last_offset_delta=9, base_sequence=4).bytes())


@pytest.mark.parametrize("codec", CODECS)
def test_no_value_comes_out_of_an_edit_that_hides_all(codec: str) -> None:
    recs = [Rec(b"S3CR3T", b"S3CR3T", ((b"h", b"S3CR3T"),), at, at) for at in range(9)]
    made = joined(splice(Batch(recs, codec).bytes(), hide))

    assert b"S3CR3T" not in made
    assert {(rec.key, rec.value, rec.headers) for _, found in naive(made) for rec in found} == {
        (b"##", b"####", ((b"##", b"##"),))
    }


def test_headers_are_written_as_they_are_read() -> None:
    headers = [(b"a", b"b"), (b"", None), (b"a", b""), (b"n" * 64, b"v" * 9000)]

    assert read_headers(write_headers(headers)) == headers
    assert write_headers([]) == b"\0"
    assert read_headers(b"\0") == []
    with pytest.raises(BadRecords):
        read_headers(b"")
