"""What is taken from a buffer without waiting: all of it or nothing."""

from __future__ import annotations

import pytest

from proxy.core.buffer import Buffer


def filled(data: bytes) -> Buffer:
    buffer = Buffer()
    buffer.feed(b"x" + data)
    buffer.some(1)
    return buffer


@pytest.mark.parametrize(
    ("data", "expected", "behind"),
    [
        (b"abc\r\nd", b"abc", b"d"),
        (b"\r\n", b"", b""),
        (b"abcde\r\n", b"abcde", b""),
        (b"abcdef\r\n", None, b"abcdef\r\n"),
        (b"abc\r", None, b"abc\r"),
        (b"", None, b""),
    ],
)
def test_a_line_is_taken_when_its_end_is_there_and_within_the_limit(data: bytes, expected: bytes | None, behind: bytes) -> None:
    buffer = filled(data)

    assert buffer.maybe_line(5) == expected
    assert buffer.some(100) == behind


@pytest.mark.parametrize(
    ("data", "expected", "behind"),
    [
        (b"a\r\nb\r\nc", b"a\r\nb", b"c"),
        (b"a\r\nb\r", None, b"a\r\nb\r"),
        (b"a\r\nbc\r\n", None, b"a\r\nbc\r\n"),
        (b"a\r\n", None, b"a\r\n"),
    ],
)
def test_a_blob_is_taken_when_all_of_it_is_there_and_its_end_is_where_it_belongs(
    data: bytes, expected: bytes | None, behind: bytes
) -> None:
    buffer = filled(data)

    assert buffer.maybe_blob(4) == expected
    assert buffer.some(100) == behind


def test_an_empty_blob_is_taken_by_its_end_alone() -> None:
    assert filled(b"\r\n").maybe_blob(0) == b""
