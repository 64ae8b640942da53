"""What a server says about itself that could tell contents: logs of commands, texts of scripts, credentials, byte counts.

No key answers for any of it, so all of it goes by whether any rule of the connection masks for the reader.
Byte counts are contents' shadows: a value's length can be read off them one write at a time. Addresses of nodes
are left out, because a client that dials them walks round the proxy.
Source: the SLOWLOG, COMMANDLOG, MONITOR, INFO, CLIENT LIST, MEMORY STATS, ROLE and FUNCTION pages of Redis and Valkey.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from rules.view import MASK

from .. import wire
from ..wire import Node
from .arguments import shown_args
from .lens import Lens, flat_pairs, name_of, rebuilt

Argv = tuple[bytes, ...]
_Part: TypeAlias = Callable[[Node, Lens], Node]
_Change: TypeAlias = Callable[[bytes], bytes]


def _shadowed(lens: Lens, reply: Node) -> Node:
    """A reply that is not of its known shape."""
    return lens.hide(reply) if lens.masks_anything else reply


def _secret(node: Node, lens: Lens) -> Node:
    """A value that is known to be one of those."""
    return lens.blank(node) if lens.masks_anything else node


# --- configuration and functions -------------------------------------------------------------------------------------

_CREDENTIALS = re.compile(rb"pass|secret|token|masterauth|primaryauth|masteruser|primaryuser|sentinel-user", re.IGNORECASE)
_NODES = re.compile(rb"(?:slave|replica|primary)of|.*-announce-.*", re.IGNORECASE)


def config(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """CONFIG GET: the values of credentials, and addresses of nodes, read as masked."""
    pairs = flat_pairs(reply)
    if pairs is None or any(name_of(name) is None for name, _ in pairs):
        return _shadowed(lens, reply)
    shown: list[Node] = []
    for name, node in pairs:
        setting = name_of(name) or b""
        is_told = _CREDENTIALS.search(setting) is None and _NODES.fullmatch(setting) is None
        secret = node.kids is not None or not (is_told or node.is_null)
        shown += (name, _secret(node, lens) if secret else node)
    return rebuilt(reply, shown)


_LIBRARY = frozenset((b"library_name", b"engine", b"functions", b"description"))


def function_list(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """FUNCTION LIST: libraries, of which the code, and what is not known, reads as masked."""
    if reply.kind != wire.ARRAY or reply.kids is None:
        return _shadowed(lens, reply)
    return rebuilt(reply, [_library(kid, lens) for kid in reply.kids])


def _library(node: Node, lens: Lens) -> Node:
    pairs = flat_pairs(node)
    if pairs is None or any(name_of(name) is None for name, _ in pairs):
        return _shadowed(lens, node)
    kids = [(name, kid if name_of(name) in _LIBRARY or kid.is_null else _secret(kid, lens)) for name, kid in pairs]
    return rebuilt(node, [each for pair in kids for each in pair])


def function_stats(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """FUNCTION STATS: of the running script its name, the first word of its command and its duration stay."""
    return _picked(reply, lens, {b"running_script": _running, b"engines": _same})


def _running(node: Node, lens: Lens) -> Node:
    if node.is_null:
        return node
    return _picked(node, lens, {b"name": _same, b"duration_ms": _same, b"command": _command})


def _command(node: Node, lens: Lens) -> Node:
    words = _words(node)
    if words is None:
        return _shadowed(lens, node)
    if len(words) < 2 or not lens.masks_anything:
        return node
    return rebuilt(node, [wire.bulk(shown_args(words[:1])[0]), *(wire.bulk(MASK) for _ in words[1:])])


def _same(node: Node, lens: Lens) -> Node:
    return node


def _picked(reply: Node, lens: Lens, parts: dict[bytes, _Part]) -> Node:
    """A map or flat array of which each known value goes through its part; all else is hidden."""
    pairs = flat_pairs(reply)
    if pairs is None:
        return _shadowed(lens, reply)
    shown: list[Node] = []
    for name, node in pairs:
        part = parts.get(name_of(name) or b"", _hidden)
        shown += (name if part is not _hidden else _hidden(name, lens), part(node, lens))
    return rebuilt(reply, shown)


def _hidden(node: Node, lens: Lens) -> Node:
    return node if node.is_null else _secret(node, lens)


# --- commands that were run ------------------------------------------------------------------------------------------


def _words(node: Node) -> list[bytes] | None:
    if node.kind != wire.ARRAY or node.kids is None:
        return None
    words = [name_of(kid) for kid in node.kids]
    return None if None in words else [word for word in words if word is not None]


def slowlog(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """SLOWLOG GET, COMMANDLOG GET: [id, time, duration, argv, client, name] each; a size in bytes reads 0."""
    if reply.kind != wire.ARRAY or reply.kids is None:
        return _shadowed(lens, reply)
    timed = argv[0].upper() == b"SLOWLOG" or (len(argv) == 4 and argv[3].upper() == b"SLOW")
    return rebuilt(reply, [_logged(kid, lens, timed) for kid in reply.kids])


def _logged(node: Node, lens: Lens, timed: bool) -> Node:
    kids = node.kids
    if not lens.masks_anything:
        return node
    if node.kind != wire.ARRAY or kids is None or len(kids) not in (4, 6):
        return lens.hide(node)
    words = _words(kids[3])
    if words is None or not all(kid.kind == wire.INTEGER for kid in kids[:3]) or any(name_of(kid) is None for kid in kids[4:]):
        return lens.hide(node)
    run = rebuilt(kids[3], [wire.bulk(word) for word in shown_args(words)])
    return rebuilt(node, [kids[0], kids[1], kids[2] if timed else wire.integer(0), run, *kids[4:]])


# 1339518083.107412 [0 127.0.0.1:60866] "keys" "*"; the address may be IPv6, a socket's path, or the word lua
_MONITORED = re.compile(rb'[0-9]+\.[0-9]+ \[[0-9]+ (?:lua|unix:[^"]*|[^" ]+:[0-9]+)\](?= ")')
_INSIDE_QUOTES = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+){0,1024}', re.DOTALL)  # in pieces: each escape keeps a way back
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes.fromhex(code[1:].decode()) if len(code) == 3 else _ESCAPED.get(code, code)


def _quoted_end(line: bytes, start: int) -> int | None:
    """Where what is quoted from there on ends, before its last quote; None: it does not end."""
    while True:
        piece = _INSIDE_QUOTES.match(line, start)
        assert piece is not None
        if piece.end() == start:
            return start if line.startswith(b'"', start) else None
        start = piece.end()


def monitor_line(node: Node, lens: Lens) -> Node | None:
    """One line of MONITOR with its arguments masked; None for one that cannot be read and must be dropped."""
    if not lens.masks_anything:
        return node
    match = _MONITORED.match(node.line) if node.kind == wire.SIMPLE else None
    if match is None:
        return None
    at, quoted = match.end(), list[bytes]()
    while at < len(node.line):
        end = _quoted_end(node.line, at + 2) if node.line.startswith(b' "', at) else None
        if end is None:
            return None
        quoted.append(node.line[at + 2 : end])
        at = end + 1
    words = [_ESCAPE.sub(_unescaped, each) for each in quoted[:2]] + quoted[2:]  # no other is looked at
    shown = [raw if kept == word else kept for raw, word, kept in zip(quoted, words, shown_args(words), strict=True)]
    return wire.simple(match[0] + b"".join(b' "%b"' % each for each in shown))


def monitor(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """The answer to MONITOR itself, or a line of it; one that cannot be read is hidden, since a reply must stand."""
    if reply.kind == wire.SIMPLE and reply.line == b"OK":
        return reply
    return monitor_line(reply, lens) or lens.hide(reply)


# --- INFO, CLIENT LIST, MEMORY STATS, ROLE ---------------------------------------------------------------------------

_LEFT_OUT = re.compile(
    rb"(?:(?:master|primary)_(?:host|port)|(?:slave|replica|master|primary|listener)[0-9]+|db[0-9]+_distrib_.*):", re.IGNORECASE
)
_COUNTS_NO_BYTES = re.compile(
    rb"maxmemory(?:_human|_policy)?|mem_allocator|(?:cmdstat|errorstat|latency_percentiles_usec)_.*", re.IGNORECASE
)
_BYTES = re.compile(
    rb"mem|bytes|_kbps|size|buf|cow_|repl_offset|total_net_|repl_backlog_|client_recent_max_|allocator_|rss_overhead_",
    re.IGNORECASE,
)


def info(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """INFO: byte counts read 0; nodes' addresses and the distribution of sizes are left out."""
    return _text(reply, lens, _info)


def _info(text: bytes) -> bytes:
    kept: list[bytes] = []
    in_sizes = False
    for line in text.split(b"\r\n"):
        if line.startswith(b"#"):
            in_sizes = line[1:].strip().lower() == b"keysizes"
        name, colon, _ = line.partition(b":")
        if in_sizes or _LEFT_OUT.match(line) or (line and not colon and not line.startswith(b"#")):
            continue
        tells = colon and _BYTES.search(name) and not _COUNTS_NO_BYTES.fullmatch(name)
        kept.append(name + b":0" if tells else line)
    return b"\r\n".join(kept)


def _text(reply: Node, lens: Lens, change: _Change) -> Node:
    """A bulk or verbatim text, changed; any other form is hidden."""
    if not lens.masks_anything:
        return reply
    if reply.kind == wire.VERBATIM and reply.body is not None and reply.body[:4] in (b"txt:", b"mkd:"):
        return wire.with_body(reply, reply.body[:4] + change(reply.body[4:]))
    if reply.kind == wire.BULK and reply.body is not None:
        return wire.with_body(reply, change(reply.body))
    return lens.hide(reply)


_COUNTED = re.compile(
    rb"(?<![^ \n])(argv-mem|multi-mem|omem|tot-mem|tot-net-in|tot-net-out|qbuf|qbuf-free|rbs|rbp|obl|oll)=[^ \r\n]*"
)


def client_list(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """CLIENT LIST, CLIENT INFO: sizes of buffers and of what went over the network read 0."""
    return _text(reply, lens, lambda text: _COUNTED.sub(rb"\1=0", text))


def memory_stats(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """MEMORY STATS: every number reads 0, its name stays."""
    return _zeroed(reply, lens) if lens.masks_anything else reply


def _zeroed(node: Node, lens: Lens) -> Node:
    if node.kids is None:
        return wire.bulk(b"0") if node.kind == wire.BULK and not node.is_null else lens.blank(node)
    pairs = flat_pairs(node)
    if pairs is None or any(name_of(name) is None for name, _ in pairs):
        return lens.hide(node)
    return rebuilt(node, [each for name, kid in pairs for each in (name, _zeroed(kid, lens))])


def role(argv: Argv, reply: Node, lens: Lens, version: int) -> Node:
    """ROLE: offsets read 0; a master names no replica, and a replica an empty address for its master."""
    if not lens.masks_anything:
        return reply
    kids = reply.kids
    who = name_of(kids[0]) if kids else None
    if reply.kind == wire.ARRAY and kids is not None:
        match who, len(kids):
            case (b"master", 3):
                return rebuilt(reply, [kids[0], wire.integer(0), wire.tree(wire.ARRAY, [])])
            case (b"slave" | b"replica", 5) if name_of(kids[3]) is not None:
                return rebuilt(reply, [kids[0], wire.bulk(b""), wire.integer(0), kids[3], wire.integer(0)])
            case (b"sentinel", 2) if _words(kids[1]) is not None:
                return reply
    return lens.hide(reply)
