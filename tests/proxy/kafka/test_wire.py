"""proxy.protocols.kafka.wire: frames whole and in pieces, limits, headers of every version."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as Legacy
from kio.schema.request_header.v2.header import RequestHeader as Flexible
from kio.static.primitive import i16, i32

from proxy.core.buffer import Buffer
from proxy.core.errors import LimitExceeded, WireError
from proxy.protocols.kafka import schema, wire

from .entities import written

LIMIT = 1 << 20
BEHIND = b"\x00\x00\x00\x02no"


def taken(pieces: list[bytes], limit_bytes: int = LIMIT) -> tuple[bytes, bytes]:
    """The frame, and what is left behind it. Fails if it is not whole once all has come."""
    buffer = Buffer()
    parse = wire.frame(buffer, limit_bytes)
    for at, piece in enumerate(pieces):
        buffer.feed(piece)
        try:
            next(parse)
        except StopIteration as done:
            for rest in pieces[at + 1 :]:
                buffer.feed(rest)
            frame: bytes = done.value
            return frame, buffer.some(len(buffer))
    raise AssertionError("the frame is not whole")


@pytest.mark.parametrize("body", [b"", b"a", b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\x00", bytes(70_000)])
class TestAFrame:
    def test_is_taken_whole(self, body: bytes) -> None:
        assert taken([struct.pack(">i", len(body)) + body]) == (body, b"")

    def test_is_taken_byte_by_byte(self, body: bytes) -> None:
        data = struct.pack(">i", len(body)) + body

        assert taken([data[at : at + 1] for at in range(len(data))]) == (body, b"")

    def test_leaves_what_is_behind_it(self, body: bytes) -> None:
        assert taken([struct.pack(">i", len(body)) + body + BEHIND]) == (body, BEHIND)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], size: int) -> None:
    data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    buffer = Buffer()
    found = []
    parse = wire.frame(buffer, LIMIT)
    for at in range(0, len(data), size):
        buffer.feed(data[at : at + size])
        while True:
            try:
                next(parse)
            except StopIteration as done:
                found.append(done.value)
                parse = wire.frame(buffer, LIMIT)
                continue
            break

    assert found == bodies


@pytest.mark.parametrize("size", [-1, -2, -(2**31)])
def test_a_negative_size_is_refused(size: int) -> None:
    with pytest.raises(WireError):
        taken([struct.pack(">i", size)])


@pytest.mark.parametrize("size", [LIMIT + 1, 2**31 - 1])
def test_a_size_above_the_limit_is_refused_before_it_is_waited_for(size: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            taken([struct.pack(">i", size)])
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_frame_of_the_limit_is_taken() -> None:
    assert taken([struct.pack(">i", 10), bytes(10)], 10) == (bytes(10), b"")


def header_bytes(key: int, version: int, client_id: str | None, tags: bytes = b"\x00") -> bytes:
    """As kio writes it."""
    flexible = schema.request_header_is_flexible(key, version)
    header = (Flexible if flexible else Legacy)(
        request_api_key=i16(key), request_api_version=i16(version), correlation_id=i32(7), client_id=client_id
    )
    data = written(header)
    return data[:-1] + tags if flexible else data


EVERY = [(key, version) for key in range(93) for version in schema.versions(key)]


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 300])
def test_the_header_of_every_request_is_read_as_kio_writes_it(client_id: str | None) -> None:
    for key, version in EVERY:
        head = header_bytes(key, version, client_id)

        header = wire.request_header(head + b"body")

        expected = None if client_id is None else client_id.encode()
        assert header == (key, version, 7, expected, len(head))
        assert wire.peek(head) == (key, version, 7)


def test_a_header_that_is_cut_anywhere_is_refused() -> None:
    for key, version in EVERY:
        head = header_bytes(key, version, "me")
        for size in range(len(head)):
            with pytest.raises(WireError):
                wire.request_header(head[:size])


@pytest.mark.parametrize("size", range(8))
def test_a_request_of_less_than_eight_bytes_is_refused(size: int) -> None:
    with pytest.raises(WireError):
        wire.peek(bytes(size))


@pytest.mark.parametrize(("key", "version"), [(4, 0), (18, 5), (93, 0), (-1, 0), (1, -1), (0, 2), (32767, 32767)])
def test_a_request_of_an_unknown_version_is_peeked_at_and_has_no_header(key: int, version: int) -> None:
    frame = struct.pack(">hhih", key, version, 9, -1) + b"\x00"

    assert wire.peek(frame) == (key, version, 9)
    with pytest.raises(WireError):
        wire.request_header(frame)


@pytest.mark.parametrize("length", [-2, -32768, 3, 32767])
def test_a_client_id_of_no_possible_length_is_refused(length: int) -> None:
    with pytest.raises(WireError):
        wire.request_header(struct.pack(">hhih", 3, 1, 9, length) + b"ab")


def test_the_tags_of_a_header_are_skipped_and_kept_when_the_body_changes() -> None:
    head = header_bytes(3, 12, "me", b"\x02\x00\x03abc\x07\x00")
    frame = head + b"body"

    header = wire.request_header(frame)

    assert header.body_at == len(head)
    assert (
        wire.request_frame(header, frame, [b"an", memoryview(b"other")]) == struct.pack(">i", len(head) + 7) + head + b"another"
    )
    assert wire.request_frame(header, frame, [frame[header.body_at :]]) == struct.pack(">i", len(frame)) + frame


BROKEN_TAGS = [
    b"\x01",
    b"\x01\x00",
    b"\x01\x00\x05abc",
    b"\x02\x03\x00\x03\x00",
    b"\x02\x03\x00\x02\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x00",
    b"\xff" * 9,
]


@pytest.mark.parametrize("tags", BROKEN_TAGS)
def test_tags_of_a_header_that_are_ill_formed_are_refused(tags: bytes) -> None:
    with pytest.raises(WireError):
        wire.request_header(header_bytes(3, 12, "me", tags))
    with pytest.raises(WireError):
        wire.response_body_at(bytes(4) + tags, 3, 12)


@pytest.mark.parametrize(("key", "version"), EVERY)
def test_a_response_is_found_behind_the_header_that_was_written(key: int, version: int) -> None:
    sized = wire.response_frame(-5, key, version, [b"bo", memoryview(b"dy")])
    frame, behind = taken([sized])

    assert behind == b""
    assert wire.response_correlation(frame) == -5
    assert frame[wire.response_body_at(frame, key, version) :] == b"body"
    assert len(frame) == 8 + schema.response_header_is_flexible(key, version)


def test_tags_of_a_response_header_are_skipped() -> None:
    assert wire.response_body_at(bytes(4) + b"\x01\x05\x02ab" + b"body", 3, 12) == 9


@pytest.mark.parametrize("size", range(5))
def test_a_response_that_is_cut_in_its_header_is_refused(size: int) -> None:
    with pytest.raises(WireError):
        wire.response_body_at(bytes(size), 3, 12)
    if size < 4:
        with pytest.raises(WireError):
            wire.response_correlation(bytes(size))


@pytest.mark.parametrize(("key", "version"), EVERY)
def test_a_request_of_veils_own_is_read_back(key: int, version: int) -> None:
    blank = schema.request(key, version).blank()

    frame, behind = taken([wire.own_request(key, version, 11, b"veil", blank)])
    header = wire.request_header(frame)

    assert behind == b""
    assert tuple(header) == (key, version, 11, b"veil", len(header_bytes(key, version, "veil")))
    assert schema.request(key, version).read(frame, header.body_at) == blank


def test_what_is_not_known_is_not_answered() -> None:
    for ask in (
        lambda: wire.response_frame(1, 4, 0, []),
        lambda: wire.response_body_at(bytes(8), 93, 0),
        lambda: wire.own_request(0, 2, 1, b"", {}),
    ):
        with pytest.raises(LookupError):
            ask()
