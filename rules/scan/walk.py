"""A JSON text gone through once: what of it the automaton covers, in the order of its bytes.

Strict: UTF-8 and RFC 8259, nothing more. Never recurses into the nesting of a document; only into JSON within strings,
eight deep at most. What is touched is never held as a list, so that memory stays a few times the size of the text.
Does not write: that is `python`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..automaton import State, TooManyPaths
from ..methods import Act
from .errors import NotJson, TooDeep
from .mirror import Mirror, forget, mirror_of

MAX_OPENED = 8  # strings within strings: each doubles the back-slashes, so real ones end at three or four

WHITE = b" \t\n\r"

_CHUNK = 1 << 20  # bytes checked for UTF-8 at a time, so that a long text is not held twice
_COMMA, _CLOSE_CURLY, _CLOSE_SQUARE = b",}]"

# Linear time and little memory on every text, with every interpreter from 3.11.0 on. Before 3.11.5 CPython mishandles
# possessive and atomic groups (gh-101955, gh-106052): only single classes are possessive here. Any other repetition keeps
# a way back for each round, so its rounds are counted and what is longer is matched in pieces. No way back is ever
# taken with success: the next byte always says which alternative it is.
MANY = 1024  # rounds of a loop with nothing repeated inside; a round keeps some hundred bytes
_WS = rb"[ \t\n\r]*+"
_PLAINS = rb'[^"\\\x00-\x1f]{0,8192}+'  # no more at a time: a match keeps every other thread from running
_ESCAPED = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_EXPONENT = rb"[eE][+-]?+[0-9]++"
_NUMBER = rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++(?:%b|)|%b|)" % (_EXPONENT, _EXPONENT)  # with `?` it takes twice as long


def _string_of(escapes: int) -> bytes:
    """A string with no more escapes than that, and none but short runs between them."""
    return rb'"%b(?:%b%b){0,%d}"' % (_PLAINS, _ESCAPED, _PLAINS, escapes)


_BLANK = re.compile(_WS)
_LOOKING, _STRING, _SCALAR, _NULL, _EMPTY, _OBJECT, _ARRAY = range(2, 9)
"""The groups of a value, of which one is matched; the name before it is group 1. What is looking may look like JSON."""

_LEAF = rb'("(?=[{\[\\ ])%b)|(%b)|(%b|true|false)|(null)' % (_string_of(MANY)[1:], _string_of(MANY), _NUMBER)
_ANY_VALUE = rb"(?:(?:%b|(\{%b\}|\[%b\]))%b,?|(?:(\{)|(\[))%b)" % (_LEAF, _WS, _WS, _WS, _WS)  # and the comma behind it
_MEMBER = re.compile(rb'%b"(%b)"%b:%b%b' % (_WS, _PLAINS, _WS, _WS, _ANY_VALUE))
_ELEMENT = re.compile(_WS + b"()" + _ANY_VALUE)
_CLOSED = re.compile(rb"[}\]]" + _WS + rb",?")
_OPENING_QUOTE = re.compile(_WS + rb'"')
_CONTENTS = re.compile(rb"%b(?:%b%b){0,%d}" % (_PLAINS, _ESCAPED, _PLAINS, MANY))
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
_JSON_BEGINS = re.compile(rb"(?: |\\(?:[tnr]|u00(?:20|09|0[aAdD]))){0,%d}([{\[]|\\u00[57][bB])?" % MANY)


class Inner(NamedTuple):
    """A JSON text that was the contents of a string, valid, with something touched; and where to go on in it."""

    data: bytes
    mirror: Mirror
    max_depth: int
    depth: int
    opened: int

    def touches(self) -> Iterator[Touch]:
        return _walk(self.data, self.mirror, self.max_depth, self.depth, self.opened)


Touch = tuple[int, int, Act | None, Inner | None]
"""A scalar at `data[start:end]` with what is done to it, or an opened string with what is inside."""


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
    try:
        yield from _walk(data, mirror_of(root), max_depth, 0, 0)
    except TooManyPaths:
        forget()
        raise


def walk_opened(data: bytes, mirror: Mirror, max_depth: int, depth: int) -> Iterator[Touch]:
    """The same of what a string of a document holds, in which so many brackets are open. It is UTF-8."""
    return _walk(data, mirror, max_depth, depth, 1)


def _walk(data: bytes, root: Mirror, max_depth: int, depth: int, opened: int) -> Iterator[Touch]:
    size = len(data)
    member, element, closed = _MEMBER.match, _ELEMENT.match, _CLOSED.match
    container, in_object, dead = root, False, False  # the inmost that is open
    around: list[tuple[Mirror, bool]] = []  # what is around each that is open
    keys, other = container.keys, container.other  # its children; in an array, `other` is that of its elements
    value: Mirror | None = root
    pos = start = end = 0
    found = element(data)
    while True:
        assert value is not None
        if found is None:  # none, or a string that is too much for one match
            kind = _LOOKING
            start, end = _any_string(data, pos)
            pos = _past_comma(data, end)
        else:
            kind = found.lastindex or 0
            pos = found.end()
        if kind == _STRING:
            if value.text is not None:
                assert found is not None
                start, end = found.span(_STRING)
                yield start, end, value.text, None
        elif kind == _LOOKING:
            if value.text is not None or value.looks:
                if found is not None:
                    start, end = found.span(_LOOKING)
                touch = _string(data, start, end, value, max_depth, depth, opened)
                if touch is not None:
                    yield touch
        elif kind == _SCALAR:
            if value.scalar is not None:
                assert found is not None
                start, end = found.span(_SCALAR)
                yield start, end, value.scalar, None
        elif kind != _NULL:
            if depth >= max_depth:
                raise TooDeep("nested too deeply")
            if kind != _EMPTY:
                around.append((container, in_object))
                depth += 1
                container, in_object, dead, keys = value, kind == _OBJECT, value.dead, value.keys
                other = container.other if in_object else container.element or container.first_element()
        if kind < _OBJECT:
            while data[pos - 1] != _COMMA or not around:
                if not around:
                    if pos != size or data[pos - 1] == _COMMA:
                        raise NotJson("not JSON")
                    return
                behind = closed(data, pos)
                if behind is None or data[pos] != (_CLOSE_CURLY if in_object else _CLOSE_SQUARE):
                    raise NotJson("not JSON")
                pos = behind.end()
                container, in_object = around.pop()
                depth -= 1
                dead, keys = container.dead, container.keys
                other = container.other if in_object else container.element
        if dead and depth < max_depth:  # the flat containers skipped here open one bracket more
            skipped = (_DEAD_PAIRS if in_object else _DEAD_ITEMS).match(data, pos)
            assert skipped is not None
            pos = skipped.end()
        if not in_object:
            value = other
            found = element(data, pos)
            continue
        found = member(data, pos)
        if found is not None:
            key = found[1]
        else:  # an escape in its name, or a value as above
            start, end = _any_string(data, pos)
            key = contents(data[start:end]).encode("utf-8", "surrogatepass")
            colon = _COLON.match(data, end)
            if colon is None:
                raise NotJson("not JSON")
            pos = colon.end()
            found = element(data, pos)
        value = keys.get(key, other)
        if value is None:
            value = container.member(key)
            other = container.other


def _string(data: bytes, start: int, end: int, mirror: Mirror, max_depth: int, depth: int, opened: int) -> Touch | None:
    act = mirror.text
    if mirror.looks and starts_like_json(data, start):
        act = mirror.failed
        if mirror.opens:
            if opened >= MAX_OPENED:
                raise TooDeep("nested too deeply")
            try:
                inner = Inner(contents(data[start:end]).encode(), mirror, max_depth, depth, opened + 1)
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


def _past_comma(data: bytes, pos: int) -> int:
    """Behind the white space here and the comma after it, if there is one."""
    blank = _BLANK.match(data, pos)
    assert blank is not None
    pos = blank.end()
    return pos + (data[pos : pos + 1] == b",")


def _check_utf8(data: bytes) -> None:
    """Raises NotJson unless it is UTF-8."""
    if data.isascii():
        return
    if len(data) <= _CHUNK:
        try:
            data.decode()
        except UnicodeDecodeError:
            raise NotJson("not JSON") from None
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
