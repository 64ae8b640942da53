"""Random pipelines through a session, against a server that answers in every known shape and interrupts itself.

Whatever is asked, and in whatever pieces it comes: no canary gets out, not even to one who may read unmasked while it
cannot be recorded; there is no exception; and each command has exactly one answer, in its turn.
"""

from __future__ import annotations

import os
import random

import hiredis
import pytest

from proxy.core.session import SessionSettings
from proxy.core.viewer import Viewer
from proxy.protocols.redis.session import RedisSession
from proxy.protocols.redis.wire import encode_command
from rules.access import Reader
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Partial,
    Platform,
    Redact,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from tests.playbook import Play

from .model_server import CANARY, ModelServer

SEEDS = int(os.environ.get("FUZZ_SEEDS", "1500"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
STEPS = 14  # commands of one pipeline
PROOF = b"7391739173917391"  # scores and lengths of covered keys
PARTS = tuple(CANARY[at : at + 5] for at in range(len(CANARY) - 4))  # more than any of the partials keeps


def _rule(name: str, keys: str, *fields: Field, mask_all: bool = False) -> Rule:
    return Rule(name, Platform.REDIS, ((Kind.KEY, (keys,)),), mask_all=mask_all, fields=fields)


SECRETS = [
    _rule("Whole", "secret:*", Field(FieldKind.WHOLE_VALUE, Redact())),
    _rule("Ends", "secret:*", Field(FieldKind.WHOLE_VALUE, Partial(keep_first=1, keep_last=1))),
    _rule("All", "s*", mask_all=True),
]
DOCUMENTS = [
    _rule("Card", "doc:*", Field(FieldKind.JSON_PATH, Redact(), parse_path("$.card"))),
    _rule("Cards", "d?c:*", Field(FieldKind.JSON_PATH, Partial(keep_last=2), parse_path("$..card"))),
]
USERS = [
    _rule("Mail", "user:*", Field(FieldKind.FIELD, Redact(), name="email")),
    _rule("Mails", "user:*", Field(FieldKind.FIELD, Partial(keep_first=2), name="email")),
]
ACCESS = AccessList(grants=(Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True)),))
KEYS = (b"secret:1", b"secret:\x00\xff", b"doc:1", b"user:1", b"open:1")
COMMANDS = (
    "GET K", "GETDEL K", "GETEX K EX 10", "GETRANGE K 0 3", "SET K v", "SET K v NX GET", "SET K NX NX", "MGET K K", "LRANGE K 0 -1",
    "LINDEX K 0", "LPOP K", "LPOP K 2", "SPOP K", "SPOP K 2", "SRANDMEMBER K -3", "SMEMBERS K", "SINTER K", "SINTER K K",
    "SSCAN K 0", "SSCAN K 0 MATCH c*", "BLPOP K 0", "LMPOP 1 K LEFT", "LMPOP 2 K LEFT", "SORT K BY nosort", "SORT K GET x*",
    "HGET K email", "HGET K name", "HMGET K email email", "HGETALL K", "HSCAN K 0", "ZRANGE K 0 -1 WITHSCORES", "ZRANGE K 0 9 BYSCORE",
    "ZPOPMIN K 2", "ZSCAN K 0", "XRANGE K - +", "XREAD STREAMS K 0", "STRLEN K", "DUMP K", "EVAL x 0", "NOSUCH K",
)  # fmt: skip


def _policy(chance: random.Random) -> Policy:
    return Policy(RuleBook("1", (chance.choice(SECRETS), chance.choice(DOCUMENTS), chance.choice(USERS)), ACCESS))


class Run:
    """One pipeline. `expected` holds for each reply that is no push what it has to be, or None where anything may be."""

    def __init__(self, seed: int, reader: str | None) -> None:
        self._chance = random.Random(seed)
        self._policy = _policy(self._chance)
        viewer = Viewer(
            Connection("shop", Platform.REDIS),
            "redis",
            "",
            lambda: self._policy,
            lambda: 0.0,
            fixed=None if reader is None else Reader(reader),
        )
        self.play = Play(RedisSession(viewer, SessionSettings()), journal_works=False)
        self._server = ModelServer(self._chance)
        self.expected: list[bytes | None] = []
        self._is_resp3 = False
        self._in_multi = False
        self._heard = 0  # subscriptions, so that RESP2 pipelines end them before they go on

    def command(self, at: int) -> list[bytes]:
        roll = self._chance.random()
        if roll < 0.25:
            token = b"token-%d" % at
            self.expected.append(None if self._in_multi else token)
            return [b"ECHO", token]
        if roll < 0.35 and self._is_resp3:
            return self._subscription()
        self.expected.append(None)
        if roll < 0.45:
            self._in_multi = not self._in_multi
            return [b"MULTI"] if self._in_multi else [self._chance.choice([b"EXEC", b"EXEC", b"DISCARD"])]
        words = self._chance.choice(COMMANDS).encode().split()
        return [self._chance.choice(KEYS) if word == b"K" else word for word in words]

    def _subscription(self) -> list[bytes]:
        verb = self._chance.choice([b"SUBSCRIBE", b"SUBSCRIBE", b"UNSUBSCRIBE", b"PSUBSCRIBE"])
        if self._in_multi:  # refused there, with an answer that is no push
            self.expected.append(None)
        names = [self._chance.choice(KEYS) for _ in range(self._chance.randint(1, 2))]
        if verb == b"UNSUBSCRIBE" and self._chance.random() < 0.5:
            names = []
        return [verb, *names]

    def _pieces(self, data: bytes) -> list[bytes]:
        cuts = sorted(self._chance.randrange(len(data) + 1) for _ in range(self._chance.choice([0, 0, 1, 3])))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]

    def go(self) -> bytes:
        """What the reader is sent."""
        data = b""
        if self._chance.random() < 0.6:
            self._is_resp3 = True
            self._feed(encode_command((b"HELLO", b"3")))
            self.play.to_reader = b""
        for at in range(STEPS):
            data += encode_command(self.command(at))
        if self._in_multi:
            data += encode_command((b"DISCARD",))
            self.expected.append(None)
        data += encode_command((b"ECHO", b"last"))
        self.expected.append(b"last")
        for piece in self._pieces(data):
            self._feed(piece)
        return self.play.to_reader

    def _feed(self, data: bytes) -> None:
        self.play.reader(data)
        while up := self.play.sent_up():
            if self._chance.random() < 0.1:
                self._policy = _policy(self._chance)
                self.play.policy_changed()
            for piece in self._pieces(self._server.feed(up)):
                self.play.server(piece)


def replies_of(data: bytes) -> list[object]:
    reader = hiredis.Reader()
    reader.feed(data)
    found = []
    while (reply := reader.gets()) is not False:
        if not isinstance(reply, hiredis.PushNotification):
            found.append(reply)
    return found


def go(seed: int) -> None:
    """Raises AssertionError, with the seed, when anything is as it may not be."""
    run = Run(seed, reader=None if seed % 3 else "alice")  # who might read it all, were there a journal to say so
    shown = run.go()

    assert not any(part in shown for part in PARTS), f"seed {seed}: a canary got out"
    assert PROOF not in shown, f"seed {seed}: a score or a length got out"
    if run.play.closed:  # by a rule that came while something was under way
        return
    replies = replies_of(shown)
    assert len(replies) == len(run.expected), f"seed {seed}: {len(replies)} answers to {len(run.expected)} commands"
    for at, (reply, wanted) in enumerate(zip(replies, run.expected, strict=True)):
        assert wanted is None or reply == wanted or isinstance(reply, hiredis.ReplyError), f"seed {seed}: answer {at}"
    assert replies[-1] == b"last" or isinstance(replies[-1], hiredis.ReplyError), f"seed {seed}: the last answer"
    assert not run.play.held


@pytest.mark.parametrize("batch", range(10))
def test_no_canary_gets_out_of_a_random_pipeline_and_every_command_has_its_answer(batch: int) -> None:
    for seed in range(FIRST + batch * SEEDS // 10, FIRST + (batch + 1) * SEEDS // 10):
        go(seed)
