"""Fetch and ShareFetch: what is asked of the broker, and what of its answer is shown.

The decision falls on the answer: a fetch session does not repeat its topics (KIP-227), and rules may change while a
fetch waits. Topics that come as ids (KIP-516) have names by then: an id that is not known is asked for on the same
connection ahead of the fetch, whose answer thus comes later.

Sizes that the reader asks for would choose among the original batches, and so tell their sizes. Where a rule masks, the
broker is asked with Veil's own sizes, and the masked batches are cut to the reader's.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.core.addresses import Endpoint
from proxy.core.steps import Hold, Steps, advertise
from rules.model import Refusal
from rules.view import Shown, View

from .. import addresses, refuse, schema, wire
from ..cluster import NO_ID
from ..contents import Lens
from ..records import BadRecords, Bounds, has_records, splice, whole_batches
from ..schema import Message
from ..wire import RequestHeader
from .frames import shown
from .pending import Asked, Local, Sent
from .state import PARTITION_BYTES, State

FETCH, SHARE_FETCH, METADATA = 1, 78, 3
NEW_SESSION, NO_SESSION = 0, -1  # epochs of requests that bear all their partitions (KIP-227)
METADATA_VERSION = 12  # the first that is asked by topic id
OPERATIONS = {FETCH: "Fetch", SHARE_FETCH: "ShareFetch"}
ANSWER_BYTES = 50 * 1024 * 1024  # clients' own default (fetch.max.bytes)
MOST_IDS = 1000  # asked for at once
INTERNAL = frozenset({b"__consumer_offsets", b"__transaction_state", b"__share_group_state", b"__cluster_metadata"})
OURS = b"veil"
OUR_ID = -1  # clients count up from 0; the queue alone says which answer is whose
REPLICA = Refusal(None, reason="it is a replica's request")
IS_INTERNAL = Refusal(None, reason="it is an internal topic")


def ask(state: State, header: RequestHeader, frame: bytes) -> Steps[None]:
    """The reader's request, on its way up."""
    codec = schema.request(header.key, header.version)
    request, dropped = codec.known(frame, header.body_at)
    if _is_replica(request):
        yield from state.note(REPLICA, None, OPERATIONS[header.key])
        _refuse_whole(state, header, request)
        return
    wanted = [topic["topic_id"] for topic in request["topics"] or () if "topic_id" in topic]
    yield from know_names(state, [*wanted, *state.unnamed])
    state.unnamed.clear()
    if state.viewer.anything().masks and not _is_own_session(state, request):
        answer = schema.response(header.key, header.version).blank() | {"error_code": refuse.FETCH_SESSION_ID_NOT_FOUND}
        state.pending.push(Local(shown(header.key, header.version, header.correlation_id, answer)))
        return
    asked = Asked(opens_session=request.get("session_epoch") == NEW_SESSION)
    yield from _without_internal(state, header, request, asked)
    resized = state.viewer.anything().masks and _resize(state, header, request, asked)
    if asked.withheld and not request["topics"] and not request.get("session_id"):
        answer = schema.response(header.key, header.version).blank()
        _add_withheld(answer, header.key, header.version, asked)
        state.pending.push(Local(shown(header.key, header.version, header.correlation_id, answer)))
        return
    if resized or asked.withheld or dropped:
        body: list[bytes | memoryview] = []
        codec.write(request, body)
        state.send(wire.request_frame(header, frame, body))
    else:
        state.send(wire.sized(frame))
    state.pending.push(Sent(header.key, header.version, header.correlation_id, state.viewer.policy, asked=asked))


def _is_own_session(state: State, request: Message) -> bool:
    """Whether a request bears all its partitions, or adds to a session with sizes that are known. A client that is told
    that there is no such session begins a new one."""
    if request.get("session_epoch", NO_SESSION) in (NEW_SESSION, NO_SESSION):
        return True
    return state.knows_session(request["session_id"])


def _is_replica(request: Message) -> bool:
    replica = request.get("replica_state") or request
    return bool(replica.get("replica_id", -1) >= 0)


def _refuse_whole(state: State, header: RequestHeader, request: Message) -> None:
    """No partition of the request is served; the code that consumers raise as an error."""
    answer = schema.response(header.key, header.version).blank()
    asked = Asked(withheld={_topic(topic): _partitions(topic) for topic in request["topics"] or ()})
    _add_withheld(answer, header.key, header.version, asked)
    state.pending.push(Local(shown(header.key, header.version, header.correlation_id, answer)))


def _topic(topic: Message) -> bytes:
    """The name of a topic as requests and answers have it, or its id."""
    return bytes(topic["topic_id"] if "topic_id" in topic else topic["topic"] or b"")


def _partitions(topic: Message) -> list[int]:
    return [each["partition"] if "partition" in each else each["partition_index"] for each in topic["partitions"] or ()]


def name_of(state: State, topic: Message) -> bytes | None:
    """The name of a topic in a message; None for an id that nobody has named."""
    return state.cluster.name(topic["topic_id"]) if "topic_id" in topic else topic["topic"]


def know_names(state: State, ids: list[bytes]) -> Steps[None]:
    """Asks the broker, as the reader itself, for names of the ids that are not known, and waits for what it says. An id
    that it does not name to this reader stays unknown."""
    unknown = [each for each in dict.fromkeys(ids) if each != NO_ID and state.cluster.name(each) is None][:MOST_IDS]
    if not unknown:
        return
    question = {
        "topics": [{"topic_id": each, "name": None} for each in unknown],
        "allow_auto_topic_creation": 0,
        "include_topic_authorized_operations": 0,
    }
    state.send(wire.own_request(METADATA, METADATA_VERSION, OUR_ID, OURS, question))
    sent = Sent(METADATA, METADATA_VERSION, OUR_ID, state.viewer.policy, ours=True)
    state.pending.push(sent)
    yield from state.flush()
    while state.pending.holds(sent):
        yield Hold()


def learn(state: State, frame: bytes) -> None:
    """The answer to what `know_names` asks."""
    at = wire.response_body_at(frame, METADATA, METADATA_VERSION)
    answer, _ = schema.response(METADATA, METADATA_VERSION).read_until(frame, at, "topics")  # the rest tells nothing
    for topic in answer["topics"] or ():
        if topic["error_code"] == 0 and topic["name"]:
            state.cluster.learn(topic["topic_id"], topic["name"])


def _without_internal(state: State, header: RequestHeader, request: Message, asked: Asked) -> Steps[None]:
    """Takes out topics that hold what is nobody's business: offsets, transactions, the cluster's own state."""
    kept = []
    for topic in request["topics"] or ():
        name = name_of(state, topic)
        if name in INTERNAL:
            asked.withheld[_topic(topic)] = _partitions(topic)
            yield from state.note(IS_INTERNAL, name, OPERATIONS[header.key])
        else:
            kept.append(topic)
    if asked.withheld:
        request["topics"] = kept


def _resize(state: State, header: RequestHeader, request: Message, asked: Asked) -> bool:
    """Asks with Veil's own sizes, if what is read may be masked."""
    rooms = state.rooms
    rooms.under(state.viewer.policy)
    for topic in request["topics"] or ():
        name = name_of(state, topic)
        masked = name is None or state.viewer.view(state.topic(name)).masks
        rooms.any_masked |= masked
        for each in topic["partitions"] or ():
            if "partition_max_bytes" in each:
                rooms.put(_topic(topic), each["partition"], each["partition_max_bytes"])
                if masked:
                    each["partition_max_bytes"] = PARTITION_BYTES
    if not rooms.any_masked and header.key != SHARE_FETCH:  # a share session may be another connection's
        return False
    asked.max_bytes = request.get("max_bytes", ANSWER_BYTES)
    request["max_bytes"] = ANSWER_BYTES
    request["min_bytes"] = min(request["min_bytes"], 1)
    return True


def answered(state: State, sent: Sent, frame: bytes) -> Steps[Shown | None]:
    """The broker's answer as the reader sees it; None where that is the very frame."""
    codec, at = schema.response(sent.key, sent.version), wire.response_body_at(frame, sent.key, sent.version)
    answer, dropped = codec.known(frame, at)
    dropped |= wire.has_header_tags(at)
    if sent.asked is not None and sent.asked.opens_session and answer.get("session_id"):
        state.opened_session(answer["session_id"], sent.policy)
    named = addresses.nodes(sent.key, answer)
    places = (yield from state.flushed(advertise(named))) if named else {}
    while True:
        policy = state.viewer.policy
        views = yield from _views(state, sent, answer)
        outcome = _show(state, sent, answer, views, places)
        if state.viewer.is_still(policy):
            if outcome is None and dropped:
                return shown(sent.key, sent.version, sent.correlation_id, answer)
            return outcome
        answer, _ = codec.known(frame, at)  # a policy came while this was masked, or a read recorded


def _views(state: State, sent: Sent, answer: Message) -> Steps[dict[bytes, tuple[View, ...]]]:
    """The views of the topics that the answer has records of, each lifted where that is on record by now."""
    found: dict[bytes, tuple[View, ...]] = {}
    for topic in answer["responses"] or ():
        name = name_of(state, topic)
        if name is None or name in INTERNAL:
            continue
        shows = any(each["records"] and has_records(each["records"]) for each in topic["partitions"] or ())
        found[_topic(topic)] = yield from state.views(name, OPERATIONS[sent.key], sent.policy, may_lift=shows)
    return found


def _show(
    state: State, sent: Sent, answer: Message, views: dict[bytes, tuple[View, ...]], places: Mapping[int, Endpoint]
) -> Shown | None:
    asked = sent.asked or Asked()
    changed = bool(asked.withheld) or bool(answer.get("node_endpoints"))
    if changed:
        addresses.rewrite(sent.key, answer, places)
        _add_withheld(answer, sent.key, sent.version, asked)
    cutter = _Cutter(state, sent.key, asked)
    for topic in answer["responses"] or ():
        own = views.get(_topic(topic))
        lens = None
        if own is not None and any(view.covered for view in own):
            lens = Lens(own, state.cluster, markers=state.settings.markers)
        for each in topic["partitions"] or ():
            if not each["records"]:
                continue
            changed |= cutter.show(topic, each, lens, known=own is not None)
        if lens is not None:
            state.viewer.tally.count(*lens.counts())
    if answer.get("throttle_time") and (cutter.is_masked or asked.max_bytes is not None):
        answer["throttle_time"] = 0  # it tells the size of the answer as the broker made it; that one waits all the same
        changed = True
    return shown(sent.key, sent.version, sent.correlation_id, answer) if changed else None


class _Cutter:
    """Shows the partitions of one answer in turn, as far as the reader's sizes reach."""

    def __init__(self, state: State, key: int, asked: Asked) -> None:
        self._state = state
        self._is_share = key == SHARE_FETCH
        self._left = asked.max_bytes
        self._first = True
        self.is_masked = False
        """Something of the answer is masked."""
        self._opened = Bounds(opened_bytes=state.viewer.policy.limits.max_value_bytes)

    def show(self, topic: Message, partition: Message, lens: Lens | None, *, known: bool) -> bool:
        """Puts what may be shown in place of the partition's records; False where those are shown as they are."""
        if not known:
            self._withhold(topic, partition)
            return True
        records = partition["records"]
        room = None
        if self._left is not None and not self._is_share:  # of a share group every record that was acquired is shown
            room = min(self._left, self._state.rooms.of(_topic(topic), partition["partition_index"]))
        if lens is None:
            if room is None:
                return False
            end = whole_batches(records, room, at_least_one=self._first)
            self._took(end)
            partition["records"] = records[:end]
            return end != len(records)
        self.is_masked = True
        try:
            spliced = splice(records, lens.edit, bounds=self._opened, room=room, at_least_one=self._first)
        except BadRecords:
            self._withhold(topic, partition)
            return True
        if self._is_share and spliced.cut:
            self._withhold(topic, partition)
            return True
        self._took(spliced.size)
        partition["records"] = spliced.parts
        return True

    def _took(self, size: int) -> None:
        if size:
            self._first = False
        if self._left is not None:
            self._left = max(0, self._left - size)

    def _withhold(self, topic: Message, partition: Message) -> None:
        if "topic_id" in topic and self._state.cluster.name(topic["topic_id"]) is None and len(self._state.unnamed) < MOST_IDS:
            self._state.unnamed.add(topic["topic_id"])
        _withheld(partition)
        self._state.viewer.tally.count({}, {"records could not be read": 1})


def _withheld(partition: Message) -> None:
    """Code and marks of a partition that is not shown; what was acknowledged with it stays acknowledged."""
    partition["error_code"] = refuse.TOPIC_AUTHORIZATION_FAILED
    partition["records"] = b""
    if "acquired_records" in partition:
        partition["acquired_records"] = []


def _add_withheld(answer: Message, key: int, version: int, asked: Asked) -> None:
    topic_codec = schema.response(key, version).item("responses")
    partition_codec = topic_codec.item("partitions")
    responses = list(answer["responses"] or ())
    for name, partitions in asked.withheld.items():
        topic = topic_codec.blank()
        topic["topic_id" if "topic_id" in topic else "topic"] = name
        topic["partitions"] = []
        for index in partitions:
            one = partition_codec.blank()
            one["partition_index"] = index
            _withheld(one)
            topic["partitions"].append(one)
        responses.append(topic)
    answer["responses"] = responses
