"""The JSON Schemas for editors say what the store reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.schema import access_schema, rules_schema
from rules.store.book import FILE_KEYS, bind
from rules.store.rulefile import FIELD_KEYS, RULE_KEYS

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
}
KNOWN = frozenset(
    [
        "$schema",
        "title",
        "description",
        "default",
        "type",
        "enum",
        "const",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "items",
        "minItems",
        "uniqueItems",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "oneOf",
        "anyOf",
        "allOf",
        "if",
        "then",
    ]
)


def fits(schema: Any, value: Any) -> bool:
    """As much of draft 2020-12 as the schemas use; another keyword is a failure of the test."""
    if schema is True:
        return True
    assert set(schema) <= KNOWN
    wanted = schema.get("type")
    if wanted is not None and (not isinstance(value, TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool))):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        return False
    if isinstance(value, str) and not _text_fits(schema, value):
        return False
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list) and not _list_fits(schema, value):
        return False
    if isinstance(value, dict) and not _object_fits(schema, value):
        return False
    if "oneOf" in schema and sum(fits(each, value) for each in schema["oneOf"]) != 1:
        return False
    if "anyOf" in schema and not any(fits(each, value) for each in schema["anyOf"]):
        return False
    if "if" in schema and fits(schema["if"], value) and not fits(schema["then"], value):
        return False
    return all(fits(each, value) for each in schema.get("allOf", ()))


def _text_fits(schema: Any, value: str) -> bool:
    long_enough = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    return long_enough and re.search(schema.get("pattern", ""), value) is not None


def _list_fits(schema: Any, value: list[Any]) -> bool:
    if schema.get("uniqueItems") and any(each in value[:index] for index, each in enumerate(value)):
        return False
    return len(value) >= schema.get("minItems", 0) and all(fits(schema.get("items", True), each) for each in value)


def _object_fits(schema: Any, value: dict[str, Any]) -> bool:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        return False
    if any(key not in value for key in schema.get("required", ())):
        return False
    for key, each in value.items():
        if not fits(schema.get("propertyNames", True), key):
            return False
        if key not in properties and others is False:
            return False
        if not fits(properties.get(key, others), each):
            return False
    return True


def both_fit(text: str) -> bool:
    """Whether both schemas take the file, read as an editor reads it (1.2: only true and false are booleans)."""
    told = yaml.load(text, yaml.BaseLoader)
    return all(fits(schema, _typed(told)) for schema in (rules_schema(), access_schema()))


def _typed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _typed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    if value in ("true", "false"):
        return value == "true"
    return int(value) if isinstance(value, str) and re.fullmatch("-?[0-9]+", value) else value


GOOD = """\
rules:
  - name: Customer contact
    description: E-mail
    enabled: true
    platform: kafka
    scope: {environment: production}
    resources: {topic: ["orders.*"]}
    except: {topic: ["orders.public"]}
    mask_all: false
    fields:
      - {kind: json_path, path: $.email, method: partial, keep_first: 1}
      - {kind: header, name: authorization, method: redact}
      - {kind: record_key, method: partial, keep_first: 0, keep_last: 4}
    compliance: [GDPR, PCI]
    information_kind: contact
    risk: high
  - {name: a, platform: redis, resources: [x], mask_all: true}
  - {name: b, platform: rabbitmq, resources: {queue: [x], exchange: [z]}, except: [], fields: [{kind: whole_value, method: redact}]}
users: {alice: {teams: [support]}, bob: {roles: [r]}, carol: {disabled: true}}
teams: {fraud: {roles: [r], members: [dave]}}
roles: {r: {permissions: ["*"], on: {environment: production}}}
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: {connection: c, topic: ["orders.eu*"]}}
  - {deny: messages.read, to: {role: r}, on: installation}
"""


def test_a_file_with_everything_fits_and_loads() -> None:
    assert both_fit(GOOD)
    assert bind([("f", GOOD.encode())]).problems == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("platform: kafka", "platform: kafak"),
        ("name: Customer contact", "name: ''"),
        ("risk: high", "risk: huge"),
        ("    mask_all: false", "    mask_al: false"),
        ("resources: {topic", "resources: {queue"),
        ("resources: [x]", "resources: []"),
        ("method: partial, keep_first: 1}", "method: partial}"),
        ("method: partial, keep_first: 1}", "method: partial, keep_first: 65}"),
        ("method: partial, keep_first: 1}", "method: partial, keep_first: 0}"),
        ("path: $.email, ", ""),
        ("path: $.email", "path: email"),
        ("name: authorization, ", ""),
        ("authorization, method: redact", "authorization, method: redact, keep_last: 1"),
        ("mask_all: true", "mask_all: false"),
        ("scope: {environment: production}", "scope: {}"),
        ("to: {user: alice}", "to: {user: alice, team: x}"),
        ("on: installation", "on: everywhere"),
        ("on: installation", "on: {}"),
        ("on: installation", "on: {exchange: [x]}"),
        ("deny: messages.read", "deny: messages.write"),
        ("deny: messages.read", "deny: messages.read, allow: messages.read"),
        ("disabled: true", "disabled: 1"),
        ('permissions: ["*"]', "permissions: []"),
        ("users:", "user:"),
        ("kind: whole_value", "kind: record_key"),
    ],
)
def test_what_the_store_refuses_the_schema_refuses(old: str, new: str) -> None:
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)

    assert bind([("f", text.encode())]).book is None
    assert not both_fit(text)


def test_every_key_that_is_read_is_in_the_schema() -> None:
    schema: Any = rules_schema()
    rule = schema["properties"]["rules"]["items"]

    assert set(schema["properties"]) == set(FILE_KEYS) == set(access_schema()["properties"])  # type: ignore[call-overload]
    assert set(rule["properties"]) == set(RULE_KEYS)
    fields = [each for on in rule["allOf"] for each in on["then"]["properties"]["fields"]["items"]["oneOf"]]
    assert {key for each in fields for key in each["properties"]} == set(FIELD_KEYS)


@pytest.mark.parametrize("schema", [rules_schema(), access_schema()], ids=["rules", "access"])
def test_a_schema_is_json_of_its_dialect(schema: dict[str, object]) -> None:
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_corpus_of_good_files_fits() -> None:
    lines = (Path(__file__).parents[1] / "corpora" / "rule_files.jsonl").read_text().splitlines()
    good = [case["yaml"] for case in map(json.loads, lines) if case["verdict"] == "load"]

    assert good
    assert all(map(both_fit, good))
