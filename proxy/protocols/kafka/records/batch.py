"""One batch of format v2: header, CRC32C, records.

     0 base offset      8 batch length   12 leader epoch    16 magic (2)       17 CRC32C of all that follows
    21 attributes      23 last offset delta                 27 base timestamp  35 max timestamp
    43 producer id     51 producer epoch 53 base sequence   57 record count    61 records

A changed batch keeps every byte of this but the length and the CRC, and of a record every byte but the length and the
parts that were changed; number and order of records stay. The times and offsets inside are passed over, not read.
Source: KIP-98; KIP-534 (attribute bit 6); DefaultRecordBatch, DefaultRecord, ControlRecordType of Kafka's clients.
"""

from __future__ import annotations

from crc32c import crc32c

from .compression import compress, decompress
from .headers import NO_HEADERS, check_headers
from .model import BadRecords, Bounds, Edit, Opened
from .varint import NULL, SPELLED, read_raw, skip_long, write_length

HEADER = 61
MOST_OF_MARKER = HEADER + 30  # a batch with a transaction marker, its numbers as long as they can be
CODEC = 0x07
CONTROL = 0x20
KNOWN = 0x7F  # codec, timestamp type, transactional, control, delete horizon
LEAST = 7  # bytes of a record: its length, attributes, two deltas, two nulls, no headers
AFTER = bytes(32)  # behind the records, so that the numbers of one that ends early are read without asking each time
TOGETHER = 4096  # records between two looks at how large the batch has grown
SECTIONS = 1024  # header sections that were found good are remembered: those of a batch are often equal


def open_batch(raw: memoryview, edit: Edit, bounds: Bounds) -> Opened:
    """One whole batch with each record's key, value and headers handed to `edit`.

    A batch without records, and a transaction marker, is unchanged and has 0 records.

    Raises:
        BadRecords: CRC, attributes, lengths or counts that are wrong, what `decompress` raises, a control batch that is
            no transaction marker, or one that grows beyond `bounds`. Whatever `edit` raises.
    """
    attributes, count = check_header(raw)
    if count == 0 or attributes & CONTROL:
        if not holds_nothing(raw, attributes, count):
            raise BadRecords("a control batch that is no transaction marker, or records in a batch of none")
        return Opened(None, 0, len(raw) - HEADER)
    if count > bounds.records:
        raise BadRecords("a batch of more records than allowed")
    codec = attributes & CODEC
    came = bytes(raw[HEADER:]) if codec else b""
    records = decompress(codec, came, bounds) if codec else raw[HEADER:]
    changed = edit_records(b"".join((records, AFTER)), count, edit, bounds.grown(len(records)))
    if changed is None:
        return Opened(None, count, len(records))
    if codec:
        changed = compress(codec, changed, came)
    kept = bytes(raw[21:HEADER])
    head = b"".join(
        (
            raw[:8],
            (len(changed) + HEADER - 12).to_bytes(4, "big"),
            raw[12:17],
            crc32c(changed, crc32c(kept)).to_bytes(4, "big"),
            kept,
        )
    )
    return Opened([head, changed], count, len(records))


def check_header(raw: memoryview) -> tuple[int, int]:
    """Attributes and record count of a batch whose CRC is right.

    Raises:
        BadRecords: it is not, or an attribute is not known, or the count is negative.
    """
    if len(raw) < HEADER:
        raise BadRecords("a batch shorter than its header")
    if crc32c(raw[21:]) != int.from_bytes(raw[17:21], "big"):
        raise BadRecords("a batch with a wrong CRC")
    attributes = int.from_bytes(raw[21:23], "big")
    if attributes & ~KNOWN or attributes & CODEC > 4:
        raise BadRecords("a batch with attributes that are not known")
    count = int.from_bytes(raw[57:61], "big", signed=True)
    if count < 0:
        raise BadRecords("a batch of a negative number of records")
    return attributes, count


def holds_nothing(raw: memoryview, attributes: int, count: int) -> bool:
    """Whether there is nothing of any producer's in this batch: no record and no byte, or one transaction marker.

    Compaction leaves batches without records for their sequence numbers. Of control records, abort and commit occur in
    topics of data; the others are KRaft's, and a topic that has them is not what it seems to be.
    """
    if count == 0:
        return len(raw) == HEADER
    return bool(attributes & CONTROL) and not attributes & CODEC and count == 1 and _is_marker(bytes(raw[HEADER:]))


def _is_marker(section: bytes) -> bool:
    """One record whose key is version 0 and type 0 or 1, its value version 0 and an epoch; there is no other so far."""
    try:
        length, at = read_raw(section, 0)
        if length != (len(section) - at) << 1 or section[at] != 0:
            return False
        _, at = read_raw(section, skip_long(section, at + 1))
    except (BadRecords, IndexError):
        return False
    return (
        section[at : at + 5] in (b"\x08\0\0\0\0", b"\x08\0\0\0\1")
        and section[at + 5 : at + 8] == b"\x0c\0\0"
        and section[at + 12 :] == NO_HEADERS
    )


def edit_records(data: bytes, count: int, edit: Edit, most: int) -> bytes | None:
    """The records in `data`, which AFTER follows, as `edit` has them; None when it changed none.

    This loop is what masking costs, so it calls nothing for the numbers of one and two bytes that nearly all are.

    Raises:
        BadRecords: lengths that do not meet, another number of records, or more than `most` bytes out.
    """
    size = len(data) - len(AFTER)
    if count * LEAST > size:
        raise BadRecords("more records than the batch has room for")
    pieces: list[bytes] = []
    made: list[bytes] = []
    good = {NO_HEADERS}
    grown = 0
    kept = 0  # what stands before it is in `made`; unchanged records in a row are copied at once
    at = 0
    for first in range(0, count, TOGETHER):
        for _ in range(min(TOGETHER, count - first)):
            start = at
            raw = data[at]
            at += 1
            if raw > 127:
                byte = data[at]
                if byte < 128:
                    raw += (byte << 7) - 128
                    at += 1
                else:
                    raw, at = read_raw(data, start)
            end = at + (raw >> 1)
            if raw & 1 or end > size:
                raise BadRecords("a record longer than its batch")
            body = at
            at += 2  # attributes, and what is mostly the whole of the timestamp delta
            if data[at - 1] > 127:
                at += 1
                if data[at - 1] > 127:
                    at = skip_long(data, body + 1)
            if data[at] < 128:  # offset delta
                at += 1
            else:
                _, at = read_raw(data, at)
            key_at = at
            raw = data[at]
            at += 1
            if raw > 127:
                raw, at = read_raw(data, key_at)
            if not raw & 1:
                value_at = at + (raw >> 1)
                key: bytes | None = data[at:value_at]
            elif raw == 1:
                value_at = at
                key = None
            else:
                raise BadRecords("a key of negative length")
            if value_at > end:
                raise BadRecords("a key longer than its record")
            raw = data[value_at]
            at = value_at + 1
            if raw > 127:
                byte = data[at]
                if byte < 128:
                    raw += (byte << 7) - 128
                    at += 1
                else:
                    raw, at = read_raw(data, value_at)
            if not raw & 1:
                headers_at = at + (raw >> 1)
                value: bytes | None = data[at:headers_at]
            elif raw == 1:
                headers_at = at
                value = None
            else:
                raise BadRecords("a value of negative length")
            headers = data[headers_at:end]
            if headers not in good:  # empty where the value is longer than its record, and then it is not good
                check_headers(headers)
                if len(good) < SECTIONS:
                    good.add(headers)
            at = end

            put = edit(key, value, headers)
            if put is None:
                continue
            put_key, put_value, put_headers = put
            if put_value is value and put_key is key and put_headers is headers:
                continue
            if kept < start:
                made.append(data[kept:start])
            kept = end
            if put_key is key:
                head = data[body:value_at]
            elif put_key is None:
                head = data[body:key_at] + NULL
            else:
                head = data[body:key_at] + write_length(len(put_key)) + put_key
            if put_value is None:
                length = len(head) + 1 + len(put_headers)
                made += (write_length(length), head, NULL, put_headers)
            else:
                length = len(put_value)
                spelled = SPELLED[length] if length < 8192 else write_length(length)
                length += len(head) + len(spelled) + len(put_headers)
                made += (SPELLED[length] if length < 8192 else write_length(length), head, spelled, put_value, put_headers)
        if made:
            pieces.append(b"".join(made))
            made.clear()
            grown += len(pieces[-1])
            if grown > most:
                raise BadRecords("a batch that is larger than allowed once masked")
    if at != size:
        raise BadRecords("bytes behind the last record of a batch")
    if not pieces:
        return None
    if kept < size:
        pieces.append(data[kept:size])
    return b"".join(pieces)  # one alone is not copied
