"""proxy.protocols.redis.contents and streams: a canary in every content position of every reply, well formed or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.redis import wire
from proxy.protocols.redis.contents import SHAPES
from proxy.protocols.redis.wire import Node

from .lenses import CANARY, MASK, Keeping, lens, of

K = b"user:1"
C = CANARY
M = MASK
E1: list[object] = [b"1-1", [b"f", C, b"g", C]]
F1: list[object] = [b"1-1", [b"f", M, b"g", M]]


@dataclass(frozen=True)
class Case:
    """A reply with canaries and what is to be left of it; of RESP2 and RESP3 alike where `version` is 0."""

    shape: str
    line: bytes
    reply: object
    expected: object
    version: int = 0

    @property
    def argv(self) -> tuple[bytes, ...]:
        return tuple(self.line.split())

    def __str__(self) -> str:
        return f"{self.shape}-{self.line.decode()}-{self.version}"


class Wrong(Case):
    """A reply that is not as it should be already, or whose command cannot be read."""


CASES = [
    Case("value", b"GET user:1", C, M),
    Case("value", b"GET user:1", b"", M),
    Case("members", b"LRANGE user:1 0 -1", [C, None, C], [M, None, M]),
    Case("members", b"LPOP user:1", C, M),
    Case("members", b"LRANGE user:1 0 -1", [], []),
    Case("set_members", b"SMEMBERS user:1", {C, C + b"2"}, [M, M], 2),
    Case("set_members", b"SMEMBERS user:1", {C, C + b"2"}, wire.tree(wire.SET, [of(M), of(M)]), 3),
    Case("set_members", b"SPOP user:1", C, M),
    Case("by_key", b"MGET user:1 free user:2", [C, b"open", C], [M, b"open", M]),
    Case("by_key", b"MGET user:1 free", [None, b"open"], [None, b"open"]),
    Wrong("by_key", b"MGET user:1 free", [C, C, C], [M, M, M]),
    Wrong("by_key", b"MGET free user:1", C, M),
    Case("hash_field", b"HGET user:1 ssn", C, M),
    Case("hash_fields", b"HMGET user:1 ssn open tel", [C, b"plain", C], [M, b"plain", M]),
    Wrong("hash_fields", b"HMGET user:1 open", [C, C], [M, M]),
    Case("fields_after_word", b"HGETDEL user:1 FIELDS 2 ssn open", [C, b"plain"], [M, b"plain"]),
    Case("fields_after_word", b"HGETEX user:1 EX FIELDS fields 2 open ssn", [b"plain", C], [b"plain", M]),
    Case("fields_after_word", b"HGETEX user:1 PERSIST FIELDS 1 open", [b"plain"], [b"plain"]),
    Wrong("fields_after_word", b"HGETEX user:1 FIELDS 1 open PERSIST", [C], [M]),
    Wrong("fields_after_word", b"HGETEX user:1 NEW 1 FIELDS 1 open", [C], [M]),
    Wrong("fields_after_word", b"HGETEX user:1 EX 1 FIELDS", [C], [M]),
    Case("hash_pairs", b"HGETALL user:1", {b"ssn": C, b"open": b"plain"}, {b"ssn": M, b"open": b"plain"}),
    Case("hash_pairs", b"HGETALL user:1", [b"ssn", C, b"open", b"x", b"ssn", C], [b"ssn", M, b"open", b"x", b"ssn", M]),
    Wrong("hash_pairs", b"HGETALL user:1", [b"ssn", C, C], [M, M, M]),
    Case("hash_pairs", b"HGETALL user:1", {}, {}),
    Case("values_of_hash", b"HVALS user:1", {b"ssn": C, b"open": b"plain"}, [M, b"plain"]),
    Case("values_of_hash", b"HVALS user:1", {}, []),
    Wrong("values_of_hash", b"HVALS user:1", [C], [M]),
    Case("hash_random", b"HRANDFIELD user:1", b"ssn", b"ssn"),
    Case("hash_random", b"HRANDFIELD user:1 2", [b"ssn", b"f"], [b"ssn", b"f"]),
    Wrong("hash_random", b"HRANDFIELD user:1 2", [[b"ssn", C]], [[M, M]]),
    Case("hash_random", b"HRANDFIELD user:1 2 WITHVALUES", [b"ssn", C, b"open", b"x"], [b"ssn", M, b"open", b"x"], 2),
    Case("hash_random", b"HRANDFIELD user:1 2 WITHVALUES", [[b"ssn", C], [b"f", C]], [[b"ssn", M], [b"f", M]], 3),
    Wrong("hash_random", b"HRANDFIELD user:1 2 WITHVALUES", C, M),
    Case("hash_scan", b"HSCAN user:1 0", [b"17", [b"ssn", C, b"open", b"x"]], [b"17", [b"ssn", M, b"open", b"x"]]),
    Case("hash_scan", b"HSCAN user:1 0 MATCH NOVALUES COUNT 9", [b"0", [b"ssn", C]], [b"0", [b"ssn", M]]),
    Case("hash_scan", b"HSCAN user:1 0 MATCH * NOVALUES", [b"0", [b"ssn", b"f"]], [b"0", [b"ssn", b"f"]]),
    Wrong("hash_scan", b"HSCAN user:1 0 NEW", [b"0", [b"ssn", C]], [M, [M, M]]),
    Wrong("hash_scan", b"HSCAN user:1 0", [C, [b"ssn", C]], [M, [M, M]]),
    Case("set_scan", b"SSCAN user:1 0", [b"0", [C, C]], [b"0", [M, M]]),
    Case("set_scan", b"SSCAN user:1 0", [b"0", []], [b"0", []]),
    Wrong("set_scan", b"SSCAN user:1 0", [b"0", C], [M, M]),
    Case("zset_scan", b"ZSCAN user:1 0", [b"0", [C, b"47.11", C, b"47.11"]], [b"0", [M, b"0", M, b"0"]]),
    Case("zset_members", b"ZRANGE user:1 0 -1", [C, C], [M, M]),
    Case("zset_members", b"ZRANGE user:1 0 -1 WITHSCORES", [C, b"47.11", C, b"47.11"], [M, b"0", M, b"0"], 2),
    Case("zset_members", b"ZRANGE user:1 0 -1 REV WITHSCORES", [[C, 47.11], [C, 47.11]], [[M, 0.0], [M, 0.0]], 3),
    Case("zset_members", b"ZRANGE user:1 0 -1 BYSCORE LIMIT WITHSCORES 2", [C, C], [M, M]),
    Wrong("zset_members", b"ZRANGE user:1 0 -1 WITHSCORES", [C, b"47.11", C], [M, M, M]),
    Wrong("zset_members", b"ZRANGE user:1 0 -1 NEW", [C, b"47.11"], [M, M]),
    Case("zset_members", b"ZREVRANGE user:1 0 -1 WITHSCORES", [C, b"47.11"], [M, b"0"], 2),
    Case("zset_members", b"ZRANGEBYSCORE user:1 0 1 LIMIT 0 1 WITHSCORES", [C, b"47.11"], [M, b"0"], 2),
    Case("zset_members", b"ZRANDMEMBER user:1", C, M),
    Case("zset_members", b"ZRANDMEMBER user:1 2", [C, C], [M, M]),
    Case("zset_members", b"ZRANDMEMBER user:1 2 WITHSCORES", [[C, 47.11]], [[M, 0.0]], 3),
    Case("zset_members", b"ZPOPMIN user:1", [C, 47.11], [M, 0.0]),
    Case("zset_members", b"ZPOPMAX user:1 2", [[C, 47.11]], [[M, 0.0]], 3),
    Case("zset_members", b"ZDIFF 1 user:1", [C], [M]),
    Case("zset_members", b"ZUNION 1 user:1 WEIGHTS 2 AGGREGATE MAX WITHSCORES", [[C, 47.11]], [[M, 0.0]], 3),
    Wrong("zset_members", b"ZINTER 2 free user:1", [C], [M]),
    Wrong("zset_members", b"ZNEW user:1", [C], [M]),
    Case("key_zset_members", b"BZMPOP 0 2 free user:1 MIN", [K, [[C, 47.11]]], [K, [[M, 0.0]]]),
    Wrong("key_zset_members", b"ZMPOP 1 user:1 MIN", [b"free", [[C, 47.11]]], [M, [[M, M]]], 2),
    Case("key_member_score", b"BZPOPMIN free user:1 0", [K, C, 47.11], [K, M, 0.0]),
    Case("key_element", b"BLPOP free user:1 0", [K, C], [K, M]),
    Wrong("key_element", b"BLPOP user:1 0", [b"free", C], [M, M]),
    Case("key_elements", b"LMPOP 2 free user:1 LEFT", [K, [C, C]], [K, [M, M]]),
    Case("stream_entries", b"XRANGE user:1 - +", [E1, [b"1-2", [b"open", b"x"]]], [F1, [b"1-2", [b"open", b"x"]]]),
    Case("stream_entries", b"XRANGE user:1 - +", [[b"1-1", None], None], [[b"1-1", None], None]),
    Case("stream_entries", b"XRANGE user:1 - +", [[*E1, 5, 1]], [[*F1, 5, 1]]),
    Wrong("stream_entries", b"XRANGE user:1 - +", [[*E1, 5, C]], [[M, [M, M, M, M], 0, M]]),
    Wrong("stream_entries", b"XRANGE user:1 - +", [[C, [b"f", C]], E1], [[M, [M, M]], F1]),
    Wrong("stream_entries", b"XRANGE user:1 - +", [[b"1-1", [b"f", C, C]]], [[b"1-1", [M, M, M]]]),
    Case("streams", b"XREAD STREAMS user:1 free 0 0", [[K, [E1]], [b"free", [[b"1-1", [b"f", b"x"]]]]],
         [[K, [F1]], [b"free", [[b"1-1", [b"f", b"x"]]]]], 2),
    Case("streams", b"XREADGROUP GROUP g c STREAMS user:1 0", [[K, None]], [[K, None]], 2),
    Case("streams", b"XREAD STREAMS user:1 free 0 0", {K: [E1], b"free": []}, {K: [F1], b"free": []}, 3),
    Wrong("streams", b"XREAD STREAMS free user:1 0 0", {b"free2": [E1]}, {M: [[M, [M, M, M, M]]]}, 3),
    Case("stream_claim", b"XCLAIM user:1 g c 0 1-1 IDLE JUSTID", [E1, None], [F1, None]),
    Case("stream_claim", b"XCLAIM user:1 g c 0 1-1 2 FORCE JUSTID", [b"1-1", b"2-0"], [b"1-1", b"2-0"]),
    Wrong("stream_claim", b"XCLAIM user:1 g c 0 1-1 JUSTID", [E1], [[M, [M, M, M, M]]]),
    Wrong("stream_claim", b"XCLAIM user:1 g c 0 1-1 NEW", [E1], [[M, [M, M, M, M]]]),
    Case("stream_autoclaim", b"XAUTOCLAIM user:1 g c 0 0", [b"0-0", [E1], [b"1-2"]], [b"0-0", [F1], [b"1-2"]]),
    Case("stream_autoclaim", b"XAUTOCLAIM user:1 g c 0 0 COUNT JUSTID", [b"0-0", [E1]], [b"0-0", [F1]]),
    Case("stream_autoclaim", b"XAUTOCLAIM user:1 g c 0 0 JUSTID", [b"0-0", [b"1-1"], []], [b"0-0", [b"1-1"], []]),
    Wrong("stream_autoclaim", b"XAUTOCLAIM user:1 g c 0 0 NEW", [b"0-0", [E1]], [M, [[M, [M, M, M, M]]]]),
    Case("stream_info", b"XINFO STREAM user:1", {b"length": 2, b"last-generated-id": b"1-2", b"groups": 0, b"new": C,
         b"first-entry": E1, b"last-entry": None}, {b"length": 2, b"last-generated-id": b"1-2", b"groups": 0, b"new": M,
         b"first-entry": F1, b"last-entry": None}),
    Case("stream_info", b"XINFO STREAM user:1 FULL", {b"entries": [E1], b"groups": [{b"name": b"g"}]},
         {b"entries": [F1], b"groups": [{b"name": b"g"}]}),
    Case("slice", b"GETRANGE user:1 0 -1", C, M),
    Case("slice", b"GETRANGE user:1 0 0", C, "•".encode()),
    Case("hidden", b"SORT_RO user:1", [[1, C], [2, 47.11]], [[0, M], [0, 0.0]], 3),
    Case("index_value_pairs", b"ARSCAN user:1", [1, C, 2, C], [1, M, 2, M]),
    Case("index_value_pairs", b"ARSCAN user:1", [[b"1", C]], [[b"1", M]]),
    Wrong("index_value_pairs", b"ARSCAN user:1", [C, C], [M, M]),
    Case("expelled", b"TOPK.ADD user:1 x y", [None, C], [None, M]),
    Case("topk_list", b"TOPK.LIST user:1", [C, C], [M, M]),
    Case("topk_list", b"TOPK.LIST user:1 WITHCOUNT", [C, 3, C, 1], [M, 3, M, 1]),
    Wrong("topk_list", b"TOPK.LIST user:1 WITHCOUNT", [C, C], [M, M]),
    Case("whole", b"SCRIPT SHOW x", [C, 4711], [M, 0]),
]  # fmt: skip

DIAGNOSTICS = {
    "config", "function_list", "function_stats", "slowlog", "monitor", "info", "client_list", "memory_stats", "role",
}  # fmt: skip
VERSIONED = [(case, version) for case in CASES for version in ((2, 3) if not case.version else (case.version,))]
each_case = pytest.mark.parametrize(("case", "version"), VERSIONED, ids=str)


def lay(case: Case, reply: Node, version: int) -> Node:
    return SHAPES[case.shape](case.argv, reply, lens(), version)


def test_every_shape_has_a_case_here_or_among_the_diagnostics() -> None:
    assert {case.shape for case in CASES} | DIAGNOSTICS == set(SHAPES)


@each_case
def test_every_content_position_is_masked_and_no_name_is(case: Case, version: int) -> None:
    shown = lay(case, of(case.reply, version), version)

    assert wire.encode(shown) == wire.encode(of(case.expected, version))
    assert CANARY not in wire.encode(shown)


@each_case
def test_what_no_rule_masks_comes_out_as_it_came(case: Case, version: int) -> None:
    if case.shape in ("slice", "values_of_hash"):
        pytest.skip("these lay out another command's reply")
    reply = of(case.reply, version)
    through = lens(lifted=True)

    assert wire.encode(SHAPES[case.shape](case.argv, reply, through, version)) == wire.encode(reply)
    if b"S3CR3T" in wire.encode(reply) and case.shape != "whole":
        assert K in through.touched


NULLS = [Node(wire.NULL, b""), Node(wire.BULK, b"-1"), Node(wire.ARRAY, b"-1")]


@pytest.mark.parametrize("shape", sorted(set(SHAPES) - {"slice"}))
@pytest.mark.parametrize("reply", [*NULLS, Node(wire.ERROR, b"WRONGTYPE x"), Node(wire.BULK_ERROR, b"3", b"ERR")])
def test_null_and_errors_pass_every_shape(shape: str, reply: Node) -> None:
    through = lens()

    assert SHAPES[shape]((b"X", K, b"1", b"2", b"3", b"4"), reply, through, 3) is reply
    assert through.touched == set()


NAMING_SHAPES = ("hash_pairs", "hash_random", "config", "memory_stats", "function_list", "function_stats")


@pytest.mark.parametrize("shape", sorted(set(SHAPES) - {"info", "client_list"}))
def test_a_command_of_too_few_words_hides_its_reply(shape: str) -> None:
    for argv in ((b"X",), (b"X", K)):
        for reply in (of(C), of([C, C]), of([[C, C, C]])):
            shown = wire.encode(SHAPES[shape](argv, reply, lens(), 2))

            if shape not in NAMING_SHAPES or (len(argv) == 1 and shape.startswith("hash")):
                assert CANARY not in shown


# --- replies that are not as they should be --------------------------------------------------------------------------


def paths(node: Node, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield at
    for index, kid in enumerate(node.kids or ()):
        yield from paths(kid, (*at, index))


def at_path(node: Node, path: tuple[int, ...]) -> Node:
    for index in path:
        assert node.kids is not None
        node = node.kids[index]
    return node


def replaced(node: Node, path: tuple[int, ...], others: list[Node]) -> Node:
    """The tree with the node at the path replaced by others, however many."""
    if not path:
        return others[0]
    assert node.kids is not None
    index = path[0]
    if len(path) == 1:
        return wire.tree(node.kind, [*node.kids[:index], *others, *node.kids[index + 1 :]])
    return wire.tree(node.kind, [*node.kids[:index], replaced(node.kids[index], path[1:], others), *node.kids[index + 1 :]])


OTHERS = [
    wire.tree(wire.MAP, [of(C), of(C)]),
    wire.tree(wire.ARRAY, [of([C, C]), of(C)]),
    wire.simple(C),
    Node(wire.BULK_ERROR, b"11", C),
    Node(wire.VERBATIM, b"15", b"txt:" + C),
    Node(wire.BIG_NUMBER, C),
    Node(wire.DOUBLE, C),
]


def spoilt(reply: Node) -> Iterator[Node]:
    """The reply with one thing wrong: a node wrapped, missing or twice; another type where contents were."""
    for path in paths(reply):
        node = at_path(reply, path)
        yield replaced(reply, path, [wire.tree(wire.ARRAY, [node])])
        yield replaced(reply, path, [wire.tree(wire.SET, [node])])
        if path and at_path(reply, path[:-1]).kind != wire.MAP:
            yield replaced(reply, path, [])
            yield replaced(reply, path, [node, node])
        if node.body == CANARY:
            for other in OTHERS if path else ():
                yield replaced(reply, path, [other])


each_sound_case = pytest.mark.parametrize(
    ("case", "version"), [each for each in VERSIONED if not isinstance(each[0], Wrong)], ids=str
)


@each_sound_case
def test_a_reply_with_one_thing_wrong_lets_nothing_out(case: Case, version: int) -> None:
    for reply in spoilt(of(case.reply, version)):
        shown = wire.encode(lay(case, reply, version))

        assert CANARY not in shown, wire.encode(reply)


@each_sound_case
def test_one_word_too_few_or_too_many_lets_nothing_out(case: Case, version: int) -> None:
    if case.shape == "hash_random":
        pytest.skip("without its last word it is a command whose reply is names")
    for argv in (case.argv[:-1], (*case.argv, b"WITHSCORES"), (*case.argv, b"9")):
        if K in argv:
            shown = SHAPES[case.shape](argv, of(case.reply, version), lens(), version)

            assert CANARY not in wire.encode(shown), argv


canaries = st.sampled_from(
    [
        of(C),
        wire.simple(C),
        Node(wire.ERROR, C),
        Node(wire.BIG_NUMBER, C),
        Node(wire.DOUBLE, C),
        Node(wire.VERBATIM, b"15", b"txt:" + C),
        Node(wire.VERBATIM, b"11", C),
        Node(wire.BULK_ERROR, b"11", C),
        Node(wire.BULK, b"9999999", large=True),
        Node(wire.BULK, b"-1"),
    ]
)
secret_trees = st.recursive(
    canaries,
    lambda kids: (
        st.builds(wire.tree, st.sampled_from([wire.ARRAY, wire.SET, wire.PUSH]), st.lists(kids, max_size=5))
        | st.builds(wire.tree, st.just(wire.MAP), st.lists(kids, min_size=2, max_size=2))
    ),
    max_leaves=10,
).filter(lambda node: not node.is_error)
NAMING = ("hash_pairs", "hash_random", "values_of_hash", "hash_scan", "stream_info")
NAMELESS = [case for case in CASES if case.shape not in NAMING and not {b"open", b"free"} & set(case.line.split())]


@given(st.sampled_from(NAMELESS), secret_trees, st.sampled_from([2, 3]))
def test_of_contents_in_every_place_nothing_comes_out(case: Case, reply: Node, version: int) -> None:
    assert CANARY not in wire.encode(lay(case, reply, version))


named_trees = st.recursive(
    canaries,
    lambda kids: (
        st.lists(kids, max_size=4).map(
            lambda listed: wire.tree(wire.ARRAY, [each for kid in listed for each in (of(b"name"), kid)])
        )
        | st.lists(kids, max_size=4).map(
            lambda listed: wire.tree(wire.MAP, [each for kid in listed for each in (of(b"name"), kid)])
        )
        | st.lists(kids, max_size=3).map(lambda listed: wire.tree(wire.ARRAY, [of(b"7"), *listed[:1]]))
    ),
    max_leaves=10,
).filter(lambda node: not node.is_error)
NAMED = [case for case in CASES if case.shape in NAMING and case.shape != "hash_random" and b"NOVALUES" not in case.line]


@given(st.sampled_from(NAMED), named_trees, st.sampled_from([2, 3]))
def test_of_contents_behind_every_name_nothing_comes_out(case: Case, reply: Node, version: int) -> None:
    assert CANARY not in wire.encode(lay(case, reply, version))


# --- single facts ----------------------------------------------------------------------------------------------------


def test_masked_members_of_a_set_leave_sorted_by_what_is_shown() -> None:
    through = lens(Keeping(lambda data: data[-1:]))
    reply = of([b"z1", b"a3", b"m2"])

    for shape, argv in (("set_members", (b"SMEMBERS", K)), ("expelled", (b"TOPK.ADD", K, b"x"))):
        shown = SHAPES[shape](argv, reply, through, 2)
        expected = [b"1", b"2", b"3"] if shape == "set_members" else [b"1", b"3", b"2"]

        assert shown == of(expected)
    assert SHAPES["set_scan"]((b"SSCAN", K, b"0"), of([b"5", [b"z1", b"a3", b"m2"]]), through, 2) == of(
        [b"5", [b"1", b"2", b"3"]]
    )
    assert SHAPES["set_members"]((b"SMEMBERS", b"free"), reply, through, 2) == reply


def sliced(data: bytes | None, start: bytes, end: bytes, *, key: bytes = b"free", masked: bytes = b"") -> bytes:
    through = lens(Keeping(lambda _: masked))
    return wire.encode(SHAPES["slice"]((b"GETRANGE", key, start, end), of(data), through, 2))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (b"0", b"-1", b"0123456789"),
        (b"0", b"0", b"0"),
        (b"-3", b"-1", b"789"),
        (b"-1", b"-3", b""),
        (b"3", b"1", b""),
        (b"-100", b"2", b"012"),
        (b"8", b"100", b"89"),
        (b"10", b"20", b""),
        (b"-100", b"-50", b"0"),
        (b"0", b"-100", b"0"),
        (b"5", b"-100", b""),
        (b"9223372036854775807", b"9223372036854775807", b""),
        (b"-9223372036854775808", b"9223372036854775807", b"0123456789"),
    ],
)
def test_a_slice_is_the_servers(start: bytes, end: bytes, expected: bytes) -> None:
    assert sliced(b"0123456789", start, end) == wire.encode(of(expected))


@pytest.mark.parametrize("word", [b"", b"x", b"+1", b"01", b"-0", b"1.5", b" 1", b"9223372036854775808", b"\xd9\xa1", b"1\n"])
def test_a_slice_by_what_is_no_integer_is_the_servers_error(word: bytes) -> None:
    expected = b"-ERR value is not an integer or out of range\r\n"

    assert sliced(b"abc", word, b"0") == expected
    assert sliced(b"abc", b"0", word, key=K) == expected
    assert sliced(None, b"0", word) == expected


def test_a_masked_slice_counts_code_points_of_what_is_shown() -> None:
    assert sliced(C, b"1", b"2", key=K, masked="x•é•".encode()) == wire.encode(of("•é".encode()))
    assert sliced(C, b"-1", b"-1", key=K, masked="x•é•".encode()) == wire.encode(of("•".encode()))
    assert sliced(C, b"4", b"9", key=K, masked="x•é•".encode()) == b"$0\r\n\r\n"
    assert sliced(C, b"0", b"1", key=K, masked=b"\xff\xfe\xfd") == wire.encode(of(b"\xff\xfe"))


def test_a_slice_of_nothing_is_empty_and_of_an_error_the_error() -> None:
    assert sliced(None, b"0", b"1") == b"$0\r\n\r\n"
    error = Node(wire.ERROR, b"WRONGTYPE x")
    assert SHAPES["slice"]((b"GETRANGE", K, b"0", b"1"), error, lens(), 2) is error


def test_a_dropped_value_is_no_slice_of_anything() -> None:
    large = Node(wire.BULK, b"999", large=True)
    for key in (K, b"free"):
        shown = SHAPES["slice"]((b"GETRANGE", key, b"0", b"5"), large, lens(), 2)

        assert wire.encode(shown) == wire.encode(of(M))


def test_only_keys_with_contents_are_touched() -> None:
    through = lens()
    SHAPES["by_key"]((b"MGET", K, b"free", b"none", b"user:2"), of([C, b"x", None, C]), through, 2)

    assert through.touched == {K, b"user:2"}


def test_the_key_of_a_pop_is_taken_from_the_reply() -> None:
    through = lens()
    argv = (b"BLPOP", K, b"free", b"0")

    assert SHAPES["key_element"](argv, of([b"free", b"x"]), through, 2) == of([b"free", b"x"])
    assert through.touched == set()


@pytest.mark.parametrize(
    "line",
    [
        b"GET user:1", b"MGET free user:1", b"LMOVE free user:1 LEFT LEFT", b"ZINTER 2 free user:1", b"SDIFFSTORE free free2 user:1",
        b"OBJECT ENCODING user:1", b"SORT free STORE user:1", b"LMPOP user:1", b"ZINTER 9 user:1",
    ],
)  # fmt: skip
def test_hiding_looks_at_every_key_of_the_command(line: bytes) -> None:
    through = lens(anything=False)

    assert SHAPES["hidden"](tuple(line.split()), of([C, 4711]), through, 2) == of([M, 0])
    assert K in through.touched


def test_hiding_leaves_the_reply_where_no_key_of_the_command_is_masked() -> None:
    node = of([C])

    assert SHAPES["hidden"]((b"LMOVE", b"free", b"free2", b"LEFT", b"RIGHT"), node, lens(), 2) is node
    assert SHAPES["hidden"]((b"NO.SUCH", b"free"), node, lens(), 2) == of([M])
