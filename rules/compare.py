"""What changes from one state of the rules to another, and what of it may show more than before.

Errs on the loud side: what cannot be told to be harmless is said to unmask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .model import AccessList, Extent, Field, Grant, Method, Partial, Patterns, Redact, Role, Rule, RuleBook, Team, User

NO_BOOK = RuleBook("", ())


@dataclass(frozen=True, slots=True)
class Change:
    """`what` is created, updated or deleted; `reasons` say what it may unmask, and are empty where it does not."""

    what: str
    subject: str
    reasons: tuple[str, ...] = ()


def compare(old: RuleBook | None, new: RuleBook) -> tuple[Change, ...]:
    """Every change, rules first, in the order of the new state and then what is gone. No book yet is an empty one."""
    before = NO_BOOK if old is None else old
    return (*_rules(before, new), *_access(before.access, new.access))


def _rules(old: RuleBook, new: RuleBook) -> Iterator[Change]:
    was = {rule.name: rule for rule in old.rules}
    now = {rule.name: rule for rule in new.rules}
    for name, rule in now.items():
        if name not in was:
            yield Change("created", _rule(rule))
        elif was[name] != rule:
            yield Change("updated", _rule(rule), tuple(weakened(was[name], rule)))
    for name, rule in was.items():
        if name not in now:
            yield Change("deleted", _rule(rule), ("it masks no longer",) if rule.enabled else ())


def _rule(rule: Rule) -> str:
    return f"rule {_quoted(rule.name)}"


def weakened(old: Rule, new: Rule) -> Iterator[str]:
    """Every way in which the new rule may hide less than the old one did."""
    if not old.enabled:
        return
    if not new.enabled:
        yield "it is disabled"
        return
    if old.platform is not new.platform:
        yield f"it is no longer for {old.platform}"
    if old.scope != new.scope and (new.scope.environment is not None or new.scope.connection is not None):
        yield "its scope does not take in all that it did"
    for pattern in _missing(old.resources, new.resources):
        yield f"it no longer covers {pattern}"
    for pattern in _missing(new.excepted, old.excepted):
        yield f"it now excepts {pattern}"
    if old.mask_all and not new.mask_all:
        yield "mask_all is gone"
    yield from _fields(old, new)


def _fields(old: Rule, new: Rule) -> Iterator[str]:
    was, now = _methods(old), _methods(new)
    for field, method in was.items():
        if field in now:
            if _shows_more(method, now[field]):
                yield f"{_plain(_spelled(old, field))} shows more: {_words(method)} was, {_words(now[field])} is"
        elif not new.mask_all:
            yield f"{_plain(_spelled(old, field))} is no longer masked"
        # Under mask_all a field that is no longer listed is redacted, which is the most there is.
    for field, method in now.items():
        if field not in was and isinstance(method, Partial):
            # Beside mask_all a listed path keeps its own method; and of two partials the one that keeps less wins, which
            # may be characters that the other one hid.
            yield f"{_plain(_spelled(new, field))} is listed now: {_words(method)} may show what was hidden"


_Key = tuple[str, object, str]


def _key(field: Field) -> _Key:
    return (str(field.kind), None if field.path is None else field.path.steps, field.name)


def _methods(rule: Rule) -> dict[_Key, Method]:
    """The method that each field comes to, where one is listed twice too: the stricter wins."""
    listed: dict[_Key, list[Method]] = {}
    for field in rule.fields:
        listed.setdefault(_key(field), []).append(field.method)
    return {key: _strictest(methods) for key, methods in listed.items()}


def _strictest(methods: list[Method]) -> Method:
    partials = [each for each in methods if isinstance(each, Partial)]
    if len(partials) < len(methods):
        return Redact()
    least = min(each.keep_first + each.keep_last for each in partials)
    tied = [each for each in partials if each.keep_first + each.keep_last == least]
    return Partial(min(each.keep_first for each in tied), min(each.keep_last for each in tied))


def _spelled(rule: Rule, key: _Key) -> str:
    return next(field.spelling for field in rule.fields if _key(field) == key)


def _shows_more(old: Method, new: Method) -> bool:
    match old, new:
        case Partial(first, last), Partial(first_now, last_now):
            return first_now > first or last_now > last
        case _, Partial():
            return True
        case _:
            return False


def _words(method: Method) -> str:
    match method:
        case Partial(first, last):
            return f"partial (first {first}, last {last})"
        case _:
            return "redact"


def _missing(these: Patterns, those: Patterns) -> list[str]:
    """The patterns of the first that the second does not have; whether another of the second covers them is not asked."""
    there = {(kind, glob) for kind, globs in those for glob in globs}
    return [f"{kind} {_quoted(glob)}" for kind, globs in these for glob in globs if (kind, glob) not in there]


def _access(old: AccessList, new: AccessList) -> Iterator[Change]:
    yield from _grants(old.grants, new.grants)
    yield from _named("user", {each.name: each for each in old.users}, {each.name: each for each in new.users})
    yield from _named("team", {each.name: each for each in old.teams}, {each.name: each for each in new.teams})
    yield from _named("role", {each.name: each for each in old.roles}, {each.name: each for each in new.roles})


def _grants(old: tuple[Grant, ...], new: tuple[Grant, ...]) -> Iterator[Change]:
    for grant in new:
        if grant not in old:
            yield Change("created", _grant(grant), ("it allows more",) if grant.allow else ())
    for grant in old:
        if grant not in new:
            yield Change("deleted", _grant(grant), () if grant.allow else ("it denies no longer",))


def _grant(grant: Grant) -> str:
    word = "grant" if grant.allow else "deny"
    return f"{word} of {grant.permission} to {grant.whom} {_quoted(grant.name)} on {_extent(grant.on)}"


def _extent(extent: Extent) -> str:
    if extent.installation:
        return "installation"
    told = [f"{key} {_quoted(str(value))}" for key, value in _narrowed(extent) if value is not None]
    told += [f"{kind} {', '.join(map(_quoted, globs))}" for kind, globs in extent.resources]
    return ", ".join(told) or "everything"


def _narrowed(extent: Extent) -> Iterator[tuple[str, str | None]]:
    yield "platform", None if extent.platform is None else str(extent.platform)
    yield "environment", extent.environment
    yield "connection", extent.connection


_Party = User | Team | Role


def _named(
    word: str,
    old: dict[str, User] | dict[str, Team] | dict[str, Role],
    new: dict[str, User] | dict[str, Team] | dict[str, Role],
) -> Iterator[Change]:
    was: dict[str, _Party] = dict(old)
    now: dict[str, _Party] = dict(new)
    for name, party in now.items():
        if name not in was:
            yield Change("created", f"{word} {_quoted(name)}", tuple(_more(None, party)))
        elif was[name] != party:
            yield Change("updated", f"{word} {_quoted(name)}", tuple(_more(was[name], party)))
    for name, party in was.items():
        if name not in now:
            lost = ("it disabled them, and does no longer",) if isinstance(party, User) and party.disabled else ()
            yield Change("deleted", f"{word} {_quoted(name)}", lost)


def _more(old: _Party | None, new: _Party) -> Iterator[str]:
    """What somebody may do that they may not have done before."""
    match old, new:
        case ((User() | None), User()):
            if old is not None and old.disabled and not new.disabled:
                yield "they are enabled"
            yield from _added("role", () if old is None else old.roles, new.roles)
            yield from _added("team", () if old is None else old.teams, new.teams)
        case ((Team() | None), Team()):
            yield from _added("role", () if old is None else old.roles, new.roles)
            yield from _added("member", () if old is None else old.members, new.members)
        case ((Role() | None), Role()):
            yield from _added("permission", () if old is None else old.permissions, new.permissions)
            if old is not None and old.on != new.on:
                where = "everywhere" if new.on is None else f"on {_extent(new.on)}"
                yield f"it holds {where} now"
        case _:
            yield "it is something else now"


def _added(word: str, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    for each in new:
        if each not in old:
            yield f"{word} {_quoted(each)} is added"


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'
