"""The reader's half of a session: commands are cut, judged, and sent in their canonical form."""

from __future__ import annotations

from proxy.core.buffer import Buffer
from proxy.core.errors import WireError
from proxy.core.outbox import FLUSH_BYTES, Loop
from proxy.core.steps import Hold, Steps, ToServer
from proxy.core.viewer import Read
from rules.model import Kind
from rules.view import Shown

from .. import refuse, wire
from ..surface import find
from ..surface.judge import Refused
from . import explained, identity
from .pending import MOST_BYTES, Local, Role, Sent, Transaction, weight_of
from .state import State
from .subscriptions import FAMILY, SUBSCRIBES

MOST_QUEUED_BYTES = 64 * MOST_BYTES  # of the commands of one transaction, which are kept to be judged again

UNANSWERED = frozenset({b"ACK", b"GETACK"})
"""Words of REPLCONF that a server answers with nothing, or with a frame of the replication stream."""

NEVER_IN_MULTI = frozenset({b"AUTH", b"HELLO", b"MONITOR", b"SYNC", b"PSYNC", *FAMILY})
"""What changes the reader or the stream itself: a server that queued it would do so in the middle of EXEC's reply."""

STATEFUL = frozenset({Role.MONITOR, Role.RESET, Role.LOGIN, Role.SUBSCRIBE, Role.UNSUBSCRIBE})
"""What may turn the connection into one that takes other commands, or answers them otherwise."""


class Requests:
    def __init__(self, state: State, buffer: Buffer) -> None:
        self._state = state
        self._buffer = buffer
        self._transaction: Transaction | None = None
        self._muted = False
        self._skips = 0

    @property
    def weight(self) -> int:
        """Of the transaction that is open: EXEC, four letters, judges all of it again."""
        return 0 if self._transaction is None else self._transaction.weight

    def run(self) -> Loop:
        """For as long as the connection lives."""
        while True:
            if self._state.raw is not None:
                yield from self._pass_raw()
            yield from self._hold_while_busy()
            try:
                argv = yield from wire.command(self._buffer)
            except WireError:
                yield from self._hold_until_answered()
                raise
            if argv:
                yield from self._take(argv)
            if self._state.is_long:
                yield from self._state.flush()

    def _pass_raw(self) -> Loop:
        """A replica talks to its primary: nothing of it is for us to read."""
        while True:
            while data := self._buffer.some(FLUSH_BYTES):
                yield ToServer(data)
            yield None

    def _hold_while_busy(self) -> Steps[None]:
        pending = self._state.pending
        if pending.is_full:
            while not pending.has_room:
                yield from self._state.flush()
                yield Hold()
        while self._state.login is not None:
            yield from self._state.flush()
            yield Hold()

    def _hold_until_answered(self) -> Steps[None]:
        while len(self._state.pending):
            yield from self._state.flush()
            yield Hold()

    def _take(self, argv: tuple[bytes, ...]) -> Steps[None]:
        verb = argv[0].upper()
        if self._transaction is not None and verb in NEVER_IN_MULTI and (verb != b"HELLO" or len(argv) > 1):
            self._refuse_here(refuse.inside_multi(find(argv).name))
        elif verb in (b"AUTH", b"HELLO"):
            claim = identity.auth(argv) if verb == b"AUTH" else identity.hello(argv)
            sent = yield from self._forward(argv, Role.LOGIN, claim)
            if sent is not None and (claim.sets_name or claim.version is not None):
                self._state.login = sent
        elif verb == b"RESET" and len(argv) == 1:
            self._transaction, self._muted, self._skips = None, False, 0
            self._state.login = yield from self._forward(argv, Role.RESET)
        elif verb == b"MULTI" and len(argv) == 1:
            if (yield from self._forward(argv, Role.MULTI)) is not None and self._transaction is None:
                self._transaction = Transaction()
        elif verb in (b"EXEC", b"DISCARD") and len(argv) == 1 and self._transaction is not None:
            yield from self._end_transaction(argv, verb)
        elif verb == b"CLIENT" and len(argv) > 1 and argv[1].upper() == b"REPLY":
            yield from self._client_reply(argv)
        elif verb in FAMILY:
            yield from self._subscribe(argv, verb)
        elif verb == b"VEIL":
            yield from self._veil(argv)
        elif verb == b"MONITOR":
            yield from self._monitor(argv)
        elif verb == b"REPLCONF" and any(word.partition(b"\0")[0].upper() in UNANSWERED for word in argv[1:]):
            yield from self._refuse_unanswered(argv)
        else:
            yield from self._forward(argv, _role_of(argv, verb))

    def _answer(self, answer: Shown) -> None:
        """Veil's own answer, in its turn."""
        if self._is_mute():
            return
        if len(self._state.pending):
            self._state.pending.push(Local(answer))
        else:
            self._state.say(answer)

    def _refuse_here(self, answer: Shown) -> None:
        """A refusal whatever the rules; a transaction that it stands in is aborted."""
        if self._transaction is not None:
            self._transaction.refused = True
        self._answer(answer)

    def _is_mute(self) -> bool:
        if self._skips:
            self._skips -= 1
            return True
        return self._muted

    def _forward(
        self,
        argv: tuple[bytes, ...],
        role: Role,
        claim: identity.Claim | None = None,
        answers: int = 1,
        read: Read | None = None,
        weight: int = 0,
    ) -> Steps[Sent | None]:
        """Judges a command and sends it, or answers the refusal; None when it was refused."""
        read = read or self._state.viewer.begin()
        if role is Role.MONITOR:  # a read that begins now and keeps going
            yield from self._state.lift((self._state.viewer.anything(),), read, "MONITOR")
        verdict = yield from self._state.judge(argv, read)
        if isinstance(verdict, Refused):
            yield from self._refuse(verdict, argv)
            return None
        transaction = self._transaction
        if transaction is not None and role is not Role.MULTI and role is not Role.RESET:
            transaction.size += sum(map(len, argv))
            if transaction.size > MOST_QUEUED_BYTES:
                raise WireError("a transaction larger than what is kept", refuse.TOO_LARGE)
            transaction.weight += weight_of(argv)
            transaction.queue.append((argv, read))
        mute = self._is_mute()
        sent = Sent(argv, verdict, self._state.viewer.policy, read, role, mute, claim, answers, weight=weight)
        self._state.pending.push(sent)
        self._state.send(wire.encode_command(verdict.argv))
        if role is Role.COPY_STREAM:
            self._state.raw = read  # before the flush: the answer may be there while that waits
            yield from self._state.flush()
        return sent

    def _refuse(self, verdict: Refused, argv: tuple[bytes, ...]) -> Steps[None]:
        if self._transaction is not None:
            self._transaction.refused = True
        self._answer(refuse.refusal(verdict.row.spoken(argv), verdict.key, verdict.refusal))
        yield self._state.noted(verdict)

    def _refuse_unanswered(self, argv: tuple[bytes, ...]) -> Steps[None]:
        """What no reply belongs to would shift every later one: refused by the rules, or else all the same."""
        verdict = self._state.judge_again(argv, self._state.viewer.begin())
        if isinstance(verdict, Refused):
            yield from self._refuse(verdict, argv)
        else:
            self._refuse_here(refuse.UNANSWERED)

    def _end_transaction(self, argv: tuple[bytes, ...], verb: bytes) -> Steps[None]:
        """EXEC judges its whole queue again: a rule may have come since. What is refused discards it all."""
        transaction, self._transaction = self._transaction, None
        assert transaction is not None
        if verb == b"DISCARD":
            yield from self._forward(argv, Role.DISCARD)
            return
        refused = transaction.refused
        while True:
            verdicts = [self._state.judge_again(queued, read) for queued, read in transaction.queue]
            if not self._state.viewer.look():  # else a policy came meanwhile
                break
        for verdict in verdicts:
            if isinstance(verdict, Refused):
                refused = True
                yield self._state.noted(verdict)
        if refused:
            yield from self._forward((b"DISCARD",), Role.EXEC_REFUSED)
        else:
            yield from self._forward(argv, Role.EXEC, weight=transaction.weight)

    def _client_reply(self, argv: tuple[bytes, ...]) -> Steps[None]:
        """CLIENT REPLY is carried out here: sent up, it would shift every later reply by one command."""
        mode = argv[2].upper() if len(argv) == 3 else b""
        if self._transaction is not None:
            self._refuse_here(refuse.inside_multi("CLIENT REPLY"))
            return
        yield from self._hold_until_answered()
        if self._state.subscriptions and self._state.version == 2:
            self._answer(refuse.while_subscribed("client|reply"))
        elif mode == b"ON":
            self._muted, self._skips = False, 0
            self._answer(refuse.OK)
        elif mode == b"OFF":
            self._muted = True
        elif mode == b"SKIP":
            if not self._muted:
                self._skips = 1
        else:
            self._answer(refuse.SYNTAX)

    def _until_settled(self) -> Steps[None]:
        """Returns when the answer to everything has come that may turn the connection into another one."""
        while any(isinstance(item, Sent) and item.role in STATEFUL for item in self._state.pending):
            yield from self._state.flush()
            yield Hold()

    def _monitor(self, argv: tuple[bytes, ...]) -> Steps[None]:
        """A server that is asked a second time answers nothing, so it is not asked: waiting for that answer would
        shift every later reply by one command."""
        yield from self._until_settled()
        if self._state.monitor is None or len(argv) > 1:
            yield from self._forward(argv, Role.MONITOR if len(argv) == 1 else Role.PLAIN)
        elif self._skips:
            self._skips -= 1

    def _veil(self, argv: tuple[bytes, ...]) -> Steps[None]:
        """VEIL EXPLAIN and VEIL HELP are answered here, in their turn; nothing of them goes up."""
        if self._transaction is not None:
            self._refuse_here(explained.in_transaction(argv))
            return
        yield from self._until_settled()
        if self._state.subscriptions and self._state.version == 2:
            self._answer(refuse.while_subscribed("veil"))
        else:
            self._answer(explained.answer(argv, self._state.viewer))

    def _subscribe(self, argv: tuple[bytes, ...], verb: bytes) -> Steps[None]:
        """A subscription by name is a read that begins now: what may be lifted is recorded before it is sent."""
        read = self._state.viewer.begin()
        if verb in SUBSCRIBES and verb != b"PSUBSCRIBE":
            viewer = self._state.viewer
            views = tuple(viewer.view(viewer.resource(Kind.KEY, name)) for name in argv[1:])
            yield from self._state.lift(tuple(dict.fromkeys(views)), read, verb.decode())
        role = Role.SUBSCRIBE if verb in SUBSCRIBES else Role.UNSUBSCRIBE
        yield from self._forward(argv, role, answers=len(argv) - 1, read=read)


def _role_of(argv: tuple[bytes, ...], verb: bytes) -> Role:
    if verb == b"EXEC" and len(argv) == 1:
        return Role.EXEC  # outside MULTI: should a server answer it after all, it is by what was queued
    if verb in (b"SYNC", b"PSYNC"):
        return Role.COPY_STREAM
    if verb == b"CLIENT" and len(argv) > 2 and argv[1].upper() == b"TRACKING":
        return Role.TRACKING
    return Role.PLAIN
