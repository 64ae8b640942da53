"""What is allowed in rules and yet probably not meant: warnings for `veil check`.

Two rules that cover the same field of the same resource, fields that another one always hides, partials that keep
nearly everything or show what another rule alone would hide, and paths that may run out of states (`crowds`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .crowds import crowds
from .model import Every, Field, FieldKind, Kind, Name, Partial, PathStep, Place, Platform, Problem, Redact, Rule, RuleBook
from .overlap import always_above, paths_meet
from .patterns import glob_matches, globs_meet, near

NEARLY_ALL = 16  # characters kept; an e-mail address, a card number and an IBAN's account are no longer
VALUE_OF_A_FIELD = {FieldKind.FIELD, FieldKind.WHOLE_VALUE}  # whole_value takes in the value of each hash field
PATHS_COMPARED = 2500  # pairs of paths; a thousand rules with a path each need a few hundred unless all look alike
WARNING_LIMIT = 500  # warnings told; after so many it is the rules' design that needs a look


def warnings(book: RuleBook) -> tuple[Problem, ...]:
    """The warnings about the enabled rules of a book, in the order of the rules they stand at."""
    rules = [rule for rule in book.rules if rule.enabled]
    told: list[tuple[int, Problem]] = []
    for index, rule in enumerate(rules):
        told.extend((index, each) for each in _about_one(rule))
    pairs = _Pairs(rules)
    for first, second, where in pairs:
        told.extend((second, each) for each in _about_two(rules[first], rules[second], where))
        if len(told) > WARNING_LIMIT:
            break
    if not pairs.is_whole:
        told.append((0, _warn(rules[0].place, "the rules name too many different paths to compare all of them")))
    told.sort(key=lambda each: each[0])
    listed = [*crowds(rules), *(each for _, each in told)]
    if len(listed) > WARNING_LIMIT:
        rest = Problem(listed[WARNING_LIMIT].place, "there are more warnings, which are not listed", warning=True)
        listed = [*listed[:WARNING_LIMIT], rest]
    return tuple(listed)


@dataclass(frozen=True, slots=True)
class _At:
    """A field, its place, and the words for it."""

    field: Field
    place: Place
    words: str


def _fields(rule: Rule) -> list[_At]:
    places = rule.field_places or (rule.place,) * len(rule.fields)
    return [_At(field, place, field.spelling) for field, place in zip(rule.fields, places, strict=True)]


def _about_one(rule: Rule) -> Iterator[Problem]:
    fields = _fields(rule)
    for index, at in enumerate(fields):
        method = at.field.method
        if isinstance(method, Partial) and method.keep_first + method.keep_last >= NEARLY_ALL:
            kept = method.keep_first + method.keep_last
            yield _warn(at.place, f"{at.words} keeps up to {kept} characters, which is nearly everything of most values")
        for before in fields[:index]:
            yield from _clash(before, at, "in the same rule")
            yield from _clash_of_depth(at, before, at.place, "in the same rule")


def _about_two(first: Rule, second: Rule, where: str) -> Iterator[Problem]:
    """The warnings about a later rule beside an earlier one that covers the same resource."""
    told = f'rule "{first.name}" ({first.place}), which covers {where} too'
    if first.mask_all and second.mask_all:
        yield _warn(second.place, f"mask_all stands in {told}: redact either way")
    elif first.mask_all:
        yield _warn(second.place, f"mask_all of {told}, redacts every value: redact wins over this rule's own methods")
    elif second.mask_all:
        yield _warn(second.place, f"mask_all redacts every value: redact wins over the methods of {told}")
    if first.mask_all or second.mask_all:
        return
    for at in _fields(second):
        for before in _fields(first):
            yield from _clash(before, at, f"in {told}")
            yield from _clash_of_depth(at, before, at.place, f"in {told}")


def _clash(before: _At, at: _At, where: str) -> Iterator[Problem]:
    """One field that stands twice: who wins."""
    if not _same(before.field, at.field):
        return
    one, two = before.field.method, at.field.method
    yield _warn(at.place, f"{at.words} meets {before.words} {where}: {_winner(before.field, at.field)}")
    if not (isinstance(one, Partial) and isinstance(two, Partial)):
        return
    if one.keep_first + one.keep_last < two.keep_first + two.keep_last:
        one, two = two, one
    shows_more = two.keep_first > one.keep_first or two.keep_last > one.keep_last
    if shows_more and one.keep_first + one.keep_last != two.keep_first + two.keep_last:
        yield _warn(at.place, f"{_words(two)} wins and shows characters that {_words(one)} alone would hide ({where})")


def _clash_of_depth(at: _At, before: _At, place: Place, where: str) -> Iterator[Problem]:
    """A field that lies inside another one is redacted, whatever its own method."""
    if _hides(before.field, at.field):
        yield _warn(place, f"{at.words} never comes to its own method: {before.words} {where} hides all below it")
    elif _hides(at.field, before.field):
        yield _warn(place, f"{at.words} hides all below it: {before.words} {where} never comes to its own method there")


def _same(one: Field, other: Field) -> bool:
    if one.kind is not other.kind:
        return {one.kind, other.kind} == VALUE_OF_A_FIELD
    match one.kind:
        case FieldKind.JSON_PATH:
            assert one.path is not None
            assert other.path is not None
            return paths_meet(one.path, other.path)
        case FieldKind.HEADER:
            return one.name.casefold() == other.name.casefold()
        case FieldKind.FIELD:
            return one.name == other.name
        case FieldKind.RECORD_KEY | FieldKind.WHOLE_VALUE:
            return True


def _hides(upper: Field, lower: Field) -> bool:
    if lower.kind is not FieldKind.JSON_PATH:
        return False
    if upper.kind is FieldKind.WHOLE_VALUE:
        return True
    if upper.kind is not FieldKind.JSON_PATH:
        return False
    assert upper.path is not None
    assert lower.path is not None
    return always_above(upper.path, lower.path)


def _winner(one: Field, other: Field) -> str:
    a, b = one.method, other.method
    match a, b:
        case Redact(), Redact():
            return "redact either way"
        case (Redact(), _) | (_, Redact()):
            return "redact wins"
    assert isinstance(a, Partial)
    assert isinstance(b, Partial)
    if a == b:
        return f"{_words(a)} either way"
    kept_a, kept_b = a.keep_first + a.keep_last, b.keep_first + b.keep_last
    if kept_a != kept_b:
        return f"{_words(a if kept_a < kept_b else b)} wins, which keeps fewer characters"
    both = Partial(min(a.keep_first, b.keep_first), min(a.keep_last, b.keep_last))
    if not both.keep_first and not both.keep_last:
        return "both keep equally many and nothing in common, so the value is redacted"
    return f"both keep equally many, so {_words(both)} holds"


def _words(method: Partial) -> str:
    return f"partial (keep_first {method.keep_first}, keep_last {method.keep_last})"


def _warn(place: Place, message: str) -> Problem:
    return Problem(place, "".join(each if each.isprintable() else "?" for each in message), warning=True)


# Which rules can meet at all. A thousand rules are half a million pairs, so a pair costs one `and` of two numbers
# until its fields are known to have to do with each other, and only then are its patterns compared.


class _Pairs:
    """Pairs of rules that cover a resource in common and whose fields may clash."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        bits = {sort: bit for bit, sort in enumerate(dict.fromkeys(_sort(each) for rule in rules for each in rule.fields))}
        related = _Related(list(bits))
        self.is_whole = related.is_whole
        clashing = dict.fromkeys(bits, 0)
        for one, other in related.pairs:
            clashing[one] |= 1 << bits[other]
            clashing[other] |= 1 << bits[one]
        everything = (1 << (len(bits) + 1)) - 1
        self._own: list[int] = []
        self._related: list[int] = []
        for rule in rules:
            mine = beside = 0
            for field in rule.fields:
                mine |= 1 << bits[_sort(field)]
                beside |= clashing[_sort(field)]
            # The topmost bit is every rule's: a rule with mask_all has to do with all of them, and all with it.
            self._own.append(everything if rule.mask_all else mine | 1 << len(bits))
            self._related.append(everything if rule.mask_all else beside)

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        """The earlier rule, the later one, and words for what both cover."""
        found: set[tuple[int, int]] = set()
        by_kind: dict[tuple[Platform, Kind], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for index, rule in enumerate(self._rules):
            for kind, globs in rule.resources:
                for glob in globs:
                    by_kind[rule.platform, kind][glob].append(index)
        for (_, kind), by_glob in by_kind.items():
            for one, other in near(by_glob):
                for a, b in _crossed(by_glob[one], by_glob[other], same=one == other):
                    pair = (a, b) if a < b else (b, a)
                    if self._own[a] & self._related[b] and pair not in found and self._meet(a, one, b, other, kind):
                        found.add(pair)
                        both = f'"{one}"' if one == other else f'"{one}" and "{other}"'
                        yield *pair, f"{kind} {both}"

    def _meet(self, a: int, one: str, b: int, other: str, kind: Kind) -> bool:
        first, second = self._rules[a], self._rules[b]
        return (
            _scopes_meet(first, second)
            and globs_meet(one, other)
            and not _excepts(first, kind, other)
            and not _excepts(second, kind, one)
        )


def _crossed(ones: list[int], others: list[int], *, same: bool) -> Iterator[tuple[int, int]]:
    for position, one in enumerate(ones):
        for other in others[position + 1 :] if same else others:
            if one != other:
                yield one, other


def _sort(field: Field) -> Field:
    """The field without its method: what is compared."""
    return Field(field.kind, Redact(), field.path, field.name)


class _Related:
    """Pairs of fields of which one is the other, or lies inside it. `is_whole` is False where there were too many
    different paths to compare them all."""

    def __init__(self, fields: list[Field]) -> None:
        self.pairs: list[tuple[Field, Field]] = []
        self.is_whole = True
        self._left = PATHS_COMPARED
        groups: dict[object, list[Field]] = defaultdict(list)
        for field in fields:
            key = field.name.casefold() if field.kind is FieldKind.HEADER else field.name
            groups[None if field.path is not None else (field.kind, key)].append(field)
        paths = groups.pop(None, [])
        for group in groups.values():
            self.pairs.extend((one, other) for one in group for other in group)
        wholes = [field for field in fields if field.kind is FieldKind.WHOLE_VALUE]
        named = [field for field in fields if field.kind is FieldKind.FIELD]
        self.pairs.extend((one, other) for one in wholes for other in (*paths, *named))
        for one, other in self._near(paths):
            if self._left == 0:
                self.is_whole = False
                break
            self._left -= 1
            if _same(one, other) or _hides(one, other) or _hides(other, one):
                self.pairs.append((one, other))

    @staticmethod
    def _near(paths: list[Field]) -> Iterator[tuple[Field, Field]]:
        """Pairs that may be the same, since they end in the same name or in any, and pairs of which one may lie
        above the other, since all names that it looks for stand in the other."""
        tails = {field: _tail(field) for field in paths}
        ends: dict[tuple[str, ...], list[Field]] = defaultdict(list)
        looked_for: dict[str | None, list[Field]] = defaultdict(list)
        for field in paths:
            ends[tails[field][:2]].append(field)
            looked_for[next(iter(_names(field)), None)].append(field)
        for field in paths:
            tail = tails[field]
            for known in range(min(len(tail), 2) + 1):
                for other in ends.get(tail[:known], ()):
                    if _starts_fit(field, other) and _tails_fit(tail, tails[other]):
                        yield field, other
            for name in (None, *dict.fromkeys(_names(field))):
                for upper in looked_for.get(name, ()):
                    if upper is not field and _starts_fit(upper, field) and set(_names(upper)) <= set(_names(field)):
                        yield upper, field


def _steps(field: Field) -> tuple[PathStep, ...]:
    assert field.path is not None
    return field.path.steps


def _names(field: Field) -> list[str]:
    return [step.name for step in _steps(field) if not isinstance(step, Every)]


def _tail(field: Field) -> tuple[str, ...]:
    """The names that every place named by the path ends in, the last first; "$" behind the last where they are all."""
    tail: list[str] = []
    for step in reversed(_steps(field)):
        if isinstance(step, Every):
            return tuple(tail)
        tail.append("." + step.name)
        if not isinstance(step, Name):
            return tuple(tail)
    return (*tail, "$")


def _tails_fit(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _starts_fit(one: Field, other: Field) -> bool:
    """Two paths that begin with different names have nothing to do with each other."""
    a, b = _steps(one)[0], _steps(other)[0]
    return not (isinstance(a, Name) and isinstance(b, Name)) or a == b


def _scopes_meet(one: Rule, other: Rule) -> bool:
    a, b = one.scope, other.scope
    environments = {each.environment for each in (a, b)} - {None}
    connections = {each.connection for each in (a, b)} - {None}
    return len(environments) < 2 and len(connections) < 2


def _excepts(rule: Rule, kind: Kind, glob: str) -> bool:
    """Whether the rule's exceptions name the other's pattern itself, or the one name that it stands for."""
    literal = "*" not in glob and "?" not in glob
    globs = [each for excepted, listed in rule.excepted if excepted is kind for each in listed]
    return glob in globs or (literal and _any_fits(globs, glob))


def _any_fits(globs: Iterable[str], name: str) -> bool:
    return any(glob_matches(glob, name.encode("utf-8", "surrogatepass"), strict=True) for glob in globs)
