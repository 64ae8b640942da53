"""How a View is laid over the positions of one reply: the only place where Redis contents become shown.

A shape (`contents`) says which node of a reply is a value of which key; the lens masks it and keeps what it
touched, so that the session can ask for those keys to be lifted and lay the shape again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from rules.view import MASK, Masked, Shown, View

from .. import wire
from ..wire import Node

ViewOf = Callable[[bytes], tuple[View, ...]]
"""The views of a key: more than one where the policy changed since the request; all of them mask."""


class Lens:
    """Masks nodes and keeps count. `touched`: keys that had a covered, non-null content position."""

    def __init__(self, views: ViewOf, anything: Callable[[], tuple[View, ...]]) -> None:
        self._views_of = views
        self._anything_of = anything
        self._known: dict[bytes, tuple[View, ...]] = {}
        self._anything: tuple[View, ...] | None = None
        self.touched: set[bytes] = set()
        self.hits: dict[tuple[str, str], int] = {}
        """(rule, method) -> values masked."""
        self.wholes: dict[str, int] = {}
        """reason -> values masked whole."""

    def views(self, key: bytes) -> tuple[View, ...]:
        """The views of a key, the same ones for as long as the lens is used."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._views_of(key)
        return known

    @property
    def anything(self) -> tuple[View, ...]:
        """The views of the connection as a whole."""
        if self._anything is None:
            self._anything = self._anything_of()
        return self._anything

    def masks(self, key: bytes) -> bool:
        """Some rule masks the key for this reader now."""
        return any(view.masks for view in self.views(key))

    @property
    def masks_anything(self) -> bool:
        """Some rule of the connection masks for this reader now."""
        return any(view.masks for view in self.anything)

    def opaque(self, keys: Iterable[bytes], node: Node) -> Node:
        """A reply, or part of one, whose positions cannot be told: all of it hidden if any of the keys is
        masked; where no key is known, if anything is."""
        keys = tuple(keys)
        if node.is_null:
            return node
        if not keys:
            return self.hide(node) if self.masks_anything else node
        self.touched.update(key for key in keys if any(view.covered for view in self.views(key)))
        return self.hide(node) if any(self.masks(key) for key in keys) else node

    def value(self, key: bytes, node: Node) -> Node:
        """A content position that is a value of the key: a string, one member, one element."""
        return self._through(key, node, lambda view, data: view.value(data))

    def member(self, key: bytes, node: Node) -> Node:
        """A member of a sorted set. Where the key hides values whole, it reads as nothing but masked, even if it
        is a document or null: were one member told from another, its rank would tell what is hidden."""
        shown = self.value(key, node)
        hides = any(view.masks and view.plan is not None and view.plan.hides_whole for view in self.views(key))
        return wire.bulk(MASK) if hides and not node.is_null else shown

    def field(self, key: bytes, name: bytes, node: Node) -> Node:
        """The value of one field of the hash or stream entry at the key. A tree is none: it is hidden whatever
        field it stands for."""
        if node.kids is not None:
            return self.opaque((key,), node)
        for view in self.views(key):
            if node.is_null:
                break
            if view.plan is not None and view.plan.covers_field(name) is not None:
                self.touched.add(key)
                if view.masks:
                    node = self._scalar(view, node, lambda each, data: each.field(name, data))
        return node

    def _through(self, key: bytes, node: Node, door: Callable[[View, bytes], Masked]) -> Node:
        for view in self.views(key):
            if node.is_null:
                break
            if view.covered:
                self.touched.add(key)
            if view.masks:
                node = self._scalar(view, node, door)
        return node

    def _scalar(self, view: View, node: Node, door: Callable[[View, bytes], Masked]) -> Node:
        if node.large:
            self._count_whole("too large")
            return wire.bulk(MASK)
        if node.kids is not None:  # a tree where a value was expected: nothing in it may be read
            return self.hide(node)
        if node.kind in (wire.INTEGER, wire.BIG_NUMBER):
            return self._counted(view, wire.integer(0))
        if node.kind == wire.DOUBLE:
            return self._counted(view, Node(wire.DOUBLE, b"0"))
        if node.kind == wire.BOOLEAN:
            return self._counted(view, Node(wire.BOOLEAN, b"f"))
        data = node.line if node.body is None else node.body
        prefix = b""
        if node.kind == wire.VERBATIM:  # its format word stays; what is no format word may be contents
            if data[:4] not in (b"txt:", b"mkd:"):
                return self.hide(node)
            prefix, data = data[:4], data[4:]
        masked = door(view, data)
        for hit in masked.hits:
            self._count_hit(hit.rule, hit.method)
        if masked.whole is not None:
            self._count_whole(masked.whole)
        if masked.data is data or masked.data == data:
            return node
        if node.body is None:  # a simple string or an error: what is masked may need line ends
            return wire.bulk(masked.data)
        return wire.with_body(node, prefix + masked.data)

    def _count_hit(self, rule: str, method: str) -> None:
        self.hits[rule, method] = self.hits.get((rule, method), 0) + 1

    def _count_whole(self, reason: str) -> None:
        self.wholes[reason] = self.wholes.get(reason, 0) + 1

    def _counted(self, view: View, node: Node) -> Node:
        rule = view.rules[0].name if view.rules else ""
        self._count_hit(rule, "redact")
        return node

    def score(self, key: bytes, node: Node) -> Node:
        """A sorted set's score: 0 wherever any rule covers the key."""
        for view in self.views(key):
            if view.covered and not node.is_null:
                self.touched.add(key)
            if view.masks and not node.is_null:
                return (
                    Node(wire.DOUBLE, b"0")
                    if node.kind == wire.DOUBLE
                    else wire.bulk(b"0")
                    if node.body is not None
                    else wire.integer(0)
                )
        return node

    def hide(self, node: Node) -> Node:
        """Everything below reads as masked, whatever it is, and is counted as a reply that could not be read."""
        if not node.is_null:
            self._count_whole("unexpected reply")
        return self.blank(node)

    def blank(self, node: Node) -> Node:
        """Everything below, whatever it is: counts and shape stay, every leaf reads as masked."""
        if node.kids is not None:
            return Node(node.kind, node.line, None, [self.blank(kid) for kid in node.kids])
        if node.is_null:
            return node
        match node.kind:
            case wire.INTEGER | wire.BIG_NUMBER:
                return wire.integer(0)
            case wire.DOUBLE:
                return Node(wire.DOUBLE, b"0")
            case wire.BOOLEAN:
                return Node(wire.BOOLEAN, b"f")
            case wire.VERBATIM:
                return Node(wire.VERBATIM, b"%d" % (4 + len(MASK)), b"txt:" + MASK)
            case _:
                return wire.bulk(MASK)


def shown(node: Node) -> Shown:
    """The bytes of a reply that went through a lens, or of one that holds names and counts alone."""
    return Shown(wire.encode(node))


def passing(piece: bytes, views: tuple[View, ...]) -> Shown:
    """A piece of a reply that nothing masks, as it came.

    Raises:
        PermissionError: one of the views masks.
    """
    if any(view.masks for view in views):
        raise PermissionError("a masked reply cannot pass as it came")
    return Shown(piece)


class Shape(Protocol):
    """Where contents sit in the reply of a command. `version` is 2 or 3.

    Gives the reply with every content position put through the lens. A reply that has not the shape which
    the command is known for has all of it hidden (`lens.hide`), if any of its keys is masked.
    """

    def __call__(self, argv: tuple[bytes, ...], reply: Node, lens: Lens, version: int) -> Node: ...


# --- what every shape needs ------------------------------------------------------------------------------------------


def rebuilt(node: Node, kids: list[Node]) -> Node:
    """The same aggregate around other kids, as many as before."""
    return Node(node.kind, node.line, None, kids)


def name_of(node: Node) -> bytes | None:
    """The text of a node in the place of a name; None where it is nothing that could be one."""
    if node.kind == wire.BULK:
        return node.body
    return node.line if node.kind == wire.SIMPLE else None


def flat_pairs(node: Node) -> list[tuple[Node, Node]] | None:
    """The pairs of a map, or of an array of name, value, name, value …; None for anything else."""
    if node.kids is None or node.kind not in (wire.MAP, wire.ARRAY) or len(node.kids) % 2:
        return None
    return list(zip(node.kids[::2], node.kids[1::2], strict=True))


def nested_pairs(node: Node) -> list[tuple[Node, Node, Node]] | None:
    """Of an array of two-element arrays each one with its elements; None for anything else."""
    if node.kids is None or node.kind != wire.ARRAY:
        return None
    pairs = []
    for pair in node.kids:
        if pair.kind != wire.ARRAY or pair.kids is None or len(pair.kids) != 2:
            return None
        pairs.append((pair, pair.kids[0], pair.kids[1]))
    return pairs
