"""JSON of requests and answers with the place of each value, so that one value is replaced and all other bytes stay.

Stricter than the servers behind: UTF-8 alone, no duplicate names, no halves of surrogate pairs (which no two servers
write alike), no comments, nothing behind the document. What a request says here is what its server will read: it is
written anew from this.
Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MOST_DEPTH = 128
MOST_VALUES = 1_000_000
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = json.JSONDecoder()  # of the standard library a string alone: in C, and as strict as it has to be
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HALF = re.compile("[\ud800-\udfff]")
_WORDS = {"true": True, "false": False, "null": None}


class NotStrict(ValueError):
    """Not one JSON document that every reader reads alike."""


@dataclass(slots=True)
class Value:
    """A value and where it stands, in characters. `inside` is its members by name, its elements, or what it is; a number
    is a text of its spelling in `number`."""

    start: int
    end: int
    inside: Any
    number: str = ""

    @property
    def is_object(self) -> bool:
        return isinstance(self.inside, dict)

    @property
    def is_array(self) -> bool:
        return isinstance(self.inside, list)

    @property
    def is_text(self) -> bool:
        return isinstance(self.inside, str) and not self.number

    def member(self, name: str) -> Value | None:
        found = self.inside.get(name) if isinstance(self.inside, dict) else None
        return found if isinstance(found, Value) else None

    def text(self, name: str) -> str | None:
        """A member that is a text."""
        found = self.member(name)
        return found.inside if found is not None and found.is_text else None

    def __repr__(self) -> str:
        return f"<Value of {self.end - self.start} characters>"


def parse(data: bytes) -> tuple[str, Value]:
    """The text and its one value.

    Raises:
        NotStrict: it is anything else.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise NotStrict("not UTF-8") from None
    reader = _Reader(text)
    value = reader.value(_space(text, 0), 0)
    if _space(text, value.end) != len(text):
        raise NotStrict("something stands behind the document")
    return text, value


def canonical(value: Value) -> bytes:
    """The value written anew: without blanks, each number in its spelling."""
    return "".join(_pieces(value)).encode("utf-8", "surrogatepass")


def _pieces(value: Value) -> Iterator[str]:
    if isinstance(value.inside, dict):
        yield "{"
        for number, (name, each) in enumerate(value.inside.items()):
            yield f"{',' if number else ''}{written(name)}:"
            yield from _pieces(each)
        yield "}"
    elif isinstance(value.inside, list):
        yield "["
        for number, each in enumerate(value.inside):
            yield "," if number else ""
            yield from _pieces(each)
        yield "]"
    else:
        yield value.number or written(value.inside)


def spliced(text: str, changes: list[tuple[Value, str]]) -> bytes:
    """The text with these values replaced.

    Raises:
        ValueError: one of them stands inside another.
    """
    parts: list[str] = []
    at = 0
    for value, instead in sorted(changes, key=lambda change: change[0].start):
        if value.start < at:
            raise ValueError("a value inside another")
        parts += (text[at : value.start], instead)
        at = value.end
    parts.append(text[at:])
    return "".join(parts).encode("utf-8", "surrogatepass")


def written(told: object) -> str:
    """JSON of Veil's own writing. Half a surrogate pair is written as the escape that it came as."""
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or not _HALF.search(text) else json.dumps(told, ensure_ascii=True, separators=(",", ":"))


def everything(value: Value) -> Iterator[Value]:
    """The value and all that is inside it."""
    yield value
    inside = value.inside.values() if isinstance(value.inside, dict) else value.inside
    if isinstance(value.inside, dict | list):
        for each in inside:
            yield from everything(each)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MOST_VALUES

    def value(self, at: int, depth: int) -> Value:
        text = self._text
        self._left -= 1
        if depth > MOST_DEPTH or self._left < 0:
            raise NotStrict("nested too deeply, or too much of it")
        sign = text[at : at + 1]
        if sign == "{":
            return self._object(at, depth)
        if sign == "[":
            return self._array(at, depth)
        if sign == '"':
            inside, end = self._string(at)
            return Value(at, end, inside)
        found = _NUMBER.match(text, at)
        if found is not None:
            return Value(at, found.end(), found[0], found[0])
        for word, meant in _WORDS.items():
            if text.startswith(word, at):
                return Value(at, at + len(word), meant)
        raise NotStrict("a value is missing")

    def _string(self, at: int) -> tuple[str, int]:
        try:
            inside, end = _STRING.raw_decode(self._text, at)
        except ValueError:  # which holds the document
            raise NotStrict("a string is not one") from None
        if end - at - 2 != len(inside) and _HALF.search(inside):
            raise NotStrict("half a surrogate pair")
        return inside, end

    def _object(self, start: int, depth: int) -> Value:
        text = self._text
        members: dict[str, Value] = {}
        at = _space(text, start + 1)
        if text[at : at + 1] == "}":
            return Value(start, at + 1, members)
        while True:
            if text[at : at + 1] != '"':
                raise NotStrict("a name is missing")
            name, at = self._string(at)
            if name in members:
                raise NotStrict("a name stands there twice")
            at = _space(text, at)
            if text[at : at + 1] != ":":
                raise NotStrict("a colon is missing")
            members[name] = value = self.value(_space(text, at + 1), depth + 1)
            at = _space(text, value.end)
            sign = text[at : at + 1]
            if sign == "}":
                return Value(start, at + 1, members)
            if sign != ",":
                raise NotStrict("a comma is missing")
            at = _space(text, at + 1)

    def _array(self, start: int, depth: int) -> Value:
        text = self._text
        elements: list[Value] = []
        at = _space(text, start + 1)
        if text[at : at + 1] == "]":
            return Value(start, at + 1, elements)
        while True:
            value = self.value(at, depth + 1)
            elements.append(value)
            at = _space(text, value.end)
            sign = text[at : at + 1]
            if sign == "]":
                return Value(start, at + 1, elements)
            if sign != ",":
                raise NotStrict("a comma is missing")
            at = _space(text, at + 1)
