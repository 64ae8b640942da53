"""JSON Schemas of rule and access files, for editors. The files themselves are read by `store`, which is stricter.

A file may hold the keys of both, so each schema lets the other's keys stand.
"""

from __future__ import annotations

from .model import FieldKind, Kind, Platform, Whom
from .platforms import GRANTED, PLATFORMS
from .store.accessfile import INSTALLATION, Permission
from .store.book import FILE_KEYS
from .store.rulefile import DESCRIPTION_LIMIT, KEEP_LIMIT, NEEDS, MethodName, Risk
from .store.values import GLOB_LIMIT, NAME_LIMIT

Schema = dict[str, object]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _name(described: str, limit: int = NAME_LIMIT) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": limit, "pattern": r"\S", "description": described}


def _names(described: str, limit: int = NAME_LIMIT) -> Schema:
    return {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": limit},
        "uniqueItems": True,
        "description": described,
    }


def _record(properties: Schema, required: tuple[str, ...] = (), **more: object) -> Schema:
    told: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    if required:
        told["required"] = list(required)
    return told | more


def _file(described: str, properties: Schema) -> Schema:
    others: Schema = {key: True for key in FILE_KEYS if key not in properties}
    return {
        "$schema": DIALECT,
        "title": described,
        **_record({**properties, **others}, minProperties=1),
    }


def rules_schema() -> Schema:
    """The schema of a rule file, draft 2020-12."""
    return _file("Veil rules", {"rules": {"type": "array", "items": _rule()}})


def access_schema() -> Schema:
    """The schema of an access file, draft 2020-12."""
    roles = _names("Roles, each defined under `roles` in some file")
    user = _record({"teams": _names("Teams that the user is in"), "roles": roles, "disabled": {"type": "boolean"}})
    team = _record({"roles": roles, "members": _names("Users in the team")})
    permission: Schema = {"enum": [str(each) for each in Permission]}
    role = _record(
        {"permissions": {"type": "array", "minItems": 1, "items": permission}, "on": _extent()}, required=("permissions",)
    )
    grant = _record(
        {"allow": permission, "deny": permission, "to": _whom(), "on": _extent()},
        required=("to", "on"),
        oneOf=[{"required": ["allow"]}, {"required": ["deny"]}],
    )
    return _file(
        "Veil access",
        {
            "users": _by_name(user),
            "teams": _by_name(team),
            "roles": _by_name(role),
            "grants": {"type": "array", "uniqueItems": True, "items": grant},
        },
    )


def _by_name(each: Schema) -> Schema:
    return {"type": "object", "propertyNames": _name("A name"), "additionalProperties": each}


def _whom() -> Schema:
    whom: Schema = {str(each): _name(f"The {each}'s name") for each in Whom}
    return _record(whom, minProperties=1, maxProperties=1)


def _extent() -> Schema:
    globs: Schema = {str(kind): _globs(kind, least=1) for kind in Kind if kind in GRANTED}
    keys: Schema = {
        "platform": {"enum": [str(each) for each in Platform]},
        "environment": _name("An environment"),
        "connection": _name("A connection"),
        **globs,
    }
    return {"oneOf": [{"const": INSTALLATION}, _record(keys, minProperties=1)]}


def _globs(kind: Kind, least: int) -> Schema:
    told = _names(f"Patterns over the whole name of a {kind}: * any run of characters, ? one", GLOB_LIMIT)
    return told | {"minItems": least}


def _patterns(kinds: tuple[Kind, ...], least: int) -> Schema:
    by_kind: Schema = {str(kind): _globs(kind, least) for kind in kinds}
    return {"oneOf": [_globs(kinds[0], least), _record(by_kind, minProperties=least)]}


def _rule() -> Schema:
    scope: Schema = {"environment": _name("An environment"), "connection": _name("A connection")}
    properties: Schema = {
        "name": _name("Unique over all files"),
        "description": {"type": "string", "maxLength": DESCRIPTION_LIMIT},
        "enabled": {"type": "boolean", "default": True},
        "platform": {"enum": [str(each) for each in Platform]},
        "scope": _record(scope, minProperties=1, maxProperties=1, description="Left out: everywhere"),
        "resources": {"description": "Patterns by kind; a plain list means the platform's first kind"},
        "except": {"description": "Patterns by kind that the rule leaves out"},
        "mask_all": {"type": "boolean", "default": False},
        "fields": {"type": "array"},
        "compliance": _names("Tags for the audit trail, such as GDPR"),
        "information_kind": _name("What sort of information it is"),
        "risk": {"enum": [str(each) for each in Risk]},
    }
    one_at_least: list[Schema] = [
        {"required": ["fields"], "properties": {"fields": {"minItems": 1}}},
        {"required": ["mask_all"], "properties": {"mask_all": {"const": True}}},
    ]
    return _record(
        properties,
        required=("name", "platform", "resources"),
        anyOf=one_at_least,
        allOf=[_on_platform(platform) for platform in Platform],
    )


def _on_platform(platform: Platform) -> Schema:
    row = PLATFORMS[platform]
    then: Schema = {
        "resources": _patterns(row.kinds, least=1),
        "except": _patterns(row.kinds, least=0),
        "fields": {"items": {"oneOf": [each for kind in row.field_kinds for each in _field(kind)]}},
    }
    return {
        "if": {"required": ["platform"], "properties": {"platform": {"const": str(platform)}}},
        "then": {"properties": then},
    }


def _field(kind: FieldKind) -> list[Schema]:
    """A field of the kind, by each method."""
    needed: Schema = {}
    match NEEDS.get(kind):
        case "path":
            needed["path"] = {"type": "string", "pattern": r"^\$(\.|\[)", "description": "A JSON path, such as $.a.b or $..c"}
        case "name":
            needed["name"] = _name("Its name", GLOB_LIMIT)
    kept: Schema = {"type": "integer", "minimum": 0, "maximum": KEEP_LIMIT}
    shown: list[Schema] = [{"required": [key], "properties": {key: {"minimum": 1}}} for key in ("keep_first", "keep_last")]
    return [
        _record(
            {"kind": {"const": str(kind)}, **needed, "method": {"const": str(MethodName.REDACT)}},
            required=("kind", "method", *needed),
        ),
        _record(
            {
                "kind": {"const": str(kind)},
                **needed,
                "method": {"const": str(MethodName.PARTIAL)},
                "keep_first": kept,
                "keep_last": kept,
            },
            required=("kind", "method", *needed),
            anyOf=shown,
        ),
    ]
