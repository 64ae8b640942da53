"""Lenses over a plan that hides everything, for the tests of shapes."""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.buffer import Buffer, Parse
from proxy.protocols.redis import wire
from proxy.protocols.redis.contents.lens import Lens
from proxy.protocols.redis.wire import Node
from rules.cut import Cut
from rules.model import Connection, Hit, Kind, Platform, Refusal, Resource, Rule
from rules.plan import Plan
from rules.view import View

MASK = "••••".encode()
CANARY = b"S3CR3T-4711"
CONNECTION = Connection("shop", Platform.REDIS)


class BlindPlan(Plan):
    """Hides every value, but fields only if their name is not `open`."""

    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()
        self.refusal = Refusal("R")

    @property
    def hides_whole(self) -> bool:
        return False

    def covers_field(self, name: bytes) -> Refusal | None:
        return None if name == b"open" else self.refusal

    def value(self, data: bytes) -> Cut[bytes]:
        return Cut(MASK, (Hit("value", "redact", "R"),))

    def field(self, name: bytes, data: bytes) -> Cut[bytes]:
        return Cut(data) if name == b"open" else Cut(MASK, (Hit("value", "redact", "R"),))


class Keeping(BlindPlan):
    """Shows what `cut` makes of a value."""

    def __init__(self, cut: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._cut = cut

    def value(self, data: bytes) -> Cut[bytes]:
        return Cut(self._cut(data))


def view(key: bytes, plan: Plan | None, *, lifted: bool = False) -> View:
    return View(Resource(CONNECTION, Kind.KEY, key), "ann", plan, may_lift=True, lifted=lifted)


def lens(plan: Plan | None = None, *, lifted: bool = False, anything: bool = True) -> Lens:
    """Every key masked but those that start with `free`; with `anything` the connection as a whole as well."""
    blind = plan or BlindPlan()
    whole = (view(b"*", blind, lifted=lifted),) if anything else (view(b"*", None),)
    return Lens(lambda key: (view(key, None if key.startswith(b"free") else blind, lifted=lifted),), lambda: whole)


def tree_of(data: bytes) -> Node:
    """The reply that these bytes are."""

    def whole(buffer: Buffer) -> Parse[Node | None]:
        kind, line = yield from wire.head(buffer)
        return (yield from wire.read(buffer, kind, line, 1 << 20))

    buffer = Buffer()
    buffer.feed(data)
    read: list[Node | None] = []

    def run() -> Parse[None]:
        read.append((yield from whole(buffer)))

    for _ in run():
        raise AssertionError("not a whole reply")
    node = read[0]
    assert node is not None
    assert len(buffer) == 0
    return node


def of(what: object, version: int = 2) -> Node:
    """A reply of Python values: bytes, int, float, None, lists, dicts (flat arrays in RESP2)."""
    match what:
        case Node():
            return what
        case bytes():
            return wire.bulk(what)
        case int():
            return wire.integer(what)
        case float():
            text = f"{what:g}".encode()
            return Node(wire.DOUBLE, text) if version == 3 else wire.bulk(text)
        case None:
            return Node(wire.NULL, b"") if version == 3 else Node(wire.BULK, b"-1")
        case set():
            return wire.tree(wire.SET if version == 3 else wire.ARRAY, [of(each, version) for each in sorted(what)])
        case list():
            return wire.tree(wire.ARRAY, [of(each, version) for each in what])
        case dict():
            kids = [of(each, version) for pair in what.items() for each in pair]
            return wire.tree(wire.MAP if version == 3 else wire.ARRAY, kids)
        case _:
            raise TypeError(type(what))
