"""Who reads: logins, what a permission lifts, and what is recorded first."""

from __future__ import annotations

import pytest

from proxy.core.steps import Ask, Record
from proxy.protocols.redis.wire import encode_command

from .desk import (
    CANARY,
    MASKED,
    REFUSED,
    Desk,
    array,
    blob,
)


def test_a_permitted_reader_sees_it_after_it_was_recorded(desk: Desk) -> None:
    desk.log_in(b"alice")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)
    (entry,) = desk.play.recorded
    assert (entry.event, entry.who, entry.rules[0].name) == ("broker.message.read-unmasked", "alice", "Secrets")


def test_nothing_is_shown_before_it_is_recorded(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.stop_at = Record
    desk.play.reader(encode_command((b"GET", b"secret:1")))

    assert desk.play.server(blob(CANARY)) == b""
    desk.play.stop_at = None
    desk.play.waiting[0].resume(None)
    assert desk.play.to_reader.endswith(MASKED)
    assert len(desk.play.recorded) == 0


def test_a_refusal_cannot_overtake_a_reply_that_waits_for_the_record(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.viewer.named("erin")
    desk.play.to_reader = b""
    desk.play.reader(encode_command((b"GET", b"secret:eu:1")))
    desk.play.stop_at = Record
    desk.play.server(blob(CANARY))
    assert desk.play.reader(encode_command((b"STRLEN", b"secret:us:1"))) == b""
    desk.play.stop_at = None
    desk.play.waiting[0].resume(None)

    assert desk.play.to_reader == MASKED + REFUSED % (b"STRLEN", b"secret:us:1")


def test_with_a_dead_journal_the_permitted_reader_is_an_ordinary_one(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.journal_works = False

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.ask(b"STRLEN", b"secret:1") == REFUSED % (b"STRLEN", b"secret:1")
    assert desk.ask(b"EVAL", b"return 1", b"0").startswith(b"-NOPERM veil: EVAL is refused")


def test_a_name_that_any_password_opens_is_ordinary(desk: Desk) -> None:
    desk.play.proven = False
    desk.log_in(b"alice")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.play.recorded == []


def test_nothing_goes_up_between_a_login_and_its_answer(desk: Desk) -> None:
    desk.play.reader(encode_command((b"AUTH", b"alice", b"pw")) + encode_command((b"GET", b"secret:1")))
    assert desk.play.sent_up() == encode_command((b"AUTH", b"alice", b"pw"))

    desk.play.server(b"-WRONGPASS no\r\n")

    assert desk.play.sent_up() == encode_command((b"GET", b"secret:1"))
    assert desk.play.server(blob(CANARY)) == MASKED


def test_reset_makes_nobody_of_the_reader(desk: Desk) -> None:
    desk.log_in(b"alice")
    assert desk.ask(b"RESET", answer=b"+RESET\r\n") == b"+RESET\r\n"

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


def test_a_queued_auth_names_nobody(desk: Desk) -> None:
    desk.ask(b"AUTH", b"alice", b"pw", answer=b"+QUEUED\r\n")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


def test_hello_with_auth_names_its_reader(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", b"SETNAME", b"x", b"AUTH", b"alice", b"pw", answer=b"%1\r\n+proto\r\n:3\r\n")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)


def test_what_names_no_key_needs_a_grant_on_all_of_the_connection(desk: Desk) -> None:
    desk.log_in(b"erin")
    assert desk.ask(b"EVAL", b"return 1", b"0").startswith(b"-NOPERM")
    desk.log_in(b"alice")

    assert desk.ask(b"EVAL", b"return 1", b"0", answer=b":1\r\n") == b":1\r\n"
    assert desk.play.recorded[-1].resource is not None
    assert desk.play.recorded[-1].resource.name == b"*"
    assert {tag.name for tag in desk.play.recorded[-1].rules} == {"Secrets", "Profiles", "Documents"}


def test_a_blocking_read_lapses(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.reader(encode_command((b"BLPOP", b"secret:1", b"0")))
    desk.clock.now_s = 601.0

    assert desk.play.server(array(blob(b"secret:1"), blob(CANARY))) == array(blob(b"secret:1"), MASKED)


@pytest.mark.parametrize(
    "error",
    [b"-ERR Client names cannot contain spaces\r\n", b"-WRONGPASS invalid\r\n", b"-NOPROTO\r\n", b"!5\r\nERR x\r\n"],
)
@pytest.mark.parametrize(
    "words", [(b"AUTH", b"bob", b"pw", b"SETNAME", b"a b"), (b"AUTH", b"bob", b"pw", b"AUTH", b"bob", b"no")]
)
def test_a_hello_that_fails_may_have_logged_in_so_the_reader_is_nobody(
    desk: Desk, error: bytes, words: tuple[bytes, ...]
) -> None:
    desk.log_in(b"alice")
    desk.ask(b"HELLO", b"3", *words, answer=error)

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.play.recorded == []


@pytest.mark.parametrize("argv", [(b"AUTH", b"bob", b"pw"), (b"HELLO", b"3", b"SETNAME", b"a b")])
def test_a_login_that_fails_leaves_the_reader_who_it_is(desk: Desk, argv: tuple[bytes, ...]) -> None:
    desk.log_in(b"alice")
    desk.ask(*argv, answer=b"-ERR no\r\n")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)


def test_the_answer_to_a_login_waits_until_the_name_was_tried(desk: Desk) -> None:
    desk.play.stop_at = Ask
    desk.play.reader(encode_command((b"AUTH", b"alice", b"pw")) + encode_command((b"GET", b"secret:1")))
    desk.play.sent_up()

    assert desk.play.server(b"+OK\r\n") == b""
    assert desk.play.sent_up() == b""
    desk.play.waiting[0].resume(False)
    desk.play.stop_at = None
    assert desk.play.to_reader == b"+OK\r\n"
