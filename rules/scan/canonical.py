"""Masking on the tree that orjson makes of a document, where nothing can be lost that way. Without orjson: never.

    orjson.loads -> tree -> orjson.dumps gives the very bytes that came in? -> masks put into the tree -> orjson.dumps

What `dumps` makes of a tree are the bytes of its leaves, names, brackets and commas, one after the other. So when it gives
back the document, every leaf is spelled in it as it would be written again, and what is not masked keeps its bytes. This
rests on nothing that `loads` does: duplicates, odd numbers and escapes, blanks and what is no JSON do not come out the same.
Whatever is doubtful is left to the scanner (None), which says what is wrong with it as well.
Does not decide anything: states (`automaton`) say what is done to a scalar, acts (`methods`) how.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..methods import DOT, MASK_TEXT, Act
from .mirror import Mirror

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

# An ordinary tree takes five times the bytes of its text, one of short strings sixty times, one of brackets a hundred times.
MAX_TREE_BYTES = 1 << 20
SMALL_BYTES = 1 << 13  # up to here whatever it takes is little
BYTES_A_BRACKET = 16  # at least, on average, above that
OPEN_BRACKETS = 254  # that `dumps` writes at most: where so many are allowed no document is too deep

_HEAD = 128  # so many bytes show whether there are blanks between members
_CONTROLS = (b"000", b"001")  # the escapes that canonical JSON has
_WHITE = " \t\n\r"
_BRACKETS = ("{", "[")
_MAY_LOOK = frozenset({*_WHITE, *_BRACKETS})
_NO_NAMES: dict[Any, Mirror | None] = {}

Opened = Callable[[str, Mirror, int, int], tuple[bytes, int] | None]
"""Masks what a string that looks like JSON holds; None when that is no JSON. Takes the string, its mirror, and how many
brackets may be open and how many are."""


def mask(data: bytes, root: Mirror, max_depth: int, opened: Opened) -> tuple[bytes, int] | None:
    """As `python.mask`; None when the scanner has to do it. Raises what `opened` and the automaton raise."""
    if max_depth < LEAST_DEPTH or len(data) > MAX_TREE_BYTES or _is_odd(data):
        return None
    if len(data) > SMALL_BYTES and data.count(b"[") + data.count(b"{") > len(data) // BYTES_A_BRACKET:
        return None
    try:
        tree = orjson.loads(data)
        if orjson.dumps(tree) != data:
            return None
    except (ValueError, TypeError, RecursionError):  # no JSON, or too deep for it
        return None
    if type(tree) is not dict and type(tree) is not list:
        return None
    bits = _put_in(tree, root, max_depth, opened)
    return (orjson.dumps(tree), bits) if bits else (data, 0)


def _is_odd(data: bytes) -> bool:
    """Whether the text is seen at once not to be canonical. Some that are may be taken for odd, which costs time alone."""
    if b"\n" in data or data.find(b'": ', 0, _HEAD) > 0:
        return True
    at = data.find(b"\\u") if data.isascii() else 0  # who writes escapes for what is no ASCII writes nothing else
    return at > 0 and data[at + 2 : at + 5] not in _CONTROLS


def _put_in(tree: dict[str, Any] | list[Any], root: Mirror, max_depth: int, opened: Opened) -> int:
    """Puts the masks into the tree. Gives the bits of the fields that decided them."""
    bits = 0
    todo: list[tuple[Any, Mirror, int]] = [(tree, root, 1)] if tree and not root.dead else []
    while todo:
        node, mirror, depth = todo.pop()
        items: Iterable[tuple[Any, Any]]
        if type(node) is dict:
            names, other, items = mirror.names, mirror.other, node.items()
        else:
            names, other, items = _NO_NAMES, mirror.element or mirror.first_element(), enumerate(node)
        for name, value in items:
            child = names.get(name, other)
            if child is None:  # never in a list
                child = mirror.member(str(name).encode())
                other = mirror.other
            kind = type(value)
            if kind is str:
                act = child.text
                if child.looks and value and value[0] in _MAY_LOOK and value.lstrip(_WHITE).startswith(_BRACKETS):
                    act = child.failed
                    inner = opened(value, child, max_depth, depth) if child.opens else None
                    if inner is not None:
                        act = None
                        if inner[1]:
                            node[name] = inner[0].decode()
                            bits |= inner[1]
                if act is not None:
                    decided = act.redacting
                    if decided:
                        node[name] = MASK_TEXT
                    else:
                        node[name], decided = _kept(value, act)
                    bits |= decided
            elif kind is dict or kind is list:
                if value and not child.dead:
                    todo.append((value, child, depth + 1))
            elif child.scalar is not None and value is not None:
                node[name], decided = _scalar(value, child.scalar)
                bits |= decided
    return bits


def _kept(text: str, act: Act) -> tuple[str, int]:
    """A text under partials."""
    size = len(text)
    outcome = act.outcome
    if outcome.redacts or size <= outcome.floor:
        return MASK_TEXT, act.deciders(size)
    first, last = outcome.keep_first, size - outcome.keep_last
    return f"{text[:first]}{DOT * (last - first)}{text[last:]}", act.kept


def _scalar(value: object, act: Act) -> tuple[str | int, int]:
    """A number or boolean under any act. A number's characters are those of its spelling."""
    if value is True or value is False:
        return False, act.deciders()
    if act.redacting:
        return 0, act.redacting
    spelled = orjson.dumps(value).decode()
    return (0, act.deciders(len(spelled))) if act.outcome.redacts else _kept(spelled, act)


def _least_depth() -> int:
    """So many brackets have to be allowed at least, for no tree to be looked through for its depth."""
    nested: list[Any] = []
    for _ in range(OPEN_BRACKETS):
        nested = [nested]
    try:
        if orjson is not None:
            orjson.dumps(nested)
    except TypeError:
        return OPEN_BRACKETS
    return sys.maxsize  # without orjson, or with one that knows another limit: never


LEAST_DEPTH = _least_depth()
