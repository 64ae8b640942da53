"""What a node of a document is taken for: text, a name, a number, a list, a mapping with known keys.

Every method gives the value, or None after telling the problem at the node's place, so that the caller goes on and
tells the next problem too. A node that was refused by the document itself is None without a second problem.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from collections.abc import Mapping as Map
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from ..model import Place, Problem
from .document import Entry, Mapping, Node, Scalar, Sequence, Unread, quote

NAME_LIMIT = 256  # characters; names go into logs, marks and refusals
GLOB_LIMIT = 1024
_GUESSED = 64  # a longer word is no slip of the fingers, and guessing at it is slow

# Characters that end a line, end a terminal's line or turn the reading order: a name with one could forge a log line.
_LINE_ENDERS = "\u2028\u2029"
_TURNERS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")

Choice = TypeVar("Choice", bound=StrEnum)


def near(word: str, known: Iterable[str]) -> str:
    """` (did you mean …?)`, or the known words where none is near."""
    listed = list(known)
    close = get_close_matches(word, listed, 1, 0.6) if len(word) <= _GUESSED else []
    if close:
        return f" (did you mean {close[0]}?)"
    return f" (known: {', '.join(listed)})" if listed else ""


def forbidden_in_names(text: str) -> str | None:
    """The first character that no name may hold: control characters, line ends, marks that turn the reading order."""
    for each in text:
        if unicodedata.category(each) in ("Cc", "Cs") or each in _LINE_ENDERS or each in _TURNERS:
            return each
    return None


class Findings:
    """The problems of one file as they are found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def tell(self, place: Place, message: str) -> None:
        self.problems.append(Problem(place, message))

    def text(self, node: Node, what: str) -> str | None:
        """Text of any length, with line ends."""
        scalar = self._scalar(node, what, "text")
        if scalar is None:
            return None
        if not scalar.is_text:
            said = f"{quote(scalar.text)} is text only when quoted" if scalar.text else "is empty"
            self.tell(scalar.place, f"{what} must be text: {said}" if scalar.text else f"{what} {said}")
            return None
        return scalar.text

    def name(self, node: Node, what: str, limit: int = NAME_LIMIT) -> str | None:
        """Text that may stand in a log line: not empty, bounded, without control characters."""
        text = self.text(node, what)
        if text is None:
            return None
        odd = forbidden_in_names(text)
        if not text.strip():
            self.tell(node.place, f"{what} is empty")
        elif odd is not None:
            at = node.at(text.index(odd)) if isinstance(node, Scalar) else node.place
            self.tell(at, f"{what} holds the character U+{ord(odd):04X}, which no name may hold")
        elif len(text) > limit:
            self.tell(node.place, f"{what} is longer than {limit} characters")
        else:
            return text
        return None

    def key_name(self, key: Scalar, what: str) -> bool:
        """Whether a mapping's key will do as a name; told where it will not."""
        return self.name(key, what) is not None

    def boolean(self, node: Node, what: str) -> bool | None:
        scalar = self._scalar(node, what, "true or false")
        if scalar is None:
            return None
        if not scalar.plain or scalar.text not in ("true", "false"):
            self.tell(scalar.place, f"{what} must be true or false, not {quote(scalar.text)}")
            return None
        return scalar.text == "true"

    def integer(self, node: Node, what: str, low: int, high: int) -> int | None:
        """A plain decimal number within bounds."""
        scalar = self._scalar(node, what, "a number")
        if scalar is None:
            return None
        text = scalar.text
        digits = text.removeprefix("-")
        plain = scalar.plain and digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
        if not plain or len(digits) > 18 or not low <= int(text) <= high:
            self.tell(scalar.place, f"{what} must be a number from {low} to {high}, not {quote(text)}")
            return None
        return int(text)

    def choice(self, node: Node, what: str, known: Iterable[Choice]) -> Choice | None:
        """One of the words that an enumeration lists."""
        text = self.text(node, what)
        if text is None:
            return None
        words = {str(each): each for each in known}
        if text not in words:
            self.tell(node.place, f"{what} {quote(text)} is not known{near(text, words)}")
            return None
        return words[text]

    def sequence(self, node: Node, what: str) -> tuple[Node, ...] | None:
        match node:
            case Sequence():
                return node.items
            case Unread():
                return None
            case _:
                self.tell(node.place, f"{what} must be a list{_but_is(node)}")
                return None

    def names(self, node: Node, what: str, limit: int = NAME_LIMIT) -> tuple[str, ...] | None:
        """A list of names, none of them twice."""
        items = self.sequence(node, what)
        if items is None:
            return None
        names: list[str] = []
        whole = True
        for item in items:
            name = self.name(item, f"an entry of {what}", limit)
            if name is None:
                whole = False
            elif name in names:
                self.tell(item.place, f"{quote(name)} stands twice in {what}")
                whole = False
            else:
                names.append(name)
        return tuple(names) if whole else None

    def mapping(self, node: Node, what: str) -> tuple[Entry, ...] | None:
        """The entries of a mapping whose keys the files choose themselves."""
        match node:
            case Mapping():
                return node.entries
            case Unread():
                return None
            case _:
                self.tell(node.place, f"{what} must be a mapping of keys and values{_but_is(node)}")
                return None

    def record(self, node: Node, what: str, known: Collection[str], needed: Collection[str] = ()) -> Map[str, Node] | None:
        """The values of a mapping by key. Keys outside `known` and missing `needed` ones are told; the known ones
        come back all the same, so that their own problems are told too."""
        entries = self.mapping(node, what)
        if entries is None:
            return None
        values: dict[str, Node] = {}
        for entry in entries:
            if entry.key.text in known:
                values[entry.key.text] = entry.value
            else:
                self.tell(entry.key.place, f"{what} has no key {quote(entry.key.text)}{near(entry.key.text, known)}")
        for key in needed:
            if key not in values:
                self.tell(node.place, f"{what} needs `{key}`")
        return values

    def _scalar(self, node: Node, what: str, wanted: str) -> Scalar | None:
        match node:
            case Scalar():
                return node
            case Unread():
                return None
            case _:
                self.tell(node.place, f"{what} must be {wanted}{_but_is(node)}")
                return None


def _but_is(node: Node) -> str:
    match node:
        case Scalar(text="", plain=True):
            return ", and there is nothing"
        case Scalar():
            return f", not {quote(node.text)}"
        case Sequence():
            return ", not a list"
        case Mapping():
            return ", not a mapping"
        case Unread():
            return ""
