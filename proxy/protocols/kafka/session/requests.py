"""From the reader to the broker: which requests go up, and as what.

Most go up as they came. What the table says no to is answered here, in its turn; what is not understood ends the
connection. `fetching` and `producing` hold what is particular to those.
"""

from __future__ import annotations

from proxy.core.buffer import Buffer
from proxy.core.outbox import Loop
from proxy.core.steps import Close, Hold, Steps
from rules.model import Refusal
from rules.view import Shown

from .. import refuse, schema, wire
from ..schema import Message
from ..surface import Act, Row, lets_through, row
from ..wire import RequestHeader
from . import fetching, producing
from .frames import shown, versions_of_versions
from .identity import Login
from .pending import Local, Sent
from .state import State

FRAME_BYTES = 100 * 1024 * 1024  # a broker's own default (socket.request.max.bytes)
STRANGER_BYTES = 1024 * 1024  # of whoever may still have to log in
API_VERSIONS, SASL_HANDSHAKE, DESCRIBE_CLUSTER = 18, 17, 60
BROKER_RESOURCES = (4, 8)  # a broker's own configs, and its loggers
CONTROLLERS = 2  # a kind of endpoint (KIP-919)


class Requests:
    def __init__(self, state: State, buffer: Buffer) -> None:
        self._state = state
        self._buffer = buffer

    def run(self) -> Loop:
        """Yields steps, and None when more bytes must arrive."""
        state = self._state
        while True:
            while not len(self._buffer):
                yield None
            limit = FRAME_BYTES if state.logged_in else STRANGER_BYTES
            frame = yield from wire.frame(self._buffer, limit)
            while state.pending.is_full or state.login_under_way:
                yield from state.flush()
                yield Hold()
            yield from self._request(frame)
            state.release()
            if state.is_long:
                yield from state.flush()

    def _request(self, frame: bytes) -> Steps[None]:
        key, version, correlation_id = wire.peek(frame)
        found = row(key)
        if key == API_VERSIONS and found is not None and not lets_through(key, version):
            self._answer(versions_of_versions(correlation_id, found.versions[0], found.versions[-1]))
            return
        if found is None or not lets_through(key, version):
            yield from self._not_listed(key, version, correlation_id, found)
            return
        header = wire.request_header(frame)
        match found.act:
            case Act.MASK:
                yield from fetching.ask(self._state, header, frame)
            case Act.JUDGE_WRITE:
                yield from producing.write(self._state, header, frame)
            case Act.LOGIN:
                self._login(header, frame)
            case Act.GUARD:
                yield from self._guarded(found, header, frame)
            case Act.ADDRESSES if header.key != DESCRIBE_CLUSTER:  # what they ask is not judged, nor how whole they are
                self._pass_on(header, frame)  # librdkafka leaves bytes behind a Metadata for all topics
            case Act.BROKER_CONFIG | Act.FOLLOWER | Act.ADDRESSES:
                yield from self._looked_at(found, header, frame)
            case Act.PASS | Act.SIZES | Act.VERSIONS:
                self._pass_on(header, frame)
            case Act.REFUSE:
                yield from self._not_listed(key, version, correlation_id, found)

    def _pass_on(self, header: RequestHeader, frame: bytes) -> None:
        state = self._state
        state.send(wire.sized(frame))
        state.pending.push(Sent(header.key, header.version, header.correlation_id, state.viewer.policy))

    def _answer(self, answer: Shown) -> None:
        self._state.pending.push(Local(answer))

    def _not_listed(self, key: int, version: int, correlation_id: int, found: Row | None) -> Steps[None]:
        """What the table lets nobody do, in this version or at all: it could not be told what it reveals."""
        name = f"API {key}" if found is None else found.name
        refusal = Refusal(None, reason=f"version {version} is not carried through")
        yield from self._state.note(refusal, None, name)
        told = refuse.answer(key, version, None, refuse.UNSUPPORTED_VERSION, refuse.text(name, refusal))
        if told is None or key == SASL_HANDSHAKE:  # after its version 0 come bytes that are no frames
            yield from self._state.flush()
            yield Close("an API that is not carried through")
            return
        self._answer(shown(key, version, correlation_id, told))

    def _login(self, header: RequestHeader, frame: bytes) -> None:
        state = self._state
        request = schema.request(header.key, header.version).read(frame, header.body_at)
        sent = Sent(header.key, header.version, header.correlation_id, state.viewer.policy)
        if header.key == SASL_HANDSHAKE:
            state.login = Login(request["mechanism"] or b"", state.settings.token_claim)
        else:
            login = state.login or Login(b"", None)
            sent.claim = login.says(request["auth_bytes"] or b"")
        state.login_under_way = True
        state.send(wire.sized(frame))
        state.pending.push(sent)

    def _guarded(self, found: Row, header: RequestHeader, frame: bytes) -> Steps[None]:
        """What creates, changes or shows credentials and permissions, while any rule masks for the reader."""
        view = yield from self._state.anything(found.name)
        if view.refusal is None:
            self._pass_on(header, frame)
            return
        yield from self._refuse(found, header, frame, view.refusal, refuse.CLUSTER_AUTHORIZATION_FAILED)

    def _looked_at(self, found: Row, header: RequestHeader, frame: bytes) -> Steps[None]:
        request = schema.request(header.key, header.version).front(frame, header.body_at)
        reason = _why_not(found.act, request)
        if not reason:
            self._pass_on(header, frame)
            return
        refusal = Refusal(None, reason=reason)
        yield from self._refuse(found, header, frame, refusal, refuse.CLUSTER_AUTHORIZATION_FAILED)

    def _refuse(self, found: Row, header: RequestHeader, frame: bytes, why: Refusal, code: int) -> Steps[None]:
        yield from self._state.note(why, None, found.name)
        request = schema.request(header.key, header.version).front(frame, header.body_at)
        told = refuse.answer(header.key, header.version, request, code, refuse.text(found.name, why))
        if told is None:
            yield from self._state.flush()
            yield Close("a request that is refused, with no room to say so")
            return
        self._answer(shown(header.key, header.version, header.correlation_id, told))


def _why_not(act: Act, request: Message) -> str:
    """Why a request may not go up whatever the rules; "" if it may."""
    if act is Act.BROKER_CONFIG:
        touched = any(each["resource_type"] in BROKER_RESOURCES for each in request["resources"] or ())
        return "configs of brokers are not changed through Veil" if touched else ""
    if act is Act.FOLLOWER:
        return "it is a replica's request" if request.get("replica_id", -1) >= 0 else ""
    return "controllers are not told of" if request.get("endpoint_type") == CONTROLLERS else ""
