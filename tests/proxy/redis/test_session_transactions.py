"""Transactions: what is queued, judged again, and shown by its own command."""

from __future__ import annotations

import pytest

from proxy.core.errors import WireError
from proxy.protocols.redis.wire import encode_command

from .desk import (
    CANARY,
    MASKED,
    REFUSED,
    SECRETS,
    WHOLE,
    Desk,
    array,
    blob,
    rule,
)


def begin(desk: Desk) -> None:
    assert desk.ask(b"MULTI", answer=b"+OK\r\n") == b"+OK\r\n"


def test_exec_masks_each_element_by_its_own_command(desk: Desk) -> None:
    begin(desk)
    for argv in ((b"GET", b"secret:1"), (b"GET", b"open"), (b"HGETALL", b"user:1")):
        assert desk.ask(*argv, answer=b"+QUEUED\r\n") == b"+QUEUED\r\n"

    answer = array(blob(CANARY), blob(b"7"), array(blob(b"email"), blob(CANARY)))

    assert desk.ask(b"EXEC", answer=answer) == array(MASKED, blob(b"7"), array(blob(b"email"), MASKED))


def test_a_refusal_in_a_transaction_aborts_it(desk: Desk) -> None:
    begin(desk)
    assert desk.ask(b"STRLEN", b"secret:1") == REFUSED % (b"STRLEN", b"secret:1")
    desk.ask(b"SET", b"open", b"1", answer=b"+QUEUED\r\n")
    desk.play.sent_up()

    shown = desk.ask(b"EXEC", answer=b"+OK\r\n")

    assert desk.play.sent_up() == encode_command((b"DISCARD",))
    assert shown.startswith(b"-EXECABORT")
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


@pytest.mark.parametrize(
    "argv", [(b"AUTH", b"alice", b"pw"), (b"HELLO", b"3"), (b"SUBSCRIBE", b"x"), (b"CLIENT", b"REPLY", b"OFF")]
)
def test_what_may_not_be_queued_is_refused_in_a_transaction(desk: Desk, argv: tuple[bytes, ...]) -> None:
    begin(desk)
    desk.play.sent_up()

    assert desk.ask(*argv).startswith(b"-NOPERM veil: ")
    assert desk.play.sent_up() == b""
    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")


def test_exec_judges_its_queue_again_when_a_rule_came(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"STRLEN", b"late:1", answer=b"+QUEUED\r\n")
    desk.replace(SECRETS, rule("Late", "late:*", WHOLE))
    desk.play.sent_up()

    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")
    assert desk.play.sent_up() == encode_command((b"DISCARD",))


def test_an_exec_of_another_length_closes_both_sides(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"GET", b"secret:1", answer=b"+QUEUED\r\n")

    with pytest.raises(WireError):
        desk.ask(b"EXEC", answer=array(blob(b"1"), blob(CANARY)))
    assert CANARY not in desk.play.to_reader


def test_nested_multi_and_watch_nil_keep_the_queue_aligned(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"MULTI", answer=b"-ERR MULTI calls can not be nested\r\n")
    desk.ask(b"GET", b"secret:1", answer=b"+QUEUED\r\n")
    assert desk.ask(b"EXEC", answer=b"*-1\r\n") == b"*-1\r\n"
    begin(desk)
    desk.ask(b"GET", b"secret:1", answer=b"+QUEUED\r\n")

    assert desk.ask(b"EXEC", answer=array(blob(CANARY))) == array(MASKED)


@pytest.mark.parametrize("answer", [b":7\r\n", array(blob(b"email")), b"+hash\r\n", b"*0\r\n", b"$-1\r\n"])
def test_names_and_counts_of_a_covered_key_pass(desk: Desk, answer: bytes) -> None:
    assert desk.ask(b"HKEYS", b"user:1", answer=answer) == answer
    begin(desk)
    desk.ask(b"HKEYS", b"user:1", answer=b"+QUEUED\r\n")
    assert desk.ask(b"EXEC", answer=array(answer)) == array(answer)


def test_a_copy_that_is_merely_queued_when_a_rule_comes_ends_the_transaction_alone(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"COPY", b"late:1", b"out", answer=b"+QUEUED\r\n")
    desk.replace(SECRETS, rule("Late", "late:*", WHOLE))

    assert not desk.play.closed
    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")
