"""proxy.protocols.redis.wire: losslessness, places kept, limits, the server's own quoting."""

from __future__ import annotations

import base64
import itertools
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.buffer import Buffer, Parse
from proxy.core.errors import LimitExceeded, WireError
from proxy.protocols.redis import wire
from proxy.protocols.redis.inline import split_inline
from proxy.protocols.redis.wire import Node

CORPUS = Path(__file__).parents[2] / "corpora" / "resp_malformed.jsonl"
BEHIND = b"+NEXT\r\n"
MEGABYTE = 1 << 20


def value(buffer: Buffer, most_bytes: int, most_held: int) -> Parse[Node | None]:
    kind, line = yield from wire.head(buffer)
    return (yield from wire.read(buffer, kind, line, most_bytes, most_held))


def read(pieces: list[bytes], most_bytes: int = MEGABYTE, most_held: int = wire.MAX_HELD) -> tuple[Node | None, bytes]:
    """The value, and what is left behind it. Fails if it is not whole once all has come."""
    buffer = Buffer()
    parse = value(buffer, most_bytes, most_held)
    for at, piece in enumerate(pieces):
        buffer.feed(piece)
        try:
            next(parse)
        except StopIteration as done:
            for rest in pieces[at + 1 :]:
                buffer.feed(rest)
            result: Node | None = done.value
            return result, buffer.some(len(buffer))
    raise AssertionError("the value is not whole")


def whole(data: bytes) -> Node:
    node, behind = read([data])
    assert node is not None
    assert behind == b""
    return node


def streamed(pieces: list[bytes], *, keep_attributes: bool) -> tuple[bytes, bytes]:
    """The bytes that come out, and what is left behind them."""
    buffer = Buffer()

    def run() -> Iterator[bytes | None]:
        head = wire.head(buffer)
        while True:
            try:
                next(head)
            except StopIteration as done:
                kind, line = done.value
                yield from wire.stream(buffer, kind, line, keep_attributes)
                return
            yield None

    out, flow = [], run()
    for at, piece in enumerate(pieces):
        buffer.feed(piece)
        for step in flow:
            if step is None:
                break
            out.append(step)
        else:
            for rest in pieces[at + 1 :]:
                buffer.feed(rest)
            return b"".join(out), buffer.some(len(buffer))
    raise AssertionError("the value is not whole")


def commands(pieces: list[bytes], **limits: int) -> tuple[list[tuple[bytes, ...]], int]:
    """All commands of the bytes, and how many bytes wait for more."""
    buffer, found = Buffer(), []
    parse = wire.command(buffer, **limits)
    for piece in pieces:
        buffer.feed(piece)
        while True:
            try:
                next(parse)
            except StopIteration as done:
                found.append(done.value)
                parse = wire.command(buffer, **limits)
                continue
            break
    return found, len(buffer)


def singly(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


# --- every legal reply -----------------------------------------------------------------------------------------------

texts = st.binary(max_size=12).map(lambda raw: raw.replace(b"\r", b"").replace(b"\n", b""))
numbers = st.integers().map(lambda n: b"%d" % n)
lines = (
    st.tuples(st.sampled_from([wire.SIMPLE, wire.ERROR]), texts)
    | st.tuples(st.sampled_from([wire.INTEGER, wire.BIG_NUMBER]), numbers)
    | st.tuples(st.just(wire.DOUBLE), st.sampled_from([b"1.5", b"inf", b"-inf", b"nan", b"1e400"]))
    | st.tuples(st.just(wire.BOOLEAN), st.sampled_from([b"t", b"f"]))
    | st.just((wire.NULL, b""))
    | st.tuples(st.sampled_from([wire.BULK, wire.ARRAY, wire.SET]), st.just(b"-1"))
).map(lambda each: Node(*each))
blobs = st.builds(
    lambda kind, body: Node(kind, b"%d" % len(body), body),
    st.sampled_from([wire.BULK, wire.BULK_ERROR, wire.VERBATIM]),
    st.binary(max_size=40) | st.just(b"\r\n$3\r\n"),
)


def trees(kids: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(wire.tree, st.sampled_from([wire.ARRAY, wire.SET]), st.lists(kids, max_size=4)) | st.builds(
        wire.tree, st.just(wire.MAP), st.lists(kids, max_size=6).map(lambda listed: listed[: len(listed) // 2 * 2])
    )


values = st.recursive(lines | blobs, trees, max_leaves=12)
pushes = st.lists(values, max_size=4).map(lambda kids: wire.tree(wire.PUSH, kids))
replies = values | pushes


@given(replies)
def test_a_reply_comes_out_byte_for_byte(node: Node) -> None:
    data = wire.encode(node)

    assert wire.encode(whole(data)) == data
    assert whole(data) == node


@given(replies, st.lists(st.integers(0, 10_000), max_size=6))
def test_the_pieces_in_which_a_reply_comes_do_not_matter(node: Node, cuts: list[int]) -> None:
    data = wire.encode(node)

    for pieces in ([data + BEHIND], singly(data + BEHIND), split_at(data + BEHIND, cuts)):
        assert read(pieces) == (node, BEHIND)


@given(replies, st.lists(st.integers(0, 10_000), max_size=6), st.booleans())
def test_streaming_gives_what_reading_gives(node: Node, cuts: list[int], keep: bool) -> None:
    data = wire.encode(node)

    for pieces in ([data + BEHIND], singly(data + BEHIND), split_at(data + BEHIND, cuts)):
        assert streamed(pieces, keep_attributes=keep) == (data, BEHIND)


def interrupted(node: Node, pushes: list[Node], places: list[int]) -> bytes:
    """A reply with pushes in front of some of the values inside it, and attributes too, which count as little."""
    heads, todo = list[bytes](), [node]
    while todo:
        each = todo.pop()
        heads.append(wire.encode(Node(each.kind, each.line, each.body, [] if each.kids is not None else None)))
        todo.extend(reversed(each.kids or ()))
    for push, place in sorted(zip(pushes, places, strict=False), key=lambda pair: -pair[1] % max(1, len(heads) - 1)):
        if len(heads) > 1:
            at = 1 + place % (len(heads) - 1)
            heads[at] = wire.encode(push) + heads[at]
    return b"".join(heads)


@given(values, st.lists(pushes, min_size=1, max_size=3), st.lists(st.integers(0, 50), min_size=3, max_size=3))
def test_a_push_in_the_middle_of_a_reply_counts_for_nothing(node: Node, pushed: list[Node], places: list[int]) -> None:
    data = interrupted(node, pushed, places)
    expected = sorted(map(wire.encode, pushed)) if node.kids else []

    def reading(buffer: Buffer, aside: wire.Aside) -> Parse[bytes]:
        kind, line = yield from wire.head(buffer)
        found = yield from wire.read(buffer, kind, line, MEGABYTE, aside=aside)
        return wire.encode(found) if found else b""

    def streaming(buffer: Buffer, aside: wire.Aside) -> Parse[bytes]:
        kind, line = yield from wire.head(buffer)
        out = b""
        for piece in wire.stream(buffer, kind, line, keep_attributes=False, aside=aside):
            if piece is None:
                yield
            out += piece or b""
        return out

    def discarding(buffer: Buffer, aside: wire.Aside) -> Parse[bytes]:
        yield from wire.discard(buffer, 1, aside)
        return wire.encode(node)

    for taking in (reading, streaming, discarding):
        for pieces in ([data + BEHIND], singly(data + BEHIND)):
            buffer, aside = Buffer(), wire.Aside()
            parse = taking(buffer, aside)
            taken = None
            for piece in pieces:
                buffer.feed(piece)
                if taken is None:
                    try:
                        next(parse)
                    except StopIteration as done:
                        taken = done.value
            assert taken == wire.encode(node)
            assert buffer.some(len(buffer)) == BEHIND
            assert sorted(map(wire.encode, aside.release())) == expected


@pytest.mark.parametrize("data", [b"*1\r\n>1\r\n:1\r\n:2\r\n", b">1\r\n>1\r\n:1\r\n:2\r\n", b"*1\r\n>1\r\n>1\r\n:1\r\n"])
def test_a_push_where_nothing_sets_it_aside_is_nonsense(data: bytes) -> None:
    with pytest.raises(WireError):
        read([data])


def test_pushes_in_the_middle_of_a_reply_are_bounded() -> None:
    buffer, aside = Buffer(), wire.Aside()
    buffer.feed(b">0\r\n" * (wire.MAX_ASIDE + 1))

    with pytest.raises(LimitExceeded):
        for _ in wire.head_within(buffer, aside):
            pass


@given(replies)
def test_hiredis_sees_a_reply_end_at_the_same_byte(node: Node) -> None:
    data, waiting = wire.encode(node), object()
    reader = hiredis.Reader(notEnoughData=waiting)
    reader.feed(data[:-1])
    try:
        early = reader.gets()
        reader.feed(data[-1:] + BEHIND)
        reader.gets()
        behind = reader.gets()
    except (hiredis.HiredisError, TypeError, ValueError):
        return  # what Python cannot hold (a tree as a map's key) and the types that hiredis does not take

    assert early is waiting
    assert behind == b"NEXT"


ATTRIBUTE = b"|1\r\n+ttl\r\n*2\r\n:1\r\n|1\r\n+a\r\n+b\r\n:2\r\n"


@pytest.mark.parametrize(
    ("given_bytes", "expected"),
    [
        (ATTRIBUTE + b"$1\r\nx\r\n", b"$1\r\nx\r\n"),
        (ATTRIBUTE + ATTRIBUTE + b":1\r\n", b":1\r\n"),
        (b"*2\r\n" + ATTRIBUTE + b":1\r\n" + ATTRIBUTE + b"*0\r\n", b"*2\r\n:1\r\n*0\r\n"),
        (b"|0\r\n%1\r\n" + ATTRIBUTE + b"+k\r\n" + ATTRIBUTE + b"_\r\n", b"%1\r\n+k\r\n_\r\n"),
    ],
)
def test_attributes_are_dropped_and_do_not_count_as_values(given_bytes: bytes, expected: bytes) -> None:
    for pieces in ([given_bytes + BEHIND], singly(given_bytes + BEHIND)):
        node, behind = read(pieces)

        assert node is not None
        assert (wire.encode(node), behind) == (expected, BEHIND)
        assert streamed(pieces, keep_attributes=False) == (expected, BEHIND)
        assert streamed(pieces, keep_attributes=True) == (given_bytes, BEHIND)


# --- what is no reply ------------------------------------------------------------------------------------------------

BROKEN = [
    b"x\r\n",
    b"?\r\n",
    b"$?\r\n",
    b"*?\r\n",
    b";4\r\nabcd\r\n",
    b".\r\n",
    b"$-2\r\n",
    b"$+1\r\na\r\n",
    b"$01\r\na\r\n",
    b"$ 1\r\na\r\n",
    b"$\r\n\r\n",
    b"*\xd9\xa1\r\n",
    b"$1\r\nabc",
    b"$1\r\na\n\r",
    b"=4\r\ntxt:xx",
    b"_S3CR3T\r\n",
    b"*2147483648\r\n",
    b"$536870913\r\n",
    b"*1\r\nx",
]


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_no_reply_is_a_wire_error_read_or_streamed(data: bytes) -> None:
    for pieces in ([data], singly(data)):
        with pytest.raises(WireError):
            read(pieces)
        with pytest.raises(WireError):
            streamed(pieces, keep_attributes=True)


def test_a_wire_error_tells_no_contents() -> None:
    with pytest.raises(WireError) as caught:
        read([b"_S3CR3T\r\n"])

    assert "S3CR3T" not in repr(caught.value)


def test_nesting_is_read_down_to_its_limit_and_no_further() -> None:
    deep = b"*1\r\n" * wire.MAX_DEPTH + b":1\r\n"

    assert wire.encode(whole(deep)) == deep
    with pytest.raises(LimitExceeded):
        read([b"*1\r\n" + deep])


@pytest.mark.parametrize("head", [b"*2147483647\r\n", b"%2147483647\r\n", b"~2147483647\r\n:1\r\n", b"$536870912\r\n"])
def test_an_announced_count_allocates_nothing(head: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(AssertionError, match="not whole"):
            read([head])
        with pytest.raises(AssertionError, match="not whole"):
            streamed([head], keep_attributes=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 100_000


# --- over the limits -------------------------------------------------------------------------------------------------


def test_a_blob_over_the_limit_is_dropped_and_reads_as_masked() -> None:
    data = b"*3\r\n$5\r\nshort\r\n$11\r\nS3CR3T-4711\r\n=15\r\ntxt:S3CR3T-4711\r\n"
    expected = "*3\r\n$5\r\nshort\r\n$12\r\n••••\r\n=16\r\ntxt:••••\r\n".encode()

    for pieces in ([data + BEHIND], singly(data + BEHIND)):
        node, behind = read(pieces, most_bytes=10)

        assert node is not None
        assert node.kids is not None
        assert [kid.large for kid in node.kids] == [False, True, True]
        assert not any(kid.is_null for kid in node.kids)
        assert (wire.encode(node), behind) == (expected, BEHIND)


@settings(max_examples=200)
@given(values, st.integers(0, 2000), st.integers(0, 40))
def test_a_reply_over_the_limit_ends_where_it_ends(node: Node, most_held: int, most_bytes: int) -> None:
    data = wire.encode(wire.tree(wire.ARRAY, [node, wire.bulk(b"tail"), node]))

    for pieces in ([data + BEHIND], singly(data + BEHIND)):
        kept, behind = read(pieces, most_bytes=most_bytes, most_held=most_held)

        assert behind == BEHIND
        assert kept is None or most_held >= wire.NODE_COST


def test_a_reply_over_the_limit_is_taken_with_its_attributes() -> None:
    data = b"*3\r\n$1\r\na\r\n" + ATTRIBUTE + b"*1\r\n" + ATTRIBUTE + b"$1\r\nb\r\n%1\r\n+k\r\n$-1\r\n"

    for most_held in range(0, 2000, 50):
        assert read([data + BEHIND], most_held=most_held)[1] == BEHIND


# --- commands --------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=3), st.lists(st.integers(0, 999), max_size=5)
)
def test_commands_come_back_as_they_were_written(wanted: list[list[bytes]], cuts: list[int]) -> None:
    wanted = [[b"N" + argv[0], *argv[1:]] for argv in wanted]
    data = b"".join(wire.encode_command(argv) for argv in wanted)
    expected = ([tuple(argv) for argv in wanted], 0)

    assert commands([data]) == expected
    assert commands(singly(data)) == expected
    assert commands(split_at(data, cuts)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"GET user:1", (b"GET", b"user:1")),
        (b"  GET\t user:1 \r", (b"GET", b"user:1")),
        (b'"\\x47\\x45T" "pii\\x3a1"', (b"GET", b"pii:1")),
        (b"'GET' 'it\\'s'", (b"GET", b"it's")),
        (b'"\\n\\r\\t\\b\\a\\\\\\"\\z"', (b'\n\r\t\b\a\\"z',)),
        (b'"\\xZZ"', (b"xZZ",)),
        (b'G"E"', (b"GE",)),
        (b"'\\n'", (b"\\n",)),
        (b"GET\v1", (b"GET\v1",)),
        (b'"GET"\v1', (b"GET", b"1")),
        (b"\v\fGET \xff", (b"GET", b"\xff")),
        (b'SET k ""', (b"SET", b"k", b"")),
        (b"", ()),
        (b" \r", ()),
    ],
)
def test_an_inline_command_is_split_as_the_server_splits_it(line: bytes, expected: tuple[bytes, ...]) -> None:
    assert split_inline(line) == expected


@pytest.mark.parametrize("line", [b'"GET', b"'GET", b'"GET"x', b"'a''b'", b'"a\\', b'GET "a"b'])
def test_unbalanced_quotes_are_refused(line: bytes) -> None:
    with pytest.raises(WireError, match="unbalanced quotes") as caught:
        split_inline(line)

    assert caught.value.answer.startswith(b"-ERR Protocol error: unbalanced quotes in request\r\n")


def test_nul_in_an_inline_command_is_refused() -> None:
    for line in (b"GET\0 user:1", b"\0", b'"\0"'):
        with pytest.raises(WireError, match="NUL"):
            split_inline(line)


def test_inline_and_array_commands_mix_on_one_connection() -> None:
    data = b"PING\n\r\n*0\r\n*1\r\n$4\r\nPING\r\n*-1\r\nGET a\r\n"
    expected = [(b"PING",), (), (), (b"PING",), (), (b"GET", b"a")]

    assert commands([data]) == (expected, 0)
    assert commands(singly(data)) == (expected, 0)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*+2\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*02\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*-2\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$536870913\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n:3\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*1\r\n\x01", b"-ERR Protocol error: expected '$', got '?'\r\n"),
        (b"*1\n", b"-ERR Protocol error: a line that does not end in CRLF\r\n"),
        (b"*1\r\n$1\r\nabc", b"-ERR Protocol error: a bulk that does not end in CRLF\r\n"),
        (b"*" + b"1" * 40, b"-ERR Protocol error: too big count string\r\n"),
        (b"a" * 70_000, b"-ERR Protocol error: too big inline request\r\n"),
        (b"\x16\x03\x01", b"-ERR Protocol error: not a printable character\r\n"),
        (b"POST / HTTP/1.1\r\n", b""),
        (b"Host: x\r\n", b""),
        (b"*1\r\n$4\r\npost\r\n", b""),
    ],
)
def test_what_is_no_command_is_answered_and_ends_it(data: bytes, answer: bytes) -> None:
    with pytest.raises(WireError) as caught:
        commands([data])

    assert caught.value.answer == answer


def test_a_command_over_its_limits_is_refused_before_it_is_held() -> None:
    with pytest.raises(WireError, match="multibulk"):
        commands([b"*11\r\n"], most_args=10)
    with pytest.raises(WireError, match="too big"):
        commands([b"*2\r\n$5\r\nabcde\r\n$100\r\n"], most_bytes=100)


def corpus() -> list[dict[str, str]]:
    return [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]


def bytes_of(case: dict[str, str]) -> bytes:
    return b"*" + b"1" * 70_000 if case["id"] == "long_line" else base64.b64decode(case["b64"])


SKIPPED = {"array_zero"}  # the other right verdict: skipped without a reply


@pytest.mark.parametrize("case", [each for each in corpus() if each["verdict"] == "close"], ids=lambda case: str(case["id"]))
def test_hostile_bytes_end_the_connection_or_are_skipped(case: dict[str, str]) -> None:
    data = bytes_of(case)

    if case["id"] in SKIPPED:
        assert commands([data]) == ([(), (b"GET", b"pii:1")], 0)
        assert commands(singly(data)) == commands([data])
        return
    for pieces in ([data], [*singly(data[:300]), data[300:]]):
        with pytest.raises(WireError):
            commands(pieces)


@pytest.mark.parametrize("case", [each for each in corpus() if each["verdict"] != "close"], ids=lambda case: str(case["id"]))
def test_legal_bytes_are_cut_into_the_same_commands_however_they_come(case: dict[str, str]) -> None:
    data = bytes_of(case)
    found, waiting = commands([data])

    assert found
    assert waiting == 0
    assert commands(singly(data)) == (found, 0)
