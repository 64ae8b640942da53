"""Where contents sit in the replies of the stream commands: the values of the fields of each entry.

Ids stay, and what does not look like one in an id's place hides its entry. Field names and consumers stay.
Source: the XRANGE, XREADGROUP, XCLAIM, XAUTOCLAIM and XINFO pages; `[id, fields, idle, deliveries]` measured on Redis 8.
"""

from __future__ import annotations

import re

from .. import wire
from ..wire import Node
from .lens import Lens, flat_pairs, name_of, rebuilt

Argv = tuple[bytes, ...]
_ID = re.compile(rb"[0-9]{1,20}-[0-9]{1,20}")
_ASKED_ID = re.compile(rb"[0-9]{1,20}(-[0-9]{1,20})?")


def _is_id(node: Node) -> bool:
    return _ID.fullmatch(name_of(node) or b"") is not None


def _fields(key: bytes, node: Node, lens: Lens) -> Node:
    """[field, value, field, value ..]."""
    pairs = flat_pairs(node)
    if pairs is None or any(name_of(name) is None for name, _ in pairs):
        return lens.opaque((key,), node)
    return rebuilt(node, [each for name, kid in pairs for each in (name, lens.field(key, name_of(name) or b"", kid))])


def _entry(key: bytes, node: Node, lens: Lens) -> Node:
    """[id, fields], and behind them perhaps two counts; null where the entry is gone."""
    kids = node.kids
    if node.is_null:
        return node
    if node.kind != wire.ARRAY or kids is None or len(kids) not in (2, 4) or not _is_id(kids[0]):
        return lens.opaque((key,), node)
    if not all(kid.kind == wire.INTEGER for kid in kids[2:]):
        return lens.opaque((key,), node)
    return rebuilt(node, [kids[0], _fields(key, kids[1], lens), *kids[2:]])


def _entries(key: bytes, node: Node, lens: Lens) -> Node:
    if node.is_null:
        return node
    if node.kind != wire.ARRAY or node.kids is None:
        return lens.opaque((key,), node)
    return rebuilt(node, [_entry(key, kid, lens) for kid in node.kids])


def _ids(key: bytes, node: Node, lens: Lens) -> Node:
    """Ids only, which pass."""
    if node.is_null or (node.kind == wire.ARRAY and all(kid.is_null or _is_id(kid) for kid in node.kids or ())):
        return node
    return lens.opaque((key,), node)


def stream_entries(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """XRANGE, XREVRANGE: entries of the stream at argv[1]."""
    return _entries(argv[1], reply, lens)


def streams(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """XREAD, XREADGROUP: [[key, entries]..] in RESP2, a map of key to entries in RESP3; the key is the reply's."""
    kids = reply.kids or []
    if reply.kind == wire.MAP and (mapped := flat_pairs(reply)) is not None:
        pairs = mapped
    elif reply.kind == wire.ARRAY and all(kid.kind == wire.ARRAY and len(kid.kids or ()) == 2 for kid in kids):
        pairs = [(kid.kids[0], kid.kids[1]) for kid in kids if kid.kids]
    else:
        return lens.opaque(argv[1:], reply)
    shown: list[Node] = []
    for name, entries in pairs:
        key = name_of(name)
        if key is None or key not in argv[1:]:
            return lens.opaque(argv[1:], reply)
        shown += (name, _entries(key, entries, lens))
    if reply.kind == wire.MAP:
        return rebuilt(reply, shown)
    return rebuilt(reply, [rebuilt(kid, shown[2 * at : 2 * at + 2]) for at, kid in enumerate(kids)])


def stream_claim(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """XCLAIM: entries; with JUSTID, found by its place behind the ids, ids."""
    at, just_ids = 5, False
    while at < len(argv) and _ASKED_ID.fullmatch(argv[at]):
        at += 1
    while at < len(argv):
        match argv[at].upper():
            case b"JUSTID":
                just_ids = True
                at += 1
            case b"FORCE":
                at += 1
            case b"IDLE" | b"TIME" | b"RETRYCOUNT" | b"LASTID":
                at += 2
            case _:
                return lens.opaque((argv[1],), reply)
    return (_ids if just_ids else _entries)(argv[1], reply, lens)


def stream_autoclaim(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """XAUTOCLAIM: [cursor, entries, deleted ids]; ids instead of entries with JUSTID. Redis 6.2 has no third."""
    at, just_ids = 6, False
    while at < len(argv):
        match argv[at].upper():
            case b"JUSTID":
                just_ids = True
                at += 1
            case b"COUNT":
                at += 2
            case _:
                return lens.opaque((argv[1],), reply)
    key, kids = argv[1], reply.kids
    if reply.kind != wire.ARRAY or kids is None or len(kids) not in (2, 3) or not _is_id(kids[0]):
        return lens.opaque((key,), reply)
    claimed = (_ids if just_ids else _entries)(key, kids[1], lens)
    return rebuilt(reply, [kids[0], claimed, *(_ids(key, kid, lens) for kid in kids[2:])])


_ENTRY_NAMES = frozenset((b"first-entry", b"last-entry"))
_ID_NAMES = frozenset((b"last-generated-id", b"max-deleted-entry-id", b"recorded-first-entry-id"))


def stream_info(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """XINFO STREAM: first-entry and last-entry, with FULL entries; counts, ids and groups stay, what is not known does not."""
    key, pairs = argv[2], flat_pairs(reply)
    if pairs is None or any(name_of(name) is None for name, _ in pairs):
        return lens.opaque((key,), reply)
    return rebuilt(reply, [each for name, node in pairs for each in (name, _told(key, name_of(name) or b"", node, lens))])


def _told(key: bytes, name: bytes, node: Node, lens: Lens) -> Node:
    if name in _ENTRY_NAMES:
        return _entry(key, node, lens)
    if name == b"entries":
        return _entries(key, node, lens)
    # Groups are a count, or with FULL names, ids and counts of consumers: no contents.
    if node.kind == wire.INTEGER or name == b"groups" or (name in _ID_NAMES and _is_id(node)):
        return node
    return lens.opaque((key,), node)
