"""What a reader would see of one value: for `veil preview`, and for whoever tries a rule out.

No broker, no audit: the value is the caller's own. Returns data; printing is the caller's business.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace

from .access import Reader
from .cut import Cut
from .model import AccessList, Connection, Extent, FieldKind, Grant, Kind, Limits, Platform, Resource, RuleBook, Scope
from .platforms import PLATFORMS
from .policy import Policy
from .view import Masked, Shown, View

UNNAMED = ""  # the name of a connection that is left out: no file can write it, so no grant on a connection fits


class PreviewError(ValueError):
    """The caller asks for something that is not on the platform. The message is for a person."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A book, a connection, a resource, as they are when some of the connection is left out."""

    book: RuleBook
    resource: Resource


def ask(
    book: RuleBook,
    *,
    platform: Platform,
    kind: Kind,
    name: bytes,
    connection: str | None = None,
    environment: str | None = None,
) -> Asked:
    """The book as it applies when the connection, the environment or both are left out.

    Then rules of every scope apply, and only grants and roles without such a scope do. A deny applies like a rule:
    what is not known must not lift anything.

    Raises:
        PreviewError: the platform has no resources of that kind.
    """
    if kind not in PLATFORMS[platform].kinds:
        known = ", ".join(PLATFORMS[platform].kinds)
        raise PreviewError(f"there is no {kind} on {platform} (known: {known})")
    rules = tuple(
        replace(
            rule,
            scope=Scope(
                environment=None if environment is None else rule.scope.environment,
                connection=None if connection is None else rule.scope.connection,
            ),
        )
        for rule in book.rules
    )
    grants = tuple(grant if grant.allow else _widened(grant, connection, environment) for grant in book.access.grants)
    access = AccessList(book.access.users, book.access.teams, book.access.roles, grants)
    at = Connection(UNNAMED if connection is None else connection, platform, environment)
    return Asked(RuleBook(book.version, rules, access), Resource(at, kind, name))


def _widened(deny: Grant, connection: str | None, environment: str | None) -> Grant:
    on = replace(
        deny.on,
        connection=None if connection is None else deny.on.connection,
        environment=None if environment is None else deny.on.environment,
    )
    return replace(deny, on=Extent(installation=True) if on == Extent() else on)


def preview(
    book: RuleBook,
    limits: Limits,
    *,
    platform: Platform,
    kind: Kind,
    name: bytes,
    connection: str | None = None,
    environment: str | None = None,
    part: str = "value",
    who: str | None = None,
    data: bytes,
) -> Masked:
    """The value as the reader would see it; the original where the reader may read the resource unmasked.

    `part` is `value`, `key`, `header:NAME` or `field:NAME`. `who` None is an ordinary reader.

    Raises:
        PreviewError: the platform has no such kind of resource, or no such part.
    """
    _check_part(platform, part)
    asked = ask(book, platform=platform, kind=kind, name=name, connection=connection, environment=environment)
    unknown = (Kind.EXCHANGE,) if platform is Platform.RABBITMQ and kind is Kind.QUEUE else ()  # its bindings
    view = Policy(asked.book, limits).view_over(Reader(who), asked.resource, every=unknown)
    if view.may_lift:
        return Cut(Shown(data))  # no receipt: the file is the caller's own, and nothing of a broker's is shown
    return _shown(view, part, data)


def _check_part(platform: Platform, part: str) -> None:
    match part.partition(":"):
        case ("value", "", _):
            needed = FieldKind.WHOLE_VALUE
        case ("key", "", _):
            needed = FieldKind.RECORD_KEY
        case ("header", _, name) if name:
            needed = FieldKind.HEADER
        case ("field", _, name) if name:
            needed = FieldKind.FIELD
        case _:
            raise PreviewError(f"the part {part!r} is not known (value, key, header:NAME, field:NAME)")
    if needed not in PLATFORMS[platform].field_kinds:
        raise PreviewError(f"{platform} has no part {part!r}")


def _shown(view: View, part: str, data: bytes) -> Masked:
    sort, _, name = part.partition(":")
    match sort:
        case "value":
            return view.value(data)
        case "key":
            return view.key(data)
        case "header":
            return view.header(name, data)
        case _:
            return view.field(name.encode("utf-8", "surrogateescape"), data)


def as_json(masked: Masked) -> dict[str, object]:
    """The JSON form: `after` (`after_base64` where the result is not text), `masked`, `whole`."""
    told: dict[str, object] = {}
    try:
        told["after"] = masked.data.decode("utf-8")
    except UnicodeDecodeError:
        told["after_base64"] = base64.b64encode(masked.data).decode("ascii")
    told["masked"] = [{"field": hit.field, "method": hit.method, "rule": hit.rule} for hit in masked.hits]
    told["whole"] = masked.whole
    return told
