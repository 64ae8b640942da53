"""Other people's readers over what was spliced, and other people's writers before it: aiokafka's in C, kafka-python's."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import pytest

from proxy.protocols.kafka.records import splice

from .edits import Three, leave, same
from .made import Batch, Rec, joined, marker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, when it is imported
    import aiokafka.record.default_records  # type: ignore[import-untyped]
    import aiokafka.record.legacy_records  # type: ignore[import-untyped]
    import aiokafka.record.memory_records  # type: ignore[import-untyped]
    import kafka.record.default_records  # type: ignore[import-untyped]
    import kafka.record.legacy_records  # type: ignore[import-untyped]
    import kafka.record.memory_records  # type: ignore[import-untyped]

HEAD = (
    "base_offset",
    "magic",
    "attributes",
    "compression_type",
    "timestamp_type",
    "is_transactional",
    "is_control_batch",
    "last_offset_delta",
    "first_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "next_offset",
)
Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
ROWS: list[Row] = [
    (
        at,
        1_700_000_000_000 + at * 37,
        None if at % 5 == 4 else b"key-%d" % at,
        None if at % 7 == 6 else b'{"n":%d}' % at * (at + 1),
        [],
    )
    for at in range(60)
]
WITH_HEADERS: list[Row] = [(*row[:4], [("trace", b"t%d" % row[0]), ("none", None)] if row[0] % 3 else []) for row in ROWS]
LIBRARIES = [aiokafka, kafka]
OLD = [(magic, codec) for magic in range(2) for codec in range(4) if (magic, codec) != (0, 3)]
"""Formats and codecs before v2. Neither library writes lz4 in format v0."""


def masks(key: bytes | None, value: bytes | None, headers: bytes) -> Three | None:
    """Two of three records, so that some stay beside those that do not."""
    return None if value is None or len(value) % 3 == 0 else (key, b"####", headers)


def written(library: Any, magic: int, codec: int, rows: list[Row], **producer: Any) -> bytes:
    if magic == 2:
        facts = {"is_transactional": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **producer}
        builder = library.record.default_records.DefaultRecordBatchBuilder(2, codec, *facts.values(), 10**9)
    else:
        builder = library.record.legacy_records.LegacyRecordBatchBuilder(magic, codec, 10**9)
    for offset, time, key, value, headers in rows:
        assert builder.append(offset, time, key, value, headers) is not None
    return bytes(builder.build())


def read(library: Any, data: bytes) -> list[tuple[dict[str, Any], list[tuple[Any, ...]]]]:
    """Batches as the library sees them: what of their header it tells, and records."""
    found = []
    section = library.record.memory_records.MemoryRecords(data)
    while section.has_next():
        batch = section.next_batch()
        assert batch.validate_crc()
        head = {name: getattr(batch, name) for name in HEAD if hasattr(batch, name)}
        found.append(
            (head, [(rec.offset, rec.timestamp, rec.timestamp_type, rec.key, rec.value, list(rec.headers)) for rec in batch])
        )
    return found


def expected(before: list[tuple[dict[str, Any], list[tuple[Any, ...]]]]) -> list[tuple[dict[str, Any], list[tuple[Any, ...]]]]:
    return [
        (head, [(*rec[:4], rec[4] if rec[4] is None or len(rec[4]) % 3 == 0 else b"####", *rec[5:]) for rec in recs])
        for head, recs in before
    ]


@pytest.mark.parametrize("reader", LIBRARIES)
@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("codec", range(5))
def test_only_what_was_edited_differs_in_format_v2(reader: Any, writer: Any, codec: int) -> None:
    data = written(writer, 2, codec, WITH_HEADERS)
    data += written(writer, 2, codec, ROWS[:9], is_transactional=1, producer_id=2**40, producer_epoch=8, base_sequence=77)
    made = joined(splice(data, masks))

    assert read(reader, made) == expected(read(reader, data))
    assert made != data


@pytest.mark.parametrize("reader", LIBRARIES)
@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize(("magic", "codec"), OLD)
def test_only_what_was_edited_differs_in_old_formats(reader: Any, writer: Any, magic: int, codec: int) -> None:
    data = written(writer, magic, codec, ROWS)
    made = joined(splice(data, masks))

    assert read(reader, made) == expected(read(reader, data))
    assert made != data


@pytest.mark.parametrize("edit", [leave, same])
@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize(("magic", "codec"), [*OLD, *((2, codec) for codec in range(5))])
def test_what_others_write_goes_through_as_it_came(edit: Any, writer: Any, magic: int, codec: int) -> None:
    data = written(writer, magic, codec, ROWS)

    assert joined(splice(data, edit)) == data


@pytest.mark.parametrize("reader", LIBRARIES)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "xerial", "lz4", "zstd"])
def test_the_readers_see_a_compacted_log_with_markers_as_before(reader: Any, codec: str) -> None:
    recs = [Rec(b"k%d" % at, b"v" * at, ((b"h", b"x"),), at * 11, at) for at in (0, 2, 3, 50, 51)]
    data = Batch(
        recs, codec, base_offset=500, last_offset_delta=70, attributes=0x10, producer_id=5, producer_epoch=1, base_sequence=3
    ).bytes()
    data += marker(0).bytes() + Batch(recs, codec, base_offset=900, attributes=0x08).bytes()
    made = joined(splice(data, masks))

    assert read(reader, made) == expected(read(reader, data))
    assert [head["base_offset"] for head, _ in read(reader, made)] == [500, 1000, 900]
