"""Questions that a judge puts to the rules, and the record of what passes by permission alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from proxy.core.steps import Steps
from proxy.core.viewer import Read
from rules.model import Kind, Resource
from rules.view import View

from ...api import Desk, Refuse
from .graph import Graph, Node, queue
from .refuse import refuse


def resource(desk: Desk, node: Node) -> Resource:
    kind, name = node
    return desk.viewer.resource(kind, name.encode("utf-8", "surrogatepass"))


def anything(desk: Desk) -> View:
    return desk.viewer.anything()


def of_kind(desk: Desk, kind: Kind) -> View:
    viewer = desk.viewer
    return viewer.policy.anything_of(viewer.reader, viewer.connection, kind)


def over(desk: Desk, node: Node, beside: Iterable[Node] = (), every: Collection[Kind] = ()) -> View:
    viewer = desk.viewer
    others = [resource(desk, each) for each in beside]
    return viewer.policy.view_over(viewer.reader, resource(desk, node), others, every)


def of_queue(desk: Desk, name: str, graph: Graph | None) -> View:
    """What is known of all messages of a queue: its own rules, those of all that feeds it; those on exchanges where
    nobody knows what feeds it."""
    if graph is None or name not in graph.queues:
        return over(desk, queue(name), every=(Kind.EXCHANGE,))
    return over(desk, queue(name), graph.upstream(queue(name)))


def unless_lifted(desk: Desk, view: View, operation: str, read: Read, *, named: bool = True) -> Steps[Refuse | None]:
    """The refusal of an operation on what the view is of; None where nothing masks, or the reader may and it is recorded,
    once for all that belongs to one `read`."""
    if not view.masks:
        return None
    (view,) = yield from desk.viewer.lift((view,), read, operation)
    why = view.refusal
    return None if why is None else refuse(why, operation, view.resource if named else None)
