"""Produce: what may be written, and what the answer says of what may not.

A masked item that is written back would put the masks in place of the values. Partitions with one are not sent; the
others are, and the answer speaks of both.
"""

from __future__ import annotations

from proxy.core.steps import Steps
from rules.model import Refusal
from rules.view import View

from .. import refuse, schema, wire
from ..contents import Inspector, MaskedItem, bears_mark
from ..records import BadRecords, Bounds, splice, whole_batches
from ..schema import Message
from ..wire import RequestHeader
from .fetching import know_names, name_of
from .frames import shown
from .pending import Local, RefusedPart, Sent
from .state import LONGEST_NAME, State

PRODUCE = 0
OPERATION = "Produce"
NO_ANSWER = 0  # acks
STRICT = "strict"
RECORD_ERRORS_VERSION = 8  # KIP-467
NOT_READ = "its records cannot be read"
_MARK_FIELD = "header:veil-masked"
UNNAMED = "nobody could tell which topic this is"


def write(state: State, header: RequestHeader, frame: bytes) -> Steps[None]:
    """The reader's request, on its way up."""
    codec = schema.request(header.key, header.version)
    request, dropped = codec.known(frame, header.body_at)
    yield from know_names(state, [topic["topic_id"] for topic in request["topic_data"] or () if "topic_id" in topic])
    while True:
        policy = state.viewer.policy
        refused: list[RefusedPart] = []
        kept, changed = yield from _judged(state, request, refused)
        if state.viewer.is_still(policy):
            break
        request, _ = codec.known(frame, header.body_at)  # a policy came while this was judged
    sent = Sent(header.key, header.version, header.correlation_id, state.viewer.policy, refused=tuple(refused))
    if not kept and refused:
        if request["acks"] != NO_ANSWER:
            answer = schema.response(header.key, header.version).blank()
            add_refused(answer, sent)
            state.pending.push(Local(shown(header.key, header.version, header.correlation_id, answer)))
        return
    if changed or refused or dropped:
        request["topic_data"] = kept
        body: list[bytes | memoryview] = []
        codec.write(request, body)
        state.send(wire.request_frame(header, frame, body))
    else:
        state.send(wire.sized(frame))
    if request["acks"] != NO_ANSWER:
        state.pending.push(sent)


def _judged(state: State, request: Message, refused: list[RefusedPart]) -> Steps[tuple[list[Message], bool]]:
    """The topics that may be written, each with the partitions that may, and whether anything in them was changed."""
    kept: list[Message] = []
    changed = False
    for topic in request["topic_data"] or ():
        name = name_of(state, topic) if "topic_id" in topic else topic["name"]
        told = topic["topic_id"] if "topic_id" in topic else topic["name"]
        parts = []
        for part in topic["partition_data"] or ():
            records = part["records"]
            if name is not None and len(name) > LONGEST_NAME:
                verdict: RefusedPart | None = RefusedPart(told, part["index"], refuse.INVALID_TOPIC, b"")
            elif name is None:
                verdict = RefusedPart(told, part["index"], refuse.UNKNOWN_TOPIC_ID, UNNAMED.encode())
            elif not records:
                verdict = None
            else:
                verdict = yield from _verdict(state, name, told, part)
                changed |= part["records"] is not records
            if verdict is None:
                parts.append(part)
            else:
                refused.append(verdict)
        if parts:
            kept.append(topic | {"partition_data": parts})
    return kept, changed


def _verdict(state: State, name: bytes, told: bytes, part: Message) -> Steps[RefusedPart | None]:
    """Why the partition's records may not be written; None if they may. Takes `veil-unmasked` out of them."""
    view = state.viewer.view(state.topic(name))
    if not view.covered and not bears_mark(part["records"]):
        return None
    found = _look(state, name, view, part)
    if found is None:
        return None
    refusal, record = found
    read = state.read_of(name) if view.may_lift else None
    if read is not None and refusal.field != _MARK_FIELD:  # whoever reads unmasked knows what they write
        view = yield from state.lift(view, read, OPERATION)
        found = _look(state, name, view, part)
        if found is None:
            return None
        refusal, record = found
    yield from state.note(refusal, name, OPERATION)
    return RefusedPart(told, part["index"], refuse.POLICY_VIOLATION, refuse.text(OPERATION, refusal, name), record)


def _look(state: State, name: bytes, view: View, part: Message) -> tuple[Refusal, int | None] | None:
    if view.masks and state.settings.writes == STRICT and view.refusal is not None:
        return view.refusal, None
    inspector = Inspector(view.plan if view.masks else None, state.cluster, name)
    bounds = Bounds(opened_bytes=state.viewer.policy.limits.max_value_bytes)
    records = part["records"]
    spliced = None
    try:
        spliced = splice(records, inspector.edit, bounds=bounds)
    except MaskedItem as item:
        why = item.written
        return Refusal(why.rule, why.field, why.reason), why.index
    except BadRecords:
        pass
    is_whole = whole_batches(records, len(records), at_least_one=True) == len(records)
    if spliced is None or spliced.cut or not is_whole:
        if not view.covered:
            return None  # the broker's to refuse
        rule = None if view.refusal is None else view.refusal.rule
        return Refusal(rule, "value", NOT_READ), None
    if spliced.size != len(records) or len(spliced.parts) > 1:
        part["records"] = spliced.parts
    return None


def add_refused(answer: Message, sent: Sent) -> None:
    """Puts what was not sent into the answer to what was."""
    topic_codec = schema.response(PRODUCE, sent.version).item("responses")
    part_codec = topic_codec.item("partition_responses")
    responses = answer["responses"] = list(answer["responses"] or ())
    by_topic = {_told(each): each for each in reversed(responses)}
    for refused in sent.refused:
        topic = by_topic.get(refused.topic)
        if topic is None:
            topic = topic_codec.blank()
            topic["topic_id" if "topic_id" in topic else "name"] = refused.topic
            topic["partition_responses"] = []
            responses.append(topic)
            by_topic[refused.topic] = topic
        part = part_codec.blank() | {"index": refused.index, "error_code": refused.code, "base_offset": -1}
        if sent.version >= RECORD_ERRORS_VERSION:
            part["error_message"] = refused.message
            if refused.record is not None:
                part["record_errors"] = [{"batch_index": refused.record, "batch_index_error_message": refused.message}]
        topic["partition_responses"].append(part)


def _told(topic: Message) -> bytes:
    return bytes(topic["topic_id"] if "topic_id" in topic else topic["name"] or b"")
