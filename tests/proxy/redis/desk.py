"""A Redis session at hand: its policy, its clock, and both its sides as bytes."""

from __future__ import annotations

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
    Method,
    Platform,
    Redact,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from tests.playbook import Play

SHOP = Connection("shop", Platform.REDIS, "production")
MASK = "••••".encode()
CANARY = b"c4n4ry-4111111111111111"


def rule(name: str, keys: str, *fields: Field, mask_all: bool = False) -> Rule:
    return Rule(name, Platform.REDIS, ((Kind.KEY, (keys,)),), mask_all=mask_all, fields=fields)


def path(text: str, method: Method = Redact()) -> Field:
    return Field(FieldKind.JSON_PATH, method, parse_path(text))


def named(name: str, method: Method = Redact()) -> Field:
    return Field(FieldKind.FIELD, method, name=name)


WHOLE = Field(FieldKind.WHOLE_VALUE, Redact())
SECRETS = rule("Secrets", "secret:*", WHOLE)
PROFILES = rule("Profiles", "user:*", named("email"))
JSON = rule("Documents", "doc:*", path("$.card"))
EVERYTHING = Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True))
EU_ONLY = Grant(True, "messages.read.unmasked", Whom.USER, "erin", Extent(resources=((Kind.KEY, ("secret:eu:*",)),)))
BOOK = RuleBook("1", (SECRETS, PROFILES, JSON), AccessList(grants=(EVERYTHING, EU_ONLY)))


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Desk:
    """A session with its policy and clock at hand."""

    def __init__(self, book: RuleBook = BOOK, *, settings: SessionSettings | None = None, fixed: str | None = None) -> None:
        self.policy = Policy(book)
        self.clock = Clock()
        self.viewer = Viewer(
            SHOP, "redis", "127.0.0.1:5", lambda: self.policy, self.clock, fixed=None if fixed is None else Reader(fixed)
        )
        self.play = Play(RedisSession(self.viewer, settings or SessionSettings()))

    def ask(self, *argv: bytes, answer: bytes = b"") -> bytes:
        """What the reader sees of one command and the server's answer to it; asserts that nothing else went up."""
        said = self.play.reader(encode_command(argv))
        return said + (self.play.server(answer) if answer else b"")

    def log_in(self, name: bytes) -> None:
        assert self.ask(b"AUTH", name, b"pw", answer=b"+OK\r\n") == b"+OK\r\n"
        self.play.sent_up()

    def replace(self, *rules: Rule) -> None:
        self.policy = Policy(RuleBook("2", rules, BOOK.access))
        self.play.policy_changed()


def blob(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*items: bytes) -> bytes:
    return b"*%d\r\n" % len(items) + b"".join(items)


MASKED = blob(MASK)
REFUSED = b'-NOPERM veil: %b on "%b" is refused: the masking rule "Secrets" covers it\r\n'
