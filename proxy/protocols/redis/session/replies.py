"""The server's half of a session: each reply is matched with its command and shown through the lens.

A reply that nothing masks is streamed as it comes. One that may hold what is masked is read whole first: a
shape that turns out wrong at its end must be able to hide its beginning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.core.buffer import Buffer, Parse
from proxy.core.errors import WireError
from proxy.core.outbox import FLUSH_BYTES, Loop
from proxy.core.steps import Close, Steps
from proxy.core.viewer import Read, Viewer
from rules.model import Kind
from rules.policy import Policy
from rules.view import Shown, View, plain

from .. import refuse, wire
from ..contents import SHAPES
from ..contents.diagnostics import monitor_line
from ..contents.lens import Lens, passing, shown
from ..surface import Treatment
from ..surface.judge import Refused
from ..wire import Node
from .pending import Local, Role, Sent
from .state import State
from .subscriptions import INVALIDATIONS, message

MONITOR_LINE = re.compile(rb"\d{1,20}\.\d{6} \[")
QUEUED = b"QUEUED"
LEADS_AWAY = frozenset({b"MOVED", b"ASK", b"REDIRECT"})
CARRIES_AWAY = frozenset({"copy", "script", "unknown"})
"""Categories of what may do its work long after it was sent, behind a command that blocks, and then under other rules."""
DIAGNOSTICS = frozenset({Treatment.MASK_ARGS, Treatment.MASK_WHOLE})
"""Reads of all of the connection, which a permission on all of it opens, recorded when the reply is there."""


@dataclass(frozen=True, slots=True)
class Glance:
    """How a reply is to be shown at one moment: refused after all, or by a shape through a lens.

    `views` are those of the command's own keys; a reply of which none masks passes as it comes.
    """

    policy: Policy
    lapsed: bool
    refused: Refused | None
    shape: str | None
    lens: Lens
    views: tuple[View, ...]

    def holds(self, item: Sent, viewer: Viewer) -> bool:
        """Nothing changed since."""
        return self.policy is viewer.policy and self.lapsed == viewer.lapsed(item.read)


def _liftable(item: Sent, lens: Lens) -> tuple[View, ...]:
    """What was masked of a reply and might be lifted."""
    seen = [view for key in sorted(lens.touched) for view in lens.views(key)]
    if item.verdict.row.treatment in DIAGNOSTICS:
        seen += lens.anything
    return tuple(dict.fromkeys(view for view in seen if view.masks and view.may_lift))


class Replies:
    def __init__(self, state: State, buffer: Buffer) -> None:
        self._state = state
        self._buffer = buffer
        self._aside = wire.Aside()
        self._cleared = 0

    def run(self) -> Loop:
        """For as long as the connection lives."""
        while True:
            while self._buffer.peek() < 0:  # only what is there belongs to the head: more may be sent meanwhile
                yield None
            head = self._state.pending.head()
            if isinstance(head, Sent) and head.role is Role.COPY_STREAM:
                yield from self._pass_raw()
            kind, line = yield from wire.head(self._buffer)
            yield from self._one(kind, line)
            self._state.mid_frame = False
            for push in self._aside.release():
                yield from self._clear_the_way()
                self._push(push)
            if self._state.owes_invalidation:
                self._state.owes_invalidation = False
                told = self._state.owed_invalidation()
                if told is not None:
                    self._state.say(told)
            if self._state.is_long:
                yield from self._state.flush()

    def must_end(self, what: str) -> str:
        """Why the connection cannot live on under the policy of now and after `what`; "" if it can."""
        state = self._state
        if state.raw is not None and state.viewer.recorded(state.viewer.anything(), state.raw).masks:
            return f"{what} while the data set was being copied"
        if state.tracking == "redirect":
            return f"{what}, and what another connection caches cannot be forgotten"
        in_flight = [item for item in state.pending if isinstance(item, Sent)]
        if any(item.role is Role.EXEC for item in in_flight):  # what is merely queued is judged again at EXEC
            in_flight += state.queued or ()
        for item in in_flight:
            if item.verdict.row.category in CARRIES_AWAY:
                if isinstance(state.judge_again(item.argv, item.read), Refused):
                    return f"{what}: a command which was waiting would be refused now"
        return ""

    def _pass_raw(self) -> Loop:
        read = self._state.raw
        assert read is not None
        viewer = self._state.viewer
        while True:
            while data := self._buffer.some(FLUSH_BYTES):
                view = viewer.recorded(viewer.anything(), read)
                if view.masks:
                    yield Close("unmasked copying of the data set has lapsed")
                    return
                self._state.say(view.untouched(data))
                yield from self._state.flush()
            yield None

    def _one(self, kind: int, line: bytes) -> Loop:
        """One value of the server's stream: a reply, a push, a message, a line of MONITOR."""
        state = self._state
        if kind == wire.PUSH:
            node = yield from self._read(kind, line)
            if node is not None:
                yield from self._clear_the_way()
                self._push(node)
        elif kind == wire.ATTRIBUTE:
            yield from wire.discard(self._buffer, wire.kids_of(kind, line))
        elif state.monitor is not None and kind == wire.SIMPLE and MONITOR_LINE.match(line):
            self._monitor_line(Node(kind, line), state.monitor)
        elif state.version == 2 and kind == wire.ARRAY and state.subscriptions:
            node = yield from self._read(kind, line)
            if node is None:
                raise WireError("too large to tell a message from a reply")
            yield from self._clear_the_way()
            if not self._deliver(node):
                yield from self._reply_node(state.pending.sent(), node)
        else:
            yield from self._reply(state.pending.sent(), kind, line)

    # --- what comes without being asked for --------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        """RESP3: a message, a confirmation, an invalidation; anything else is dropped."""
        kids = node.kids or []
        word = kids[0].body if kids else None
        head = self._state.pending.head()
        if self._deliver(node):
            return
        if word == b"invalidate":
            self._state.say(shown(node))
        elif isinstance(head, Sent) and head.role in (Role.SUBSCRIBE, Role.UNSUBSCRIBE):
            self._confirm(head, node)
        elif self._state.subscriptions.confirm(node, self._state.viewer.begin()) is not None:
            self._state.say(shown(node))  # the server ended a subscription by itself

    def _deliver(self, node: Node) -> bool:
        """Shows a Pub/Sub message by the rules of its channel; False if it is none."""
        found = message(node)
        if found is None:
            return False
        kind, channel, at = found
        assert node.kids is not None
        payload = node.kids[at]
        while True:
            node.kids[at], lens = self._payload(kind, channel, payload)
            if not self._state.viewer.look():
                break  # else a policy came while it was masked
        self._count(lens)
        self._state.say(shown(node))
        return True

    def _payload(self, kind: bytes, channel: bytes, payload: Node) -> tuple[Node, Lens]:
        viewer = self._state.viewer
        read = self._state.subscriptions.read_of(kind, channel)
        view = viewer.view(viewer.resource(Kind.KEY, channel))
        if read is not None:
            view = viewer.recorded(view, read)
        lens = Lens(lambda _: (view,), lambda: (viewer.anything(),))
        if payload.kids is None:
            return lens.value(channel, payload), lens
        if channel != INVALIDATIONS and lens.masks_anything:
            return lens.hide(payload), lens
        return payload, lens

    def _monitor_line(self, node: Node, read: Read) -> None:
        viewer = self._state.viewer
        lens = Lens(lambda _: (), lambda: (viewer.recorded(viewer.anything(), read),))
        line = monitor_line(node, lens)
        if line is not None:
            self._state.say(shown(line))

    def _confirm(self, item: Sent, node: Node) -> None:
        state = self._state
        if item.answers == 0:
            item.answers = state.subscriptions.expected(item.argv[0].upper())
        if state.subscriptions.confirm(node, item.read) is None:
            raise WireError("a confirmation that is none")
        if state.subscriptions.hears_invalidations:
            state.viewer.remember(item.read)
        state.say(shown(node))
        item.answers -= 1
        if item.answers == 0:
            self._pop()

    # --- replies -----------------------------------------------------------------------------------------------------

    def _reply(self, item: Sent, kind: int, line: bytes) -> Loop:
        state = self._state
        if item.role is Role.EXEC and kind == wire.ARRAY and wire.count_of(line, wire.MAX_ARGS) >= 0:
            yield from self._exec(line)
        elif item.role is Role.PLAIN and kind not in wire.LINES and kind != wire.BULK_ERROR:
            state.logged_in = True
            yield from self._contents(item, kind, line)
        else:
            node = yield from self._read(kind, line)
            if node is not None:
                yield from self._reply_node(item, node)
                return
            self._say(item, refuse.TOO_LARGE)
        self._pop()

    def _reply_node(self, item: Sent, node: Node) -> Loop:
        """A reply that is held whole already."""
        state = self._state
        if not (node.is_error and node_text(node).startswith(b"NOAUTH")):
            state.logged_in = True
        if item.role in (Role.SUBSCRIBE, Role.UNSUBSCRIBE) and not node.is_error:
            self._confirm(item, node)
            return
        if item.role is Role.EXEC and not (node.is_error or node.is_null or node.kind == wire.SIMPLE):
            raise WireError("EXEC answered in a form whose parts cannot be told")
        if item.role is Role.EXEC_REFUSED:
            state.queued = None
            self._say(item, refuse.EXECABORT)
        elif state.queued is not None and node.kind == wire.SIMPLE and node.line == QUEUED:
            state.queued.append(item)
            self._say(item, shown(node))
        elif node.is_error:
            self._take_error(item)
            self._say(item, shown(self._error(item, node)))
        else:
            self._take_yes(item, node)
            if item.role is Role.LOGIN:
                yield from state.settle()
            yield from self._show(item, node)
        self._pop()

    def _take_yes(self, item: Sent, node: Node) -> None:
        """What a reply that is no error changes."""
        state = self._state
        said_ok = node.kind == wire.SIMPLE and node.line == b"OK"
        match item.role:
            case Role.LOGIN:
                claim = item.claim
                is_yes = said_ok if item.argv[0].upper() == b"AUTH" else node.kids is not None
                if claim is not None and is_yes and state.queued is None:
                    if claim.sets_name:
                        state.viewer.named(claim.name)
                    if claim.version is not None:
                        state.version = claim.version
            case Role.RESET:
                if node.kind == wire.SIMPLE and node.line == b"RESET":
                    state.viewer.named(None)
                    state.version, state.queued, state.monitor, state.tracking = 2, None, None, ""
                    state.subscriptions.clear()
            case Role.MULTI:
                if said_ok:
                    state.queued = []
            case Role.EXEC | Role.DISCARD:
                state.queued = None
            case Role.MONITOR:
                if said_ok:
                    state.monitor = item.read
            case Role.TRACKING:
                if said_ok:
                    words = {word.upper() for word in item.argv[2:]}
                    on = "redirect" if b"REDIRECT" in words else "on"
                    state.tracking = on if item.argv[2].upper() == b"ON" else ""

    def _take_error(self, item: Sent) -> None:
        if item.role is Role.EXEC:
            self._state.queued = None
        elif item.role is Role.LOGIN and item.argv[0].upper() == b"HELLO" and item.claim is not None and item.claim.sets_name:
            # Redis 7.0 carries HELLO out word by word: a login may stand behind the error of a later word.
            self._state.viewer.named(None)

    def _exec(self, line: bytes) -> Loop:
        """The array that EXEC answers: element i by the row of the i-th command that was queued."""
        state = self._state
        item = state.pending.sent()
        queued, state.queued = state.queued or [], None
        if wire.count_of(line, wire.MAX_ARGS) != len(queued):
            raise WireError("EXEC answered another number of replies than commands were queued")
        self._say(item, plain(b"*%b\r\n" % line))
        for each in queued:
            state.mid_frame = True
            each.mute = item.mute
            kind, rest = yield from wire.head_within(self._buffer, self._aside)
            if kind in (wire.ERROR, wire.BULK_ERROR):
                node = yield from self._read(kind, rest)
                if node is not None:
                    self._say(each, shown(self._error(each, node)))
            elif each.role is Role.TRACKING:
                node = yield from self._read(kind, rest)
                if node is not None:
                    self._take_yes(each, node)
                    yield from self._show(each, node)
            else:
                yield from self._contents(each, kind, rest)

    def _contents(self, item: Sent, kind: int, line: bytes) -> Loop:
        """Shows one reply value whose head was taken: streamed, masked, or replaced by a refusal."""
        state = self._state
        glance = self._glance(item)
        masking = [view for view in glance.views if view.masks]
        lifted = False
        liftable = glance.shape == "value" and any(view.may_lift for view in masking)
        if liftable and kind == wire.BULK and wire.count_of(line, wire.MAX_BULK) >= 0:
            lifted = True  # a large value may then be streamed
            yield from state.lift(tuple(masking), item.read, item.verdict.row.name)
            glance = self._glance(item)
            masking = [view for view in glance.views if view.masks]
        if glance.refused is not None:
            yield from self._discard(kind, line)
            yield from self._refuse(item, glance.refused)
        elif not masking:
            yield from self._stream(item, kind, line, glance.views)
        else:
            node = yield from self._read(kind, line, state.viewer.policy.limits.max_value_bytes)
            if node is None:
                self._say(item, refuse.TOO_LARGE)
            else:
                yield from self._show(item, node, glance, lift=not lifted)

    def _show(self, item: Sent, node: Node, glance: Glance | None = None, *, lift: bool = True) -> Steps[None]:
        """Lays the shape over a reply that is held whole, after what may be lifted was recorded.

        A glance from before the reply was there serves if nothing changed since.
        """
        state = self._state
        yield from self._clear_the_way()
        if glance is None or not glance.holds(item, state.viewer):
            glance = self._glance(item)
        if glance.refused is not None:
            yield from self._refuse(item, glance.refused)
            return
        if glance.shape is None:
            self._say(item, shown(node))
            return
        laid = SHAPES[glance.shape](item.argv, node, glance.lens, state.version)
        wanted = _liftable(item, glance.lens) if lift else ()
        if wanted:
            yield from state.lift(wanted, item.read, item.verdict.row.name)
            yield from self._show(item, node, lift=False)
            return
        data = shown(laid)
        if state.viewer.look():  # a policy came while this was masked
            yield from self._show(item, node, lift=lift)
            return
        self._count(glance.lens)
        self._say(item, data)

    def _glance(self, item: Sent) -> Glance:
        """What the reply may be shown as under the policy of now."""
        viewer, verdict = self._state.viewer, item.verdict
        policy, lapsed = viewer.policy, viewer.lapsed(item.read)
        lens = Lens(lambda key: self._views(item, key), lambda: self._anything(item))
        shape = verdict.shape
        if item.policy is not policy or lapsed:
            again = self._state.judge_again(item.argv, item.read)
            if isinstance(again, Refused):
                return Glance(policy, lapsed, again, None, lens, ())
            if verdict.argv == item.argv:  # it went up as it was said; what would be rewritten now is hidden
                shape = again.shape if again.argv == item.argv else "hidden"
        if shape is None:  # names and counts, whoever reads and whatever is hidden of the key
            return Glance(policy, lapsed, None, None, lens, ())
        views = tuple(view for key in verdict.keys for view in lens.views(key))
        if verdict.by_anything:
            views += lens.anything
        return Glance(policy, lapsed, None, shape, lens, views)

    def _views(self, item: Sent, key: bytes) -> tuple[View, ...]:
        """The views of a key under the policy of now and, if it changed, under that of the request."""
        viewer = self._state.viewer
        resource = viewer.resource(Kind.KEY, key)
        now = viewer.recorded(viewer.view(resource), item.read)
        if item.policy is viewer.policy:
            return (now,)
        return (now, viewer.recorded(viewer.view(resource, item.policy), item.read))

    def _anything(self, item: Sent) -> tuple[View, ...]:
        viewer = self._state.viewer
        if item.verdict.row.treatment is Treatment.MASK_REPLY:  # counters stay zeroed for everybody
            return (viewer.anything(), viewer.anything(item.policy))
        return (viewer.recorded(viewer.anything(), item.read), viewer.recorded(viewer.anything(item.policy), item.read))

    def _refuse(self, item: Sent, refused: Refused) -> Steps[None]:
        """A rule came between the command and its reply that would have refused the command."""
        self._say(item, refuse.refusal(refused.row.spoken(item.argv), refused.key, refused.refusal))
        yield from self._state.flush()
        yield self._state.noted(refused)

    def _error(self, item: Sent, node: Node) -> Node:
        """An error as it may be shown: addresses never, a module's own text not where a rule masks."""
        text = node_text(node)
        if text.split(b" ", 1)[0] in LEADS_AWAY:
            return Node(wire.ERROR, refuse.ELSEWHERE)
        row = item.verdict.row
        if ("." in row.command or row.category == "script") and any(view.masks for view in self._anything(item)):
            return Node(wire.ERROR, refuse.hidden_text(text))
        return node

    def _clear_the_way(self) -> Steps[None]:
        """Hands over what was said before, when it is long since that was done: a rule that comes while something large
        is masked could not take it back."""
        taken = self._buffer.taken
        if taken - self._cleared > FLUSH_BYTES:
            self._cleared = taken
            yield from self._state.flush()

    # --- bytes -------------------------------------------------------------------------------------------------------

    def _say(self, item: Sent, data: Shown) -> None:
        if not item.mute:
            self._state.say(data)

    def _read(self, kind: int, line: bytes, most_bytes: int = wire.MAX_BULK) -> Parse[Node | None]:
        return wire.read(self._buffer, kind, line, most_bytes, aside=self._aside)

    def _discard(self, kind: int, line: bytes) -> Loop:
        for _ in wire.stream(self._buffer, kind, line, keep_attributes=True, aside=self._aside):
            if _ is None:
                yield None

    def _stream(self, item: Sent, kind: int, line: bytes, views: tuple[View, ...]) -> Loop:
        state = self._state
        whole = wire.ready(self._buffer, kind, line)
        if whole is not None:
            self._say(item, passing(whole, views))
            return
        glance = self._glance(item)
        keep = not state.viewer.anything().masks
        for piece in wire.stream(self._buffer, kind, line, keep, self._aside):
            if piece is None:
                yield None
                continue
            if not glance.holds(item, state.viewer):  # while more came, or while the reader took what was there
                glance = self._glance(item)
                if glance.refused is not None or any(view.masks for view in glance.views):
                    raise WireError("a rule came that masks a reply which was streaming, or its read has lapsed")
            state.mid_frame = True
            self._say(item, passing(piece, views))
            if state.is_long:
                yield from state.flush()

    def _pop(self) -> None:
        item = self._state.pending.sent()
        self._state.pending.pop()
        if self._state.login is item:
            self._state.login = None
        while isinstance(head := self._state.pending.head(), Local):  # their turn has come
            self._state.say(head.answer)
            self._state.pending.pop()

    def _count(self, lens: Lens) -> None:
        self._state.viewer.tally.count(lens.hits, lens.wholes)


def node_text(node: Node) -> bytes:
    return node.line if node.body is None else node.body
