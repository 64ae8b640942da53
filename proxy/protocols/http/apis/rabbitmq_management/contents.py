"""Messages in the answer to a `get`: which rules cover each, and what of each is shown.

    payload                      the value: masked, or opened, as the View says
    properties, their headers    by name; what routes (priority, timestamp, …) only where a rule names it
    routing_key, exchange, …     stay, since they route

All bytes that no rule masks stay as they came.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from rules import marks
from rules.cut import Cut
from rules.model import Kind
from rules.view import MASK, Masked, View

from ...documents import NotStrict, Value, parse, spliced, written

ROUTING = frozenset({"content_type", "delivery_mode", "priority", "timestamp"})
"""Properties that mask_all leaves; a rule that names one masks it."""
FIREHOSE = "amq.rabbitmq.trace"
_DEATHS = ("x-death", "x-received-from", "x-shovelled")
_NAMES = {
    "x-first-death-queue": Kind.QUEUE,
    "x-last-death-queue": Kind.QUEUE,
    "x-first-death-exchange": Kind.EXCHANGE,
    "x-last-death-exchange": Kind.EXCHANGE,
}
_IN_DEATHS = {"queue": Kind.QUEUE, "exchange": Kind.EXCHANGE, "src-queue": Kind.QUEUE, "src-exchange": Kind.EXCHANGE}
_KNOWN = frozenset(
    {
        "exchange",
        "message_count",
        "payload",
        "payload_bytes",
        "payload_encoding",
        "properties",
        "redelivered",
        "routing_key",
    }
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message has been, beside the queue that it is read from. `unknown`: it cannot be told, or everywhere."""

    passed: frozenset[tuple[Kind, str]] = frozenset()
    unknown: bool = False


@dataclass(slots=True)
class Message:
    told: Value
    origin: Origin
    views: tuple[View, ...] = ()
    """What it is shown through, in turn: one, or two where the rules changed while it was read."""
    cuts: list[Masked] = field(default_factory=list)
    shown: list[bytes] = field(default_factory=list, repr=False)
    """What stands for its payload, if that was masked: whole, and as it was truncated."""


@dataclass(slots=True)
class Messages:
    text: str = field(repr=False)
    messages: list[Message]


def read(content: bytes) -> Messages | None:
    """The messages of an answer; None where it is not one that holds any."""
    try:
        text, told = parse(content)
    except NotStrict:
        return None
    if not told.is_array or not all(each.is_object for each in told.inside):
        return None
    return Messages(text, [Message(each, _origin(each)) for each in told.inside])


def _origin(message: Value) -> Origin:
    passed: set[tuple[Kind, str]] = set()
    exchange = message.text("exchange")
    headers = _headers(message)
    if exchange is None or headers is None:
        return Origin(unknown=True)
    passed.add((Kind.EXCHANGE, exchange))
    for name, value in headers.items():
        kind = _NAMES.get(name)
        if kind is not None:
            if not value.is_text:
                return Origin(unknown=True)
            passed.add((kind, value.inside))
        elif name in _DEATHS:
            if not value.is_array:
                return Origin(unknown=True)
            for each in value.inside:
                if not each.is_object:
                    return Origin(unknown=True)
                for member, kind in _IN_DEATHS.items():
                    found = each.member(member)
                    if found is None:
                        continue
                    if not found.is_text:
                        return Origin(unknown=True)
                    passed.add((kind, found.inside))
    # A copy of anything at all, made by the firehose: what it is a copy of stands in headers of headers.
    return Origin(frozenset(passed), unknown=(Kind.EXCHANGE, FIREHOSE) in passed)


def _properties(message: Value) -> Value | None:
    return message.member("properties")


def _headers(message: Value) -> dict[str, Value] | None:
    """The headers by name; None where they cannot be told. An empty table is an empty array."""
    properties = _properties(message)
    if properties is None or (properties.is_array and not properties.inside):
        return {}
    if not properties.is_object:
        return None
    headers = properties.member("headers")
    if headers is None or (headers.is_array and not headers.inside):
        return {}
    return headers.inside if headers.is_object else None


def show(messages: Messages, *, truncate: int | None, markers: bool) -> bytes:
    """The answer as the reader sees it, each message through its views."""
    changes: list[tuple[Value, str]] = []
    for each in messages.messages:
        changes += _show(each, messages.text, truncate, markers)
    return spliced(messages.text, changes) if changes else messages.text.encode("utf-8", "surrogatepass")


def _show(message: Message, text: str, truncate: int | None, markers: bool) -> list[tuple[Value, str]]:
    told = message.told
    changes: list[tuple[Value, str]] = []
    covered = any(view.covered for view in message.views)
    masking = [view for view in message.views if view.masks]
    _payload(message, masking, changes, truncate)
    if not covered:
        return changes
    _named(message, masking, changes)
    _mark(message, text, masking, changes, markers)
    if masking:  # what a later version adds beside them is not known to hold no contents
        changes += [(value, _redacted(value)) for name, value in told.inside.items() if name not in _KNOWN]
    return changes


def _payload(message: Message, masking: list[View], changes: list[tuple[Value, str]], truncate: int | None) -> None:
    payload = message.told.member("payload")
    encoding = message.told.member("payload_encoding")
    if payload is None:
        return
    data = _decoded(payload, encoding)
    if data is None:
        if masking:
            message.cuts.append(Cut(MASK, (), "not text", masking[0].rules[0].name if masking[0].rules else None))
            _put(message, changes, MASK.decode(), len(MASK))
        return
    shown: bytes = data
    for view in masking:
        cut = view.value(shown)
        message.cuts.append(cut)
        shown = cut.data
    if shown is not data:
        whole = shown.decode("utf-8", "replace")
        text = whole if truncate is None else whole[:truncate]
        message.shown += [shown] if text == whole else [shown, text.encode()]
        _put(message, changes, text, len(shown))
    elif truncate is not None and encoding is not None:
        if encoding.inside == "base64":
            if len(data) > truncate:
                changes.append((payload, written(base64.b64encode(data[:truncate]).decode())))
        elif len(payload.inside) > truncate:
            changes.append((payload, written(payload.inside[:truncate])))


def _put(message: Message, changes: list[tuple[Value, str]], text: str, size: int) -> None:
    """A masked payload in place of the one that came: it is text, whatever that was."""
    for name, instead in (
        ("payload", written(text)),
        ("payload_encoding", written("string")),
        ("payload_bytes", str(size)),
    ):
        value = message.told.member(name)
        if value is not None:
            changes.append((value, instead))


def _decoded(payload: Value, encoding: Value | None) -> bytes | None:
    if not payload.is_text or encoding is None:
        return None
    try:
        if encoding.inside == "string":
            return str(payload.inside).encode()
        return base64.b64decode(payload.inside, validate=True) if encoding.inside == "base64" else None
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return None


def _named(message: Message, masking: list[View], changes: list[tuple[Value, str]]) -> None:
    """Properties and headers by name."""
    properties = _properties(message.told)
    if properties is None or not masking or (properties.is_array and not properties.inside):
        return
    if not properties.is_object:
        changes.append((properties, _redacted(properties)))
        return
    is_copy = (Kind.EXCHANGE, FIREHOSE) in message.origin.passed  # its headers hold the properties of another message
    for name, value in properties.inside.items():
        if name != "headers":
            views = [view for view in masking if name not in ROUTING or view.names_header(name)]
            _masked(message, name, value, views, changes)
        elif value.is_object:
            for header, inside in value.inside.items():
                if is_copy and header not in (marks.MASKED, marks.UNMASKED):
                    changes.append((inside, _redacted(inside)))
                elif header not in (marks.MASKED, marks.UNMASKED):
                    _masked(message, header, inside, masking, changes)
        elif not (value.is_array and not value.inside):
            changes.append((value, _redacted(value)))


def _masked(message: Message, name: str, value: Value, views: list[View], changes: list[tuple[Value, str]]) -> None:
    """One property or header: its JSON type stays where it is redacted; a partial yields text."""
    data = _as_text(value)
    if data is None:
        return
    shown = data
    for view in views:
        cut = view.header(name, shown)
        message.cuts.append(cut)
        shown = cut.data
    if shown is data:
        return
    if value.is_text or (value.number and shown != MASK):
        changes.append((value, written(shown.decode("utf-8", "replace"))))
    else:
        changes.append((value, _redacted(value)))


def _as_text(value: Value) -> bytes | None:
    """What a rule on a header looks at; None for what stays null."""
    if value.inside is None:
        return None
    if value.number:
        return value.number.encode()
    if value.is_text:
        return str(value.inside).encode("utf-8", "surrogatepass")
    return written(value.inside).encode() if isinstance(value.inside, bool) else b"{}"


def _redacted(value: Value) -> str:
    """The value with everything inside it redacted by its type; names stay."""
    if value.is_object:
        return "{" + ",".join(f"{written(name)}:{_redacted(each)}" for name, each in value.inside.items()) + "}"
    if value.is_array:
        return "[" + ",".join(_redacted(each) for each in value.inside) + "]"
    if value.number:
        return "0"
    if value.is_text:
        return written(MASK.decode())
    return "false" if isinstance(value.inside, bool) else "null"


def _mark(message: Message, text: str, masking: list[View], changes: list[tuple[Value, str]], markers: bool) -> None:
    """Veil's own marks in the headers, and nobody else's."""
    told = _own_marks(message, masking) if markers else {}
    properties = _properties(message.told)
    if properties is None or not (properties.is_object or (properties.is_array and not properties.inside)):
        return  # masked whole
    headers = properties.member("headers")
    if headers is None:
        if told:
            _add(properties, text, f'"headers":{written(told)}', changes)
        return
    foreign = headers.is_object and not {marks.MASKED, marks.UNMASKED}.isdisjoint(headers.inside)
    if headers.is_object and foreign:
        own = {id(value): instead for value, instead in changes}
        kept = [
            f"{written(name)}:{own.get(id(value), text[value.start : value.end])}"
            for name, value in headers.inside.items()
            if name not in {marks.MASKED, marks.UNMASKED}
        ]
        within = {id(value) for value in headers.inside.values()}
        changes[:] = [change for change in changes if id(change[0]) not in within]
        kept += [f"{written(name)}:{written(value)}" for name, value in told.items()]
        changes.append((headers, "{" + ",".join(kept) + "}"))
    elif told and (headers.is_object or (headers.is_array and not headers.inside)):
        _add(headers, text, written(told)[1:-1], changes)


def _own_marks(message: Message, masking: list[View]) -> dict[str, str]:
    told: dict[str, str] = {}
    hit = [cut for cut in message.cuts if cut.hits or cut.whole is not None]
    if hit:
        rules = [rule for view in masking for rule in view.rules]
        told[marks.MASKED] = marks.masked(hit, rules).decode()
    lifted = [rule for view in message.views if view.lifted for rule in view.rules]
    if lifted:
        told[marks.UNMASKED] = marks.unmasked(lifted).decode()
    return told


def _add(to: Value, text: str, members: str, changes: list[tuple[Value, str]]) -> None:
    """Members behind those of a table; an empty one may be written as an array."""
    if not to.inside:
        changes.append((to, "{" + members + "}"))
        return
    last = list(to.inside.values())[-1]
    shown = text[last.start : last.end]
    for number, (value, instead) in enumerate(changes):
        if value is last:
            shown = instead
            del changes[number]
            break
    changes.append((last, f"{shown},{members}"))
