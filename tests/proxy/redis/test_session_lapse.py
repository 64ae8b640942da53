"""What happens to a session when an unmasked read lapses: what it hears, what its cache is told, what is ended."""

from __future__ import annotations

import math

import pytest

from proxy.core.steps import Record
from proxy.protocols.redis.wire import encode_command

from .desk import BOOK, CANARY, MASKED, PROFILES, WHOLE, Desk, array, blob, rule

FORGET = b">2\r\n$10\r\ninvalidate\r\n_\r\n"
CHANNEL = b"__redis__:invalidate"
FORGET_2 = b"*3\r\n" + blob(b"message") + blob(CHANNEL) + b"*-1\r\n"
HEARD = array(blob(b"message"), blob(b"secret:a"), blob(CANARY))


def confirmed(verb: bytes, name: bytes, count: int = 1) -> bytes:
    return array(blob(verb), blob(name), b":%d\r\n" % count)


def subscribe(desk: Desk, name: bytes, verb: bytes = b"SUBSCRIBE") -> None:
    desk.play.reader(encode_command((verb, name)))
    desk.play.server(confirmed(verb.lower(), name))


def hello(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", b"AUTH", b"alice", b"pw", answer=b"%1\r\n+proto\r\n:3\r\n")


def cache(desk: Desk) -> None:
    """Alice caches what she reads."""
    hello(desk)
    desk.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    desk.play.to_reader = b""


# --- what a subscription hears ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [b"SUBSCRIBE", b"SSUBSCRIBE"])
def test_a_subscription_is_on_record_once_and_masked_from_its_lapse_on(desk: Desk, verb: bytes) -> None:
    kind = b"smessage" if verb == b"SSUBSCRIBE" else b"message"
    heard = array(blob(kind), blob(b"secret:a"), blob(CANARY))
    desk.log_in(b"alice")
    subscribe(desk, b"secret:a", verb)

    assert [desk.play.server(heard) for _ in range(3)] == [heard] * 3
    assert [entry.operation for entry in desk.play.recorded] == [verb.decode()]
    desk.clock.now_s = 600.0
    assert CANARY not in desk.play.server(heard)
    assert len(desk.play.recorded) == 1


def test_a_login_does_not_renew_a_subscription_and_a_new_subscription_does(desk: Desk) -> None:
    hello(desk)
    push = b">3\r\n" + blob(b"message") + blob(b"secret:a") + blob(CANARY)
    confirm = b">3\r\n" + blob(b"subscribe") + blob(b"secret:a") + b":1\r\n"
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:a")))
    desk.play.server(confirm)
    desk.clock.now_s = 700.0

    for login in ((b"AUTH", b"alice", b"pw"), (b"HELLO", b"3", b"AUTH", b"alice", b"pw")):
        desk.ask(*login, answer=b"+OK\r\n" if login[0] == b"AUTH" else b"%1\r\n+proto\r\n:3\r\n")
        assert CANARY not in desk.play.server(push)
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:a")))
    desk.play.server(confirm)
    assert desk.play.server(push) == push
    assert len(desk.play.recorded) == 2


def test_a_subscription_belongs_to_who_was_logged_in_when_it_began(desk: Desk) -> None:
    desk.log_in(b"alice")
    subscribe(desk, b"secret:a")
    desk.viewer.named("mallory")

    assert CANARY not in desk.play.server(HEARD)


def test_a_channel_first_heard_inside_a_pattern_stays_masked(desk: Desk) -> None:
    desk.log_in(b"alice")
    subscribe(desk, b"secret:*", b"PSUBSCRIBE")

    heard = desk.play.server(array(blob(b"pmessage"), blob(b"secret:*"), blob(b"secret:a"), blob(CANARY)))

    assert heard == array(blob(b"pmessage"), blob(b"secret:*"), blob(b"secret:a"), MASKED)
    assert desk.play.recorded == []


@pytest.mark.parametrize("name", [b"secret:a", b"__keyspace@0__:secret:a"])
def test_a_rule_that_comes_during_an_unmasked_subscription_applies_at_once(desk: Desk, name: bytes) -> None:
    heard = array(blob(b"message"), blob(name), blob(CANARY))
    desk.log_in(b"alice")
    subscribe(desk, name)
    assert desk.play.server(heard) == heard

    desk.replace(*BOOK.rules, rule("All", "*", WHOLE))

    assert CANARY not in desk.play.server(heard)


def test_what_monitor_shows_lapses_and_asking_again_renews_nothing(desk: Desk) -> None:
    line = b'+1700000000.000000 [0 127.0.0.1:5] "SET" "secret:a" "' + CANARY + b'"\r\n'
    desk.log_in(b"alice")
    desk.ask(b"MONITOR", answer=b"+OK\r\n")
    assert CANARY in desk.play.server(line)
    desk.clock.now_s = 600.0

    assert CANARY not in desk.play.server(line)
    desk.play.reader(encode_command((b"MONITOR",)))
    assert CANARY not in desk.play.server(line)
    assert [entry.operation for entry in desk.play.recorded] == ["MONITOR"]


@pytest.mark.parametrize(
    ("argv", "answer"),
    [
        ((b"BLPOP", b"secret:1", b"0"), array(blob(b"secret:1"), blob(CANARY))),
        ((b"BZPOPMIN", b"secret:1", b"0"), array(blob(b"secret:1"), blob(CANARY), blob(b"1"))),
        ((b"BLMPOP", b"0", b"1", b"secret:1", b"LEFT"), array(blob(b"secret:1"), array(blob(CANARY)))),
        (
            (b"XREAD", b"BLOCK", b"0", b"STREAMS", b"secret:1", b"$"),
            array(array(blob(b"secret:1"), array(array(blob(b"1-1"), array(blob(b"f"), blob(CANARY)))))),
        ),
    ],
    ids=lambda given: given[0].decode() if isinstance(given, tuple) else "",
)
def test_each_command_of_a_tailing_loop_is_a_read_and_one_that_waited_too_long_is_masked(
    desk: Desk, argv: tuple[bytes, ...], answer: bytes
) -> None:
    desk.log_in(b"alice")

    assert desk.ask(*argv, answer=answer) == answer
    desk.clock.now_s = 700.0
    assert desk.ask(*argv, answer=answer) == answer
    assert len(desk.play.recorded) == 2
    desk.play.reader(encode_command(argv))
    desk.clock.now_s = 1300.0
    assert CANARY not in desk.play.server(answer)
    assert len(desk.play.recorded) == 2


# --- what a cache is told --------------------------------------------------------------------------------------------


def test_a_cache_is_told_to_forget_when_what_it_holds_has_lapsed(desk: Desk) -> None:
    cache(desk)
    assert desk.play.session.wakes_at_s == math.inf
    desk.clock.now_s = 50.0
    desk.ask(b"GET", b"secret:1", answer=blob(CANARY))
    desk.clock.now_s = 60.0
    desk.ask(b"GET", b"secret:2", answer=blob(CANARY))

    assert desk.play.session.wakes_at_s == 650.0
    desk.clock.now_s, desk.play.to_reader = 650.0, b""
    desk.play.wake()
    assert desk.play.to_reader == FORGET
    assert desk.play.session.wakes_at_s == math.inf


def test_a_read_that_is_answered_after_the_cache_was_emptied_is_forgotten_in_its_own_time(desk: Desk) -> None:
    cache(desk)
    desk.ask(b"GET", b"secret:1", answer=blob(CANARY))
    desk.clock.now_s = 590.0
    desk.play.reader(encode_command((b"GET", b"secret:2")))
    desk.clock.now_s = 600.0
    desk.play.wake()
    desk.clock.now_s = 610.0

    assert desk.play.server(blob(CANARY)) == blob(CANARY)
    assert desk.play.session.wakes_at_s == 1190.0


def test_a_read_whose_record_was_waited_for_while_the_cache_was_emptied_is_forgotten_in_its_own_time(desk: Desk) -> None:
    cache(desk)
    desk.ask(b"GET", b"secret:1", answer=blob(CANARY))
    desk.clock.now_s = 590.0
    desk.play.stop_at = Record
    desk.play.reader(encode_command((b"GET", b"secret:2")))
    desk.play.server(blob(CANARY))
    desk.play.stop_at = None
    desk.clock.now_s = 600.0
    desk.play.wake()
    desk.play.waiting[0].resume(None)

    assert desk.play.to_reader.endswith(FORGET + MASKED)
    assert desk.play.session.wakes_at_s == math.inf


def test_the_order_to_forget_waits_for_the_end_of_a_transaction(desk: Desk) -> None:
    cache(desk)
    desk.ask(b"MULTI", answer=b"+OK\r\n")
    for key in (b"secret:1", b"open"):
        desk.ask(b"GET", key, answer=b"+QUEUED\r\n")
    desk.play.reader(encode_command((b"EXEC",)))
    desk.play.to_reader = b""
    desk.play.server(b"*2\r\n" + blob(CANARY) + b"$4\r\nab")
    desk.clock.now_s = 600.0
    desk.play.wake()
    desk.play.server(b"cd\r\n")

    assert desk.play.to_reader == array(blob(CANARY), blob(b"abcd")) + FORGET


def test_nobody_is_told_who_caches_nothing_or_saw_nothing_unmasked(desk: Desk) -> None:
    hello(desk)
    desk.ask(b"GET", b"secret:1", answer=blob(CANARY))
    desk.clock.now_s, desk.play.to_reader = 600.0, b""
    desk.play.wake()
    assert desk.play.to_reader == b""

    ordinary = Desk()
    ordinary.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    ordinary.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    ordinary.ask(b"GET", b"secret:1", answer=blob(CANARY))
    assert ordinary.play.session.wakes_at_s == math.inf


def test_a_channel_of_invalidations_tells_to_forget_when_a_rule_changes_and_at_each_lapse(desk: Desk) -> None:
    subscribe(desk, CHANNEL)
    assert desk.play.session.wakes_at_s == 600.0
    desk.play.to_reader = b""

    desk.clock.now_s = 600.0
    desk.play.wake()
    assert desk.play.to_reader == FORGET_2
    assert desk.play.session.wakes_at_s == 1200.0
    desk.replace(PROFILES)
    assert desk.play.to_reader == FORGET_2 * 2


def test_what_another_connection_caches_cannot_be_told_here_so_the_reader_is_ended_at_the_lapse(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.ask(b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", b"7", answer=b"+OK\r\n")
    desk.clock.now_s = 600.0
    desk.play.wake()

    assert desk.play.closed == "an unmasked read has lapsed, and what another connection caches cannot be forgotten"


# --- what is ended ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        (b"BLMOVE", b"secret:1", b"open", b"LEFT", b"LEFT", b"0"),
        (b"BRPOPLPUSH", b"secret:1", b"open", b"0"),
        (b"EVAL", b"return redis.call('GET', KEYS[1])", b"2", b"secret:1", b"secret:2"),
        (b"NOSUCHCOMMAND", b"secret:1"),
    ],
    ids=lambda argv: argv[0].decode(),
)
def test_what_carries_contents_away_is_ended_when_its_read_lapses(desk: Desk, argv: tuple[bytes, ...]) -> None:
    desk.log_in(b"alice")
    desk.clock.now_s = 10.0
    desk.ask(b"GET", b"secret:0", answer=blob(CANARY))
    desk.clock.now_s = 50.0
    desk.play.reader(encode_command(argv))
    desk.clock.now_s = 610.0
    desk.play.wake()
    assert desk.play.closed == ""

    assert desk.play.session.wakes_at_s == 650.0
    desk.clock.now_s = 650.0
    desk.play.wake()
    assert desk.play.closed == "an unmasked read has lapsed: a command which was waiting would be refused now"


def test_a_copy_of_the_data_set_is_ended_when_it_lapses_though_nothing_more_comes(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.reader(encode_command((b"SYNC",)))
    assert desk.play.server(b"$5\r\nREDIS") == b"$5\r\nREDIS"
    desk.clock.now_s = 600.0
    desk.play.wake()

    assert desk.play.closed == "an unmasked read has lapsed while the data set was being copied"
