"""Answers without messages that still tell of them: counters of bytes, a property of the message at a queue's head; and
what such answers hold of passwords and of addresses that lead round Veil.
"""

from __future__ import annotations

import re

from rules.view import View

from ...api import Answer
from ...documents import NotStrict, Value, parse, spliced, written
from ...targets import Target
from .refuse import error
from .surface import Act, Instead, instead

_USER_INFO = re.compile(r"(://)[^/?#\s]*@")  # whatever stands before: to look for where that begins takes long
SECRETS = frozenset({"password_hash", "password", "hashing_algorithm"})
SORTING = "sort"


def unsorted(target: Target) -> Target:
    """The same without an order that hidden counters would decide."""
    kept = tuple(
        (name, value) for name, value in target.query if name != SORTING or not any(instead(part) for part in value.split("."))
    )
    return target if kept == target.query else Target(target.segments, kept, target.slash)


def shown(answer: Answer, view: View, act: Act) -> Answer:
    """The answer as a reader sees it for whom `view`, of the whole connection, masks."""
    if not view.masks or not answer.content:
        return answer
    try:
        text, told = parse(answer.content)
    except NotStrict:
        if not (200 <= answer.status < 300):
            return answer
        return Answer(502, [(b"content-type", b"application/json")], error("bad_gateway", "the answer could not be read"))
    changes: list[tuple[Value, str]] = []
    _walk(told, act, changes)
    return Answer(answer.status, answer.fields, spliced(text, changes)) if changes else answer


def _walk(value: Value, act: Act, changes: list[tuple[Value, str]]) -> None:
    if value.is_object:
        for name, each in value.inside.items():
            if act is Act.SETTINGS and name in SECRETS:
                changes.append((each, written("")))
                continue
            hidden = None if act is Act.SETTINGS else instead(name)
            if hidden is None or (hidden is Instead.EMPTY and act is not Act.ADDRESSES):
                _walk(each, act, changes)
            elif hidden is Instead.ZERO:
                _zero(each, changes)
            else:
                changes.append((each, "null" if hidden is Instead.NULL else "[]"))
    elif value.is_array:
        for each in value.inside:
            _walk(each, act, changes)
    elif act is Act.SETTINGS and value.is_text and "://" in value.inside:
        bare = _USER_INFO.sub(r"\1", value.inside)
        if bare != value.inside:
            changes.append((value, written(bare)))


def _zero(value: Value, changes: list[tuple[Value, str]]) -> None:
    """Every number inside."""
    if value.is_object or value.is_array:
        for each in value.inside.values() if value.is_object else value.inside:
            _zero(each, changes)
    elif value.number and value.number != "0":
        changes.append((value, "0"))
