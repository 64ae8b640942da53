"""Where contents stand in a record, and what is put in their place; and whether a record being written is a masked one.

Knows records and Views. Does not know batches (that is `records`) nor frames.
Source: RECORD in the protocol guide (KIP-98); headers are KIP-82.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rules import marks
from rules.methods import DOT
from rules.plan import Plan
from rules.view import Masked, View

from .cluster import Cluster
from .records import Headers, read_headers, write_headers
from .records.varint import write_length

MASKED = marks.MASKED.encode()
UNMASKED = marks.UNMASKED.encode()
MARK_PREFIX = b"veil-"  # of both, in lower case
NO_HEADERS = b"\x00"
SMALL_COUNT = 62  # so many headers and one more are counted by one byte
COUNTS = tuple(bytes((count,)) for count in range(128))
MOST_MARKS = 4096  # kept ready; what was hit comes in few combinations
DOT_BYTES = DOT.encode()
SCHEMA_IDS = (b"__key_schema_id", b"__value_schema_id")
SCHEMA_ID_FORMS = ((0, 5), (1, 17))  # magic byte and size: a number of 4 bytes, or a GUID

Edited = tuple[bytes | None, bytes | None, bytes]


def is_mark(name: bytes) -> bool:
    return name.lower() in (MASKED, UNMASKED)


def is_schema_id(name: bytes, value: bytes | None) -> bool:
    """A deserializer needs it to read the value at all. Whatever has another form is a header like any other."""
    return (
        value is not None
        and name in SCHEMA_IDS
        and (value[:1], len(value)) in {(bytes([magic]), size) for magic, size in SCHEMA_ID_FORMS}
    )


class Lens:
    """What a reader sees of the records of one topic: through one view, or through two after a change of rules."""

    def __init__(self, views: tuple[View, ...], cluster: Cluster, *, markers: bool) -> None:
        self._views = tuple(view for view in views if view.masks)
        self._cluster = cluster
        self._topic = views[0].resource.name
        self._markers = markers
        self._rules = tuple(dict.fromkeys(rule for view in self._views for rule in view.rules))
        plans = [view.plan for view in self._views if view.plan is not None]
        self._keys = any(plan.speaks_of_keys for plan in plans)
        self._headers = any(plan.speaks_of_headers for plan in plans)
        self._simple = self._views[0] if len(self._views) == 1 and not (self._keys or self._headers) else None
        self._seen: dict[object, _Seen] = {}
        self._masked: Counter[tuple[str, str]] = Counter()
        self._whole: Counter[str] = Counter()
        lifted = [rule for view in views if view.lifted for rule in view.rules]
        self._lifted = b""
        if lifted and markers and not self._views:
            self._lifted = _entry(UNMASKED, marks.unmasked(dict.fromkeys(lifted)))

    def edit(self, key: bytes | None, value: bytes | None, headers: bytes) -> Edited | None:
        """As `records.Edit`: the record as the reader sees it; None where that is the very record."""
        if self._simple is not None:
            return self._edit_value(self._simple, key, value, headers)
        cuts: list[Masked] = []
        new_value = None if value is None else self._value(value, cuts)
        new_key = None if key is None else self._key(key, cuts)
        section = headers
        if headers != NO_HEADERS and (self._headers or MARK_PREFIX in headers.lower()):
            section = self._section(headers, cuts)
        if cuts:
            told = tuple((id(cut.hits), cut.whole) for cut in cuts)
            section = self._marked(section, self._seen.get(told) or self._tell(told, cuts))
        elif self._lifted:
            section = _with(section, self._lifted)
        elif section is headers:
            return None
        return new_key, new_value, section

    def _edit_value(self, view: View, key: bytes | None, value: bytes | None, headers: bytes) -> Edited | None:
        """The same where one view masks, and values alone: what nearly all records go through."""
        section = headers
        if headers != NO_HEADERS and MARK_PREFIX in headers.lower():
            section = self._section(headers, [])
        if value is not None:
            cut = view.value(value)
            hits = cut.hits
            if hits or cut.whole is not None:
                shown = cut.data
                if shown.find(DOT_BYTES) < 0:
                    self._cluster.remember(self._topic, shown)
                # By identity: plans keep their hits ready, and to hash what they say takes as long as to find them.
                told = id(hits), cut.whole
                return key, shown, self._marked(section, self._seen.get(told) or self._tell(told, [cut]))
        return None if section is headers else (key, value, section)

    def _marked(self, section: bytes, seen: _Seen) -> bytes:
        seen.count += 1
        if not self._markers:
            return section
        if section[0] < 2 * SMALL_COUNT:  # the count is one byte, and stays one
            return COUNTS[section[0] + 2] + section[1:] + seen.mark
        return _with(section, seen.mark)

    def _value(self, value: bytes, cuts: list[Masked]) -> bytes:
        shown = value
        for view in self._views:
            cut = view.value(shown)
            if cut.hits or cut.whole is not None:
                cuts.append(cut)
                shown = cut.data
        if shown is not value and DOT_BYTES not in shown:
            self._cluster.remember(self._topic, shown)
        return shown

    def _key(self, key: bytes, cuts: list[Masked]) -> bytes:
        shown = key
        if not self._keys:
            return key
        for view in self._views:
            cut = view.key(shown)
            if cut.hits or cut.whole is not None:
                cuts.append(cut)
                shown = cut.data
        return shown

    def _section(self, section: bytes, cuts: list[Masked]) -> bytes:
        """The headers as the reader sees them: without marks of others; the very section where nothing changes."""
        kept: Headers = []
        changed = False
        for name, value in read_headers(section):
            if is_mark(name):
                changed = True
                continue
            shown = value
            if value is not None and self._headers and not is_schema_id(name, value):
                text = name.decode("utf-8", "surrogateescape")
                for view in self._views:
                    cut = view.header(text, shown or b"")
                    if cut.hits or cut.whole is not None:
                        cuts.append(cut)
                        shown = cut.data
                        changed = True
            kept.append((name, shown))
        return write_headers(kept) if changed else section

    def _tell(self, told: object, cuts: list[Masked]) -> _Seen:
        if len(self._seen) >= MOST_MARKS:
            self._count()
        seen = self._seen[told] = _Seen(cuts, _entry(MASKED, marks.masked(cuts, self._rules)) if self._markers else b"")
        return seen

    def _count(self) -> None:
        """Counts what was seen. Until then each is held, so that no other has its identity."""
        for seen in self._seen.values():
            for each in {(hit.rule, hit.method) for cut in seen.cuts for hit in cut.hits}:
                self._masked[each] += seen.count
            for cut in seen.cuts:
                if cut.whole is not None:
                    self._whole[cut.whole] += seen.count
        self._seen.clear()

    def counts(self) -> tuple[Counter[tuple[str, str]], Counter[str]]:
        """What was masked, as `Tally.count` takes it."""
        self._count()
        return self._masked, self._whole


@dataclass(slots=True)
class _Seen:
    """What was masked in a record, the mark that tells of it, and in how many records it was the same."""

    cuts: list[Masked]
    mark: bytes
    count: int = 0


def _entry(name: bytes, value: bytes) -> bytes:
    """One header as it stands behind the count."""
    return write_length(len(name)) + name + write_length(len(value)) + value


def _with(section: bytes, entry: bytes) -> bytes:
    """The headers with one more behind them."""
    headers = read_headers(section)
    return write_length(len(headers) + 1) + write_headers(headers)[len(write_length(len(headers))) :] + entry


@dataclass(frozen=True, slots=True)
class Written:
    """Why a record may not be written: the number in its batch, the rule and the field. Never what it holds."""

    index: int
    rule: str | None
    field: str
    reason: str


class MaskedItem(Exception):
    """A record that is being written is a masked one."""

    def __init__(self, written_: Written) -> None:
        super().__init__(written_.reason)
        self.written = written_


class Inspector:
    """Looks at the records of one batch section that is being written to a topic."""

    def __init__(self, plan: Plan | None, cluster: Cluster, topic: bytes) -> None:
        """`plan` is None where no rule masks for the writer: marks are looked for all the same."""
        self._plan = plan
        self._cluster = cluster
        self._topic = topic
        self._index = -1
        self._headers = plan is not None and plan.speaks_of_headers

    def edit(self, key: bytes | None, value: bytes | None, headers: bytes) -> Edited | None:
        """As `records.Edit`: a record without `veil-unmasked`; None where it is written as it is.

        Raises:
            MaskedItem: it is a masked item.
        """
        self._index += 1
        section = headers
        if headers != NO_HEADERS and (self._headers or MARK_PREFIX in headers.lower()):
            section = self._section(headers)
        plan = self._plan
        if plan is not None:
            hit = None if key is None else plan.key_holds_mask(key)
            if hit is None and value is not None:
                hit = plan.value_holds_mask(value)
            if hit is not None:
                raise self._masked(hit.rule, hit.field, "bears mask text")
            if value is not None and self._cluster.has_shown(self._topic, value):
                raise self._masked(plan.refusal.rule, "value", "is what was shown masked")
        return None if section is headers else (key, value, section)

    def _section(self, section: bytes) -> bytes:
        kept: Headers = []
        dropped = False
        for name, value in read_headers(section):
            if name.lower() == MASKED:
                raise self._masked(None, f"header:{marks.MASKED}", "is a masked record")
            if name.lower() == UNMASKED:
                dropped = True
                continue
            if value is not None and self._plan is not None and self._headers:
                hit = self._plan.header_holds_mask(name.decode("utf-8", "surrogateescape"), value)
                if hit is not None:
                    raise self._masked(hit.rule, hit.field, "bears mask text")
            kept.append((name, value))
        return write_headers(kept) if dropped else section

    def _masked(self, rule: str | None, field: str, reason: str) -> MaskedItem:
        return MaskedItem(Written(self._index, rule, field, reason))


def bears_mark(section: bytes | memoryview) -> bool:
    """Whether a mark may stand in a record section that is not compressed; cheap, and more often yes than need be."""
    return MASKED in bytes(section)
