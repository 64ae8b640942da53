"""What the audit trail holds: entries, receipts, the canonical line and its hash chain.

Writing it is the journal's business (`proxy.runtime.journal`), so nothing here touches a file or a clock.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass

from .model import AccessList, Connection, Resource, Rule, RuleBook

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


@dataclass(frozen=True, slots=True)
class Link:
    """What the chain knows of one line: its number and hash, and the hash that it says stands before it."""

    seq: int
    previous: str
    digest: str
    intact: bool  # the hash fits the text


def read_link(raw: bytes) -> Link | None:
    """The link of a line (with its line end or without); None when the line is no entry."""
    try:
        text = raw.decode("ascii").removesuffix("\n")
        told = json.loads(text)
        body = text[: text.rindex(HASH_KEY)]
        stated, before, count = told["hash"], told["previous"], told["seq"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(count) is not int or not isinstance(stated, str) or not isinstance(before, str):
        return None
    # The hash covers what stands before it, so nothing may stand behind it: a second "who" would win there.
    return Link(count, before, stated, digest_of(body + "}") == stated and text == f'{body}{HASH_KEY}"{stated}"}}')


class Chain:
    """Follows a chain line by line and tells where it does not hold. It knows the last link alone, however long it is."""

    def __init__(self, previous: str = FIRST_PREVIOUS, seq: int = 0) -> None:
        self.digest, self.seq = previous, seq

    def follow(self, raw: bytes) -> Iterator[str]:
        """What is wrong with the next line. What follows it is judged by this line, so that one fault is told once."""
        link = read_link(raw)
        if link is None:
            yield "not an audit entry"
            return
        if not link.intact:
            yield f"entry {link.seq} was changed: its hash does not fit its text"
        told = self._out_of_chain(link)
        if told:
            yield told
        self.digest, self.seq = link.digest, link.seq

    def _out_of_chain(self, link: Link) -> str:
        if link.seq == self.seq + 1:
            return "" if link.previous == self.digest else f"entry {link.seq} does not follow from entry {self.seq}"
        if link.seq > self.seq + 1:
            missing = str(self.seq + 1) if link.seq == self.seq + 2 else f"{self.seq + 1} to {link.seq - 1}"
            return f"out of the chain: entry {link.seq} follows entry {self.seq}, {missing} missing before it"
        if (link.seq, link.digest) == (self.seq, self.digest):
            return f"duplicated: entry {link.seq} stands there twice"
        return f"out of order: entry {link.seq} follows entry {self.seq}"


def broken_links(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Every line (from 1) where the chain does not hold, with the reason. Nothing for a sound trail."""
    chained = Chain()
    for number, raw in enumerate(lines, 1):
        for reason in chained.follow(raw):
            yield number, reason


@dataclass(frozen=True, slots=True)
class InForce:
    """Rules and access as the trail last told of them: a digest each, and of a rule the tags, for when it is gone.

    It outlives the process, so that a restart, or another process with the same rules, changes nothing.
    """

    rules: Mapping[str, tuple[str, RuleTag]] = field(default_factory=dict)
    access: str = ""

    @classmethod
    def of(cls, book: RuleBook) -> InForce:
        access = "" if book.access == AccessList() else _digest(book.access)
        return cls({rule.name: (_digest(rule), RuleTag.of(rule)) for rule in book.rules}, access)

    def as_text(self) -> str:
        rules = {
            name: [digest, list(tag.compliance), tag.information_kind, tag.risk] for name, (digest, tag) in self.rules.items()
        }
        return _dump({"rules": rules, "access": self.access})

    @classmethod
    def from_text(cls, text: str) -> InForce | None:
        """None when it is not what `as_text` gave: then nothing is known, and every rule is told anew."""
        try:
            told = json.loads(text)
            rules = {
                str(name): (str(digest), RuleTag(str(name), tuple(map(str, compliance)), kind, risk))
                for name, (digest, compliance, kind, risk) in told["rules"].items()
            }
            return cls(rules, str(told["access"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def _digest(value: object) -> str:
    """Of what a rule or access means: neither its places nor what is as it is by default, so that a later version of
    Veil, which knows more keys, finds the same."""
    return hashlib.sha256(_dump({"": _plain(value)}).encode("ascii")).hexdigest()


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        told = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
        defaults = {each.name: each.default for each in fields(value) if each.default is not MISSING}
        kept = {name: _plain(held) for name, held in told.items() if name not in defaults or defaults[name] != held}
        return {"": type(value).__name__, **kept}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | None) else str(value)


def changes(old: InForce, new: InForce, who: str) -> Iterator[Entry]:
    """What the trail says of a new state: an entry for each rule created, updated or deleted, one for access."""
    for name, (digest, tag) in new.rules.items():
        if name not in old.rules:
            yield Entry(RULE_CREATED, who, rules=(tag,))
        elif old.rules[name][0] != digest:
            yield Entry(RULE_UPDATED, who, rules=(tag,))
    for name, (_, tag) in old.rules.items():
        if name not in new.rules:
            yield Entry(RULE_DELETED, who, rules=(tag,))
    if old.access != new.access:
        yield Entry(ACCESS_UPDATED, who)
