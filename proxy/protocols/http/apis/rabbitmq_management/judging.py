"""The verdict on each call: by its row in the table, its body read strictly and sent up as Veil writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from proxy.core.steps import Steps
from rules import marks

from ...api import Answer, Call, Desk, Forward, Refuse, Verdict
from ...documents import NotStrict, Value, parse
from ...targets import Target
from . import getting, publishing, statistics
from .copies import Scene
from .forms import form
from .graph import exchange, object_of, queue, stored
from .lifting import anything
from .refuse import bad_request, error
from .surface import Act, row
from .writing import compact

JSON = b"application/json"
PLAIN_ACTIONS = frozenset({"sync", "cancel_sync"})
LOGINS = frozenset({"auth", "token"})
ENDED_FREELY = frozenset({"federation-upstream", "federation-upstream-set", "shovel", "user-limits", "vhost-limits"})
_WITH_BODY = frozenset(
    {
        Act.DEFINITIONS,
        Act.PARAMETER,
        Act.POLICY,
        Act.VHOST,
        Act.QUEUE,
        Act.ACTION,
        Act.EXCHANGE,
        Act.BINDING,
        Act.PUBLISH,
        Act.GET,
    }
)
_EMPTY = Value(0, 2, {})


class RabbitManagement:
    """See `proxy.protocols.http.api.Api`."""

    who = Target(("api", "whoami"))
    takes_forms = True
    """Definitions come as one from the console; anything else does not."""
    takes_texts = True
    """The console asks for messages, and writes them, with a body that it gives no name."""

    fields: Mapping[str, frozenset[bytes]] = {"GET": frozenset({b"x-vhost"}), "DELETE": frozenset({b"x-reason"})}
    """The virtual host that a list is of. With an import it would be another than the one that was judged. And why a
    connection is closed."""

    def error(self, status: int, reason: str) -> bytes:
        """The form in which the console shows one, of a call that was not understood."""
        return error("bad_gateway" if status >= 500 else "bad_request", reason)

    def judge(self, call: Call, desk: Desk) -> Steps[Verdict]:
        came, call = call, _without_login(call)
        found, named = row(call.method, call.target.segments)
        operation = f"{call.method} {found.path}"
        if found.act is not Act.DEFINITIONS and (call.one(b"content-type") or b"").lower().startswith(b"multipart/"):
            return bad_request("a body in parts is not carried through here", operation, 415)
        verdict = yield from self._verdict(found.act, call, desk, operation, named)
        if isinstance(verdict, Forward) and verdict.target is None and call is not came:
            return replace(verdict, target=call.target)
        return verdict

    def _verdict(self, act: Act, call: Call, desk: Desk, operation: str, named: dict[str, str]) -> Steps[Verdict]:
        if act is Act.PASS:
            return Forward()
        if anything(desk).masks:
            yield from desk.claim()
        if act in _WITH_BODY:
            return (yield from self._with_body(act, call, desk, operation, named))
        match act:
            case Act.STATS | Act.ADDRESSES | Act.SETTINGS:
                if not anything(desk).covered:
                    return Forward()
                return Forward(target=statistics.unsorted(call.target), accept=JSON, show=_shown(desk, act, operation))
            case _:
                refused = yield from self._without_body(act, Scene(desk, operation), named)
                return refused or Forward()

    def _without_body(self, act: Act, scene: Scene, named: dict[str, str]) -> Steps[Refuse | None]:
        match act:
            case Act.EXCHANGE_DELETE:
                return (yield from scene.exchange_delete(named["vhost"], named["name"]))
            case Act.BINDING_DELETE:
                kind = queue if "/q/{destination}" in scene.operation else exchange
                return (yield from scene.binding_delete(named["vhost"], named["source"], kind(named["destination"])))
            case Act.QUEUE_DELETE:
                return (yield from scene.queue_delete(named["vhost"], named["name"]))
            case Act.PARAMETER_DELETE:
                return None if named["component"] in ENDED_FREELY else (yield from scene.guard())
            case Act.GLOBAL_PARAMETER:
                return (yield from scene.global_parameter(named["name"]))
            case Act.POLICY_DELETE:
                return (yield from scene.stored_policy(_policies(scene), named["vhost"], named["name"]))
            case Act.SHOVEL_RESTART:
                return (yield from self._stored_shovel(scene, named))
            case _:
                return (yield from scene.guard())

    def _with_body(self, act: Act, call: Call, desk: Desk, operation: str, named: dict[str, str]) -> Steps[Verdict]:
        kind = (call.one(b"content-type") or b"").lower()
        around = None
        content = call.content
        if kind.startswith(b"multipart/"):
            around = form(call)
            if around is None:
                return bad_request("a body in parts is not carried through here", operation, 415)
            content = around.inside
        if act is Act.GET:
            return (yield from getting.judge(desk, named["vhost"], named["name"], operation, content))
        if not content:
            told = _EMPTY
        else:
            try:
                _, told = parse(content)
            except NotStrict as bad:
                return bad_request(str(bad), operation)
            if not told.is_object:
                return bad_request("the body is not an object", operation)
        scene = Scene(desk, operation)
        refused = yield from self._judged(act, scene, told, named)
        if refused is not None:
            return refused
        if not content:
            return Forward()
        sent = _without_mark(told) if act is Act.PUBLISH else compact(told)
        return Forward(content=sent.encode("utf-8", "surrogatepass") if around is None else around.around(sent.encode()))

    def _judged(self, act: Act, scene: Scene, told: Value, named: dict[str, str]) -> Steps[Refuse | None]:
        match act:
            case Act.PARAMETER:
                return (yield from scene.parameter(named["component"], named["vhost"], told.member("value")))
            case Act.POLICY:
                return (yield from scene.put_policy(_policies(scene), named["vhost"], named["name"], told))
            case Act.DEFINITIONS:
                return (yield from scene.definitions(told, named.get("vhost")))
            case Act.VHOST:
                return (yield from scene.vhost(told))
            case Act.QUEUE:
                return (yield from scene.queue(named["vhost"], named["name"], told.member("arguments")))
            case Act.ACTION:
                return None if told.text("action") in PLAIN_ACTIONS else (yield from scene.guard())
            case Act.EXCHANGE:
                return (yield from scene.exchange(named["name"], told.text("type"), told.member("arguments")))
            case Act.BINDING:
                arguments = told.member("arguments")
                kind = "q" if scene.operation.endswith("/q/{destination}") else "e"
                return (yield from scene.binding(named["vhost"], named["source"], kind, named["destination"], arguments))
            case _:
                return (yield from publishing.judge(scene, named["vhost"], named["name"], told))

    def _stored_shovel(self, scene: Scene, named: dict[str, str]) -> Steps[Refuse | None]:
        if not anything(scene.desk).masks:
            return None
        answer = yield from stored(scene.desk, "parameters", "shovel", named["vhost"], named["name"])
        told = object_of(answer)
        if told is None:
            return (yield from scene.guard())
        return (yield from scene.shovel(named["vhost"], told.member("value")))


def _without_login(call: Call) -> Call:
    """The same without the login that the console puts into an address where it cannot put one into the head: if there is
    one in the head, it is that one's reader who asks."""
    target = call.target
    kept = tuple((name, value) for name, value in target.query if name not in LOGINS)
    if kept == target.query or call.one(b"authorization") is None:
        return call
    return replace(call, target=Target(target.segments, kept, target.slash))


def _policies(scene: Scene) -> str:
    return "operator-policies" if "/operator-policies/" in scene.operation else "policies"


def _shown(desk: Desk, act: Act, operation: str) -> Callable[[Answer], Steps[Answer]]:
    def show(answer: Answer) -> Steps[Answer]:
        view = desk.viewer.anything(desk.judged)
        if not view.masks or desk.viewer.policy is not desk.judged:
            view = anything(desk) if anything(desk).covered else replace(view, may_lift=False)
        told = statistics.shown(answer, view, act)
        if told is not answer and view.may_lift and act is not Act.ADDRESSES:
            (view,) = yield from desk.viewer.lift((view,), desk.viewer.begin(), operation)
            return statistics.shown(answer, view, act)
        return told

    return show


def _without_mark(told: Value) -> str:
    """The message without the mark of what was shown unmasked: it says nothing of this one."""
    properties = told.member("properties")
    headers = None if properties is None else properties.member("headers")
    if headers is not None and headers.is_object and marks.UNMASKED in headers.inside:
        del headers.inside[marks.UNMASKED]
    return compact(told)
