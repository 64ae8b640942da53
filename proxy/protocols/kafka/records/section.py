"""A record section: batches and messages one behind the other, of any format.

All formats have offset, length and magic at the same places. A broker cuts the section where the answer is full, so the
last batch may be partial: it cannot be opened and holds contents as they are, so it is dropped; clients ask again.
Source: KIP-74 (the first batch always comes whole); ByteBufferLogInputStream of Kafka's clients.
"""

from __future__ import annotations

from typing import NamedTuple

from . import batch, legacy
from .model import DEFAULT, BadRecords, Bounds, Edit

LENGTH_END = 12  # offset and length; the length counts what follows
LEAST = 14  # of a length: a message of format v0 with two nulls (LegacyRecord.RECORD_OVERHEAD_V0)
MAGIC_AT = 16


class Spliced(NamedTuple):
    """A section after its edit.

    `records`: those that the edit saw in the batches that are in it. `cut`: whole batches were left out.
    """

    parts: list[bytes | memoryview]
    size: int
    records: int
    cut: bool


def splice(
    data: memoryview | bytes, edit: Edit, *, bounds: Bounds = DEFAULT, room: int | None = None, at_least_one: bool = True
) -> Spliced:
    """Every whole batch of a section with its records as `edit` has them.

    It ends before the batch with which it would be longer than `room` bytes as masked, though with `at_least_one` not
    before the first; and before the batch with which more was opened than `bounds` allow a call. `edit` may have seen
    the records of that batch. Parts that were not changed are slices of `data`.

    Raises:
        BadRecords: a batch that was come to cannot be opened safely. Whatever `edit` raises.
    """
    view = memoryview(data)
    parts: list[bytes | memoryview] = []
    size = records = opened_bytes = at = 0
    kept = 0  # what stands before it is in `parts`; unchanged batches in a row are one slice
    cut = False
    while (end := _end(view, at)) > 0:
        if at and (opened_bytes >= bounds.total_bytes or records >= bounds.records or (room is not None and size >= room)):
            cut = True
            break
        match view[MAGIC_AT + at]:
            case 0 | 1:
                opened = legacy.open_message(view[at:end], edit, bounds)
            case 2:
                opened = batch.open_batch(view[at:end], edit, bounds)
            case _:
                raise BadRecords("a batch of a format that is not known")
        grown = end - at if opened.parts is None else sum(map(len, opened.parts))
        if (room is not None and size + grown > room and (at or not at_least_one)) or (
            at and (opened_bytes + opened.opened_bytes > bounds.total_bytes or records + opened.records > bounds.records)
        ):
            cut = True
            break
        size += grown
        records += opened.records
        opened_bytes += opened.opened_bytes
        if opened.parts is not None:
            if kept < at:
                parts.append(view[kept:at])
            parts += opened.parts
            kept = end
        at = end
    if kept < at:
        parts.append(view[kept:at])
    return Spliced(parts, size, records, cut)


def has_records(data: memoryview | bytes) -> bool:
    """False only if `splice` would give these very bytes without ever asking its edit.

    So it is True for what is malformed and for a partial batch, too. It looks into no batch that has records.
    """
    view = memoryview(data)
    at = 0
    try:
        while (end := _end(view, at)) > 0:
            if view[at + MAGIC_AT] != 2 or end - at > batch.MOST_OF_MARKER:
                return True
            if not batch.holds_nothing(view[at:end], *batch.check_header(view[at:end])):
                return True
            at = end
    except BadRecords:
        return True
    return at < len(view)


def whole_batches(data: memoryview | bytes, room: int, at_least_one: bool) -> int:
    """Bytes of the whole batches, from the start, that `room` takes; with `at_least_one` the first fits always.

    For sections that are not opened: it reads lengths alone. A partial batch, or a length that cannot be, ends it.
    """
    view = memoryview(data)
    at = 0
    try:
        while (end := _end(view, at)) > 0 and (end <= room or (at_least_one and not at)):
            at = end
    except BadRecords:
        pass
    return at


def _end(view: memoryview, at: int) -> int:
    """Where the batch ends that starts here; 0 if it is not all there.

    Raises:
        BadRecords: a length that no format has.
    """
    start = at + LENGTH_END
    if start > len(view):
        return 0
    length = int.from_bytes(view[start - 4 : start], "big", signed=True)
    if length < LEAST:
        raise BadRecords("a batch shorter than any can be")
    return start + length if start + length <= len(view) else 0
