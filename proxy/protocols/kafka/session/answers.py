"""From the broker to the reader: which answer is whose, and what of it is shown."""

from __future__ import annotations

from proxy.core.addresses import Endpoint
from proxy.core.buffer import Buffer
from proxy.core.outbox import Loop
from proxy.core.steps import Close, Steps, advertise
from rules.view import Shown

from .. import addresses, refuse, schema, wire
from ..schema import Message
from ..surface import ROWS, Act, row
from . import fetching, producing
from .frames import framed, shown, untouched, versions_of_versions
from .identity import AUTHENTICATE, HANDSHAKE, prove
from .pending import Sent
from .state import State

FRAME_BYTES = 128 * 1024 * 1024  # above the 100 MiB that clients take at most
PRODUCE, FETCH, METADATA, API_VERSIONS, SHARE_FETCH = 0, 1, 3, 18, 78
# Clients of librdkafka look for the first versions of these, whichever they then use: without them they take a broker for
# one that cannot compress, and (until 2.0 at least) for one that knows no logins.
FROM_0 = frozenset({PRODUCE, HANDSHAKE})
BEFORE_LOGIN = frozenset({API_VERSIONS, HANDSHAKE, AUTHENTICATE})
FIRST_WITH_TAGS = 9  # of Produce
LAST_BY_NAME = 12  # of Fetch and Produce: the last version whose requests name topics by name
NAMES_BY_ID = 12  # of Metadata: the first version that tells the name of an id
UNKNOWN_SIZE = -1  # as KIP-827 says it of a volume


class Answers:
    def __init__(self, state: State, buffer: Buffer) -> None:
        self._state = state
        self._buffer = buffer

    def run(self) -> Loop:
        """Yields steps, and None when more bytes must arrive."""
        state = self._state
        while True:
            frame = yield from wire.frame(self._buffer, FRAME_BYTES)
            sent = state.pending.sent(wire.response_correlation(frame))
            if sent.ours:
                fetching.learn(state, frame)
            else:
                self._look_at_login(sent.key)
                state.say((yield from self._answer(sent, frame)))
            state.pending.pop()
            state.release()
            if state.is_long:
                yield from state.flush()

    def _look_at_login(self, key: int) -> None:
        """Whoever is answered anything but the way to a login has one, or needs none. Where nobody needs one, a connection
        on which nothing was asked yet is no stranger's: clients keep such ones for later."""
        state = self._state
        if key not in BEFORE_LOGIN:
            state.cluster.is_open |= not state.was_named
            state.logged_in = True
        elif key == API_VERSIONS and state.cluster.is_open:
            state.logged_in = True

    def _answer(self, sent: Sent, frame: bytes) -> Steps[Shown]:
        found = row(sent.key)
        match None if found is None else found.act:
            case Act.MASK:
                return (yield from fetching.answered(self._state, sent, frame)) or untouched(frame)
            case Act.JUDGE_WRITE:
                return (yield from self._written(sent, frame))
            case Act.VERSIONS:
                return self._versions(sent, frame)
            case Act.LOGIN:
                return (yield from self._logged_in(sent, frame))
            case Act.SIZES:
                return self._sizes(sent, frame)
            case Act.ADDRESSES:
                return (yield from self._addressed(sent, frame))
            case _:
                return untouched(frame)

    def _addressed(self, sent: Sent, frame: bytes) -> Steps[Shown]:
        codec = schema.response(sent.key, sent.version)
        at = wire.response_body_at(frame, sent.key, sent.version)
        if sent.key != METADATA:
            answer, _ = codec.known(frame, at)
            yield from self._rewrite(sent.key, answer)
            return shown(sent.key, sent.version, sent.correlation_id, answer)
        answer, behind = codec.read_until(frame, at, "brokers")  # thousands of topics stand behind them, which are copied
        yield from self._rewrite(sent.key, answer)
        body: list[bytes | memoryview] = []
        codec.write_until(answer, body, "brokers")
        return framed(sent.key, sent.version, sent.correlation_id, [*body, memoryview(frame)[behind:]])

    def _rewrite(self, key: int, answer: Message) -> Steps[None]:
        named = addresses.nodes(key, answer)
        places: dict[int, Endpoint] = {}
        if named:
            places.update((yield from self._state.flushed(advertise(named))))
        addresses.rewrite(key, answer, places)

    def _written(self, sent: Sent, frame: bytes) -> Steps[Shown]:
        if not sent.refused and sent.version < FIRST_WITH_TAGS:
            return untouched(frame)
        at = wire.response_body_at(frame, sent.key, sent.version)
        answer, _ = schema.response(sent.key, sent.version).known(frame, at)
        yield from self._rewrite(sent.key, answer)
        producing.add_refused(answer, sent)
        return shown(sent.key, sent.version, sent.correlation_id, answer)

    def _versions(self, sent: Sent, frame: bytes) -> Shown:
        """What the broker and the table both speak. A broker that does not know the version asked for says so in the
        oldest form (KIP-511), or in one that nobody can rely on: the client is told to ask in the oldest one."""
        at = wire.response_body_at(frame, sent.key, sent.version)
        if int.from_bytes(frame[at : at + 2], "big") == refuse.UNSUPPORTED_VERSION:
            return versions_of_versions(sent.correlation_id, 0, 0)
        answer, _ = schema.response(sent.key, sent.version).known(frame, at)
        told = {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"] or ()}
        answer["api_keys"] = [
            {"api_key": key, "min_version": lowest, "max_version": highest} for key, lowest, highest in _both_speak(told)
        ]
        return shown(sent.key, sent.version, sent.correlation_id, answer)

    def _logged_in(self, sent: Sent, frame: bytes) -> Steps[Shown]:
        state = self._state
        at = wire.response_body_at(frame, sent.key, sent.version)
        answer = schema.response(sent.key, sent.version).read(frame, at)
        if answer["error_code"] != 0:
            state.login = None
        elif sent.claim is not None and sent.claim.is_last(answer["auth_bytes"] or b""):
            yield from self._named(sent.claim.name)
            state.login = None
        state.login_under_way = False  # only now: while the name is looked at, nothing is judged
        return untouched(frame)

    def _named(self, name: str | None) -> Steps[None]:
        """The broker has said its last yes. A login that is renewed is the same one's (KIP-368), and renews no read."""
        state = self._state
        state.logged_in = True
        if state.was_named:
            if name != state.named:
                yield from state.flush()
                yield Close("the login changed")
            return
        state.was_named, state.named = True, name
        mechanism = b"" if state.login is None else state.login.mechanism
        claim = state.settings.token_claim
        state.viewer.prove = lambda who: prove(who, mechanism, claim)
        state.viewer.named(name)
        yield from state.settle()

    def _sizes(self, sent: Sent, frame: bytes) -> Shown:
        """How much room logs take, without what would tell the length of what is masked."""
        at = wire.response_body_at(frame, sent.key, sent.version)
        viewer = self._state.viewer
        if not (viewer.anything().masks or viewer.anything(sent.policy).masks):
            return untouched(frame)
        answer, _ = schema.response(sent.key, sent.version).known(frame, at)
        for result in answer["results"] or ():
            for field in ("total_bytes", "usable_bytes"):
                if field in result:
                    result[field] = UNKNOWN_SIZE
            for topic in result["topics"] or ():
                resource = self._state.topic(topic["name"] or b"")
                if viewer.view(resource).masks or viewer.view(resource, sent.policy).masks:
                    for each in topic["partitions"] or ():
                        each["partition_size"] = 0
        return shown(sent.key, sent.version, sent.correlation_id, answer)


def _both_speak(told: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(API key, lowest, highest version) of what is advertised.

    Where the broker cannot tell the name of a topic id, what speaks in ids is left out. What FROM_0 names counts from 0,
    though what is below the table's versions is refused all the same.
    """
    by_id = told.get(METADATA, (0, 0))[1] >= NAMES_BY_ID
    spoken: list[tuple[int, int, int]] = []
    for each in ROWS:
        if each.hidden or each.key not in told or (each.key == SHARE_FETCH and not by_id):
            continue
        lowest, highest = max(told[each.key][0], each.versions[0]), min(told[each.key][1], each.versions[-1])
        if each.key in (PRODUCE, FETCH) and not by_id:
            highest = min(highest, LAST_BY_NAME)
        if lowest <= highest:
            spoken.append((each.key, 0 if each.key in FROM_0 else lowest, highest))
    return spoken
