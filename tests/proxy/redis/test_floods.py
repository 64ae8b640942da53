"""A flood of commands goes up in packets, and comes back in packets: not one at a time."""

from __future__ import annotations

from proxy.core.session import SessionSettings
from proxy.core.viewer import Viewer
from proxy.protocols.redis.session import RedisSession
from proxy.protocols.redis.session.pending import MOST_BYTES, MOST_ITEMS
from proxy.protocols.redis.wire import encode_command
from rules.access import UNMASKED
from rules.model import AccessList, Connection, Extent, Field, FieldKind, Grant, Kind, Platform, Redact, Rule, RuleBook, Whom
from rules.policy import Policy
from tests.playbook import Play

SHOP = Connection("shop", Platform.REDIS, "production")
SECRETS = Rule("Secrets", Platform.REDIS, ((Kind.KEY, ("secret:*",)),), fields=(Field(FieldKind.WHOLE_VALUE, Redact()),))
ALICE = Grant(True, UNMASKED, Whom.USER, "alice", Extent(installation=True))
POLICY = Policy(RuleBook("1", (SECRETS,), AccessList(grants=(ALICE,))))
GET = encode_command((b"GET", b"secret:1"))
MASKED = b"$12\r\n\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\r\n"
VALUE = b"$6\r\nhidden\r\n"


class Packets(Play):
    """Counts what is handed to each side."""

    up = 0
    down = 0

    def __setattr__(self, name: str, value: object) -> None:
        if name == "to_server" and value:
            self.up += 1
        if name == "to_reader" and value:
            self.down += 1
        super().__setattr__(name, value)


def play() -> Packets:
    return Packets(RedisSession(Viewer(SHOP, "redis", "127.0.0.1:1", lambda: POLICY, lambda: 0.0), SessionSettings()))


def test_once_the_queue_was_full_it_is_filled_again_when_half_of_it_is_free() -> None:
    scene = play()
    scene.reader(GET * (2 * MOST_ITEMS))
    assert scene.to_server.count(GET) == MOST_ITEMS

    for _ in range(MOST_ITEMS // 2 - 1):
        scene.server(VALUE)
    assert scene.to_server.count(GET) == MOST_ITEMS

    scene.server(VALUE)
    assert scene.to_server.count(GET) == MOST_ITEMS + MOST_ITEMS // 2


def test_a_command_larger_than_the_queue_makes_room_when_it_is_answered() -> None:
    scene = play()
    large = encode_command((b"SET", b"open", b"x" * (2 * MOST_BYTES)))
    scene.reader(large + GET)
    assert GET not in scene.to_server

    scene.server(b"+OK\r\n")

    assert scene.to_server.endswith(GET)


def test_masked_replies_that_nobody_may_lift_leave_together() -> None:
    scene = play()
    scene.reader(GET * 100)

    got = scene.server(VALUE * 100)

    assert got == MASKED * 100
    assert scene.down == 1


def test_what_was_said_before_a_read_is_recorded_goes_out_before_it_waits() -> None:
    scene = play()
    scene.reader(encode_command((b"AUTH", b"alice", b"password")))
    scene.server(b"+OK\r\n")
    scene.reader(encode_command((b"PING",)) + GET)

    got = scene.server(b"+PONG\r\n" + VALUE)

    assert got == b"+PONG\r\n" + VALUE
    assert scene.down == 3  # the login, what stood before the record, and what was read under it
