"""The scanner in Python, for machines without a compiler: what `compiled.pyx` does, of equal meaning.

    canonical JSON -> the tree of orjson, where that is installed (`canonical`)        other JSON -> one pass (`walk`)

Does not decide anything: states (`automaton`) say what is done to a scalar, acts (`methods`) how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..automaton import State, TooManyPaths
from ..cut import Cut
from ..methods import DOT, MASK_BYTES, Act
from . import canonical
from .errors import NotJson, TooDeep
from .mirror import Mirror, mirror_of
from .walk import MANY, Touch, contents, walk, walk_opened

_DOT = DOT.encode()
_MASK_STRING = b'"' + MASK_BYTES + b'"'
_QUOTE = b'"'[0]
_T_OR_F = b"tf"

_SURROGATES = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(_SURROGATES + rb"|\\u([0-9a-fA-F]{4})|\\[^u]")
_ONE = rb"(?:" + _SURROGATES + rb"|\\u[0-9a-fA-F]{4}|\\[^u]|[^\\\x80-\xff]|[\xc2-\xf4][\x80-\xbf]++)"
_CHARACTER = re.compile(_ONE)
_CHARACTERS = re.compile(_ONE + rb"{%d}" % MANY)

Splice = tuple[int, int, bytes, int]
"""Text instead of `data[start:end]`, and the bits of the fields that decided it."""


def mask_in(data: bytes, root: State, max_depth: int) -> int | None:
    """The bit of a field whose mask the first covered string that bears one bears; None when none does.

    Opened strings are looked into as well. Raises what `walk` raises, unless a mask was found before.
    """
    for text, act in _texts(data, walk(data, root, max_depth)):
        bit = act.left_by(text)
        if bit is not None:
            return bit
    return None


def opens(data: bytes, root: State, max_depth: int) -> bool:
    """Whether what a JSON string holds is a document to be masked inside, not a text. Raises what `walk` raises."""
    return sum(inner is None for _, _, _, inner in walk(data, root, max_depth)) == 0  # to its end: it may be no JSON


def _texts(data: bytes, touches: Iterator[Touch]) -> Iterator[tuple[str, Act]]:
    for start, end, act, inner in touches:
        if inner is not None:
            yield from _texts(inner.data, inner.touches())
        elif act is not None and data[start] == _QUOTE:
            yield contents(data[start:end]), act


def cut(data: bytes, root: State, max_depth: int) -> Cut[bytes] | None:
    """What `mask` leaves, with what was hit; None when the text does not begin with a bracket. Raises what `walk` raises."""
    if not data.startswith((b"{", b"[")):
        return None
    masked, bits = mask(data, root, max_depth)
    return Cut(masked, root.named(bits))


def mask(data: bytes, root: State, max_depth: int) -> tuple[bytes, int]:
    """The text with its masks put in, and the bits of the fields that decided them.

    The very object that came in, and 0, when nothing is covered. Raises what `walk` raises.
    """
    try:
        done = canonical.mask(data, mirror_of(root), max_depth, _opened)
    except (TooDeep, TooManyPaths):  # the order of the bytes says which of them it is
        done = None
    return _splice(data, walk(data, root, max_depth)) if done is None else done


def _opened(text: str, mirror: Mirror, max_depth: int, depth: int) -> tuple[bytes, int] | None:
    data = text.encode()
    try:
        return _splice(data, walk_opened(data, mirror, max_depth, depth))
    except NotJson:
        return None


def _splice(data: bytes, touches: Iterator[Touch]) -> tuple[bytes, int]:
    """As `mask`, of what is touched."""
    out = bytearray()
    bits = done = 0
    for touch in touches:
        start, end, act, _ = touch
        if act is not None and data[start] == _QUOTE:  # the most common, without a detour
            if act.redacting:
                text, decided = _MASK_STRING, act.redacting
            else:
                start, end, text, decided = _mask_string(data, start, end, act)
            bits |= decided
            out += data[done:start]
            out += text
            done = end
            continue
        for start, end, text, decided in _splices(data, touch):
            bits |= decided
            out += data[done:start]
            out += text
            done = end
    if not bits:
        return data, 0
    out += data[done:]
    return bytes(out), bits


def _splices(data: bytes, touch: Touch) -> Iterator[Splice]:
    start, end, act, inner = touch
    if act is None:
        assert inner is not None
        within = (each for touch in inner.touches() for each in _splices(inner.data, touch))
        yield from _outward(data[start + 1 : end - 1], start + 1, within)
    elif data[start] == _QUOTE:
        yield _mask_string(data, start, end, act)
    elif data[start] in _T_OR_F:
        yield start, end, b"false", act.deciders()
    elif act.outcome.redacts:
        yield start, end, b"0", act.redacting or act.deciders(end - start)
    else:
        yield from _mask_number(start, end, act)


def _mask_number(start: int, end: int, act: Act) -> Iterator[Splice]:
    """A number under a partial: a string of its digits."""
    bits = act.deciders(end - start)
    if act.outcome.hides(end - start):
        yield start, end, _MASK_STRING, bits
        return
    first, last = start + act.outcome.keep_first, end - act.outcome.keep_last
    yield start, start, b'"', bits
    yield first, last, _DOT * (last - first), bits
    yield end, end, b'"', bits


def _mask_string(data: bytes, start: int, end: int, act: Act) -> Splice:
    if act.redacting:  # whatever its length, so it need not be counted
        return start, end, _MASK_STRING, act.redacting
    outcome = act.outcome
    raw = data[start + 1 : end - 1]
    spelled: str | list[bytes]  # a character each
    if b"\\" not in raw:
        spelled = raw.decode()
    elif len(raw) <= MANY:
        spelled = _CHARACTER.findall(raw)
    else:
        return _mask_long_string(data, start, end, act)
    characters = len(spelled)
    if outcome.hides(characters):
        return start, end, _MASK_STRING, act.deciders(characters)
    hidden = characters - outcome.keep_first - outcome.keep_last
    first = start + 1 + _size(spelled[: outcome.keep_first])
    last = end - 1 - _size(spelled[outcome.keep_first + hidden :])
    return first, last, _DOT * hidden, act.kept


def _size(characters: str | list[bytes]) -> int:
    return len(characters.encode()) if isinstance(characters, str) else sum(map(len, characters))


def _mask_long_string(data: bytes, start: int, end: int, act: Act) -> Splice:
    """The same without a list of its characters."""
    outcome = act.outcome
    characters = len(contents(data[start:end]))
    if outcome.hides(characters):
        return start, end, _MASK_STRING, act.deciders(characters)
    hidden = characters - outcome.keep_first - outcome.keep_last
    first = _past_characters(data, start + 1, outcome.keep_first)
    return first, _past_characters(data, first, hidden), _DOT * hidden, act.kept


def _past_characters(data: bytes, pos: int, count: int) -> int:
    """Where so many characters of a string's contents end, an escape or pair of surrogate escapes being one."""
    for _ in range(count // MANY):
        many = _CHARACTERS.match(data, pos)
        assert many is not None
        pos = many.end()
    for _ in range(count % MANY):
        one = _CHARACTER.match(data, pos)
        assert one is not None
        pos = one.end()
    return pos


def _outward(raw: bytes, base: int, inner: Iterator[Splice]) -> Iterator[Splice]:
    """Splices of an opened string's contents as splices of the text around it.

    `raw` is the string between its quotes, which stands at `base`.
    """
    places = _Places(raw)
    for start, end, text, bits in inner:
        outer_start = base + places.outer(start)
        yield outer_start, base + places.outer(end), text.replace(b"\\", b"\\\\").replace(b'"', b'\\"'), bits


class _Places:
    """Offsets into the UTF-8 that a raw string stands for, asked for in rising order, as offsets into the raw string."""

    def __init__(self, raw: bytes) -> None:
        self._escapes = _ESCAPE.finditer(raw)
        self._next = next(self._escapes, None)
        self._inner = self._outer = 0  # the same place on both sides, after the last escape that was passed

    def outer(self, inner: int) -> int:
        while self._next is not None:
            start, end = self._next.span()
            before = self._inner + start - self._outer
            if inner <= before:
                break
            self._inner, self._outer = before + _width(self._next), end
            self._next = next(self._escapes, None)
        return self._outer + inner - self._inner


def _width(escape: re.Match[bytes]) -> int:
    """How many bytes of UTF-8 an escape stands for."""
    if escape[1] is not None:
        point = int(escape[1], 16)
        return 1 if point < 0x80 else 2 if point < 0x800 else 3
    return 1 if escape.end() - escape.start() == 2 else 4
