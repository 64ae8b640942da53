"""Replies stay with their commands, whatever a server puts between, into or behind them."""

from __future__ import annotations

import pytest

from proxy.core.errors import WireError
from proxy.core.steps import ToServer
from proxy.protocols.redis.wire import encode_command
from rules.model import RuleBook

from .desk import CANARY, EVERYTHING, MASKED, PROFILES, WHOLE, Desk, array, blob, rule

HELLO3 = b"%1\r\n+proto\r\n:3\r\n"
MESSAGE = b">3\r\n" + blob(b"message") + blob(b"open") + blob(b"hi")
COVERED = b">3\r\n" + blob(b"message") + blob(b"secret:ch") + blob(CANARY)
HIDDEN = b">3\r\n" + blob(b"message") + blob(b"secret:ch") + MASKED


@pytest.fixture
def desk() -> Desk:
    """In RESP3, where pushes may come."""
    desk = Desk()
    desk.ask(b"HELLO", b"3", answer=HELLO3)
    desk.play.sent_up()
    return desk


def commands(*lines: str) -> bytes:
    return b"".join(encode_command(tuple(line.encode().split())) for line in lines)


def test_a_message_inside_the_reply_of_exec_takes_no_place_there(desk: Desk) -> None:
    desk.play.reader(commands("MULTI", "PUBLISH open hi", "GET secret:1", "EXEC", "GET open"))
    desk.play.to_reader = b""

    desk.play.server(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + MESSAGE + b":1\r\n" + blob(CANARY) + blob(b"7"))

    assert desk.play.to_reader == b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n" + MASKED + MESSAGE + blob(b"7")


@pytest.mark.parametrize("pushed", [COVERED, MESSAGE + COVERED])
@pytest.mark.parametrize("command", ["LRANGE secret:1 0 -1", "LRANGE open 0 -1"])
def test_a_message_between_two_elements_comes_behind_the_reply_and_is_masked(desk: Desk, command: str, pushed: bytes) -> None:
    elements = [blob(b"e1-" + CANARY), blob(b"e2-" + CANARY)]
    is_open = "open" in command
    desk.play.reader(commands(command, "GET secret:1"))
    desk.play.to_reader = b""

    desk.play.server(b"*2\r\n" + elements[0] + pushed + elements[1] + blob(CANARY))

    shown = array(*elements) if is_open else array(MASKED, MASKED)
    assert desk.play.to_reader == shown + pushed.replace(COVERED, HIDDEN) + MASKED


def test_an_invalidation_in_the_middle_of_a_refused_reply_is_not_lost(desk: Desk) -> None:
    invalidation = b">2\r\n" + blob(b"invalidate") + array(blob(b"k"))
    desk.play.reader(commands("SINTER late:1 late:2"))
    desk.replace(rule("Late", "late:*", WHOLE))

    shown = desk.play.server(b"*2\r\n" + blob(CANARY) + invalidation + blob(CANARY))

    assert shown.startswith(b"-NOPERM veil: SINTER")
    assert shown.endswith(invalidation)
    assert CANARY not in shown


def test_an_exec_that_nobody_queued_for_shows_nothing(desk: Desk) -> None:
    desk.play.reader(commands("EXEC"))

    with pytest.raises(WireError):
        desk.play.server(array(blob(CANARY)))

    assert CANARY not in desk.play.to_reader


@pytest.mark.parametrize("command", ["MONITOR", "SYNC", "PSYNC ? -1"])
def test_what_turns_a_connection_into_a_stream_is_refused_inside_a_transaction(command: str) -> None:
    desk = Desk(RuleBook("1", (PROFILES,)))
    desk.policy = type(desk.policy)(RuleBook("2", ()))  # without any rule nothing else refuses it
    desk.play.reader(commands("MULTI", command, "EXEC", "PING"))

    assert desk.play.sent_up() == commands("MULTI", "DISCARD", "PING")


@pytest.mark.parametrize(
    "command", ["COPY late:1 out", "RENAME late:1 out", "SORT late:1 STORE out", "EVAL x 0", "NOSUCH x", "DUMP late:1"]
)
def test_what_may_carry_away_contents_is_not_left_waiting_behind_a_blocked_command(command: str) -> None:
    desk = Desk(RuleBook("1", ()))
    desk.play.reader(commands("BLPOP never 0", command))
    desk.replace(rule("Late", "late:*", WHOLE))

    assert desk.play.closed


def test_a_resp2_reader_that_caches_is_told_nothing_it_could_not_read() -> None:
    desk = Desk()
    desk.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    desk.play.to_reader = b""

    desk.replace(PROFILES)

    assert desk.play.to_reader == b""
    assert not desk.play.closed


def test_a_stream_that_begins_while_its_command_is_being_sent_is_carried() -> None:
    desk = Desk(RuleBook("1", ()))
    desk.play.stop_at = ToServer
    desk.play.reader(commands("SYNC"))
    desk.play.stop_at = None

    assert desk.play.server(b"$5\r\nREDIS") == b"$5\r\nREDIS"


def test_alice_may_still_watch_outside_a_transaction() -> None:
    desk = Desk()
    desk.log_in(b"alice")

    assert EVERYTHING.name == "alice"
    assert desk.ask(b"MONITOR", answer=b"+OK\r\n") == b"+OK\r\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("HKEYS user:1", array(blob(b"name"), blob(b"email"))),
        ("HKEYS secret:1", array(blob(b"name"), blob(b"email"))),
        ("SET secret:1 v NX", b"$-1\r\n"),
        ("SMISMEMBER open 1", array(b":1\r\n")),
        ("XPENDING secret:1 g", array(b":0\r\n", b"$-1\r\n", b"$-1\r\n", b"*-1\r\n")),
        ("HTTL user:1 FIELDS 1 email", array(b":-1\r\n")),
        ("BF.MADD secret:1 a", array(b":1\r\n")),
    ],
)
@pytest.mark.parametrize("in_multi", [False, True])
def test_names_and_counts_of_a_covered_key_pass_in_whatever_form(command: str, answer: bytes, *, in_multi: bool) -> None:
    desk = Desk()
    if in_multi:
        desk.play.reader(commands("MULTI", command, "EXEC"))

        assert desk.play.server(b"+OK\r\n+QUEUED\r\n" + array(answer)).endswith(array(answer))
    else:
        desk.play.reader(commands(command))

        assert desk.play.server(answer) == answer


@pytest.mark.parametrize("form", [b"~1\r\n", b"%1\r\n+k\r\n", b""])
def test_exec_answers_an_array_or_nothing(desk: Desk, form: bytes) -> None:
    desk.play.reader(commands("MULTI", "GET secret:1", "EXEC"))

    with pytest.raises(WireError):
        desk.play.server(b"+OK\r\n+QUEUED\r\n" + form + blob(CANARY))

    assert CANARY not in desk.play.to_reader


def test_exec_while_subscribed_in_resp2_is_no_message_and_no_reply() -> None:
    desk = Desk()
    desk.play.reader(commands("SUBSCRIBE open", "MULTI", "GET secret:1", "EXEC"))

    with pytest.raises(WireError):
        desk.play.server(array(blob(b"subscribe"), blob(b"open"), b":1\r\n") + b"+OK\r\n+QUEUED\r\n" + array(blob(CANARY)))

    assert CANARY not in desk.play.to_reader
