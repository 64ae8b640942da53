"""Rules that change while commands and replies are under way, and what a subscription hears."""

from __future__ import annotations

import pytest

from proxy.core.errors import WireError
from proxy.core.steps import ToReader
from proxy.protocols.redis.wire import encode_command
from rules.model import Partial

from .desk import (
    CANARY,
    MASKED,
    PROFILES,
    WHOLE,
    Desk,
    array,
    blob,
    path,
    rule,
)


def test_a_rule_that_came_while_the_reply_was_under_way_masks_it(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"late:1")) + encode_command((b"STRLEN", b"late:1")))
    desk.replace(rule("Late", "late:*", WHOLE))

    shown = desk.play.server(blob(CANARY) + b":23\r\n")

    assert shown.startswith(MASKED + b"-NOPERM veil: STRLEN")
    assert b":23" not in shown


def test_a_rule_that_went_while_the_reply_was_under_way_still_masks_it(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"secret:1")))
    desk.replace(PROFILES)

    assert desk.play.server(blob(CANARY)) == MASKED
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)


def test_a_slice_that_went_up_before_the_rule_is_hidden_whole(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GETRANGE", b"late:1", b"0", b"3")))
    desk.replace(rule("Late", "late:*", path("$.card", Partial(keep_first=1))))

    assert desk.play.server(blob(CANARY[:4])) == MASKED


def test_a_blocked_copy_is_ended_when_a_rule_would_refuse_it(desk: Desk) -> None:
    desk.play.reader(encode_command((b"BLMOVE", b"late:1", b"out", b"LEFT", b"LEFT", b"0")))
    desk.replace(rule("Late", "late:*", WHOLE))

    assert desk.play.closed


def test_a_caching_reader_is_told_to_forget_when_a_rule_changes(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    desk.play.to_reader = b""

    desk.replace(PROFILES)

    assert desk.play.to_reader == b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def test_the_invalidation_waits_for_the_end_of_a_frame(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    desk.play.reader(encode_command((b"GET", b"open")))
    desk.play.to_reader = b""
    desk.play.server(b"$6\r\nabc")
    desk.replace(PROFILES)
    desk.play.server(b"def\r\n")

    assert desk.play.to_reader == blob(b"abcdef") + b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def test_a_rule_that_comes_while_a_value_streams_ends_the_connection(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"late:1")))
    desk.play.server(b"$200000\r\n" + b"x" * 1000)
    desk.replace(rule("Late", "late:*", WHOLE))

    with pytest.raises(WireError):
        desk.play.server(CANARY)
    assert CANARY not in desk.play.to_reader


def test_a_rule_that_comes_while_a_slow_reader_takes_a_stream_holds_for_what_is_there_already(desk: Desk) -> None:
    desk.play.reader(encode_command((b"MGET", *[b"late:%d" % number for number in range(10)])))
    desk.play.stop_at = ToReader
    desk.play.server(b"*10\r\n" + blob(b"x" * 30_000) * 3 + blob(CANARY) * 7)
    desk.play.stop_at = None
    desk.replace(rule("Late", "late:*", WHOLE))

    with pytest.raises(WireError):
        desk.play.waiting[0].resume()
    assert CANARY not in desk.play.to_reader


def test_an_unmasked_value_that_streams_for_too_long_lapses(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.reader(encode_command((b"GET", b"secret:1")))
    assert desk.play.server(b"$200000\r\n" + b"x" * 1000).endswith(b"x" * 1000)
    desk.clock.now_s = 601.0

    with pytest.raises(WireError):
        desk.play.server(CANARY)
    assert CANARY not in desk.play.to_reader


def test_a_value_that_no_rule_covers_streams_for_as_long_as_it_takes(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"free")))
    desk.play.server(b"$200000\r\n" + b"x" * 1000)
    desk.clock.now_s = 601.0

    assert desk.play.server(b"y" * 1000) == b"y" * 1000


def confirmation(verb: bytes, name: bytes, count: int) -> bytes:
    return array(blob(verb), blob(name), b":%d\r\n" % count)


def test_messages_are_masked_by_their_channel_and_replies_stay_in_step(desk: Desk) -> None:
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:ch", b"open")))
    confirmed = confirmation(b"subscribe", b"secret:ch", 1) + confirmation(b"subscribe", b"open", 2)
    assert desk.play.server(confirmed) == confirmed

    message = array(blob(b"message"), blob(b"secret:ch"), blob(CANARY))
    assert desk.play.server(message) == array(blob(b"message"), blob(b"secret:ch"), MASKED)

    desk.play.reader(encode_command((b"UNSUBSCRIBE",)))
    left = confirmation(b"unsubscribe", b"open", 1) + confirmation(b"unsubscribe", b"secret:ch", 0)
    assert desk.play.server(left) == left
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


def test_resp3_confirmations_are_pushes_and_take_their_slot(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:ch")) + encode_command((b"GET", b"secret:1")))
    push = b">3\r\n" + blob(b"subscribe") + blob(b"secret:ch") + b":1\r\n"
    early = b">3\r\n" + blob(b"message") + blob(b"secret:ch") + blob(CANARY)

    shown = desk.play.server(push + early + blob(CANARY))

    assert shown == push + b">3\r\n" + blob(b"message") + blob(b"secret:ch") + MASKED + MASKED


def test_only_channels_recorded_at_the_start_are_heard_unmasked(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:a")) + encode_command((b"PSUBSCRIBE", b"secret:*")))
    desk.play.server(confirmation(b"subscribe", b"secret:a", 1) + confirmation(b"psubscribe", b"secret:*", 2))
    known = array(blob(b"message"), blob(b"secret:a"), blob(CANARY))
    by_pattern = [array(blob(b"pmessage"), blob(b"secret:*"), blob(b"secret:b"), each) for each in (blob(CANARY), MASKED)]

    assert desk.play.server(known) == known
    assert desk.play.server(by_pattern[0]) == by_pattern[1]
    desk.clock.now_s = 601.0
    assert CANARY not in desk.play.server(known)


def test_a_subscription_hears_a_new_rule_at_once(desk: Desk) -> None:
    desk.play.reader(encode_command((b"SUBSCRIBE", b"late:ch")))
    desk.play.server(confirmation(b"subscribe", b"late:ch", 1))
    desk.replace(rule("Late", "late:*", WHOLE))

    assert CANARY not in desk.play.server(array(blob(b"message"), blob(b"late:ch"), blob(CANARY)))
