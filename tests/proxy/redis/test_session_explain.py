"""VEIL EXPLAIN: what a reader may learn of the rules, in its turn, and never from the server."""

from __future__ import annotations

import pytest

from proxy.protocols.redis.wire import encode_command
from rules.policy import Policy

from .desk import CANARY, MASKED, Desk, array, blob


def lines(*told: str) -> bytes:
    return array(*(blob(line.encode()) for line in told))


HEAD = 'key "{}" on redis ("shop", "production"), read by {}'
NOBODY = "a reader who is not logged in"
EXPLAIN = (b"VEIL", b"EXPLAIN", b"secret:1")


def test_a_masked_reader_is_told_the_rules_and_fields_that_cover_the_key(desk: Desk) -> None:
    answer = desk.ask(b"veil", b"explain", b"secret:1")

    assert b'rule "Secrets"' in answer
    assert b"  value: redact" in answer
    assert b"  masks: nobody is logged in" in answer
    assert answer.endswith(blob(b"a reader who is not logged in sees it masked"))
    assert answer.startswith(b"*5\r\n" + blob(HEAD.format("secret:1", NOBODY).encode()))
    assert desk.play.sent_up() == b""
    assert desk.play.recorded == []


def test_a_key_that_no_rule_covers_is_told_as_such(desk: Desk) -> None:
    assert desk.ask(b"VEIL", b"EXPLAIN", b"open") == lines(
        HEAD.format("open", NOBODY), "no rule covers it: it is shown as it is"
    )


def test_a_permitted_reader_is_told_the_grant_and_others_are_not(desk: Desk) -> None:
    desk.log_in(b"alice")
    lifted = desk.ask(*EXPLAIN)
    desk.log_in(b"mallory")
    ordinary = desk.ask(*EXPLAIN)

    assert b"  lifted: granted to user alice" in lifted
    assert lifted.endswith(blob(b"alice may read it unmasked, once the read is recorded"))
    assert b"  masks: no grant" in ordinary
    assert b"alice" not in ordinary
    assert b"erin" not in lifted + ordinary
    assert desk.play.recorded == []


def test_a_name_that_any_password_opens_is_told_that_it_lifts_nothing(desk: Desk) -> None:
    desk.play.proven = False
    desk.log_in(b"alice")

    answer = desk.ask(*EXPLAIN)

    assert b"  masks: the login proves nothing" in answer
    assert answer.endswith(blob(b"alice sees it masked"))


def test_before_the_rules_were_read_everything_is_told_to_be_masked(desk: Desk) -> None:
    desk.policy = Policy.closed()

    assert desk.ask(b"VEIL", b"EXPLAIN", b"open").endswith(
        blob(b"the masking rules could not be read: it is masked whole") + blob(b"a reader who is not logged in sees it masked")
    )


@pytest.mark.parametrize("version", [2, 3])
def test_it_answers_in_its_turn_and_alike_in_both_versions(desk: Desk, version: int) -> None:
    desk.ask(b"HELLO", b"%d" % version, answer=b"%%1\r\n+proto\r\n:%d\r\n" % version)
    desk.play.sent_up()
    reads = [encode_command((b"GET", key)) for key in (b"secret:1", b"open")]

    shown = desk.play.reader(reads[0] + encode_command((b"VEIL", b"EXPLAIN", b"open")) + reads[1])
    assert desk.play.sent_up() == b"".join(reads)
    shown += desk.play.server(blob(CANARY) + blob(b"1"))

    answer = lines(HEAD.format("open", NOBODY), "no rule covers it: it is shown as it is")
    assert shown == MASKED + answer + blob(b"1")


def test_behind_a_login_it_speaks_of_who_was_logged_in(desk: Desk) -> None:
    desk.play.reader(encode_command((b"AUTH", b"alice", b"pw")) + encode_command(EXPLAIN))

    assert b"alice may read it unmasked" in desk.play.server(b"+OK\r\n")


@pytest.mark.parametrize(
    ("argv", "name"), [(EXPLAIN, b"VEIL EXPLAIN"), ((b"VEIL", b"help"), b"VEIL HELP"), ((b"VEIL", b"X\r\n"), b"VEIL")]
)
def test_in_a_transaction_it_is_refused_and_aborts_it(desk: Desk, argv: tuple[bytes, ...], name: bytes) -> None:
    desk.ask(b"MULTI", answer=b"+OK\r\n")
    desk.play.sent_up()

    assert desk.ask(*argv) == b"-ERR %b is not allowed in a transaction\r\n" % name
    assert desk.play.sent_up() == b""
    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")


@pytest.mark.parametrize(
    ("argv", "answer"),
    [
        ((b"VEIL",), b"-ERR wrong number of arguments for 'veil' command\r\n"),
        ((b"VEIL", b"LIFT"), b"-ERR unknown VEIL subcommand\r\n"),
        ((b"VEIL", b"EXPLAIN\0", b"k"), b"-ERR unknown VEIL subcommand\r\n"),
        ((b"VEIL", b"EXPLAIN"), b"-ERR wrong number of arguments for 'veil|explain' command\r\n"),
        ((b"VEIL", b"EXPLAIN", b"a", b"b"), b"-ERR wrong number of arguments for 'veil|explain' command\r\n"),
        ((b"VEIL", b"HELP", b"x"), b"-ERR wrong number of arguments for 'veil|help' command\r\n"),
    ],
)
def test_what_is_no_veil_command_is_an_error_and_never_goes_up(desk: Desk, argv: tuple[bytes, ...], answer: bytes) -> None:
    assert desk.ask(*argv) == answer
    assert desk.play.sent_up() == b""


def test_help_names_the_subcommands(desk: Desk) -> None:
    assert blob(b"EXPLAIN <key>") in desk.ask(b"VEIL", b"HELP")


def test_with_replies_off_it_says_nothing(desk: Desk) -> None:
    desk.ask(b"CLIENT", b"REPLY", b"SKIP")

    assert desk.ask(*EXPLAIN) == b""
    assert desk.ask(*EXPLAIN) != b""


def test_a_resp2_connection_that_hears_messages_is_told_to_ask_elsewhere(desk: Desk) -> None:
    desk.play.reader(encode_command((b"SUBSCRIBE", b"open")) + encode_command(EXPLAIN))

    heard = desk.play.server(array(blob(b"subscribe"), blob(b"open"), b":1\r\n"))

    assert b":1\r\n-ERR Can't execute 'veil': only" in heard


def test_a_hostile_name_is_cut_and_cannot_forge_a_line(desk: Desk) -> None:
    answer = desk.ask(b"VEIL", b"EXPLAIN", b'secret:"\r\n-ERR \x00\xff\x1b' + b"x" * 100_000)

    assert len(answer) < 1000
    assert b"\r\n-ERR" not in answer
    assert b"\x1b" not in answer
