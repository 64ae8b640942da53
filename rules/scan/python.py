"""The scanner in Python, for machines without a compiler: what `compiled.pyx` does, of equal meaning.

Strict: UTF-8 and RFC 8259, nothing more. Never recurses into the nesting of a document; only into JSON within strings,
eight deep at most. What is touched is never held as a list, so that memory stays a few times the size of the text.
Does not decide anything: states (`automaton`) say what is done to a scalar, acts (`methods`) how.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..automaton import State
from ..cut import Cut
from ..methods import DOT, MASK_BYTES, Act
from .errors import NotJson, TooDeep

MAX_OPENED = 8  # strings within strings: each doubles the back-slashes, so real ones end at three or four

WHITE = b" \t\n\r"

_DOT = DOT.encode()
_MASK_STRING = b'"' + MASK_BYTES + b'"'
_CHUNK = 1 << 20  # bytes checked for UTF-8 at a time, so that a long text is not held twice
_QUOTE, _COMMA, _CURLY, _CLOSE_CURLY, _CLOSE_SQUARE = b'",{}]'
_T_OR_F = b"tf"

# Linear time and little memory on every text, with every interpreter from 3.11.0 on. Before 3.11.5 CPython mishandles
# possessive and atomic groups (gh-101955, gh-106052): only single classes are possessive here. Any other repetition keeps
# a way back for each round, so its rounds are counted and what is longer is matched in pieces. No way back is ever
# taken with success: the next byte always says which alternative it is.
_MANY = 1024  # rounds of a loop with nothing repeated inside; a round keeps some hundred bytes
_WS = rb"[ \t\n\r]*+"
_PLAIN = rb'[^"\\\x00-\x1f]'
_PLAINS = _PLAIN + rb"{0,8192}+"  # no more at a time: a match keeps every other thread from running
_ESCAPED = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_EXPONENT = rb"[eE][+-]?+[0-9]++"
_NUMBER = rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++(?:%b|)|%b|)" % (_EXPONENT, _EXPONENT)  # with `?` it takes twice as long


def _string_of(escapes: int) -> bytes:
    """A string with no more escapes than that, and none but short runs between them."""
    return rb'"%b(?:%b%b){0,%d}"' % (_PLAINS, _ESCAPED, _PLAINS, escapes)


_BLANK = re.compile(_WS)
_VALUE = re.compile(_WS + rb"(?:(" + _string_of(_MANY) + rb")|(" + _NUMBER + rb"|true|false)|(null)|([{\[]))" + _WS)
_IS_STRING, _IS_SCALAR, _IS_NULL = 1, 2, 3
_PLAIN_KEY = re.compile(rb'%b"(%b)"%b:' % (_WS, _PLAINS, _WS))
_OPENING_QUOTE = re.compile(_WS + rb'"')
_CONTENTS = re.compile(rb"%b(?:%b%b){0,%d}" % (_PLAINS, _ESCAPED, _PLAINS, _MANY))
_COLON = re.compile(_WS + rb":")

# Members and elements in a part that nothing reaches, each with its comma, so that the last one is always left over.
# Only what is common and short, about 5 MB of ways back at most: what is longer is gone through one by one.
_DEAD_ROUNDS, _DEAD_ESCAPES = 64, 64
_FLAT_MEMBERS, _FLAT_ESCAPES = 32, 8


def _name(escapes: int) -> bytes:
    return _string_of(escapes) + _WS + rb":" + _WS


def _scalar(escapes: int) -> bytes:
    return _string_of(escapes) + rb"|" + _NUMBER + rb"|true|false|null"


def _flat(opening: bytes, name: bytes, closing: bytes) -> bytes:
    """A container with nothing but scalars in it."""
    member = rb"%b(?:%b)%b" % (name, _scalar(_FLAT_ESCAPES), _WS)
    return rb"%b%b(?:%b(?:,%b%b){0,%d})?%b" % (opening, _WS, member, _WS, member, _FLAT_MEMBERS - 1, closing)


def _dead(name: bytes) -> re.Pattern[bytes]:
    flat = _flat(rb"\{", _name(_FLAT_ESCAPES), rb"\}") + rb"|" + _flat(rb"\[", b"", rb"\]")
    return re.compile(rb"(?:%b%b(?:%b|%b)%b,){0,%d}" % (_WS, name, _scalar(_DEAD_ESCAPES), flat, _WS, _DEAD_ROUNDS))


_DEAD_PAIRS = _dead(_name(_DEAD_ESCAPES))
_DEAD_ITEMS = _dead(b"")

# Inside a string that was found valid, escapes counting as what they stand for.
_JSON_BEGINS = re.compile(rb"(?: |\\(?:[tnr]|u00(?:20|09|0[aAdD]))){0,%d}([{\[]|\\u00[57][bB])?" % _MANY)

_SURROGATES = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(_SURROGATES + rb"|\\u([0-9a-fA-F]{4})|\\[^u]")
_ONE = rb"(?:" + _SURROGATES + rb"|\\u[0-9a-fA-F]{4}|\\[^u]|[^\\\x80-\xff]|[\xc2-\xf4][\x80-\xbf]++)"
_CHARACTER = re.compile(_ONE)
_CHARACTERS = re.compile(_ONE + rb"{%d}" % _MANY)


class Inner(NamedTuple):
    """A JSON text that was the contents of a string, valid, with something touched; and where to go on in it."""

    data: bytes
    state: State
    max_depth: int
    depth: int
    opened: int

    def touches(self) -> Iterator[Touch]:
        return _walk(self.data, self.state, self.max_depth, self.depth, self.opened)


Touch = tuple[int, int, Act | None, Inner | None]
"""A scalar at `data[start:end]` with what is done to it, or an opened string with what is inside."""

Splice = tuple[int, int, bytes, int]
"""Text instead of `data[start:end]`, and the bits of the fields that decided it."""


def starts_like_json(data: bytes, start: int = 0) -> bool:
    """Whether the contents of the JSON string that begins at `start` begin with `{` or `[` after white space."""
    pos = start + 1
    while True:
        found = _JSON_BEGINS.match(data, pos)
        assert found is not None
        if found[1] is not None:
            return True
        if found.end() == pos:
            return False
        pos = found.end()  # more white space than one match takes, or its end


def walk(data: bytes, root: State, max_depth: int) -> Iterator[Touch]:
    """What of a JSON text is covered, in the order of its bytes.

    Raises:
        NotJson: it is none. Known for certain only when the last touch has been taken.
        TooDeep: more than `max_depth` brackets are open at once, or more than `MAX_OPENED` strings.
        TooManyPaths: from the automaton.
    """
    _check_utf8(data)
    return _walk(data, root, max_depth, 0, 0)


def _walk(data: bytes, state: State, max_depth: int, depth: int, opened: int) -> Iterator[Touch]:
    stack: list[tuple[State, int]] = []
    size = len(data)
    pos = 0
    while True:
        if stack:
            state, closer = stack[-1]
            if state.dead and depth < max_depth:  # the flat containers skipped here open one bracket more
                skipped = (_DEAD_PAIRS if closer == _CLOSE_CURLY else _DEAD_ITEMS).match(data, pos)
                assert skipped is not None
                pos = skipped.end()
            if closer == _CLOSE_CURLY:
                found = _PLAIN_KEY.match(data, pos)
                if found is not None:
                    key = found[1]
                else:
                    start, end = _any_string(data, pos)
                    key = contents(data[start:end]).encode("utf-8", "surrogatepass")
                    found = _COLON.match(data, end)
                    if found is None:
                        raise NotJson("not JSON")
                pos = found.end()
                state = state.keys.get(key) or state.member(key)
            else:
                state = state.element
        value = _VALUE.match(data, pos)
        if value is None:  # none, or a string that is too much for one match
            kind = _IS_STRING
            start, end = _any_string(data, pos)
            pos = _past_blank(data, end)
        else:
            assert value.lastindex is not None
            kind = value.lastindex
            start, end = value.span(kind)
            pos = value.end()
        if kind == _IS_STRING:
            if state.text is not None or state.looks:
                touch = _string(data, start, end, state, max_depth, depth, opened)
                if touch is not None:
                    yield touch
        elif kind == _IS_SCALAR:
            if state.scalar is not None:
                yield start, end, state.scalar, None
        elif kind != _IS_NULL:
            if depth >= max_depth:
                raise TooDeep("nested too deeply")
            closer = _CLOSE_CURLY if data[start] == _CURLY else _CLOSE_SQUARE
            if pos >= size or data[pos] != closer:
                stack.append((state, closer))
                depth += 1
                continue
            pos = _past_blank(data, pos + 1)
        while stack:
            if pos >= size:
                raise NotJson("not JSON")
            if data[pos] == _COMMA:
                pos += 1
                break
            if data[pos] != stack[-1][1]:
                raise NotJson("not JSON")
            stack.pop()
            depth -= 1
            pos = _past_blank(data, pos + 1)
        else:
            if pos != size:
                raise NotJson("not JSON")
            return


def _string(data: bytes, start: int, end: int, state: State, max_depth: int, depth: int, opened: int) -> Touch | None:
    act = state.text
    if state.looks and starts_like_json(data, start):
        act = state.failed
        if state.opens:
            if opened >= MAX_OPENED:
                raise TooDeep("nested too deeply")
            try:
                inner = Inner(contents(data[start:end]).encode(), state, max_depth, depth, opened + 1)
                touched = sum(1 for _ in inner.touches())  # to its end: only then it is known to be JSON
            except (NotJson, UnicodeEncodeError):  # a lone surrogate is no UTF-8: masked like any other nonsense
                pass
            else:
                return (start, end, None, inner) if touched else None
    return None if act is None else (start, end, act, None)


def _any_string(data: bytes, pos: int) -> tuple[int, int]:
    """Where the string after the white space here starts and ends, its quotes included.

    Raises:
        NotJson: there is none.
    """
    opening = _OPENING_QUOTE.match(data, pos)
    if opening is None:
        raise NotJson("not JSON")
    end = opening.end()
    while True:
        more = _CONTENTS.match(data, end)
        assert more is not None
        if more.end() == end:
            break
        end = more.end()
    if data[end : end + 1] != b'"':
        raise NotJson("not JSON")
    return opening.end() - 1, end + 1


def _past_blank(data: bytes, pos: int) -> int:
    blank = _BLANK.match(data, pos)
    assert blank is not None
    return blank.end()


def _check_utf8(data: bytes) -> None:
    """Raises NotJson unless it is UTF-8."""
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _CHUNK):
            decoder.decode(data[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise NotJson("not JSON") from None


def contents(string: bytes) -> str:
    """What a JSON string (with its quotes) that was found valid stands for; surrogates without a twin stay."""
    if b"\\" not in string:
        return string[1:-1].decode()
    decoded: str = json.loads(string)
    return decoded


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
    out = bytearray()
    bits = done = 0
    for start, end, text, decided in _splices(data, walk(data, root, max_depth)):
        bits |= decided
        out += data[done:start]
        out += text
        done = end
    if not bits:
        return data, 0
    out += data[done:]
    return bytes(out), bits


def _splices(data: bytes, touches: Iterator[Touch]) -> Iterator[Splice]:
    for start, end, act, inner in touches:
        if act is None:
            assert inner is not None
            yield from _outward(data[start + 1 : end - 1], start + 1, _splices(inner.data, inner.touches()))
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
    characters = len(contents(data[start:end]))
    bits = act.deciders(characters)
    if outcome.hides(characters):
        return start, end, _MASK_STRING, bits
    hidden = characters - outcome.keep_first - outcome.keep_last
    first = _past_characters(data, start + 1, outcome.keep_first)
    return first, _past_characters(data, first, hidden), _DOT * hidden, bits


def _past_characters(data: bytes, pos: int, count: int) -> int:
    """Where so many characters of a string's contents end, an escape or pair of surrogate escapes being one."""
    for _ in range(count // _MANY):
        many = _CHARACTERS.match(data, pos)
        assert many is not None
        pos = many.end()
    for _ in range(count % _MANY):
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
