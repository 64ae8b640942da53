"""Globs on raw bytes: `*` is any run, `?` is one; no classes, no escapes, case-sensitive, over the whole name.

`?` is one byte to some readers of a name and one UTF-8 code point to others, so every glob that has one is read
both ways. A glob is cut at its stars into segments of fixed length, and each segment is looked for from the left
once: nothing is ever tried again, so that many stars cost no more than few.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .model import Kind, Patterns

Hit = Callable[[bytes], bool]
Span = tuple[int, int]

ESCAPED = "surrogateescape"  # a byte that is no UTF-8 counts as one character of the code-point reading


class Matcher:
    """Whether a name of a kind matches any of its globs, in time linear in name times patterns.

    `strict` (grants, except): `?` matches only where its byte reading and its code-point reading agree;
    otherwise (rules) where either does.
    """

    def __init__(self, patterns: Patterns, *, strict: bool) -> None:
        globs: dict[Kind, list[str]] = {}
        for kind, listed in patterns:
            globs.setdefault(kind, []).extend(listed)
        self._kinds = {kind: _compile(listed, strict) for kind, listed in globs.items()}

    def matches(self, kind: Kind, name: bytes) -> bool:
        """A glob of this kind takes in the whole name; globs of other kinds say nothing about it."""
        compiled = self._kinds.get(kind)
        return compiled is not None and compiled(name)


def glob_matches(glob: str, name: bytes, *, strict: bool) -> bool:
    """Whether one glob takes in the whole name; `strict` as in `Matcher`."""
    return _compile([glob], strict)(name)


def _compile(globs: list[str], strict: bool) -> Hit:
    plain = frozenset(_raw(glob) for glob in globs if "*" not in glob and "?" not in glob)
    others = [_Glob(glob) for glob in globs if "*" in glob or "?" in glob]

    def hit(name: bytes) -> bool:
        if name in plain:
            return True
        return any(glob.matches(name, strict) for glob in others)

    return hit


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class _Glob:
    def __init__(self, glob: str) -> None:
        self._two_readings = "?" in glob
        self._bytes = [re.compile(_raw(each), re.DOTALL) for each in _segments(glob)]
        self._text = [re.compile(each, re.DOTALL) for each in _segments(glob)] if self._two_readings else []
        parts = glob.split("*")
        self._starts = len(parts) > 1
        self._tail_bytes = len(_raw(parts[-1]))
        self._tail_text = len(parts[-1])

    def matches(self, name: bytes, strict: bool) -> bool:
        by_byte = self._run_bytes(name)
        if not self._two_readings or by_byte != strict or name.isascii():
            return by_byte
        return self._run_text(name.decode("utf-8", ESCAPED))

    def _run_bytes(self, name: bytes) -> bool:
        first = self._bytes[0]
        if not self._starts:
            return first.fullmatch(name) is not None
        found = first.match(name)
        for segment in self._bytes[1:-1]:
            if found is None:
                return False
            found = segment.search(name, found.end())
        tail = len(name) - self._tail_bytes
        return found is not None and tail >= found.end() and self._bytes[-1].match(name, tail) is not None

    def _run_text(self, name: str) -> bool:
        first = self._text[0]
        if not self._starts:
            return first.fullmatch(name) is not None
        found = first.match(name)
        for segment in self._text[1:-1]:
            if found is None:
                return False
            found = segment.search(name, found.end())
        tail = len(name) - self._tail_text
        return found is not None and tail >= found.end() and self._text[-1].match(name, tail) is not None


def _segments(glob: str) -> list[str]:
    """The pieces between stars as expressions of fixed length: no quantifier, so no backtracking."""
    return ["".join("." if each == "?" else re.escape(each) for each in part) for part in glob.split("*")]


# Whether two globs meet. Both become automata over bytes, and the pairs of their states are walked.

ANY: Span = (0x00, 0xFF)
READABLE = ord("x")
TAIL: Span = (0x80, 0xBF)
CODE_POINTS: tuple[tuple[Span, ...], ...] = (  # RFC 3629, section 4: the well-formed sequences
    ((0x00, 0x7F),),
    ((0xC2, 0xDF), TAIL),
    ((0xE0, 0xE0), (0xA0, 0xBF), TAIL),
    ((0xE1, 0xEC), TAIL, TAIL),
    ((0xED, 0xED), (0x80, 0x9F), TAIL),
    ((0xEE, 0xEF), TAIL, TAIL),
    ((0xF0, 0xF0), (0x90, 0xBF), TAIL, TAIL),
    ((0xF1, 0xF3), TAIL, TAIL, TAIL),
    ((0xF4, 0xF4), (0x80, 0x8F), TAIL, TAIL),
)


@dataclass(slots=True)
class _Automaton:
    """Edges by state; `loops` are the states that a star keeps on any byte. The last state accepts."""

    edges: list[list[tuple[Span, int]]]
    loops: set[int]
    last: int


def _automaton(glob: str, *, by_code_point: bool) -> _Automaton:
    built = _Automaton([[]], set(), 0)

    def state() -> int:
        built.edges.append([])
        return len(built.edges) - 1

    here = 0
    for each in glob:
        if each == "*":
            built.loops.add(here)
            continue
        if each != "?":
            spans: tuple[tuple[Span, ...], ...] = (tuple((byte, byte) for byte in _raw(each)),)
        else:
            spans = CODE_POINTS if by_code_point else ((ANY,),)
        there = state()
        for sequence in spans:
            at = here
            for span in sequence[:-1]:
                after = state()
                built.edges[at].append((span, after))
                at = after
            built.edges[at].append((sequence[-1], there))
        here = there
    built.last = here
    return built


def _readings(glob: str) -> Iterator[_Automaton]:
    yield _automaton(glob, by_code_point=False)
    if "?" in glob:
        yield _automaton(glob, by_code_point=True)


def _shared(one: Span, other: Span) -> int | None:
    """A byte of both spans, a readable one where there is a choice."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    if low > high:
        return None
    return READABLE if low <= READABLE <= high else low


def _meet(one: _Automaton, other: _Automaton) -> bytes | None:
    """The shortest name that both accept."""
    came: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {(0, 0): None}
    left = deque([(0, 0)])
    while left:
        pair = left.popleft()
        a, b = pair
        if a == one.last and b == other.last:
            return _spelled(came, pair)
        # A star stays where it is while the other side moves; two stars side by side gain nothing by standing still.
        moves = [(_shared(span, where), after, beyond) for span, after in one.edges[a] for where, beyond in other.edges[b]]
        if a in one.loops:
            moves.extend((_shared(where, ANY), a, beyond) for where, beyond in other.edges[b])
        if b in other.loops:
            moves.extend((_shared(span, ANY), after, b) for span, after in one.edges[a])
        for byte, after, beyond in moves:
            if byte is not None and (after, beyond) not in came:
                came[after, beyond] = pair, byte
                left.append((after, beyond))
    return None


def _spelled(came: dict[tuple[int, int], tuple[tuple[int, int], int] | None], pair: tuple[int, int]) -> bytes:
    name = bytearray()
    step = came[pair]
    while step is not None:
        name.append(step[1])
        step = came[step[0]]
    return bytes(reversed(name))


@lru_cache(maxsize=16384)
def name_of_both(one: str, other: str) -> bytes | None:
    """A name that both globs take in, each in either of its readings; None where there is no such name. Exact.

    Both readings are of bytes that may be no UTF-8. Such a byte is one character to either of them, so that where one
    stands, an ASCII letter could stand as well: well-formed sequences are enough to look for.
    """
    if not _ends_fit(one, other):
        return None
    for literal, glob in ((one, other), (other, one)):
        if "*" not in literal and "?" not in literal:
            return _raw(literal) if glob_matches(glob, _raw(literal), strict=False) else None
    names = (_meet(a, b) for a in _readings(one) for b in _readings(other))
    return next((name for name in names if name is not None), None)


def globs_meet(one: str, other: str) -> bool:
    """Whether there is a name that both globs take in."""
    return name_of_both(one, other) is not None


def literal_prefix(glob: str) -> str:
    """What every name that the glob takes in begins with."""
    return re.split(r"[*?]", glob, maxsplit=1)[0]


def literal_suffix(glob: str) -> str:
    """What every name that the glob takes in ends with."""
    return re.split(r"[*?]", glob)[-1]


def _ends_fit(one: str, other: str) -> bool:
    a, b = literal_prefix(one), literal_prefix(other)
    c, d = literal_suffix(one), literal_suffix(other)
    return (a.startswith(b) or b.startswith(a)) and (c.endswith(d) or d.endswith(c))


def near(globs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of globs whose literal ends fit each other, each glob with itself too: no others can meet."""
    listed = sorted((literal_prefix(glob), literal_suffix(glob), glob) for glob in globs)
    prefixes = [prefix for prefix, _, _ in listed]
    for index, (prefix, suffix, glob) in enumerate(listed):
        end = bisect_left(prefixes, prefix + "\U0010ffff", lo=index)
        yield glob, glob
        for _, ending, other in listed[index + 1 : end]:
            if ending.endswith(suffix) or suffix.endswith(ending):
                yield glob, other
