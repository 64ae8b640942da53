"""A message that is written: adding is free, but what was masked must not come back as if it were the message.

Where it may go is read from the bindings, whatever the routing key; where they cannot be read, everywhere.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from proxy.core.renditions import ANYWHERE, Renditions
from proxy.core.steps import Steps
from rules import marks
from rules.model import Hit, Kind, Refusal, Resource
from rules.policy import ANYTHING
from rules.view import View

from ...api import Desk, Refuse
from ...documents import Value, everything
from .copies import Scene
from .graph import DEFAULT, DEFAULT_IN_PATHS, exchange, queue
from .lifting import anything, over
from .refuse import bad_request, refuse

BULLET = "•"


def judge(scene: Scene, vhost: str, name: str, told: Value) -> Steps[Refuse | None]:
    """The refusal of a masked item written back; None where there is nothing against it."""
    desk = scene.desk
    view = anything(desk)
    if not view.masks:
        return None
    data = _payload(told)
    if data is None:
        return bad_request("the payload is not what its encoding says", scene.operation)
    texts = list(_texts(told))
    if any(name == marks.MASKED for name, _ in texts):
        why = view.refusal
        assert why is not None
        return refuse(Refusal(why.rule, f"header:{marks.MASKED}", why.reason), scene.operation)
    is_strict = desk.settings.writes == "strict"
    bears = BULLET.encode() in data or b"\\u2022" in data or any(BULLET in text for _, text in texts)
    is_known = _has_shown(desk, None, data)
    if not bears and not is_strict and not is_known:
        return None
    views = yield from _destinations(scene, vhost, DEFAULT if name == DEFAULT_IN_PATHS else name, told)
    for each in views:
        why = each.refusal
        if why is None:
            continue
        if is_strict:
            return refuse(why, scene.operation, each.resource)
        hit = _mask_in(each, data, texts)
        if hit is not None:
            return refuse(Refusal(hit.rule, hit.field), scene.operation, each.resource)
        if is_known and _has_shown(desk, each.resource, data):
            return refuse(Refusal(why.rule, "value", why.reason), scene.operation, each.resource)
        if why.rule is None:
            return refuse(why, scene.operation)
    return None


def _has_shown(desk: Desk, resource: Resource | None, data: bytes) -> bool:
    """Whether these very bytes were shown in place of a masked payload."""
    shared = desk.settings.shared
    name = ANYWHERE if resource is None or resource.name == ANYTHING else resource.name
    return isinstance(shared, Renditions) and shared.has_shown(name, data)


def _destinations(scene: Scene, vhost: str, name: str, told: Value) -> Steps[list[View]]:
    desk: Desk = scene.desk
    graph = yield from scene.graph(vhost)
    if graph is None:
        return [anything(desk)]
    start = [exchange(name)]
    if name == DEFAULT:  # the queues whose names it is given
        start = [queue(each) for each in _keys(told)]
    reached = graph.downstream(*start)
    return [over(desk, each, graph.upstream(each)) for each in sorted(reached) if each[0] is Kind.QUEUE]


def _keys(told: Value) -> Iterator[str]:
    yield told.text("routing_key") or ""
    properties = told.member("properties")
    headers = None if properties is None else properties.member("headers")
    for name in ("CC", "BCC"):
        listed = None if headers is None else headers.member(name)
        if listed is not None and listed.is_array:
            yield from (each.inside for each in listed.inside if each.is_text)


def _mask_in(view: View, data: bytes, texts: list[tuple[str, str]]) -> Hit | None:
    assert view.plan is not None
    hit = view.plan.value_holds_mask(data)
    for name, text in texts:
        hit = hit or view.plan.header_holds_mask(name, text.encode("utf-8", "surrogatepass"))
    return hit


def _payload(told: Value) -> bytes | None:
    payload = told.text("payload")
    if payload is None:
        return b""
    try:
        if told.text("payload_encoding") == "base64":
            return base64.b64decode(payload, validate=True)
        return payload.encode()
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return None


def _texts(told: Value) -> Iterator[tuple[str, str]]:
    """Texts of properties and headers, by name, however deep; of others that they are there."""
    properties = told.member("properties")
    if properties is None or not properties.is_object:
        return
    for name, value in properties.inside.items():
        if name != "headers":
            yield name, value.inside if value.is_text else ""
        elif value.is_object:
            for header, inside in value.inside.items():
                yield header, ""
                yield from ((header, each.inside) for each in everything(inside) if each.is_text)
