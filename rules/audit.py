"""What the audit trail holds: entries, receipts, the canonical line and its hash chain.

Writing it is the journal's business (`proxy.runtime.journal`), so nothing here touches a file or a clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .model import Connection, Resource, Rule

READ_UNMASKED = "broker.message.read-unmasked"
REFUSED = "masking.refused"
RULE_CREATED = "configuration.masking-rule.create"
RULE_UPDATED = "configuration.masking-rule.update"
RULE_DELETED = "configuration.masking-rule.delete"
ACCESS_UPDATED = "configuration.masking-access.update"

HASH_KEY = ',"hash":'
FIRST_PREVIOUS = "0" * 64
NAME_LIMIT = 1024  # characters of one text in an entry; a longer one is cut and says so, with its digest


@dataclass(frozen=True, slots=True)
class RuleTag:
    """What an entry says of a rule."""

    name: str
    compliance: tuple[str, ...] = ()
    information_kind: str | None = None
    risk: str | None = None

    @classmethod
    def of(cls, rule: Rule) -> RuleTag:
        return cls(rule.name, rule.compliance, rule.information_kind, rule.risk)


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. `resource` None means none is named; the name `*` stands for all of a connection.

    `operation` and `field` are names of commands and fields, never values.
    """

    event: str
    who: str
    peer: str = ""
    connection: Connection | None = None
    protocol: str = ""
    resource: Resource | None = None
    rules: tuple[RuleTag, ...] = ()
    operation: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that an entry is on stable storage. Only the journal makes one."""

    entry: Entry
    seq: int


def spell_name(name: bytes) -> str:
    """A resource's name as text: UTF-8 where it is, other bytes as `\\xNN`; back-slashes are doubled, so that no
    two names are spelled alike."""
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _cut(text: str) -> str:
    if len(text) <= NAME_LIMIT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:NAME_LIMIT]}… ({len(text)} characters, sha256 {digest})"


def _tag(tag: RuleTag) -> dict[str, object]:
    told: dict[str, object] = {"name": _cut(tag.name)}
    if tag.compliance:
        told["compliance"] = [_cut(each) for each in tag.compliance]
    if tag.information_kind is not None:
        told["information_kind"] = _cut(tag.information_kind)
    if tag.risk is not None:
        told["risk"] = tag.risk
    return told


def _dump(told: dict[str, object]) -> str:
    return json.dumps(told, ensure_ascii=True, separators=(",", ":"))


def digest_of(body: str) -> str:
    """The hash of a line whose hash is left out: sha256 over the text up to `,"hash":` plus `}`."""
    return hashlib.sha256(body.encode("ascii")).hexdigest()


def chain(entry: Entry, time: str, seq: int, previous: str) -> tuple[str, str]:
    """The entry's line (ASCII JSON without a line end) and its hash.

    Args:
        time: RFC 3339 in UTC with milliseconds.
        seq: counts from 1 over the whole trail.
        previous: the hash of the entry before, `FIRST_PREVIOUS` for the first.
    """
    told: dict[str, object] = {"time": time, "event": entry.event, "who": _cut(entry.who)}
    if entry.peer:
        told["peer"] = entry.peer
    if entry.connection is not None:
        told["connection"] = _cut(entry.connection.name)
        if entry.connection.environment is not None:
            told["environment"] = _cut(entry.connection.environment)
        told["platform"] = str(entry.connection.platform)
    if entry.protocol:
        told["protocol"] = entry.protocol
    if entry.resource is not None:
        told["resource"] = {str(entry.resource.kind): _cut(spell_name(entry.resource.name))}
    told["rules"] = [_tag(tag) for tag in entry.rules]
    if entry.event == REFUSED and entry.rules:
        told["rule"] = _cut(entry.rules[0].name)  # the one that the refusal names
    if entry.operation:
        told["operation"] = _cut(entry.operation)
    if entry.field:
        told["field"] = _cut(entry.field)
    told["seq"] = seq
    told["previous"] = previous
    body = _dump(told)
    digest = digest_of(body)
    return f'{body[:-1]}{HASH_KEY}"{digest}"}}', digest


def broken_links(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Every line (from 1) where the chain does not hold, with the reason. Nothing for a sound trail."""
    previous, seq = FIRST_PREVIOUS, 0
    for number, raw in enumerate(lines, 1):
        try:
            text = raw.decode("ascii").removesuffix("\n")
            told = json.loads(text)
            body = text[: text.rindex(HASH_KEY)]
            stated, before, count = told["hash"], told["previous"], told["seq"]
        except (ValueError, KeyError, TypeError, RecursionError):
            yield number, "not an audit entry"
            continue
        if type(count) is not int or not isinstance(stated, str):
            yield number, "not an audit entry"
            continue
        # The hash covers what stands before it, so nothing may stand behind it: a second "who" would win there.
        if digest_of(body + "}") != stated or text != f'{body}{HASH_KEY}"{stated}"}}':
            yield number, "changed: its hash does not fit its text"
        if before != previous or count != seq + 1:
            yield number, f"out of the chain: entry {count} follows entry {seq}"
        previous, seq = stated, count
