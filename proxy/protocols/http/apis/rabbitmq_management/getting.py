"""`get`: messages are taken off a queue, shown, and perhaps put back.

What decides is read before the call goes up; which rules cover each message is told by the message itself as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.core.renditions import ANYWHERE, Renditions
from proxy.core.steps import Steps
from rules.model import Kind
from rules.policy import Policy
from rules.view import View

from ...api import Answer, Desk, Forward, Verdict
from ...documents import NotStrict, Value, parse
from . import contents
from .contents import Message, Origin
from .graph import Graph, queue, read_graph
from .lifting import anything, of_kind, of_queue, resource, unless_lifted
from .refuse import bad_request, error
from .writing import compact

ACK_MODES = frozenset({"ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"})
MOVING = "reject_requeue_false"
ENCODINGS = frozenset({"auto", "base64"})
SENT = ("count", "ackmode", "encoding")
MOST_DIGITS = 10
MASK_DOT = "•".encode()


def judge(desk: Desk, vhost: str, name: str, operation: str, content: bytes) -> Steps[Verdict]:
    try:
        _, told = parse(content)
        truncate = _checked(told)
    except NotStrict as bad:
        return bad_request(str(bad), operation)
    masks = anything(desk).masks
    graph: Graph | None = None
    if masks and (of_kind(desk, Kind.EXCHANGE).masks or told.text("ackmode") == MOVING):
        graph = yield from read_graph(desk, vhost)
    if masks and told.text("ackmode") == MOVING and (graph is None or name not in graph.queues or name in graph.dead_lettering):
        view = anything(desk) if graph is None else of_queue(desk, name, graph)
        refused = yield from unless_lifted(desk, view, operation, desk.viewer.begin())
        if refused is not None:
            return refused
    asked = {key: value for key, value in told.inside.items() if key in SENT}
    sent = "{" + ",".join(f'"{key}":{compact(value)}' for key, value in asked.items()) + "}"
    look = _Look(desk, name, graph, truncate, operation, desk.viewer.policy)
    return Forward(content=sent.encode(), accept=b"application/json", show=look.show)


def _checked(told: Value) -> int | None:
    """The `truncate` of a request, all of which is what the broker takes.

    Raises:
        NotStrict: something is not.
    """
    if not told.is_object:
        raise NotStrict("the body is not an object")
    count = told.member("count")
    if count is not None and _number(count, "-") is None:
        raise NotStrict("count is not a number")
    for key, known in (("ackmode", ACK_MODES), ("encoding", ENCODINGS)):
        if told.member(key) is not None and told.text(key) not in known:
            raise NotStrict(f"{key} is not known")
    truncate = told.member("truncate")
    if truncate is None:
        return None
    most = _number(truncate)
    if most is None:
        raise NotStrict("truncate is not a number")
    return most


def _number(value: Value, sign: str = "") -> int | None:
    text = value.number or (value.inside if value.is_text else "")
    digits = text.removeprefix(sign) if sign else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else None


class _Look:
    """The answer of one call, shown under the rules of then and of now."""

    def __init__(self, desk: Desk, name: str, graph: Graph | None, truncate: int | None, operation: str, then: Policy) -> None:
        self._desk = desk
        self._name = name
        self._graph = graph
        self._truncate = truncate
        self._operation = operation
        self._then = then
        self._read = desk.viewer.begin()

    def show(self, answer: Answer) -> Steps[Answer]:
        if answer.status != 200:
            return self._error(answer)
        read = contents.read(answer.content)
        if read is None:
            return _unreadable()
        yield from self._see(read.messages)
        desk = self._desk
        content = contents.show(read, truncate=self._truncate, markers=desk.settings.markers)
        self._count(read.messages)
        self._remember(read.messages)
        return Answer(answer.status, answer.fields, content)

    def _error(self, answer: Answer) -> Answer:
        """What is no answer to a get holds no contents, as long as it is none."""
        if 200 <= answer.status < 300 and answer.content:
            return _unreadable()
        return answer

    def _see(self, messages: list[Message]) -> Steps[None]:
        """Gives each message its views, lifted where the reader may and it is on record."""
        viewer = self._desk.viewer
        now, then = viewer.policy, self._then
        known: dict[Origin, View] = {}
        before: dict[Origin, View] = {}
        for each in messages:
            if each.origin not in known:
                known[each.origin] = self._view(now, each.origin)
                if then is not now:
                    before[each.origin] = self._view(then, each.origin)
        liftable = [origin for origin, view in known.items() if view.masks and view.may_lift]
        if liftable:
            unknown = any(origin.unknown for origin in liftable)
            union = self._view(now, Origin(frozenset().union(*(origin.passed for origin in liftable)), unknown))
            yield from viewer.lift((union,), self._read, self._operation)
        for each in messages:
            shown = viewer.recorded(known[each.origin], self._read)
            each.views = (shown, before[each.origin]) if each.origin in before else (shown,)

    def _view(self, policy: Policy, origin: Origin) -> View:
        desk, node = self._desk, queue(self._name)
        beside = set(origin.passed)
        every = set(Kind) if origin.unknown else set()
        graph = self._graph
        if graph is None or self._name not in graph.queues:
            every.add(Kind.EXCHANGE)
        else:
            beside |= graph.upstream(node)
        others = [resource(desk, each) for each in sorted(beside)]
        return policy.view_over(desk.viewer.reader, resource(desk, node), others, every)

    def _remember(self, messages: list[Message]) -> None:
        """What bears no mask text is known by this when it is written back."""
        shared = self._desk.settings.shared
        if not isinstance(shared, Renditions):
            return
        for shown in {each for message in messages for each in message.shown if MASK_DOT not in each}:
            for name in (ANYWHERE, self._name.encode("utf-8", "surrogatepass")):
                shared.remember(name, shown)

    def _count(self, messages: list[Message]) -> None:
        cuts = list(_cuts(messages))
        masked: dict[tuple[str, str], int] = {}
        whole: dict[str, int] = {}
        for hits, reason in cuts:
            for hit in hits:
                masked[hit] = masked.get(hit, 0) + 1
            if reason is not None:
                whole[reason] = whole.get(reason, 0) + 1
        self._desk.viewer.tally.count(masked, whole)


def _cuts(messages: list[Message]) -> Iterator[tuple[list[tuple[str, str]], str | None]]:
    for each in messages:
        for cut in each.cuts:
            yield [(hit.rule, hit.method) for hit in cut.hits], cut.whole


def _unreadable() -> Answer:
    return Answer(502, [(b"content-type", b"application/json")], error("bad_gateway", "the answer could not be read"))
