"""The key `rules:` of one file as rules.

Every problem is told at the place of the value it is about. What several files must agree on (names that are
unique, roles that exist) is looked at in `files`, over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from enum import StrEnum

from ..model import Field, FieldKind, JsonPath, Kind, Method, Partial, Patterns, Place, Platform, Redact, Rule, Scope
from ..paths import PathError, parse_path
from ..platforms import PLATFORMS, Row
from .document import Mapping, Node, Scalar, Sequence, Unread, quote
from .values import GLOB_LIMIT, Findings, near

RULE_KEYS = (
    "name",
    "description",
    "enabled",
    "platform",
    "scope",
    "resources",
    "except",
    "mask_all",
    "fields",
    "compliance",
    "information_kind",
    "risk",
)
FIELD_KEYS = ("kind", "path", "name", "method", "keep_first", "keep_last")
KEEP_LIMIT = 64
DESCRIPTION_LIMIT = 4096
PATH_LIMIT = 4096


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class MethodName(StrEnum):
    REDACT = "redact"
    PARTIAL = "partial"


NEEDS: dict[FieldKind, str] = {FieldKind.JSON_PATH: "path", FieldKind.HEADER: "name", FieldKind.FIELD: "name"}
"""The key without which a field of the kind says nothing."""


def read_rules(node: Node, found: Findings) -> list[Rule]:
    """The rules under the key. Those with a problem are left out, and their problems told.

    A rule that names itself is never lost silently: it comes back or there is a problem.
    """
    items = found.sequence(node, "rules")
    rules = [_rule(item, found) for item in items or ()]
    return [rule for rule in rules if rule is not None]


def rule_names(node: Node) -> list[Scalar]:
    """The nodes of the names under the key, of rules with problems too: for telling names that stand twice."""
    if not isinstance(node, Sequence):
        return []
    names = [item.get("name") for item in node.items if isinstance(item, Mapping)]
    return [name for name in names if isinstance(name, Scalar) and name.is_text and name.text]


def _rule(node: Node, found: Findings) -> Rule | None:
    before = len(found.problems)
    told = found.record(node, "a rule", RULE_KEYS, ("name", "platform", "resources"))
    if told is None:
        return None
    name = found.name(told["name"], "the rule's name") if "name" in told else None
    platform = found.choice(told["platform"], "the platform", Platform) if "platform" in told else None
    row = None if platform is None else PLATFORMS[platform]
    resources = _patterns(told["resources"], "resources", row, found) if "resources" in told else None
    excepted = _patterns(told["except"], "except", row, found) if "except" in told else ()
    scope = _scope(told["scope"], found) if "scope" in told else Scope()
    mask_all = found.boolean(told["mask_all"], "mask_all") if "mask_all" in told else False
    enabled = found.boolean(told["enabled"], "enabled") if "enabled" in told else True
    fields, places = _fields(told["fields"], row, found) if "fields" in told else ((), ())
    description = _description(told["description"], found) if "description" in told else ""
    compliance = found.names(told["compliance"], "compliance") if "compliance" in told else ()
    information_kind = found.name(told["information_kind"], "information_kind") if "information_kind" in told else None
    risk = found.choice(told["risk"], "the risk", Risk) if "risk" in told else None
    nothing = not _holds_any(told.get("fields")) and mask_all is False
    if nothing and "fields" not in told:
        found.tell(node.place, "a rule needs at least one field, or `mask_all: true`")
    elif nothing and isinstance(told["fields"], Sequence):
        found.tell(told["fields"].place, "fields is empty: a rule needs at least one field, or `mask_all: true`")
    if len(found.problems) > before or isinstance(node, Unread):
        return None
    if name is None or platform is None or resources is None or excepted is None or scope is None or compliance is None:
        # An alias or a tag stood there, which the document has told.
        return None
    if mask_all is None or enabled is None or description is None:
        return None
    return Rule(
        name=name,
        platform=platform,
        resources=resources,
        excepted=excepted,
        scope=scope,
        mask_all=mask_all,
        fields=fields,
        enabled=enabled,
        description=description,
        compliance=compliance,
        information_kind=information_kind,
        risk=None if risk is None else str(risk),
        place=told["name"].place,
        field_places=places,
    )


def _holds_any(node: Node | None) -> bool:
    return isinstance(node, Sequence) and bool(node.items)


def _description(node: Node, found: Findings) -> str | None:
    text = found.text(node, "the description")
    if text is not None and len(text) > DESCRIPTION_LIMIT:
        found.tell(node.place, f"the description is longer than {DESCRIPTION_LIMIT} characters")
        return None
    return text


def _scope(node: Node, found: Findings) -> Scope | None:
    told = found.record(node, "the scope", ("environment", "connection"))
    if told is None:
        return None
    if len(told) != 1:
        found.tell(node.place, "the scope needs exactly one of `environment` and `connection`")
        return None
    (key, value), *_ = told.items()
    name = found.name(value, f"the scope's {key}")
    if name is None:
        return None
    return Scope(environment=name) if key == "environment" else Scope(connection=name)


def _patterns(node: Node, what: str, row: Row | None, found: Findings) -> Patterns | None:
    """Globs by kind. A plain list means the platform's first kind. `except` may be empty, `resources` may not."""
    may_be_empty = what == "except"
    if isinstance(node, Sequence):
        globs = read_globs(node, what, found, may_be_empty=may_be_empty)
        if globs is None or row is None:
            return None
        return ((row.kinds[0], globs),) if globs else ()
    if not isinstance(node, Mapping):
        if not isinstance(node, Unread):
            found.tell(node.place, f"{what} must be a mapping of kinds to lists of patterns, or a list of patterns")
        return None
    if not node.entries and not may_be_empty:
        found.tell(node.place, f"{what} is empty: name what the rule covers")
        return None
    patterns: list[tuple[Kind, tuple[str, ...]]] = []
    known = list(Kind) if row is None else list(row.kinds)
    for entry in node.entries:
        globs = read_globs(entry.value, f"{what}.{entry.key.text}", found, may_be_empty=may_be_empty)
        if entry.key.text not in known:
            where = "" if row is None else " on this platform"
            said = near(entry.key.text, map(str, known))
            found.tell(entry.key.place, f"{what} has no kind {quote(entry.key.text)}{where}{said}")
        elif globs:
            patterns.append((Kind(entry.key.text), globs))
    return tuple(patterns)


def read_globs(node: Node, what: str, found: Findings, *, may_be_empty: bool) -> tuple[str, ...] | None:
    """The patterns of one list; None after telling a problem."""
    globs = found.names(node, what, GLOB_LIMIT)
    if globs == () and not may_be_empty:
        found.tell(node.place, f"{what} is empty")
        return None
    return globs


def _fields(node: Node, row: Row | None, found: Findings) -> tuple[tuple[Field, ...], tuple[Place, ...]]:
    items = found.sequence(node, "fields")
    read = [_field(item, row, found) for item in items or ()]
    whole = [each for each in read if each is not None]
    return tuple(field for field, _ in whole), tuple(place for _, place in whole)


def _field(node: Node, row: Row | None, found: Findings) -> tuple[Field, Place] | None:
    told = found.record(node, "a field", FIELD_KEYS, ("kind", "method"))
    if told is None:
        return None
    before = len(found.problems)
    kind = found.choice(told["kind"], "the field's kind", FieldKind) if "kind" in told else None
    method = _method(told, node, found)
    path = _path(told["path"], found) if "path" in told else None
    name = found.name(told["name"], "the field's name", GLOB_LIMIT) if "name" in told else ""
    if kind is None:
        return None
    needed = NEEDS.get(kind, "")
    if row is not None and kind not in row.field_kinds:
        found.tell(told["kind"].place, f"fields of kind {kind} are not offered on this platform{near('', row.field_kinds)}")
    if needed and needed not in told:
        found.tell(node.place, f"a field of kind {kind} needs `{needed}`")
    for key in ("path", "name"):
        if key in told and key != needed:
            found.tell(told[key].place, f"`{key}` says nothing in a field of kind {kind}")
    if len(found.problems) > before or method is None or name is None or (needed == "path" and path is None):
        return None
    place = told[needed].place if needed else told["kind"].place
    return Field(kind, method, path, name), place


def _path(node: Node, found: Findings) -> JsonPath | None:
    text = found.name(node, "the path", PATH_LIMIT)
    if text is None:
        return None
    try:
        return parse_path(text)
    except PathError as error:
        place = node.at(error.column) if isinstance(node, Scalar) else node.place
        found.tell(place, error.message)
        return None


def _method(told: Map[str, Node], node: Node, found: Findings) -> Method | None:
    method = found.choice(told["method"], "the method", MethodName) if "method" in told else None
    kept: dict[str, int] = {}
    whole = True
    for key in ("keep_first", "keep_last"):
        if key not in told:
            continue
        count = found.integer(told[key], key, 0, KEEP_LIMIT)
        if count is None:
            whole = False
        else:
            kept[key] = count
        if method is MethodName.REDACT:
            found.tell(told[key].place, f"`{key}` says nothing beside the method redact")
    match method:
        case MethodName.REDACT:
            return Redact()
        case MethodName.PARTIAL:
            first, last = kept.get("keep_first", 0), kept.get("keep_last", 0)
            if whole and not first and not last:
                place = told["keep_first"].place if "keep_first" in told else told.get("keep_last", node).place
                found.tell(place, "partial needs `keep_first` or `keep_last` above 0")
                return None
            return Partial(first, last) if whole else None
        case None:
            return None
