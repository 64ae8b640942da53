"""Why a reader sees a resource the way it is seen: the rules that cover it, the grants that lift them.

Returns lines of text; printing is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from .access import UNMASKED, Access, Reader
from .audit import spell_name
from .model import Field, Kind, Partial, Patterns, Platform, Resource, Rule, RuleBook
from .patterns import glob_matches
from .policy import applies_in
from .preview import ask
from .view import View

NAME_LIMIT = 256  # characters of a resource's name in an answer that goes over a network

NOBODY = "a reader who is not logged in"
_FED = "rule {} ({}) covers it if an exchange that it names feeds it: bindings are not looked at here"
UNCOVERED = "no rule covers it: it is shown as it is"


def explain(
    book: RuleBook,
    *,
    platform: Platform,
    kind: Kind,
    name: bytes,
    connection: str | None = None,
    environment: str | None = None,
    who: str | None = None,
) -> list[str]:
    """Lines for a person: every rule whose patterns fit the resource, whether it applies and why, and what the
    reader may see.

    A connection or environment that is left out is taken as `preview` takes it.

    Raises:
        PreviewError: the platform has no resources of that kind.
    """
    asked = ask(book, platform=platform, kind=kind, name=name, connection=connection, environment=environment)
    resource = asked.resource
    reader = who or NOBODY
    held = Access(asked.book.access).may(Reader(who), UNMASKED, resource)
    lines = [f"{kind} {_quoted(spell_name(name))} on {_where(platform, connection, environment)}, read by {_plain(reader)}"]
    covering = 0
    fed = platform is Platform.RABBITMQ and kind is Kind.QUEUE  # by what, the bindings say
    for given, rule in zip(book.rules, asked.book.rules, strict=True):
        told, covers = _rule(given, rule, resource)
        if not told and fed and _of_exchanges(rule, resource):
            told, covers = [_FED.format(_quoted(rule.name), _plain(str(rule.place)))], True
        if not told:
            continue
        lines.extend(told)
        if covers:
            covering += 1
            lines.append(_verdict(held.yes, held.through))
    if not covering:
        return [*lines, UNCOVERED]
    return [*lines, _outcome(reader, may_lift=held.yes)]


def _of_exchanges(rule: Rule, resource: Resource) -> bool:
    return (
        rule.enabled
        and applies_in(rule, resource.connection)
        and any(named is Kind.EXCHANGE and listed for named, listed in rule.resources)
    )


def explain_view(view: View, *, doubt: str = "") -> list[str]:
    """The same lines for the reader of a view, of what covers the resource alone: rules that do not apply, and what
    others are granted, are not told.

    `doubt`: why the reader may not lift although a grant says so; "" where nothing is known against it.
    """
    resource = view.resource
    connection = resource.connection
    reader = view.who or NOBODY
    name = spell_name(resource.name[:NAME_LIMIT])
    told = name if len(resource.name) <= NAME_LIMIT else f"{name}…"
    where = _where(connection.platform, connection.name, connection.environment or "")
    lines = [f"{resource.kind} {_quoted(told)} on {where}, read by {_plain(reader)}"]
    if not view.covered:
        return [*lines, UNCOVERED]
    may_lift = view.may_lift and not doubt
    through = doubt if view.may_lift and doubt else view.grant
    for rule in view.rules:
        lines.extend(_covering(rule, rule.place.short, resource))
        lines.append(_verdict(may_lift, through))
    if not view.rules and view.refusal is not None:  # the closed policy has a reason and no rules
        lines.append(f"{view.refusal.reason}: it is masked whole")
    return [*lines, _outcome(reader, may_lift=may_lift)]


def _verdict(may_lift: bool, through: str) -> str:
    return f"  {_plain(f'lifted: {through}' if may_lift else f'masks: {through}')}"


def _outcome(reader: str, *, may_lift: bool) -> str:
    if may_lift:
        return f"{_plain(reader)} may read it unmasked, once the read is recorded"
    return f"{_plain(reader)} sees it masked"


def _where(platform: Platform, connection: str | None, environment: str | None) -> str:
    left_out = [word for word, value in (("connection", connection), ("environment", environment)) if value is None]
    named = [_quoted(value) for value in (connection, environment) if value]
    place = f"{platform} ({', '.join(named)})" if named else str(platform)
    if not left_out:
        return place
    return f"{place}, {' and '.join(left_out)} left out (rules of every scope apply, grants on one do not)"


def _rule(given: Rule, rule: Rule, resource: Resource) -> tuple[list[str], bool]:
    """What is said of one rule, and whether it covers the resource. Nothing where its patterns do not fit."""
    if rule.platform is not resource.connection.platform:
        return [], False
    fitting = _first_fit(rule.resources, resource, strict=False)
    if fitting is None:
        return [], False
    head = f"rule {_quoted(rule.name)} ({_plain(str(rule.place))})"
    excepting = _first_fit(rule.excepted, resource, strict=True)
    if not rule.enabled:
        return [f"{head} does not cover it: it is not enabled"], False
    if not applies_in(rule, resource.connection):
        return [f"{head} does not cover it: it is for the {_scope(given)}"], False
    if excepting is not None:
        return [f"{head} does not cover it: its exception {_quoted(excepting)} fits"], False
    return _covering(given, str(rule.place), resource), True


def _covering(rule: Rule, place: str, resource: Resource) -> list[str]:
    """What is said of a rule that covers the resource."""
    fitting = _first_fit(rule.resources, resource, strict=False) or ""
    scope = "everywhere" if _scope(rule) == "" else f"for the {_scope(rule)}"
    lines = [f"rule {_quoted(rule.name)} ({_plain(place)}) covers it: {resource.kind} {_quoted(fitting)} fits, {scope}"]
    if rule.mask_all:
        lines.append("  mask_all: redact")
    lines.extend(f"  {_plain(each.spelling)}: {_method(each)}" for each in rule.fields)
    return lines


def _scope(rule: Rule) -> str:
    if rule.scope.environment is not None:
        return f"environment {_quoted(rule.scope.environment)}"
    if rule.scope.connection is not None:
        return f"connection {_quoted(rule.scope.connection)}"
    return ""


def _first_fit(patterns: Patterns, resource: Resource, *, strict: bool) -> str | None:
    globs: Iterator[str] = (glob for kind, listed in patterns if kind is resource.kind for glob in listed)
    return next((glob for glob in globs if glob_matches(glob, resource.name, strict=strict)), None)


def _method(field: Field) -> str:
    match field.method:
        case Partial(first, last):
            return f"partial, keeps the first {first} and the last {last}"
        case _:
            return "redact"


def _plain(text: str) -> str:
    """Names come from a command line or a file; a line of the answer must stay one line."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'
