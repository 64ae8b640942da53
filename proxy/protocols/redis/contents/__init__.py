"""Where contents sit in the replies of Redis commands: strings, lists, sets, hashes, sorted sets, and the registry.

A shape names every content position of a reply and puts it through the lens. Names (fields, keys, ids, cursors)
stay, and only where they look like names: a tree, an error or a dropped blob in a name's place, an odd number of
elements, or arguments that cannot be read hide all of the reply. Streams are in streams.py; what a server says
about itself is in diagnostics.py. Nothing here decides whether a command may run: that is judge.py.
Source: the reply sections of the Redis and Valkey command pages; forms of RESP2 and RESP3 measured on both.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .. import surface, wire
from ..surface import keys
from ..wire import Node
from . import diagnostics, streams
from .lens import Lens, Shape, flat_pairs, name_of, nested_pairs, rebuilt

Argv = tuple[bytes, ...]

# --- strings, lists, sets --------------------------------------------------------------------------------------------


def value(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """One value of the key at argv[1]."""
    return lens.value(argv[1], reply)


def members(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """One value of the key at argv[1], or an array or set of them."""
    return _members(argv[1], reply, lens)


def _members(key: bytes, reply: Node, lens: Lens) -> Node:
    return _each(key, reply, lens, lens.value)


def _each(key: bytes, reply: Node, lens: Lens, put: Callable[[bytes, Node], Node]) -> Node:
    if reply.kids is None:
        return put(key, reply)
    if reply.kind not in (wire.ARRAY, wire.SET):
        return lens.opaque((key,), reply)
    return rebuilt(reply, [put(key, kid) for kid in reply.kids])


def set_members(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """As members; where the key is masked they leave sorted by what is shown, since a set's own order tells."""
    return _set_members(argv[1], reply, lens)


def _set_members(key: bytes, reply: Node, lens: Lens) -> Node:
    shown = _members(key, reply, lens)
    if shown.kids is None or not lens.masks(key):
        return shown
    return rebuilt(shown, sorted(shown.kids, key=lambda kid: wire.encode(kid) if kid.body is None else kid.body))


def by_key(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """MGET: the i-th element is a value of the i-th key."""
    asked = argv[1:]
    if reply.kind != wire.ARRAY or reply.kids is None or len(reply.kids) != len(asked):
        return lens.opaque(asked, reply)
    return rebuilt(reply, [lens.value(key, kid) for key, kid in zip(asked, reply.kids, strict=True)])


def whole(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """Everything reads as masked while any rule masks."""
    return lens.blank(reply) if lens.masks_anything else reply


def hidden(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """Everything reads as masked where any key of the command is masked; where its keys cannot be told, any word."""
    found = keys.keys_of(surface.find(argv).keys, argv)
    return lens.opaque(argv[1:] if found is None else found, reply)


NOT_AN_INTEGER = wire.Node(wire.ERROR, b"ERR value is not an integer or out of range")
_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")


def _integer(word: bytes) -> int | None:
    """A 64-bit integer as the server reads one (string2ll); None for what it would refuse."""
    if _INTEGER.fullmatch(word) is None:
        return None
    number = int(word)
    return number if -(2**63) <= number < 2**63 else None


def cut(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """GETRANGE and SUBSTR, of the reply to GET: where the key is masked, code points of the masked text."""
    if reply.is_error:
        return reply
    if len(argv) != 4:
        return lens.opaque(argv[1:2], reply)
    start, end = _integer(argv[2]), _integer(argv[3])
    if start is None or end is None:
        return NOT_AN_INTEGER
    if reply.is_null:
        return wire.bulk(b"")
    shown = lens.value(argv[1], reply)
    if shown.kids is not None or shown.large:
        return shown
    data = shown.line if shown.body is None else shown.body
    if not lens.masks(argv[1]):
        return wire.bulk(data[_range(start, end, len(data))])
    text = data.decode("utf-8", "surrogateescape")
    return wire.bulk(text[_range(start, end, len(text))].encode("utf-8", "surrogateescape"))


def _range(start: int, end: int, length: int) -> slice:
    """The server's inclusive range, negative numbers counting from the end, as a slice; perhaps an empty one."""
    if start < 0 and end < 0 and start > end:
        return slice(0, 0)
    first = max(0, start + length if start < 0 else start)
    last = max(0, end + length if end < 0 else end)
    return slice(first, min(last, length - 1) + 1)


def index_value_pairs(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """ARSCAN: index and value, flat or paired."""
    return _paired(argv[1], reply, lens, _is_index, lambda _, kid: lens.value(argv[1], kid))


def topk_list(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """TOPK.LIST: items; WITHCOUNT: item and count, flat."""
    key = argv[1]
    if len(argv) == 2:
        return _members(key, reply, lens)
    pairs = flat_pairs(reply)
    if len(argv) != 3 or argv[2].upper() != b"WITHCOUNT" or pairs is None or not all(_is_index(count) for _, count in pairs):
        return lens.opaque((key,), reply)
    return rebuilt(reply, [each for item, count in pairs for each in (lens.value(key, item), count)])


def _is_index(node: Node) -> bool:
    return (node.kind == wire.INTEGER and node.line.isdigit()) or (name_of(node) or b"").isdigit()


# --- hashes ----------------------------------------------------------------------------------------------------------


def _is_name(node: Node) -> bool:
    return name_of(node) is not None


def _paired(key: bytes, reply: Node, lens: Lens, is_name: Callable[[Node], bool], mask: Callable[[Node, Node], Node]) -> Node:
    """Pairs of a name, which stays, and what `mask` makes of it and its value; a map, a flat array, or an array of pairs."""
    pairs = flat_pairs(reply)
    if pairs is not None and all(is_name(name) for name, _ in pairs):
        return rebuilt(reply, [each for name, kid in pairs for each in (name, mask(name, kid))])
    nested = nested_pairs(reply)
    if nested is None or not all(is_name(name) for _, name, _ in nested):
        return lens.opaque((key,), reply)
    return rebuilt(reply, [rebuilt(pair, [name, mask(name, kid)]) for pair, name, kid in nested])


def _hash_pairs(key: bytes, reply: Node, lens: Lens) -> Node:
    return _paired(key, reply, lens, _is_name, lambda name, kid: lens.field(key, name_of(name) or b"", kid))


def _names(key: bytes, reply: Node, lens: Lens) -> Node:
    """Names only: they pass; anything else in their place does not."""
    listed = [reply] if reply.kids is None else reply.kids
    if reply.kind in wire.PAIRED or not all(kid.is_null or _is_name(kid) for kid in listed):
        return lens.opaque((key,), reply)
    return reply


def hash_field(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HGET: the field at argv[2]."""
    return lens.field(argv[1], argv[2], reply)


def hash_fields(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HMGET: the i-th element is the field at argv[2 + i]."""
    return _fields(argv[1], argv[2:], reply, lens)


def _fields(key: bytes, names: Argv, reply: Node, lens: Lens) -> Node:
    if reply.kind != wire.ARRAY or reply.kids is None or len(reply.kids) != len(names):
        return lens.opaque((key,), reply)
    return rebuilt(reply, [lens.field(key, name, kid) for name, kid in zip(names, reply.kids, strict=True)])


def fields_after_word(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HGETDEL and HGETEX: the i-th element is the i-th field after FIELDS n."""
    at = 2
    while at < len(argv) and (word := argv[at].upper()) != b"FIELDS":
        if word not in (b"EX", b"PX", b"EXAT", b"PXAT", b"PERSIST"):
            return lens.opaque((argv[1],), reply)
        at += 1 if word == b"PERSIST" else 2
    names = argv[at + 2 :]
    if at + 1 >= len(argv) or argv[at + 1] != b"%d" % len(names):
        return lens.opaque((argv[1],), reply)
    return _fields(argv[1], names, reply, lens)


def hash_pairs(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HGETALL: field and value, a flat array in RESP2, a map in RESP3."""
    return _hash_pairs(argv[1], reply, lens)


def values_of_hash(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HVALS, of the reply to HGETALL: an array of the values, each masked by its field."""
    pairs = flat_pairs(reply)
    if pairs is None or not all(_is_name(name) for name, _ in pairs):
        return lens.opaque((argv[1],), reply)
    return wire.tree(wire.ARRAY, [lens.field(argv[1], name_of(name) or b"", kid) for name, kid in pairs])


def hash_random(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HRANDFIELD: names; with its fourth word, WITHVALUES, pairs."""
    if len(argv) < 4:
        return _names(argv[1], reply, lens)
    return _hash_pairs(argv[1], reply, lens)


def _scanned(argv: Argv, reply: Node, lens: Lens, page: Callable[[bytes, Node, Lens], Node]) -> Node:
    """[cursor, page]."""
    if reply.kind != wire.ARRAY or reply.kids is None or len(reply.kids) != 2 or not _is_index(reply.kids[0]):
        return lens.opaque((argv[1],), reply)
    cursor, listed = reply.kids
    if listed.kids is None and not listed.is_null:
        return lens.opaque((argv[1],), reply)
    return rebuilt(reply, [cursor, listed if listed.is_null else page(argv[1], listed, lens)])


def hash_scan(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """HSCAN: [cursor, flat pairs], in RESP3 too; with NOVALUES [cursor, names]."""
    at, page = 3, _hash_pairs
    while at < len(argv):
        match argv[at].upper():
            case b"MATCH" | b"COUNT":
                at += 2
            case b"NOVALUES":
                page = _names
                at += 1
            case _:
                return lens.opaque((argv[1],), reply)
    return _scanned(argv, reply, lens, page)


def set_scan(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """SSCAN: [cursor, members], which leave sorted where they are masked."""
    return _scanned(argv, reply, lens, _set_members)


# --- sorted sets -----------------------------------------------------------------------------------------------------


def _scored(key: bytes, reply: Node, lens: Lens) -> Node:
    """Members with their scores, flat or paired."""
    if (nested := nested_pairs(reply)) is not None:
        return rebuilt(reply, [rebuilt(pair, [lens.member(key, m), lens.score(key, s)]) for pair, m, s in nested])
    pairs = flat_pairs(reply)
    if pairs is None or any(each.kids is not None for pair in pairs for each in pair):
        return lens.opaque((key,), reply)
    return rebuilt(reply, [each for m, s in pairs for each in (lens.member(key, m), lens.score(key, s))])


def zset_scan(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """ZSCAN: [cursor, flat members and scores]."""
    return _scanned(argv, reply, lens, _scored)


_RANGES = frozenset((b"ZRANGE", b"ZRANGEBYSCORE", b"ZRANGEBYLEX", b"ZREVRANGE", b"ZREVRANGEBYSCORE", b"ZREVRANGEBYLEX"))
_COMBINED = frozenset((b"ZDIFF", b"ZINTER", b"ZUNION"))
_OPTIONS = {b"BYSCORE": 1, b"BYLEX": 1, b"REV": 1, b"LIMIT": 3, b"WEIGHTS": 2, b"AGGREGATE": 2, b"WITHSCORES": 1}


def zset_members(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """Members of one sorted set, with scores where the command says so: ranges, ZRANDMEMBER, ZPOPMIN and
    ZPOPMAX of the key at argv[1]; ZDIFF, ZINTER and ZUNION of one key, at argv[2].

    Scores are flat in RESP2 and for a pop without count, else paired.
    """
    key, scores = _asked(argv)
    if key is None:
        return lens.opaque(argv[1:], reply)
    return _scored(key, reply, lens) if scores else _each(key, reply, lens, lens.member)


def _asked(argv: Argv) -> tuple[bytes | None, bool]:
    """The key, and whether scores come with its members; None where the arguments cannot be read."""
    name = argv[0].upper()
    if name in (b"ZPOPMIN", b"ZPOPMAX"):
        return argv[1], True
    if name == b"ZRANDMEMBER":
        return argv[1], len(argv) == 4
    if name in _RANGES:
        at, key = 4, argv[1]
    elif name in _COMBINED and len(argv) > 2 and argv[1] == b"1":
        at, key = 3, argv[2]
    else:
        return None, False
    scores = False
    while at < len(argv):
        word = argv[at].upper()
        if word not in _OPTIONS:
            return None, False
        scores = scores or word == b"WITHSCORES"
        at += _OPTIONS[word]
    return key, scores


# --- replies that name their key -------------------------------------------------------------------------------------


def _keyed(argv: Argv, reply: Node, lens: Lens, rest: int, mask: Callable[[bytes, list[Node]], list[Node]]) -> Node:
    """[key, …]: the key stays, if it is one that was asked for, and `mask` is given it with the `rest`."""
    kids = reply.kids
    key = name_of(kids[0]) if kids else None
    if reply.kind != wire.ARRAY or kids is None or len(kids) != 1 + rest or key is None or key not in argv[1:]:
        return lens.opaque(argv[1:], reply)
    return rebuilt(reply, [kids[0], *mask(key, kids[1:])])


def key_element(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """BLPOP, BRPOP: [key, element]."""
    return _keyed(argv, reply, lens, 1, lambda key, rest: [lens.value(key, rest[0])])


def key_elements(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """LMPOP, BLMPOP: [key, [elements]]."""
    return _keyed(argv, reply, lens, 1, lambda key, rest: [_members(key, rest[0], lens)])


def key_member_score(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """BZPOPMIN, BZPOPMAX: [key, member, score]."""
    return _keyed(argv, reply, lens, 2, lambda key, rest: [lens.member(key, rest[0]), lens.score(key, rest[1])])


def key_zset_members(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """ZMPOP, BZMPOP: [key, [[member, score]..]]."""
    return _keyed(argv, reply, lens, 1, lambda key, rest: [_scored(key, rest[0], lens)])


# --- the registry ----------------------------------------------------------------------------------------------------


def _for(words: int, shape: Shape) -> Shape:
    """The shape behind what holds for all: errors and null pass, and a command of fewer words hides its reply."""

    def laid(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
        if reply.is_error or reply.is_null:
            return reply
        if len(argv) < words:
            return lens.opaque((), reply)
        return shape(argv, reply, lens, version)

    return laid


SHAPES: dict[str, Shape] = {
    "value": _for(2, value),
    "members": _for(2, members),
    "set_members": _for(2, set_members),
    "by_key": _for(2, by_key),
    "hash_field": _for(3, hash_field),
    "hash_fields": _for(3, hash_fields),
    "fields_after_word": _for(5, fields_after_word),
    "hash_pairs": _for(2, hash_pairs),
    "values_of_hash": _for(2, values_of_hash),
    "hash_random": _for(2, hash_random),
    "hash_scan": _for(3, hash_scan),
    "set_scan": _for(3, set_scan),
    "zset_scan": _for(3, zset_scan),
    "zset_members": _for(2, zset_members),
    "key_zset_members": _for(3, key_zset_members),
    "key_member_score": _for(3, key_member_score),
    "key_element": _for(3, key_element),
    "key_elements": _for(4, key_elements),
    "stream_entries": _for(2, streams.stream_entries),
    "streams": _for(4, streams.streams),
    "stream_claim": _for(6, streams.stream_claim),
    "stream_autoclaim": _for(6, streams.stream_autoclaim),
    "stream_info": _for(3, streams.stream_info),
    "slice": cut,
    "hidden": _for(2, hidden),
    "index_value_pairs": _for(2, index_value_pairs),
    "expelled": _for(3, members),
    "topk_list": _for(2, topk_list),
    "config": _for(2, diagnostics.config),
    "function_list": _for(1, diagnostics.function_list),
    "function_stats": _for(1, diagnostics.function_stats),
    "slowlog": _for(2, diagnostics.slowlog),
    "monitor": _for(1, diagnostics.monitor),
    "info": _for(1, diagnostics.info),
    "client_list": _for(1, diagnostics.client_list),
    "memory_stats": _for(1, diagnostics.memory_stats),
    "role": _for(1, diagnostics.role),
    "whole": _for(1, whole),
}
"""By the name that the surface table gives; the lens decides whether anything is masked."""
