"""Strict YAML: a file's bytes as a tree of nodes with places, or the problems that it has.

Built on the events of PyYAML's parser (libyaml's where there is one), not on its documents, since those let
duplicate keys, aliases and tags through. Which values a file may hold is not known here: see `values`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from ..model import Place, Problem

MAX_BYTES = 4 * 1024 * 1024  # a thousand rules take half a megabyte
MAX_DEPTH = 64  # a rule file needs eight
MAX_NODES = 400_000  # a thousand rules take fifty thousand
EMPTY = "empty: taken for a half-finished write (write `rules: []` if no rules are meant)"

_PARSER = getattr(yaml, "CLoader", yaml.Loader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_LINE_ENDS = re.compile("\r\n|\r|\n")
_ODD_BREAKS = re.compile("[\x85\u2028\u2029]")

# What YAML 1.1 or 1.2 could read as anything but text. Wider than either where that costs nobody a plain word.
_NOT_TEXT = re.compile(
    r"""
      (?: | ~ | null | y | yes | n | no | on | off | true | false | = | << )
    | [-+]? (?: 0x[0-9a-f_]+ | 0o[0-7_]+ | 0b[01_]+ )
    | [-+]? (?: [0-9][0-9_]*+ (?: \.[0-9_]*+ )? | \.[0-9][0-9_]*+ ) (?: e[-+]?[0-9]+ )?
    | [-+]? [0-9][0-9_]* (?: :[0-5]?[0-9] )+ (?: \.[0-9_]* )?
    | [-+]? \. (?: inf | nan )
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?: [t\ \t] .* )?
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """`plain`: written without quotes. `inner`: columns from the node's place to its text, None where the text is
    written with escapes or over several lines, so that no column inside it can be told."""

    place: Place
    text: str
    plain: bool
    inner: int | None = None

    def at(self, offset: int) -> Place:
        """The place of a character of the text; the node's own where that cannot be told."""
        if self.inner is None:
            return self.place
        return Place(self.place.file, self.place.line, self.place.column + self.inner + offset)

    @property
    def is_text(self) -> bool:
        """No reader of YAML, old or new, takes it for anything but text."""
        return not self.plain or not reads_otherwise(self.text)


@dataclass(frozen=True, slots=True)
class Sequence:
    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    place: Place
    entries: tuple[Entry, ...]

    def get(self, key: str) -> Node | None:
        """The value under a key, None where there is no such key."""
        return next((entry.value for entry in self.entries if entry.key.text == key), None)


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands where a refused construct (an alias, a tagged value) stood; its problem is told already."""

    place: Place


Node = Scalar | Sequence | Mapping | Unread


class Loaded(NamedTuple):
    """`root` may be there beside problems, so that the problems of meaning can be told too. A file counts only
    when there are none."""

    root: Node | None
    problems: tuple[Problem, ...]


def reads_otherwise(text: str) -> bool:
    """Whether some reader of YAML takes this plain scalar for a number, a date, a boolean, nothing, …"""
    return _NOT_TEXT.fullmatch(text) is not None


class _Text:
    """Places in a text by offset. Lines end at CR, LF and CRLF alone, as editors count them."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._starts = [0, *(found.end() for found in _LINE_ENDS.finditer(text))]

    def place(self, offset: int) -> Place:
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset)
        return Place(self.file, line, offset - self._starts[line - 1] + 1)


def load(data: bytes | str, file: str) -> Loaded:
    """The tree of one file. Never raises: whatever the bytes are, there is a tree or a problem.

    One problem of syntax is told at most; duplicate keys, aliases, anchors and tags are all told. `file` is how the
    places spell the file.

    Keys are scalars of any spelling: one that is known (`on`) need not be quoted. Whoever takes a key for a name of
    the file's own choice asks `Scalar.is_text` first.
    """
    if len(data) > MAX_BYTES:
        return _only(Place(file, 1, 1), f"larger than {MAX_BYTES // 1024 // 1024} MiB")
    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = _Text(file, data[: error.start].decode("utf-8"))
            return _only(before.place(len(before.text)), f"not UTF-8: the byte 0x{data[error.start]:02x}")
    else:
        text = data
    places = _Text(file, text)
    if text.startswith("\ufeff"):
        return _only(places.place(0), "begins with a byte order mark: save the file as UTF-8 without one")
    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        return _only(places.place(odd.start()), f"the character U+{ord(odd.group()):04X} must not stand in a file")
    return _Builder(places).build()


def _only(place: Place, message: str) -> Loaded:
    return Loaded(None, (Problem(place, message),))


class _Stop(Exception):
    """The rest of the file is not read; the problem is told already."""


class _Open:
    """A sequence or mapping whose end has not come yet."""

    def __init__(self, place: Place, *, mapping: bool, refused: bool) -> None:
        self.place = place
        self.mapping = mapping
        self.refused = refused
        self.nodes: list[Node] = []


class _Builder:
    def __init__(self, places: _Text) -> None:
        self._places = places
        self._problems: list[Problem] = []
        self._open: list[_Open] = []
        self._root: Node | None = None
        self._nodes = 0
        # U+0085, U+2028 and U+2029 end lines for this parser and not for those of YAML 1.2. The parser gets stand-ins,
        # which are put back inside quotes and refused everywhere else.
        self._odd = [found.start() for found in _ODD_BREAKS.finditer(places.text)]
        self._stand_ins: dict[str, str] = {}
        self._quoted: list[tuple[int, int]] = []

    def build(self) -> Loaded:
        try:
            self._read()
        except _Stop:
            return self._loaded(None)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self._tell(0 if mark is None else mark.index, f"not valid YAML: {self._words(error)}")
            return self._loaded(None)
        except Exception:  # noqa: BLE001  the edge of the YAML library: whatever it raises means an unreadable file
            self._tell(0, "not valid YAML")
            return self._loaded(None)
        for offset in self._odd:
            if not any(start <= offset < end for start, end in self._quoted):
                self._tell(
                    offset, f"U+{ord(self._places.text[offset]):04X} ends a line for some readers: put the text in quotes"
                )
                return self._loaded(None)
        empty = self._root is None or (isinstance(self._root, Scalar) and self._root.plain and not self._root.text)
        if empty and not self._problems:
            self._tell(0, EMPTY)
        return self._loaded(None if empty else self._root)

    def _loaded(self, root: Node | None) -> Loaded:
        return Loaded(root, tuple(self._problems))

    def _tell(self, offset: int, message: str) -> Place:
        place = self._places.place(offset)
        self._problems.append(Problem(place, message))
        return place

    @staticmethod
    def _words(error: yaml.MarkedYAMLError) -> str:
        told = ", ".join(part for part in (error.context, error.problem) if part)
        hint = " (indent with spaces)" if "cannot start any token" in told else ""
        return "".join(each if each.isprintable() else "?" for each in told) + hint

    def _source(self) -> str:
        text = self._places.text
        if not self._odd:
            return text
        spare = (chr(code) for code in range(0x10FFFD, 0xF0000, -1) if chr(code) not in text)
        for each in "\x85\u2028\u2029":
            stand_in = next(spare)
            self._stand_ins[stand_in] = each
            text = text.replace(each, stand_in)
        return text

    def _read(self) -> None:
        documents = 0
        for event in yaml.parse(self._source(), Loader=_PARSER):
            offset = _start(event)
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        self._tell(offset, "a second document: a file holds one")
                        raise _Stop
                    if event.tags or event.version not in (None, (1, 2)):
                        self._tell(offset, "directives other than `%YAML 1.2` are not taken")
                case yaml.AliasEvent():
                    place = self._tell(offset, "an alias: write the value out")
                    self._add(Unread(place))
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    refused = self._refuse_marks(event)
                    if len(self._open) >= MAX_DEPTH:
                        self._tell(offset, f"nested deeper than {MAX_DEPTH}")
                        raise _Stop
                    mapping = isinstance(event, yaml.MappingStartEvent)
                    self._open.append(_Open(self._places.place(offset), mapping=mapping, refused=refused))
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._close(self._open.pop())
                case _:
                    continue

    def _refuse_marks(self, event: yaml.NodeEvent) -> bool:
        """Tell an anchor or a tag. True where the node's value must not be taken."""
        offset = _start(event)
        if event.anchor is not None:
            self._tell(offset, "an anchor (&): write the value out where it is needed")
        if getattr(event, "tag", None) is not None:
            self._tell(offset, "a tag (!): values have no tags here")
            return True
        return False

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        start, end = _start(event), _end(event)
        place = self._places.place(start)
        if self._refuse_marks(event):
            self._add(Unread(place))
            return
        text: str = event.value
        quoted = event.style in ("'", '"')
        if self._odd:
            for stand_in, each in self._stand_ins.items():
                text = text.replace(stand_in, each)
            if quoted:
                self._quoted.append((start, end))
        inner: int | None = None
        if quoted:
            if self._places.text[start + 1 : end - 1] == text:
                inner = 1
        elif not event.style and self._places.text[start : start + len(text)] == text:
            inner = 0
        self._add(Scalar(place, text, not event.style, inner))

    def _add(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._problems.append(Problem(node.place, f"more than {MAX_NODES} values in one file"))
            raise _Stop
        if self._open:
            self._open[-1].nodes.append(node)
        else:
            self._root = node

    def _close(self, done: _Open) -> None:
        if done.refused:
            self._add(Unread(done.place))
        elif done.mapping:
            self._add(Mapping(done.place, self._entries(done.nodes)))
        else:
            self._add(Sequence(done.place, tuple(done.nodes)))

    def _entries(self, nodes: list[Node]) -> tuple[Entry, ...]:
        entries: dict[str, Entry] = {}
        for key, value in zip(nodes[::2], nodes[1::2], strict=True):
            if isinstance(key, Unread):
                continue
            problem = self._key_problem(key, entries)
            if problem:
                self._problems.append(Problem(key.place, problem))
            elif isinstance(key, Scalar):
                entries[key.text] = Entry(key, value)
        return tuple(entries.values())

    @staticmethod
    def _key_problem(key: Node, entries: dict[str, Entry]) -> str:
        if not isinstance(key, Scalar):
            return "a key must be text"
        if key.plain and key.text == "<<":
            return "a merge key (<<): write the values out"
        if key.text in entries:
            return f"the key {quote(key.text)} stands twice"
        return ""


def _start(event: yaml.Event) -> int:
    return 0 if event.start_mark is None else event.start_mark.index


def _end(event: yaml.Event) -> int:
    return 0 if event.end_mark is None else event.end_mark.index


def quote(text: str) -> str:
    """Text of a file for a message: one line, printable, cut at 80 characters."""
    cut = text if len(text) <= 80 else text[:79] + "…"
    return '"' + "".join(each if each.isprintable() and each not in '"\\' else _escape(each) for each in cut) + '"'


def _escape(each: str) -> str:
    return "\\" + each if each in '"\\' else each.encode("unicode_escape").decode("ascii")
