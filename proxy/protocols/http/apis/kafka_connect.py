"""Kafka Connect's REST API: connectors are copies, and their configs and traces tell of what they copy.

A connector whose topics a rule masks for the reader is refused in every form in which it could be made or set going.
Only topics that are named plainly are compared with the rules; any other way to name them is refused while any rule
masks. Source: Kafka's documentation of the REST API; KIP-477 (patch), KIP-875 (offsets), KIP-980 (initial state).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from proxy.core.session import ProtocolEntry
from proxy.core.steps import Steps
from rules.methods import MASK_TEXT, bears_mask
from rules.model import Kind, Platform, Refusal, Resource
from rules.view import View

from .. import documents
from ..api import Answer, Call, Desk, Forward, Refuse, Verdict
from ..documents import NotStrict, Value
from ..routes import Routes
from ..session import HttpSession
from ..targets import Target

ROUTES = Routes(Path(__file__).with_suffix(".tsv"))
DOES = {
    "pass": "passes",
    "clean": "hides traces and secrets",
    "create": "refuses what reads a masked topic",
    "configure": "refuses what reads a masked topic",
    "patch": "refuses what comes to read a masked topic",
    "start": "refuses what reads a masked topic",
    "validate": "refuses what reads a masked topic",
    "offsets": "refuses while any rule masks, but for sinks",
    "guard": "refuses while any rule masks",
    "never": "always refuses",
}
CONFIGS = 64 * 1024  # characters of a value that is looked through for names of topics
NO_COPIES = ("MirrorCheckpointConnector", "MirrorHeartbeatConnector")  # groups and heartbeats, no records
PATTERNS = ("MirrorSourceConnector", "MirrorMaker")  # whose topics are always patterns
PLAIN = ("topics", "topic.whitelist")  # names of topics, comma separated
NOT_PLAIN = re.compile(r"(^|\.)(topics?\.regex|topics?\.pattern|topics?\.exclude|topic\.blacklist)$")
ELSEWHERE = re.compile(r"^(consumer|producer|admin)\.override\.bootstrap\.servers$|(^|\.)source\.cluster\.")
PLACEHOLDER = "${"
SECRET = re.compile(
    r"passw(or)?d|secret|token|credential|jaas|api[._-]?key|private[._-]?key|(^|[._-])sas([._-]|$)|access[._-]?key|passphrase",
    re.IGNORECASE,
)
TRACES = ("trace", "worker_trace")
SINK, SOURCE = "sink", "source"


class KafkaConnect:
    """See `proxy.protocols.http.api.Api`."""

    who = Target((), slash=True)

    def judge(self, call: Call, desk: Desk) -> Steps[Verdict]:
        found = ROUTES.find(call.method, call.target.segments)
        if call.method == "OPTIONS":
            return Forward()
        if found is None:
            return (yield from self._guarded(desk, f"{call.method} of a place that is not listed"))
        row, named = found
        operation = f"{row.method} /{'/'.join(row.path)}"
        match row.act:
            case "pass":
                return Forward()
            case "clean":
                return Forward(accept=b"application/json", show=lambda answer: self._cleaned(answer, desk))
            case "never":
                why = Refusal(None, reason="it is from worker to worker")
                return _refuse(why, operation)
            case "guard":
                return (yield from self._guarded(desk, operation))
            case "offsets":
                return (yield from self._offsets(call, desk, named["name"], operation))
            case "start":
                return (yield from self._started(call, desk, named["name"], operation))
            case _:
                return (yield from self._configured(call, desk, row.act, named, operation))

    # What is refused

    def _guarded(self, desk: Desk, operation: str) -> Steps[Verdict]:
        """What could show or copy anything."""
        why = yield from _anything(desk, operation)
        return Forward() if why is None else _refuse(why, operation)

    def _offsets(self, call: Call, desk: Desk, name: str, operation: str) -> Steps[Verdict]:
        config = yield from self._stored(desk, name)
        if config is not None and "topics" in config and (yield from self._kind(desk, config)) == SINK:
            return Forward()
        return (yield from self._guarded(desk, operation))

    def _started(self, call: Call, desk: Desk, name: str, operation: str) -> Steps[Verdict]:
        """A connector that is there already begins to read, or to read again."""
        if not desk.viewer.anything().masks:
            return Forward()
        config = yield from self._stored(desk, name)
        if config is None:
            return (yield from self._guarded(desk, operation))
        refused = yield from self._reads(desk, config, operation)
        return refused or Forward(content=call.content)

    def _configured(self, call: Call, desk: Desk, act: str, named: Mapping[str, str], operation: str) -> Steps[Verdict]:
        """A connector is made or changed, or would be."""
        try:
            _, told = documents.parse(call.content)
            config = _config(told, act)
        except NotStrict as bad:
            return _bad(str(bad))
        content = documents.canonical(told)
        if not desk.viewer.anything().masks:
            return Forward(content=content, show=self._shows(act, desk))
        if act == "patch":
            stored = yield from self._stored(desk, named["name"])
            if stored is None:
                return (yield from self._guarded(desk, operation))
            config = {**stored, **config}
        elif act == "validate":
            config = {"connector.class": named["plugin"], **config}
        plain = {key: value for key, value in config.items() if value is not None}
        masked = next((key for key, value in plain.items() if SECRET.search(key) and bears_mask(value.encode())), None)
        if masked is not None:
            return _refuse(Refusal(None, reason=f"{masked} is the mask that stands for a secret"), operation)
        refused = yield from self._reads(desk, plain, operation)
        return refused or Forward(content=content, show=self._shows(act, desk))

    def _shows(self, act: str, desk: Desk) -> Callable[[Answer], Steps[Answer]]:
        return lambda answer: self._cleaned(answer, desk)

    # What a config reads

    def _reads(self, desk: Desk, config: Mapping[str, str | None], operation: str) -> Steps[Refuse | None]:
        """Why the connector may not be; None if it may."""
        texts = {key: value for key, value in config.items() if value is not None}
        name = texts.get("connector.class", "")
        simple = name.rpartition(".")[2]
        if simple in NO_COPIES:
            return None
        for key, value in texts.items():
            if key == "name":
                continue
            for topic in _topics(value):
                refused = yield from self._topic(desk, topic, operation)
                if refused is not None:
                    return refused
        if (yield from self._is_plain(desk, texts, simple)):
            return None
        why = yield from _anything(desk, operation)
        return None if why is None else _refuse(why, operation)

    def _is_plain(self, desk: Desk, config: Mapping[str, str], simple: str) -> Steps[bool]:
        """Whether all that the connector reads is named plainly, or it reads no topic at all."""
        if not simple or PLACEHOLDER in config.get("connector.class", ""):
            return False
        if any(each in simple for each in PATTERNS):
            return False
        for key, value in config.items():
            if NOT_PLAIN.search(key) or ELSEWHERE.search(key):
                return False
            if key in PLAIN and PLACEHOLDER in value:
                return False
        if any(config.get(key, "").strip() for key in PLAIN):
            return True
        return (yield from self._kind(desk, config)) == SOURCE

    def _kind(self, desk: Desk, config: Mapping[str, str | None]) -> Steps[str]:
        """Whether the worker says that the class is a source or a sink; "" where it cannot be told."""
        answer = yield from desk.look_up(Target(("connector-plugins",)))
        if answer is None or answer.status != 200:
            return ""
        try:
            _, told = documents.parse(answer.content)
        except NotStrict:
            return ""
        wanted = config.get("connector.class") or ""
        kinds = (
            {
                each.text("type")
                for each in told.inside
                if isinstance(each, Value) and wanted in _names(each.text("class") or "")
            }
            if told.is_array
            else set()
        )
        return next(iter(kinds)) or "" if len(kinds) == 1 else ""

    def _topic(self, desk: Desk, topic: str, operation: str) -> Steps[Refuse | None]:
        resource = desk.viewer.resource(Kind.TOPIC, topic.encode())
        view = yield from _lifted(desk, desk.viewer.view(resource), operation)
        why = view.refusal
        return None if why is None else _refuse(why, operation, resource)

    def _stored(self, desk: Desk, name: str) -> Steps[dict[str, str | None] | None]:
        """The config that the worker has of a connector; None where it does not tell."""
        answer = yield from desk.look_up(Target(("connectors", name, "config")))
        if answer is None or answer.status != 200:
            return None
        try:
            _, told = documents.parse(answer.content)
            return _flat(told)
        except NotStrict:
            return None

    # What is shown

    def _cleaned(self, answer: Answer, desk: Desk) -> Steps[Answer]:
        """The answer without what quotes records, and without secrets, while any rule masks for the reader."""
        view = desk.viewer.anything()
        if view.masks and view.may_lift:  # who reads is known by now
            view = (yield from desk.viewer.lift((view,), desk.viewer.begin(), "Connect"))[0]
        if not view.masks or not answer.content:
            return answer
        try:
            text, told = documents.parse(answer.content)
        except NotStrict:
            return Answer(answer.status, answer.fields, _error(answer.status, "veil: this answer cannot be shown"))
        mask = documents.written(MASK_TEXT)
        changes = [(each, mask) for each in _hidden(told)]
        if answer.status >= 400 and (message := told.member("message")) is not None:
            changes = [(message, documents.written("veil: the text of this error is hidden"))]
        if not changes:
            return answer
        marks = [(b"veil-masked", _ascii(", ".join(rule.name for rule in view.rules)))] if desk.settings.markers else []
        return Answer(answer.status, answer.fields, documents.spliced(text, changes), marks)


def _lifted(desk: Desk, view: View, operation: str) -> Steps[View]:
    """The view, lifted if its reader may and it is on record; who that is, the worker has said by then."""
    if view.masks:
        yield from desk.claim()
        view = desk.viewer.view(view.resource) if view.resource.name != b"*" else desk.viewer.anything()
    if view.masks and view.may_lift:
        return (yield from desk.viewer.lift((view,), desk.viewer.begin(), operation))[0]
    return view


def _anything(desk: Desk, operation: str) -> Steps[Refusal | None]:
    """Why what names no topic may not be; None while nothing masks."""
    return (yield from _lifted(desk, desk.viewer.anything(), operation)).refusal


def _config(told: Value, act: str) -> dict[str, str | None]:
    """The config that a request bears.

    Raises:
        NotStrict: it bears none.
    """
    if act != "create":
        return _flat(told)
    config = told.member("config")
    if config is None:
        raise NotStrict("there is no config")
    return _flat(config)


def _flat(told: Value) -> dict[str, str | None]:
    """A config as the worker reads it: every value a text, or null."""
    if not isinstance(told.inside, dict):
        raise NotStrict("a config is an object")
    flat: dict[str, str | None] = {}
    for key, value in told.inside.items():
        if value.is_object or value.is_array:
            raise NotStrict("a value of a config is a text")
        if value.inside is None:
            flat[key] = None
        elif isinstance(value.inside, bool):
            flat[key] = "true" if value.inside else "false"
        else:
            flat[key] = str(value.inside)
    return flat


def _topics(value: str) -> list[str]:
    """What of a value could name topics."""
    if len(value) > CONFIGS:
        return []
    return list(dict.fromkeys(each for each in (value.strip(), *(part.strip() for part in value.split(","))) if each))


def _names(known: str) -> set[str]:
    """By what a config may name a class: in full, by its last part, and by that without its ending."""
    simple = known.rpartition(".")[2]
    short = simple.removesuffix("Connector")
    return {known, simple, short, short.removesuffix("Sink"), short.removesuffix("Source")} if known else set()


def _hidden(told: Value) -> list[Value]:
    """Traces, and texts under names that mean secrets, wherever they stand."""
    found: list[Value] = []
    for each in documents.everything(told):
        if not isinstance(each.inside, dict):
            continue
        named = each.text("name")
        for name, value in each.inside.items():
            secret = SECRET.search(name) or (name == "value" and named is not None and SECRET.search(named))
            if value.is_text and (name in TRACES or secret):
                found.append(value)
    return found


def _refuse(why: Refusal, operation: str, resource: Resource | None = None) -> Refuse:
    if why.rule is None:
        told = f"veil: {operation} is refused: {why.reason}"
    elif resource is None:
        told = f'veil: {operation} is refused while the masking rule "{why.rule}" applies to you'
    else:
        name = resource.name.decode("utf-8", "replace")
        told = f'veil: {operation} is refused: it reads "{name}", which the masking rule "{why.rule}" covers'
    return Refuse(403, _error(403, told), why, operation, resource)


def _bad(reason: str) -> Refuse:
    why = Refusal(None, reason=f"the request is not strict JSON: {reason}")
    return Refuse(400, _error(400, f"veil: {why.reason}"), why, "a request")


def _error(code: int, message: str) -> bytes:
    return documents.written({"error_code": code, "message": message[:400]}).encode()


def _ascii(text: str) -> bytes:
    return "".join(each if " " <= each <= "~" else "?" for each in text[:400]).encode()


PROTOCOL = ProtocolEntry(
    "kafka-connect",
    frozenset({Platform.KAFKA}),
    lambda viewer, settings: HttpSession(viewer, settings, KafkaConnect()),
    lambda: ROUTES.text(DOES),
    has_headers=True,
)
