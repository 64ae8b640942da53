"""Takes wait for bytes, keep their place and stop at their limits."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.buffer import PIECE_BYTES, Buffer, F, Parse
from proxy.core.errors import LimitExceeded


def drive(parse: Parse[F], buffer: Buffer, *chunks: bytes) -> F:
    """What the parser comes to when the chunks arrive one by one."""
    for chunk in (*chunks, b""):
        try:
            next(parse)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        buffer.feed(chunk)
    raise AssertionError("the parser waits for more")


def test_a_line_is_found_over_any_cut() -> None:
    buffer = Buffer()

    assert drive(buffer.line(10), buffer, b"ab", b"c\r", b"\nrest") == b"abc"
    assert buffer.some(10) == b"rest"


def test_a_line_stops_at_its_limit_while_it_waits_and_when_it_is_there() -> None:
    waiting = Buffer()
    with pytest.raises(LimitExceeded):
        drive(waiting.line(4), waiting, b"abc", b"de")
    there = Buffer()
    there.feed(b"abcde\r\n")
    with pytest.raises(LimitExceeded):
        drive(there.line(4), there)


def test_a_count_above_the_limit_is_refused_before_it_is_waited_for() -> None:
    buffer = Buffer()

    with pytest.raises(LimitExceeded):
        next(buffer.exact(11, 10))


def test_nothing_is_taken_by_looking() -> None:
    buffer = Buffer()
    assert buffer.peek() == -1
    buffer.feed(b"abc")

    assert buffer.peek() == ord("a")
    assert buffer.span(1, 9) == b"bc"
    assert buffer.match(re.compile(b"c"), 2) is not None
    assert buffer.match(re.compile(b"c")) is None
    assert len(buffer) == 3
    buffer.skip(2)
    assert buffer.some(9) == b"c"


def test_its_repr_tells_its_length_alone() -> None:
    buffer = Buffer()
    buffer.feed(b"s3cret")

    assert repr(buffer) == "<Buffer of 6 bytes>"


@given(st.lists(st.binary(max_size=90_000), max_size=4), st.integers(1, 70_000))
def test_what_goes_in_comes_out_in_order_whatever_was_taken_before(chunks: list[bytes], step: int) -> None:
    buffer = Buffer()
    out = b""
    for chunk in chunks:
        buffer.feed(chunk)
        out += buffer.some(step)
    out += drive(buffer.exact(len(buffer), 1_000_000), buffer)

    assert out == b"".join(chunks)


@given(st.lists(st.integers(1, 3 * PIECE_BYTES), min_size=1, max_size=12), st.integers(PIECE_BYTES + 8, 6 * PIECE_BYTES))
def test_what_comes_in_many_pieces_is_taken_whole_and_what_stands_behind_it_stays(sizes: list[int], count: int) -> None:
    data = bytes(range(256)) * ((count + sum(sizes)) // 256 + 1)
    buffer = Buffer()
    buffer.feed(data[:7])
    walk = buffer.exact(count, count)
    at, taken = 7, None
    for size in (*sizes, count):
        try:
            next(walk)
        except StopIteration as done:
            taken = done.value
            break
        assert (len(buffer), buffer.missing) == (at, count - at)
        buffer.feed(data[at : at + size])
        at += size
    else:
        with pytest.raises(StopIteration) as ended:
            next(walk)
        taken = ended.value.value

    assert taken == data[:count]
    assert (buffer.missing, buffer.taken, buffer.some(at)) == (0, count, data[count:at])


def test_single_bytes_of_what_is_large_are_not_kept_as_an_object_each() -> None:
    buffer = Buffer()
    walk = buffer.exact(10 * PIECE_BYTES, 10 * PIECE_BYTES)
    next(walk)
    before = sys.getallocatedblocks()
    for _ in range(PIECE_BYTES):
        buffer.feed(b"x")

    assert sys.getallocatedblocks() - before < PIECE_BYTES // 4
    assert len(buffer) == PIECE_BYTES
