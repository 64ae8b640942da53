"""Commands that a server leaves without an answer never shift the replies of later ones."""

from __future__ import annotations

import pytest

from proxy.protocols.redis.wire import encode_command

from .desk import CANARY, MASKED, SECRETS, Desk, blob

READS = encode_command((b"GET", b"open")) + encode_command((b"GET", b"secret:1"))


@pytest.mark.parametrize("together", [True, False])
def test_monitor_asked_again_is_not_sent_since_servers_leave_it_without_an_answer(desk: Desk, together: bool) -> None:
    if together:
        desk.play.reader(encode_command((b"MONITOR",)) * 2 + READS)
        shown = desk.play.server(b"+OK\r\n")
    else:
        shown = desk.ask(b"MONITOR", answer=b"+OK\r\n")
        desk.play.reader(encode_command((b"MONITOR",)) + READS)

    shown += desk.play.server(blob(b"1") + blob(CANARY))

    assert shown == b"+OK\r\n" + blob(b"1") + MASKED
    assert desk.play.sent_up() == encode_command((b"MONITOR",)) + READS


def test_after_reset_monitor_is_asked_anew(desk: Desk) -> None:
    desk.ask(b"MONITOR", answer=b"+OK\r\n")
    desk.ask(b"RESET", answer=b"+RESET\r\n")

    assert desk.ask(b"MONITOR", answer=b"+OK\r\n") == b"+OK\r\n"


@pytest.mark.parametrize(
    "argv",
    [
        (b"REPLCONF", b"ACK", b"0"),
        (b"replconf", b"getack", b"*"),
        (b"REPLCONF", b"capa", b"eof", b"ack\0x", b"0"),
    ],
)
def test_replconf_that_gets_no_answer_is_never_sent_even_while_no_rule_masks(desk: Desk, argv: tuple[bytes, ...]) -> None:
    desk.replace()
    assert desk.ask(*argv).startswith(b"-ERR veil: REPLCONF ACK")
    desk.play.sent_up()
    desk.replace(SECRETS)

    desk.play.reader(READS)

    assert desk.play.server(blob(b"1") + blob(CANARY)) == blob(b"1") + MASKED


def test_replconf_that_gets_no_answer_aborts_a_transaction(desk: Desk) -> None:
    desk.replace()
    desk.ask(b"MULTI", answer=b"+OK\r\n")
    desk.ask(b"REPLCONF", b"ACK", b"0")

    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")
