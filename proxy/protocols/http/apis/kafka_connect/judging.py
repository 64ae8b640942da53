"""The verdict on each call: by its row in the table, its config read strictly and sent up as Veil writes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from proxy.core.steps import Steps
from proxy.core.viewer import Read
from rules.methods import bears_mask
from rules.model import Kind, Refusal, Resource
from rules.view import View

from ... import documents
from ...api import Answer, Call, Desk, Forward, Refuse, Show, Verdict
from ...documents import NotStrict, Value
from ...routes import Routes
from ...targets import Target
from . import configs, showing
from .showing import error

ROUTES = Routes(Path(__file__).with_name("surface.tsv"))
DOES = {
    "pass": "passes; hides traces and secrets",
    "create": "refuses what reads a masked topic",
    "configure": "refuses what reads a masked topic",
    "patch": "refuses what comes to read a masked topic",
    "start": "refuses what reads a masked topic",
    "offsets": "refuses what reads a masked topic",
    "validate": "refuses what reads a masked topic",
    "guard": "refuses while any rule masks",
    "never": "always refuses",
}
JSON = b"application/json"
_NAME_CHARACTERS = 128
_HIDDEN = "veil: the text of this error is hidden"


class KafkaConnect:
    """See `proxy.protocols.http.api.Api`."""

    who = Target(())

    def judge(self, call: Call, desk: Desk) -> Steps[Verdict]:
        found = ROUTES.find(call.method, call.target.segments)
        if call.method == "OPTIONS" and any(row.match(row.method, call.target.segments) is not None for row in ROUTES.rows):
            return Forward()
        if desk.viewer.anything().masks:
            yield from desk.claim()
        if found is None:
            return (yield from _guarded(desk, f"{call.method} of a place that is not listed"))
        row, named = found
        operation = f"{row.method} /{'/'.join(row.path)}"
        match row.act:
            case "pass":
                return Forward(content=b"", accept=JSON, show=_shown(desk, operation))
            case "create" | "configure" | "patch" | "validate":
                return (yield from self._configured(call, desk, row.act, named, operation))
            case "start":
                return (yield from self._started(desk, named["name"], operation, b""))
            case "offsets":
                return (yield from self._set_back(call, desk, named["name"], operation))
            case "never":
                return _refuse(Refusal(None, reason="it is from worker to worker"), operation)
            case _:
                return (yield from _guarded(desk, operation))

    def _set_back(self, call: Call, desk: Desk, name: str, operation: str) -> Steps[Verdict]:
        """A sink reads its topics once more."""
        if call.method == "DELETE":
            return (yield from self._started(desk, name, operation, b""))
        try:
            _, told = documents.parse(call.content)
        except NotStrict as bad:
            return _bad(str(bad))
        return (yield from self._started(desk, name, operation, documents.canonical(told)))

    def _started(self, desk: Desk, name: str, operation: str, content: bytes) -> Steps[Verdict]:
        """A connector that is there already begins to read, or to read again."""
        if desk.viewer.anything().masks:
            config = yield from _stored(desk, name)
            if config is None:
                refused = yield from _anything(desk, operation, desk.viewer.begin())
            else:
                refused = yield from _read(desk, config, operation)
            if refused is not None:
                return refused
        return Forward(content=content, accept=JSON, show=_shown(desk, operation))

    def _configured(self, call: Call, desk: Desk, act: str, named: Mapping[str, str], operation: str) -> Steps[Verdict]:
        """A connector is made or changed, or would be."""
        try:
            _, told = documents.parse(call.content)
            config = _config(told, act)
        except NotStrict as bad:
            return _bad(str(bad))
        content = documents.canonical(told)
        if not desk.viewer.anything().masks:
            return Forward(content=content, accept=JSON, show=_shown(desk, operation))
        masked = next((key for key, value in config.items() if bears_mask((value or "").encode("utf-8", "replace"))), None)
        if masked is not None:
            return _refuse(Refusal(None, reason=f"{_plain(masked)} is the mask that Veil shows instead of a secret"), operation)
        if act == "patch":
            stored = yield from _stored(desk, named["name"])
            if stored is None:
                return (yield from _guarded(desk, operation))
            config = {**stored, **config}
        elif act == "validate":
            config = {"connector.class": named["plugin"], **config}
        refused = yield from _read(desk, config, operation)
        if refused is not None:
            return refused
        echoed = showing.looked_up({key: value for key, value in config.items() if value is not None})
        shown = _shown(desk, operation, is_own=act != "patch" and not echoed, echoed=echoed if act == "validate" else ())
        return Forward(content=content, accept=JSON, show=shown)


# What is refused


def _guarded(desk: Desk, operation: str) -> Steps[Verdict]:
    """What could show or copy anything."""
    read = desk.viewer.begin()
    refused = yield from _anything(desk, operation, read)
    if refused is not None:
        return refused

    def show(answer: Answer) -> Steps[Answer]:
        if all(not view.masks for view in (yield from _views(desk, operation, read))):
            return answer
        return Answer(403, [(b"content-type", JSON)], error(403, "veil: this answer cannot be shown"))

    return Forward(show=show)


def _anything(desk: Desk, operation: str, read: Read) -> Steps[Refuse | None]:
    """Why what names no topic may not be; None while nothing masks, or once it is on record."""
    (view,) = yield from desk.viewer.lift((desk.viewer.anything(),), read, operation)
    return None if view.refusal is None else _refuse(view.refusal, operation)


def _read(desk: Desk, config: Mapping[str, str | None], operation: str) -> Steps[Refuse | None]:
    """Why a connector of this config may not be, as it reads what is masked; None if it may."""
    known = yield from _plugins(desk)
    told = configs.reads({key: value for key, value in config.items() if value is not None}, known)
    named = [desk.viewer.view(desk.viewer.resource(Kind.TOPIC, each.encode("utf-8", "replace"))) for each in told.topics]
    covered = [view for view in named if view.masks]
    read = desk.viewer.begin()
    if not told.is_plain:
        refused = yield from _anything(desk, operation, read)
        if refused is None or not covered:
            return refused
        views = tuple(covered)  # the better reason
    elif all(view.may_lift for view in covered):
        views = yield from desk.viewer.lift(covered, read, operation)
    else:  # nothing is read: nothing is to be recorded
        views = tuple(view for view in covered if not view.may_lift)
    return next((_refuse(view.refusal, operation, view.resource) for view in views if view.refusal is not None), None)


def _plugins(desk: Desk) -> Steps[Collection[configs.Plugin]]:
    told = yield from _told(desk, "connector-plugins")
    return configs.plugins(told) if told is not None else ()


def _stored(desk: Desk, name: str) -> Steps[dict[str, str | None] | None]:
    """The config that the worker has of a connector; None where it does not tell."""
    told = yield from _told(desk, "connectors", name, "config")
    try:
        return None if told is None else configs.flat(told)
    except NotStrict:
        return None


def _told(desk: Desk, *segments: str) -> Steps[Value | None]:
    answer = yield from desk.look_up(Target(segments))
    if answer is None or answer.status != 200:
        return None
    try:
        return documents.parse(answer.content)[1]
    except NotStrict:
        return None


def _config(told: Value, act: str) -> dict[str, str | None]:
    """The config that a request bears.

    Raises:
        NotStrict: it bears none.
    """
    if act != "create":
        return configs.flat(told)
    config = told.member("config")
    if config is None:
        raise NotStrict("there is no config")
    return configs.flat(config)


# What is shown


def _views(desk: Desk, operation: str, read: Read) -> Steps[tuple[View, ...]]:
    """As `Desk.views`, of the connection as a whole."""
    viewer = desk.viewer
    (view,) = yield from viewer.lift((viewer.anything(),), read, operation)
    if desk.judged is viewer.policy:
        return (view,)
    return (view, viewer.recorded(viewer.anything(desk.judged), read))


def _shown(desk: Desk, operation: str, *, is_own: bool = False, echoed: Collection[str] = ()) -> Show:
    """The answer without what quotes records, and without secrets, while any rule masks for the reader."""

    def show(answer: Answer) -> Steps[Answer]:
        viewer = desk.viewer
        views: tuple[View, ...] = (viewer.anything(), viewer.anything(desk.judged))
        if not answer.content or not any(view.masks for view in views):
            return answer
        found: showing.Hidden | None = None
        text = ""
        try:
            text, told = documents.parse(answer.content)
        except NotStrict:
            pass
        else:
            if answer.status < 400:
                found = showing.hidden(told, echoed)
            elif showing.is_harmless(told, is_own=is_own and answer.status == 400):
                return answer
        if found is not None and not found.contents:
            return _spliced(answer, text, found.places)
        views = yield from _views(desk, operation, viewer.begin())
        masking = [view for view in views if view.masks]
        marks = _marks(desk, masking or views, is_masked=bool(masking))
        if found is None:
            if not masking:
                return Answer(answer.status, answer.fields, answer.content, marks)
            return Answer(answer.status, [(b"content-type", JSON)], error(answer.status, _HIDDEN), marks)
        return _spliced(answer, text, [*found.places, *(found.contents if masking else ())], marks)

    return show


def _spliced(answer: Answer, text: str, changes: showing.Changes, marks: list[tuple[bytes, bytes]] | None = None) -> Answer:
    content = documents.spliced(text, showing.outermost(changes)) if changes else answer.content
    return Answer(answer.status, answer.fields, content, marks or [])


def _marks(desk: Desk, views: Collection[View], *, is_masked: bool) -> list[tuple[bytes, bytes]]:
    names = ", ".join(dict.fromkeys(rule.name for view in views for rule in view.rules))
    if not desk.settings.markers or not names:
        return []
    return [(b"veil-masked" if is_masked else b"veil-unmasked", _plain(names, 400).strip().encode())]


# How this API says no


def _refuse(why: Refusal, operation: str, resource: Resource | None = None) -> Refuse:
    if why.rule is None:
        told = f"veil: {operation} is refused: {why.reason}"
    elif resource is None:
        told = f'veil: {operation} is refused while the masking rule "{_plain(why.rule)}" applies to you'
    else:
        name = _plain(resource.name.decode("utf-8", "replace"))
        told = f'veil: {operation} is refused: it reads "{name}", which the masking rule "{_plain(why.rule)}" covers'
    return Refuse(403, error(403, told), why, operation, resource)


def _bad(reason: str) -> Refuse:
    why = Refusal(None, reason=f"the request is not strict JSON: {reason}")
    return Refuse(400, error(400, f"veil: {why.reason}"), why, "a request")


def _plain(text: str, characters: int = _NAME_CHARACTERS) -> str:
    return "".join(each if " " <= each <= "~" and each != '"' else "?" for each in text[:characters])
