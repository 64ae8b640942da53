"""Short ways to spell rules and plans in tests."""

from __future__ import annotations

from rules.model import Field, FieldKind, Kind, Limits, Method, Partial, Platform, Redact, Rule
from rules.paths import parse_path
from rules.plan import Plan, compile_plan

MASK = "••••".encode()
REDACT = Redact()


def path(text: str, method: Method = REDACT) -> Field:
    return Field(FieldKind.JSON_PATH, method, parse_path(text))


def whole_value(method: Method = REDACT) -> Field:
    return Field(FieldKind.WHOLE_VALUE, method)


def hash_field(name: str, method: Method = REDACT) -> Field:
    return Field(FieldKind.FIELD, method, name=name)


def header(name: str, method: Method = REDACT) -> Field:
    return Field(FieldKind.HEADER, method, name=name)


def record_key(method: Method = REDACT) -> Field:
    return Field(FieldKind.RECORD_KEY, method)


def rule(name: str, *fields: Field, mask_all: bool = False) -> Rule:
    return Rule(name, Platform.KAFKA, ((Kind.TOPIC, ("*",)),), mask_all=mask_all, fields=fields)


def plan(*each: Rule | Field, platform: Platform = Platform.KAFKA, limits: Limits | None = None) -> Plan:
    """The plan of these rules; bare fields make one rule `R` together, before the others."""
    fields = tuple(one for one in each if isinstance(one, Field))
    rules = [one for one in each if isinstance(one, Rule)]
    if fields:
        rules.insert(0, rule("R", *fields))
    return compile_plan(rules, platform, limits or Limits())


def masked(one: Plan, text: str) -> str:
    """What is left of a value given and shown as text."""
    return one.value(text.encode()).data.decode()


def partial(first: int = 0, last: int = 0) -> Partial:
    return Partial(first, last)
