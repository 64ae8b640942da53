"""The rules that cover one resource, compiled to one plan.

    value  -> JSON that the automaton walks, or text          key, header -> text
    field  -> text by the `field` kind, and what `value` says of it; the stricter

Decides which of a rule's fields speak about what is asked, and what is masked whole for which reason. How paths are
followed is `automaton`, how bytes are cut is `scan`, what a method does is `methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from . import scan
from .automaton import VALUE_KINDS, Automaton, State, TooManyPaths, hit_of, name_bytes
from .cut import Cut
from .methods import MASK_BYTES, bears_mask, combine, left_by, partial_text, reveals
from .model import Field, FieldKind, Hit, Limits, Partial, Platform, Redact, Refusal, Rule

T = TypeVar("T")

TEXT_PLATFORMS = frozenset({Platform.REDIS, Platform.MEMCACHED})  # a value there is a string unless it is a document

_BRACKETS = (b"{", b"[")

NOT_JSON = "not JSON"
NOT_TEXT = "not text"
NOT_A_HASH = "not a hash"
TOO_LARGE = "too large"
TOO_DEEP = "nested too deeply"
TOO_MANY_PATHS = "too many paths"
COULD_NOT_BE_READ = "the masking rules could not be read"


def _whole(reason: str, rule: Rule | None) -> Cut[bytes]:
    assert rule is not None
    return Cut(MASK_BYTES, (), reason, rule.name)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A method that one rule wants for a text, and how marks spell it."""

    rule: Rule
    method: Redact | Partial
    hit: Hit


def _speaks_of_values(rule: Rule) -> bool:
    return rule.mask_all or any(field.kind in VALUE_KINDS for field in rule.fields)


def _first_value_field(rule: Rule) -> str:
    return next((field.spelling for field in rule.fields if field.kind in VALUE_KINDS), "value")


def _text(data: bytes, claims: Sequence[_Claim], limits: Limits) -> Cut[bytes]:
    """A text under at least one claim; `not text` when a partial meets bytes that are no UTF-8."""
    if len(data) > limits.max_value_bytes:
        return _whole(TOO_LARGE, claims[0].rule)
    redacting = [claim for claim in claims if not isinstance(claim.method, Partial)]
    if redacting:
        return Cut(MASK_BYTES, _hits(redacting))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _whole(NOT_TEXT, claims[0].rule)
    outcome = combine(claim.method for claim in claims)
    deciding = [claim for claim in claims if outcome.hides(len(text)) and len(text) <= reveals(claim.method)]
    if not deciding:
        fewest = min(reveals(claim.method) for claim in claims)
        deciding = [claim for claim in claims if reveals(claim.method) == fewest]
    return Cut(partial_text(text, outcome).encode(), _hits(deciding))


def _hits(claims: Sequence[_Claim]) -> tuple[Hit, ...]:
    return tuple(dict.fromkeys(claim.hit for claim in claims))


def _text_mask(data: bytes, claims: Sequence[_Claim]) -> Hit | None:
    """The first claim whose mask the text bears."""
    if not claims:
        return None
    if bears_mask(data):
        return claims[0].hit
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    for claim in claims:
        if isinstance(claim.method, Partial) and left_by(claim.method, text):
            return claim.hit
    outcome = combine(claim.method for claim in claims)
    if not outcome.redacts and left_by(Partial(outcome.keep_first, outcome.keep_last), text):
        return claims[0].hit
    return None


class _Values:
    """What rules say of values. Of the rules whose index is in `bare` the mask_all does not count."""

    def __init__(self, rules: Sequence[Rule], text_platform: bool, limits: Limits, bare: Collection[int] = ()) -> None:
        self._limits = limits
        self._max_depth = limits.max_depth
        self._text_platform = text_platform
        self.rule: Rule | None = None  # the first that says anything of values
        self._looking: tuple[Rule, Field] | None = None  # the first that expects to find JSON
        self.claims: list[_Claim] = []  # what is wanted for a value that is no JSON
        self.hides_whole = False
        for index, rule in enumerate(rules):
            masks_all = rule.mask_all and index not in bare
            fields = [field for field in rule.fields if field.kind in VALUE_KINDS]
            if self.rule is None and (masks_all or fields):
                self.rule = rule
            whole = [_Claim(rule, field.method, hit_of(rule, field)) for field in fields if field.path is None]
            paths = [field for field in fields if field.path is not None]
            if masks_all and not whole:
                whole = [_Claim(rule, Redact(), Hit("value", "redact", rule.name))]
            elif paths and not masks_all and self._looking is None:
                self._looking = rule, paths[0]
            self.claims += whole
            if any(isinstance(claim.method, Redact) for claim in whole) and not (masks_all and paths):
                self.hides_whole = True
        if self.claims and not self.hides_whole and self._looking is None:
            partials = [claim.method for claim in self.claims]
            self.hides_whole = all(isinstance(method, Partial) for method in partials) and combine(partials).redacts
        self._automaton = Automaton(rules, bare)

    def read(self, data: bytes) -> Cut[bytes] | None:
        """The value masked as JSON, or whole because of its depth; None when it has to be masked as a text.

        Only where there is a `rule`, and for no value that is too large.
        """
        try:
            try:
                cut = scan.cut(data, self._automaton.root, self._max_depth)
            except TooManyPaths:  # perhaps due to other documents
                cut = scan.cut(data, self._automaton.start_over(), self._max_depth)
            if cut is not None:
                return cut
            if scan.is_null(data):
                return Cut(data)
            if not self._is_read(data):
                return None
            masked, bits = self._afresh(lambda root: scan.mask(data, root, self._max_depth))
        except scan.NotJson:
            return None
        except scan.TooDeep:
            return _whole(TOO_DEEP, self.rule)
        except TooManyPaths:
            return _whole(TOO_MANY_PATHS, self.rule)
        return Cut(masked, self._automaton.named(bits))

    def _is_read(self, data: bytes) -> bool:
        """Whether the value is one to follow paths in: a document, a string that holds one, or (where no path
        has to be followed) on platforms of typed values any scalar. Raises what `scan.mask` raises."""
        first = scan.first_byte(data)
        if first in _BRACKETS or not (self._looking is not None or self._text_platform):
            return True
        if first != b'"' or not self._automaton.root.opens or not scan.starts_like_json(data, data.index(b'"')):
            return False
        return self._afresh(lambda root: scan.opens(data, root, self._max_depth))

    def _afresh(self, run: Callable[[State], T]) -> T:
        """What it comes to from the root; once more when states ran out, which may be due to other documents."""
        try:
            return run(self._automaton.root)
        except TooManyPaths:
            return run(self._automaton.start_over())

    def unread(self, data: bytes, claims: Sequence[_Claim]) -> Cut[bytes]:
        """A value in which paths cannot be followed; `claims` are what is wanted for a text."""
        if self._looking is not None:
            return _whole(NOT_JSON, self._looking[0])
        return _text(data, claims, self._limits)

    def mask_in(self, data: bytes) -> Hit | None:
        """The field whose mask a value bears where the field covers it; only where there is a `rule`."""
        try:
            if len(data) <= self._limits.max_value_bytes and self._is_read(data):
                return self._afresh(lambda root: self._mask_in_document(data, root))
        except (scan.NotJson, scan.TooDeep, TooManyPaths):
            pass  # looked through as a text
        if self._looking is not None and bears_mask(data):
            return hit_of(*self._looking)
        return _text_mask(data, self.claims)

    def _mask_in_document(self, data: bytes, root: State) -> Hit | None:
        bit = scan.mask_in(data, root, self._max_depth)
        return None if bit is None else self._automaton.named(bit)[0]


class Plan:
    """Immutable. `rules` are the enabled rules that cover the resource, by file name, then order."""

    rules: tuple[Rule, ...]
    refusal: Refusal

    def __init__(self, rules: Sequence[Rule], platform: Platform, limits: Limits) -> None:
        self.rules = tuple(rules)
        first = self.rules[0]
        self.refusal = Refusal(first.name, first.fields[0].spelling if first.fields else "value")
        self._limits = limits
        self._max_value_bytes = limits.max_value_bytes
        self._text_platform = platform in TEXT_PLATFORMS
        self._values = self._values_of(())
        self._bare: dict[tuple[int, ...], _Values] = {(): self._values}
        self._claims: dict[bytes, list[_Claim]] = {}
        self._not_a_hash: _Claim | None = None
        self._listing: dict[bytes, list[int]] = {}
        self._key_claims = self._claims_on(FieldKind.RECORD_KEY, "", "key")
        self._headers = {each.name.casefold() for rule in self.rules for each in rule.fields if each.kind is FieldKind.HEADER}
        self._all_headers = any(rule.mask_all for rule in self.rules)
        for index, rule in enumerate(self.rules):
            named = [field for field in rule.fields if field.kind is FieldKind.FIELD]
            for field in named:
                name = name_bytes(field.name)
                self._claims.setdefault(name, []).append(_Claim(rule, field.method, hit_of(rule, field)))
                if rule.mask_all and index not in self._listing.setdefault(name, []):
                    self._listing[name].append(index)
            if named and self._not_a_hash is None and not _speaks_of_values(rule):
                self._not_a_hash = _Claim(rule, Redact(), hit_of(rule, named[0]))

    def _values_of(self, bare: tuple[int, ...]) -> _Values:
        return _Values(self.rules, self._text_platform, self._limits, bare)

    def value(self, data: bytes) -> Cut[bytes]:
        """A message's value, a string, one member of a list or set."""
        named = self._not_a_hash
        rule = self._values.rule if named is None else named.rule
        if rule is None:
            return Cut(data)
        if len(data) > self._max_value_bytes:
            return _whole(TOO_LARGE, rule)
        if named is not None:
            return Cut(data) if scan.is_null(data) else _whole(NOT_A_HASH, rule)
        values = self._values
        cut = values.read(data)
        return values.unread(data, values.claims) if cut is None else cut

    def _of_field(self, name: bytes) -> tuple[list[_Claim], _Values]:
        """What names the hash field, and what the rules say of its value beside that."""
        bare = tuple(self._listing.get(name, ()))
        values = self._bare.get(bare)
        if values is None:
            values = self._bare[bare] = self._values_of(bare)
        return self._claims.get(name, []), values

    def field(self, name: bytes, data: bytes) -> Cut[bytes]:
        """The value of one field of a hash or of a stream entry; names are compared as bytes."""
        claims, values = self._of_field(name)
        rule = claims[0].rule if claims else values.rule
        if rule is None:
            return Cut(data)
        if len(data) > self._max_value_bytes:
            return _whole(TOO_LARGE, rule)
        if scan.is_null(data):
            return Cut(data)
        if values.rule is None:
            return _text(data, claims, self._limits)
        if claims:
            return self._stricter(data, claims, values)
        cut = values.read(data)
        return values.unread(data, values.claims) if cut is None else cut

    def _stricter(self, data: bytes, claims: list[_Claim], values: _Values) -> Cut[bytes]:
        """A hash field under its name and under value-kind fields as well."""
        within = values.read(data)
        if within is None:
            return values.unread(data, self._in_order(claims + values.claims))
        if within.whole is not None:
            return within
        redacting = [claim for claim in claims if not isinstance(claim.method, Partial)]
        if redacting:
            return Cut(MASK_BYTES, _hits(redacting))
        # Kept ends of the text would show what is hidden inside it.
        return Cut(MASK_BYTES, within.hits) if within.hits else _text(data, claims, self._limits)

    def _in_order(self, claims: Sequence[_Claim]) -> list[_Claim]:
        order = {id(rule): index for index, rule in enumerate(self.rules)}
        return sorted(claims, key=lambda claim: order[id(claim.rule)])

    def _claims_on(self, kind: FieldKind, name: str, spelling: str) -> list[_Claim]:
        """What rules want for the record key or for one header; mask_all takes both in, unless they are listed."""
        claims: list[_Claim] = []
        for rule in self.rules:
            own = [
                _Claim(rule, field.method, hit_of(rule, field))
                for field in rule.fields
                if field.kind is kind and field.name.casefold() == name.casefold()
            ]
            if rule.mask_all and not own:
                own = [_Claim(rule, Redact(), Hit(spelling, "redact", rule.name))]
            claims += own
        return claims

    def key(self, data: bytes) -> Cut[bytes]:
        """A record's key: text, never opened as JSON."""
        return _text(data, self._key_claims, self._limits) if self._key_claims else Cut(data)

    def header(self, name: str, data: bytes) -> Cut[bytes]:
        """The value of a header or message property: text; names are compared case-insensitively."""
        if not self._all_headers and name.casefold() not in self._headers:
            return Cut(data)
        return _text(data, self._claims_on(FieldKind.HEADER, name, f"header:{name}"), self._limits)

    @property
    def speaks_of_keys(self) -> bool:
        """Whether `key` may change anything."""
        return bool(self._key_claims)

    @property
    def speaks_of_headers(self) -> bool:
        """Whether `header` may change anything."""
        return self._all_headers or bool(self._headers)

    def names_header(self, name: str) -> bool:
        """Whether a rule names this header or property; mask_all names none."""
        return name.casefold() in self._headers

    def key_holds_mask(self, data: bytes) -> Hit | None:
        """The claim whose mask text a record key being written bears; None when there is none."""
        return _text_mask(data, self._key_claims)

    def header_holds_mask(self, name: str, data: bytes) -> Hit | None:
        """The same of a header's value being written."""
        if not self._all_headers and name.casefold() not in self._headers:
            return None
        return _text_mask(data, self._claims_on(FieldKind.HEADER, name, f"header:{name}"))

    def value_holds_mask(self, data: bytes) -> Hit | None:
        """A covered position of a value being written that bears mask text; None when there is none."""
        if self._not_a_hash is not None and bears_mask(data):
            return self._not_a_hash.hit
        return self._values.mask_in(data) if self._values.rule is not None and not scan.is_null(data) else None

    def field_holds_mask(self, name: bytes, data: bytes) -> Hit | None:
        """The same of one hash field's value being written."""
        claims, values = self._of_field(name)
        hit = _text_mask(data, claims)
        if hit is None and values.rule is not None and not scan.is_null(data):
            hit = values.mask_in(data)
        return hit

    def covers_field(self, name: bytes) -> Refusal | None:
        """The first rule that covers the hash field: one that names it, or any value-kind rule."""
        for rule in self.rules:
            for field in rule.fields:
                if field.kind is FieldKind.FIELD and name_bytes(field.name) == name:
                    return Refusal(rule.name, field.spelling)
            if _speaks_of_values(rule):
                return Refusal(rule.name, _first_value_field(rule))
        return None

    @property
    def hides_whole(self) -> bool:
        """Every value is redacted whole (no json_path shows a part, no partial keeps a character)."""
        return self._not_a_hash is not None or self._values.hides_whole


class _ClosedPlan(Plan):
    """Without rules; everything is masked whole."""

    def __init__(self, reason: str) -> None:
        self.rules = ()
        self.refusal = Refusal(None, reason=COULD_NOT_BE_READ)
        self._mask = Cut(MASK_BYTES, (), reason)

    def value(self, data: bytes) -> Cut[bytes]:
        return Cut(data) if scan.is_null(data) else self._mask

    def field(self, name: bytes, data: bytes) -> Cut[bytes]:
        return self.value(data)

    def key(self, data: bytes) -> Cut[bytes]:
        return self._mask

    def header(self, name: str, data: bytes) -> Cut[bytes]:
        return self._mask

    @property
    def speaks_of_keys(self) -> bool:
        return True

    @property
    def speaks_of_headers(self) -> bool:
        return True

    def names_header(self, name: str) -> bool:
        return False

    def key_holds_mask(self, data: bytes) -> Hit | None:
        return None

    def header_holds_mask(self, name: str, data: bytes) -> Hit | None:
        return None

    def value_holds_mask(self, data: bytes) -> Hit | None:
        return None

    def field_holds_mask(self, name: bytes, data: bytes) -> Hit | None:
        return None

    def covers_field(self, name: bytes) -> Refusal | None:
        return self.refusal

    @property
    def hides_whole(self) -> bool:
        return True


def compile_plan(rules: Sequence[Rule], platform: Platform, limits: Limits) -> Plan:
    """The plan of at least one rule."""
    return Plan(rules, platform, limits)


def closed_plan(reason: str) -> Plan:
    """A plan without rules that masks everything whole, for before the first good read of the store."""
    return _ClosedPlan(reason)
