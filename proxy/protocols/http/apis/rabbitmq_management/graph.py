"""Where messages of a virtual host can go: from exchange to queue, to exchange, and on from a queue that dead-letters.

    exchange ──binding──▶ queue, exchange      exchange ──alternate──▶ exchange
    queue ──dead letter──▶ exchange, or (through the default exchange) the queue that its routing key names

Read anew for every call that hangs on it, since bindings change. What could not be read is no graph, and then
everything counts as fed by everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from proxy.core.steps import Steps
from rules.model import Kind

from ...api import Answer, Desk
from ...documents import NotStrict, Value, parse
from ...targets import Target

Node = tuple[Kind, str]
DEFAULT = ""
DEFAULT_IN_PATHS = "amq.default"
QUEUE_COLUMNS = "name,type,arguments,effective_policy_definition"
DEAD_LETTER, DEAD_LETTER_KEY = "dead-letter-exchange", "dead-letter-routing-key"
ALTERNATE = "alternate-exchange"


class Unreadable(ValueError):
    """An answer that is not what it has to be."""


@dataclass(slots=True)
class Graph:
    queues: set[str] = field(default_factory=set)
    dead_lettering: set[str] = field(default_factory=set)
    """Queues with a dead-letter exchange, by argument or policy."""
    _to: dict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))
    _from: dict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))

    def link(self, source: Node, destination: Node) -> None:
        self._to[source].add(destination)
        self._from[destination].add(source)

    def upstream(self, *nodes: Node) -> set[Node]:
        """All that can feed any of the nodes, and the nodes themselves."""
        return _reached(self._from, nodes)

    def downstream(self, *nodes: Node) -> set[Node]:
        """All that any of the nodes can feed, and the nodes themselves."""
        return _reached(self._to, nodes)


def _reached(edges: dict[Node, set[Node]], nodes: Iterable[Node]) -> set[Node]:
    seen = set(nodes)
    waiting = list(seen)
    while waiting:
        for each in edges.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen


def queue(name: str) -> Node:
    return Kind.QUEUE, name


def exchange(name: str) -> Node:
    return Kind.EXCHANGE, name


def read_graph(desk: Desk, vhost: str) -> Steps[Graph | None]:
    """The graph as it is now; None where any part of it cannot be read."""
    as_veil = desk.settings.login is not None
    answers: list[Answer | None] = []
    for kind, query in (
        ("bindings", ()),
        ("exchanges", ()),
        ("queues", (("columns", QUEUE_COLUMNS),)),
        ("policies", ()),
    ):
        answer = yield from desk.look_up(Target(("api", kind, vhost), query), as_veil=as_veil)
        if answer is None or answer.status != 200:
            return None
        answers.append(answer)
    try:
        bindings, exchanges, queues, policies = (list(_listed(answer)) for answer in answers)
        graph = Graph()
        _bindings(graph, bindings)
        _exchanges(graph, exchanges, {_name(each): each for each in policies})
        _queues(graph, queues, policies)
    except Unreadable:
        return None
    return graph


def stored(desk: Desk, *segments: str) -> Steps[Answer | None]:
    """What the broker says of a setting."""
    return (yield from desk.look_up(Target(("api", *segments)), as_veil=desk.settings.login is not None))


def object_of(answer: Answer | None) -> Value | None:
    if answer is None or answer.status != 200:
        return None
    try:
        _, told = parse(answer.content)
    except NotStrict:
        return None
    return told if told.is_object else None


def policies_of(answer: Answer | None) -> dict[str, Value] | None:
    """Policies by name; None where they cannot be read."""
    if answer is None or answer.status != 200:
        return None
    try:
        return {_name(each): each for each in _listed(answer)}
    except Unreadable:
        return None


def _listed(answer: Answer | None) -> Iterator[Value]:
    assert answer is not None
    try:
        _, told = parse(answer.content)
    except NotStrict:
        raise Unreadable from None
    if not told.is_array:
        raise Unreadable
    for each in told.inside:
        if not each.is_object:
            raise Unreadable
        yield each


def _name(told: Value, key: str = "name") -> str:
    name = told.text(key)
    if name is None:
        raise Unreadable
    return name


def _optional(told: Value | None, key: str) -> str | None:
    """A member that is a text, or not there at all."""
    if told is None or (told.is_array and not told.inside):  # an empty table is written as an empty array
        return None
    if not told.is_object:
        raise Unreadable
    return None if told.member(key) is None else _name(told, key)


def _bindings(graph: Graph, told: list[Value]) -> None:
    for each in told:
        kind = {"queue": Kind.QUEUE, "exchange": Kind.EXCHANGE}.get(_name(each, "destination_type"))
        if kind is None:
            raise Unreadable
        graph.link(exchange(_name(each, "source")), (kind, _name(each, "destination")))


def _exchanges(graph: Graph, told: list[Value], policies: dict[str, Value]) -> None:
    for each in told:
        name = _name(each)
        other = _optional(each.member("arguments"), ALTERNATE)
        policy = _optional(each, "policy")
        if policy is not None:
            if policy not in policies:
                raise Unreadable
            by_policy = _optional(policies[policy].member("definition"), ALTERNATE)
            if by_policy is not None:
                graph.link(exchange(name), exchange(by_policy))
        if other is not None:
            graph.link(exchange(name), exchange(other))


def _queues(graph: Graph, told: list[Value], policies: list[Value]) -> None:
    """A queue that does not tell what its policy says may be under any."""
    every = [each.member("definition") for each in policies]
    for each in told:
        name = _name(each)
        graph.queues.add(name)
        arguments, own = each.member("arguments"), each.member("effective_policy_definition")
        told_by = every if own is None else [own]
        targets, keys = (
            {_optional(arguments, f"x-{key}"), *(_optional(policy, key) for policy in told_by)} - {None}
            for key in (DEAD_LETTER, DEAD_LETTER_KEY)
        )
        if targets:
            graph.dead_lettering.add(name)
        for target in targets:
            if target == DEFAULT and keys:
                for key in keys:
                    graph.link(queue(name), queue(key or ""))
            else:
                graph.link(queue(name), exchange(target or ""))
