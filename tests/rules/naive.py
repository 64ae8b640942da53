"""What rules mean, said again as slowly as can be: a walk over parsed JSON. For comparing only.

Knows nothing of bits, states or bytes, and shares no code with the engine but the data of rules.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field

from rules.model import Descend, Every, Field, FieldKind, Partial, PathStep, Redact, Rule

MASK = "••••"


@dataclass(frozen=True)
class Number:
    text: str


@dataclass(frozen=True)
class Members:
    pairs: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Holding:
    """A string that holds a document, and how that is spelled, where it was read."""

    inner: object
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Broken:
    """A string that starts like JSON and is none."""

    text: str


def _no_constant(name: str) -> object:
    raise ValueError(name)


READER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: Members(tuple(pairs)), parse_int=Number, parse_float=Number, parse_constant=_no_constant
)


def parse(text: str) -> object:
    """Raises ValueError when it is no JSON, or holds half a surrogate pair."""
    text.encode()
    return _opened(READER.decode(text))


def _opened(node: object) -> object:
    match node:
        case Members():
            return Members(tuple((name, _opened(value)) for name, value in node.pairs))
        case list():
            return [_opened(each) for each in node]
        case str() if node.lstrip(" \t\n\r")[:1] in ("{", "["):
            try:
                return Holding(parse(node), node)
            except ValueError:
                return Broken(node)
    return node


Place = tuple[object, ...]


@dataclass
class Found:
    ends: set[int] = field(default_factory=set)
    must: set[int] = field(default_factory=set)
    may: set[int] = field(default_factory=set)
    loosely: set[int] = field(default_factory=set)


class Walk:
    """The masked tree of a document under rules."""

    def __init__(self, rules: list[Rule]) -> None:
        self.fields: list[tuple[int, Field]] = [(at, each) for at, rule in enumerate(rules) for each in rule.fields]
        self.alls = {at for at, rule in enumerate(rules) if rule.mask_all}
        self.found: dict[Place, Found] = defaultdict(Found)

    def run(self, node: object) -> object:
        for number, (_, each) in enumerate(self.fields):
            assert each.kind in (FieldKind.JSON_PATH, FieldKind.WHOLE_VALUE)
            self._reach(number, node, () if each.path is None else each.path.steps, (), True)
        return self._render(node, (), frozenset())

    def _reach(self, number: int, node: object, steps: tuple[PathStep, ...], place: Place, firm: bool) -> None:
        here = self.found[place]
        if not steps:
            here.ends.add(number)
            return
        step, rest = steps[0], steps[1:]
        if not firm:
            here.loosely.add(number)
        elif isinstance(step, Descend):
            here.may.add(number)
        else:
            here.must.add(number)
        match node:
            case list():
                for at, each in enumerate(node):
                    if isinstance(step, Every):
                        self._reach(number, each, rest, (*place, at), firm)
                        self._reach(number, each, steps, (*place, at), False)
                    else:
                        self._reach(number, each, steps, (*place, at), firm)
            case Members():
                for at, (name, value) in enumerate(node.pairs):
                    if isinstance(step, Every) or step.name == name:
                        self._reach(number, value, rest, (*place, at), firm)
                    if isinstance(step, Descend):
                        self._reach(number, value, steps, (*place, at), firm)
                after = next((each for each in steps if not isinstance(each, Every)), None)
                if isinstance(step, Every) and after is not None:
                    self._reach(number, node, rest, place, firm)
            case Holding():
                self._reach(number, node.inner, steps, (*place, "inner"), firm)

    def _render(self, node: object, place: Place, inside: frozenset[int]) -> object:
        found = self.found[place]
        within = inside | found.ends
        match node:
            case None:
                return None
            case list():
                return [self._render(each, (*place, at), within) for at, each in enumerate(node)]
            case Members():
                return Members(
                    tuple((name, self._render(value, (*place, at), within)) for at, (name, value) in enumerate(node.pairs))
                )
        alls = self.alls - {self.fields[number][0] for number in within}
        entering = found.must | found.may
        text = isinstance(node, str | Holding | Broken)
        own = alls <= {self.fields[number][0] for number in entering}
        if isinstance(node, Holding) and not within and own and (alls or entering or found.loosely):
            return Holding(self._render(node.inner, (*place, "inner"), inside))
        blocked = bool(found.must) or (isinstance(node, Holding | Broken) and bool(found.may))
        methods = [self.fields[number][1].method for number in found.ends]
        if inside or alls or blocked or any(isinstance(each, Redact) for each in methods):
            return MASK if text else False if isinstance(node, bool) else Number("0")
        partials = [each for each in methods if isinstance(each, Partial)]
        return _partial(node, partials) if partials else node


def _partial(node: object, partials: list[Partial]) -> object:
    if isinstance(node, bool):
        return False
    fewest = min(each.keep_first + each.keep_last for each in partials)
    strictest = [each for each in partials if each.keep_first + each.keep_last == fewest]
    first = min(each.keep_first for each in strictest)
    last = min(each.keep_last for each in strictest)
    if not first + last:
        return Number("0") if isinstance(node, Number) else MASK
    match node:
        case Number() | Broken():
            spelled = node.text
        case Holding():
            spelled = node.text or dump(node.inner)
        case _:
            spelled = str(node)
    if any(len(spelled) <= each.keep_first + each.keep_last for each in partials):
        return MASK
    shown = spelled[:first] + "•" * (len(spelled) - first - last) + spelled[len(spelled) - last :]
    return _opened(shown)


def _spelled(text: str) -> str:
    """A JSON string; only half a surrogate pair has to be escaped, since no UTF-8 stands for it."""
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", json.dumps(text, ensure_ascii=False))


def dump(node: object) -> str:
    """The tree as JSON without blanks."""
    match node:
        case Members():
            return "{" + ",".join(f"{json.dumps(name)}:{dump(value)}" for name, value in node.pairs) + "}"
        case list():
            return "[" + ",".join(map(dump, node)) + "]"
        case Number() | Broken():
            return node.text if isinstance(node, Number) else _spelled(node.text)
        case Holding():
            return _spelled(dump(node.inner))
        case str():
            return _spelled(node)
    return json.dumps(node)
