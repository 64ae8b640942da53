"""A session as bytes in, bytes out: what is shown, in which order, and what comes besides."""

from __future__ import annotations

import pytest

from proxy.core.errors import WireError
from proxy.protocols.redis.wire import encode_command
from rules.model import Rule, RuleBook
from rules.policy import Policy

from .desk import (
    CANARY,
    MASKED,
    REFUSED,
    WHOLE,
    Desk,
    array,
    blob,
    rule,
)


def test_a_covered_string_is_masked_and_another_is_not(desk: Desk) -> None:
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.ask(b"GET", b"open:1", answer=blob(CANARY)) == blob(CANARY)


def test_a_hash_field_is_hidden_and_its_neighbour_is_not(desk: Desk) -> None:
    answer = array(blob(b"name"), blob(b"Ada"), blob(b"email"), blob(CANARY))
    expected = array(blob(b"name"), blob(b"Ada"), blob(b"email"), MASKED)

    assert desk.ask(b"HGETALL", b"user:1", answer=answer) == expected


def test_a_resp3_map_is_masked_too(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")

    shown = desk.ask(b"HGETALL", b"user:1", answer=b"%1\r\n" + blob(b"email") + blob(CANARY))

    assert shown == b"%1\r\n" + blob(b"email") + MASKED


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (b"HKEYS secret:1", array(blob(b"email"), blob(b"name"))),
        (b"HEXISTS secret:1 email", b":1\r\n"),
        (b"HTTL secret:1 FIELDS 1 email", array(b":-1\r\n")),
        (b"XPENDING secret:1 g - + 10", array(array(blob(b"1-1"), blob(b"c"), b":7\r\n", b":1\r\n"))),
        (b"XINFO GROUPS secret:1", array(b"%1\r\n" + blob(b"name") + blob(b"g"))),
        (b"HRANDFIELD secret:1", blob(b"email")),
        (b"BF.INFO secret:1", b"%1\r\n+Capacity\r\n:100\r\n"),
    ],
)
def test_names_and_counts_of_a_covered_key_pass_in_any_form(desk: Desk, words: bytes, answer: bytes) -> None:
    assert desk.ask(*words.split(), answer=answer) == answer
    assert desk.ask(b"PING", answer=b"+PONG\r\n") == b"+PONG\r\n"


def test_a_pipeline_keeps_its_order_with_a_refusal_inside(desk: Desk) -> None:
    get, strlen, ping = (encode_command(argv) for argv in ((b"GET", b"open"), (b"STRLEN", b"secret:1"), (b"PING",)))

    assert desk.play.reader(get + strlen + ping) == b""
    assert desk.play.sent_up() == get + ping
    assert desk.play.server(blob(b"7") + b"+PONG\r\n") == blob(b"7") + REFUSED % (b"STRLEN", b"secret:1") + b"+PONG\r\n"
    assert [(note.event, note.operation) for note in desk.play.notes] == [("masking.refused", "STRLEN")]


def test_byte_by_byte_gives_the_same_bytes(desk: Desk) -> None:
    asked = encode_command((b"GET", b"secret:1")) + b"GET secret:2\r\n" + encode_command((b"GET", b"open"))
    answered = blob(CANARY) + blob(CANARY) + blob(b"7")
    shown = b""

    for byte in asked:
        shown += desk.play.reader(bytes([byte]))
    for byte in answered:
        shown += desk.play.server(bytes([byte]))

    assert desk.play.sent_up() == b"".join(encode_command((b"GET", key)) for key in (b"secret:1", b"secret:2", b"open"))
    assert shown == MASKED + MASKED + blob(b"7")


def test_a_command_nobody_knows_is_refused_by_the_name_it_came_with_and_noted_without_it(desk: Desk) -> None:
    refused = b'-NOPERM veil: NO?SUCH is refused while the masking rule "Secrets" applies to you\r\n'

    assert desk.ask(b"no\xffSuch", CANARY) == refused
    assert [note.operation for note in desk.play.notes] == ["*"]


def test_an_inline_command_goes_up_as_an_array(desk: Desk) -> None:
    desk.play.reader(b'GET "secret:\\x31"\r\n')

    assert desk.play.sent_up() == encode_command((b"GET", b"secret:1"))
    assert desk.play.server(blob(CANARY)) == MASKED


@pytest.mark.parametrize("line", [b"POST / HTTP/1.1\r\n", b"host: x\r\n"])
def test_an_http_request_closes_and_nothing_goes_up(desk: Desk, line: bytes) -> None:
    with pytest.raises(WireError):
        desk.play.reader(line + encode_command((b"GET", b"open")))

    assert desk.play.sent_up() == b""


def test_nonsense_is_answered_after_what_was_asked_before(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"secret:1")) + b"*1\r\n:3\r\n")

    with pytest.raises(WireError) as caught:
        desk.play.server(blob(CANARY))
    assert caught.value.answer.startswith(b"-ERR Protocol error")
    assert desk.play.to_reader == MASKED


def test_client_reply_is_carried_out_here(desk: Desk) -> None:
    assert desk.ask(b"CLIENT", b"REPLY", b"SKIP") == b""
    assert desk.ask(b"GET", b"open", answer=blob(b"7")) == b""
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.ask(b"CLIENT", b"REPLY", b"OFF") == b""
    assert desk.ask(b"STRLEN", b"secret:1") == b""
    assert desk.ask(b"CLIENT", b"REPLY", b"ON") == b"+OK\r\n"
    assert b"REPLY" not in desk.play.sent_up()


def test_attributes_do_not_shift_replies(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.play.reader(encode_command((b"GET", b"open")) + encode_command((b"GET", b"secret:1")))

    shown = desk.play.server(b"|1\r\n+ttl\r\n" + blob(CANARY) + blob(b"7") + blob(CANARY))

    assert shown == blob(b"7") + MASKED


@pytest.mark.parametrize("error", [b"MOVED 3999 10.0.0.9:6381", b"ASK 3999 10.0.0.9:6381", b"REDIRECT 10.0.0.9:6381"])
def test_no_address_of_another_node_gets_through(desk: Desk, error: bytes) -> None:
    shown = desk.ask(b"GET", b"open", answer=b"-" + error + b"\r\n")

    assert shown.startswith(b"-CLUSTERDOWN")
    assert b"10.0.0.9" not in shown


def test_an_answer_without_a_command_closes(desk: Desk) -> None:
    with pytest.raises(WireError):
        desk.play.server(blob(CANARY))
    assert desk.play.to_reader == b""


def test_a_type_byte_nobody_knows_closes(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"open")))

    with pytest.raises(WireError):
        desk.play.server(b"?" + CANARY + b"\r\n")


def test_monitor_lines_keep_the_command_and_its_key(desk: Desk) -> None:
    assert desk.ask(b"MONITOR", answer=b"+OK\r\n") == b"+OK\r\n"
    line = b'+1700000000.000001 [0 127.0.0.1:4] "set" "secret:1" "%b"\r\n' % CANARY

    shown = desk.play.server(line)

    assert b"secret:1" in shown
    assert CANARY not in shown


def test_a_large_reply_of_an_open_key_streams_through(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"open")))

    assert desk.play.server(b"$200000\r\n" + b"x" * 1000) == b"$200000\r\n" + b"x" * 1000


def test_a_covered_value_over_the_limit_is_masked_whole_without_being_held() -> None:
    desk = Desk()
    desk.play.reader(encode_command((b"GET", b"secret:1")))
    size = 65 * 1024 * 1024
    shown = desk.play.server(b"$%d\r\n" % size)
    for _ in range(65):
        shown += desk.play.server(b"s" * 1024 * 1024)

    assert shown + desk.play.server(b"\r\n") == MASKED


def test_a_full_queue_holds_the_reader_and_loses_nothing(desk: Desk) -> None:
    asked = encode_command((b"GET", b"secret:1")) * 3000
    desk.play.reader(asked)
    assert desk.play.held
    for _ in range(3000):
        desk.play.server(blob(CANARY))

    assert desk.play.sent_up() == asked
    assert desk.play.to_reader == MASKED * 3000


def test_before_the_first_read_of_the_rules_everything_is_masked() -> None:
    desk = Desk()
    desk.policy = Policy.closed()

    assert desk.ask(b"GET", b"any", answer=blob(CANARY)) == MASKED
    said = b"is refused: the masking rules could not be read\r\n"
    assert desk.ask(b"STRLEN", b"any") == b'-NOPERM veil: STRLEN on "any" ' + said
    assert desk.ask(b"EVAL", b"return 1", b"0") == b"-NOPERM veil: EVAL " + said
    assert desk.ask(b"nosuch", b"any") == b"-NOPERM veil: NOSUCH " + said


@pytest.mark.parametrize("rules", [rule("Whole", "z:*", WHOLE), rule("All", "z:*", mask_all=True)], ids=["whole", "all"])
def test_no_member_of_a_sorted_set_can_be_told_from_another_where_values_are_hidden_whole(rules: Rule) -> None:
    desk = Desk(RuleBook("1", (rules,)))
    held = array(blob(b'{"email":"%b"}' % CANARY), blob(b"null"), blob(b'{"guess'), blob(b"plain"))

    assert desk.ask(b"ZRANGE", b"z:1", b"0", b"-1", answer=held) == array(*[MASKED] * 4)


@pytest.mark.parametrize(
    ("argv", "spoken"),
    [
        ((b"nosuch", CANARY), b"NOSUCH"),
        ((b"ai.modelget", CANARY), b"AI.MODELGET"),
        ((b"tfunction", b"load", CANARY), b"TFUNCTION LOAD"),
        ((b"config", b"nosuch", CANARY), b"CONFIG"),
        ((b'no"such\r\n\xff', CANARY), b"NO?SUCH???"),
        ((b"x" * 1000, CANARY), b"X" * 128),
    ],
)
def test_the_refusal_of_a_command_without_a_row_of_its_own_names_what_was_sent(argv: tuple[bytes, ...], spoken: bytes) -> None:
    desk = Desk()

    assert desk.ask(*argv) == b'-NOPERM veil: %b is refused while the masking rule "Secrets" applies to you\r\n' % spoken
    assert not desk.play.sent_up()
