"""The JSON paths that rules may use: `$` followed by `.name`, `['name']`, `.*`, `[*]`, `..name`.

Left out on purpose: positions, slices, unions, filters. What each would hide depends on the order or the contents of a
document, so that a rule could miss its field.
"""

from __future__ import annotations

import re

import pyparsing as pp

from .model import Descend, Every, JsonPath, Name, PathStep

MAX_CHARACTERS = 10_000  # a path names its way into 512 brackets at most; longer ones only take time

_INSIDE_QUOTES = r"[^'\\]*+(?:\\['\\][^'\\]*+)*"  # keeps a way back for each escape, of which a path has 5,000 at most

USE_WHOLE_VALUE = "$ alone is the whole value: use the kind whole_value"
USE_MASK_ALL = "$..* would mask everything: use mask_all"


class PathError(ValueError):
    """Not a path of the subset. `column` is the offset of the first character that is not understood, from 0."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def _unquoted(tokens: pp.ParseResults) -> Name:
    return Name(re.sub(r"\\(.)", r"\1", str(tokens[0])[2:-2]))


def _grammar() -> pp.ParserElement:
    plain = r"[A-Za-z0-9_\-\u0080-\U0010ffff]++"
    descend = pp.Regex(r"\.\." + plain).set_parse_action(lambda tokens: Descend(str(tokens[0])[2:]))
    every = pp.Regex(r"\.\*|\[\*\]").set_parse_action(pp.replace_with(Every()))
    name = pp.Regex(r"\." + plain).set_parse_action(lambda tokens: Name(str(tokens[0])[1:]))
    quoted = pp.Regex(rf"\['{_INSIDE_QUOTES}'\]").set_parse_action(_unquoted)
    end = pp.Empty().set_parse_action(lambda place, _: place)
    path = pp.Literal("$").suppress() + pp.ZeroOrMore(descend | every | name | quoted) + end
    path.leave_whitespace().parse_with_tabs()
    return path


_PATH = _grammar()
_QUOTED_PART = re.compile("'" + _INSIDE_QUOTES)


def parse_path(text: str) -> JsonPath:
    """The path that a rule spells.

    Raises:
        PathError: with the column of the first character that is not understood; it is the length of the text
            when something is missing at its end.
    """
    if len(text) > MAX_CHARACTERS:
        raise PathError(f"a path has at most {MAX_CHARACTERS} characters", MAX_CHARACTERS)
    if not text.startswith("$"):
        raise PathError("a path starts with $", 0)
    if text == "$":
        raise PathError(USE_WHOLE_VALUE, 0)
    *steps, end = _PATH.parse_string(text)
    if end < len(text):
        raise _not_understood(text, int(end))
    taken: tuple[PathStep, ...] = tuple(steps)
    return JsonPath(text, taken)


def _not_understood(text: str, start: int) -> PathError:
    """What is wrong with the step that starts there."""
    match text[start]:
        case ".":
            return _after_dot(text, start + 1)
        case "[":
            return _after_bracket(text, start + 1)
        case _:
            return PathError("expected . or [ here", start)


def _after_dot(text: str, place: int) -> PathError:
    here = text[place : place + 1]
    if here != ".":
        if here == "[":
            return PathError("[ follows a name without a dot: write $['name']", place)
        return PathError("expected a name or * after the dot; write other names as ['…']", place)
    place += 1
    match text[place : place + 1]:
        case "*":
            message = USE_MASK_ALL if text == "$..*" else "..* is not supported: it would mask everything below"
            return PathError(message, place)
        case "[":
            return PathError("..[ is not supported: write ..name", place)
        case _:
            return PathError("expected a name after ..", place)


def _after_bracket(text: str, place: int) -> PathError:
    match text[place : place + 1]:
        case "*":
            return PathError("expected ] after [*", place + 1)
        case "'":
            return _after_quote(text, place)
        case '"':
            return PathError("names are written in single quotes: ['name']", place)
        case "?":
            return PathError("filters are not supported", place)
        case "(":
            return PathError("expressions are not supported", place)
        case "":
            return PathError("expected '…' or * after [", place)
    inside = text[place:].partition("]")[0]
    if ":" in inside:
        return PathError("slices are not supported: write [*] for every element", place)
    if "," in inside:
        return PathError("unions are not supported: write one field for each path", place)
    if inside.strip().lstrip("-").isdigit():
        return PathError("positions are not supported: write [*] for every element", place)
    return PathError("expected '…' or * after [", place)


def _after_quote(text: str, place: int) -> PathError:
    understood = _QUOTED_PART.match(text, place)
    assert understood is not None
    place = understood.end()
    match text[place : place + 1]:
        case "":
            return PathError("the name's closing quote is missing", place)
        case "\\":
            return PathError(r"only \' and \\ are escapes in a name", place + 1)
    place += 1
    if text[place : place + 1] == ",":
        return PathError("unions are not supported: write one field for each path", place)
    return PathError("expected ] after the name", place)
