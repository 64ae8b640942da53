"""Who reads: a name counts after a yes that a wrong password would not have got, and for its own requests alone."""

from __future__ import annotations

import ipaddress

import pytest

from proxy.core.session import HeaderReader
from proxy.core.steps import Ask, Record
from proxy.protocols.http.session import ACCEPTED_S
from tests.canary import assert_no_canary

from .desk import (
    BOOK,
    CANARY,
    CARD,
    CARDS,
    EVERYTHING,
    MASK,
    NOTES,
    Desk,
    answer,
    asked,
    broken,
    login,
    messages,
    request,
    seen,
)

DENIED = answer(b"{}", status="401 Unauthorized")
CONTENTS = answer(messages(CARD))


def test_a_reader_with_the_permission_is_asked_for_first_and_then_reads_unmasked_and_on_record() -> None:
    desk = Desk()
    first = asked(desk.get("/contents/orders", login("alice")))
    assert first.target == b"/whoami"
    assert first.fields[b"authorization"] == login("alice").removeprefix("Authorization: ").encode()
    assert desk.answer(answer(b"{}")) == b""
    assert asked(desk.play.sent_up()).target == b"/contents/orders"

    told = desk.answer(CONTENTS)

    assert CANARY.encode() in told
    assert [(entry.who, entry.resource and entry.resource.name) for entry in desk.play.recorded] == [("alice", b"orders")]


def test_a_name_is_asked_for_once_while_its_requests_bear_the_same_login() -> None:
    desk = Desk()
    field = desk.log_in("alice")

    for _ in range(3):
        assert asked(desk.get("/contents/orders", field)).target == b"/contents/orders"
        assert CANARY.encode() in desk.answer(CONTENTS)


def test_a_name_is_asked_for_again_after_a_while() -> None:
    desk = Desk()
    field = desk.log_in("alice")
    desk.clock.now_s = ACCEPTED_S

    assert asked(desk.get("/contents/orders", field)).target == b"/whoami"
    desk.answer(DENIED)
    desk.answer(CONTENTS)

    assert_no_canary(desk.play.to_reader, CANARY)


@pytest.mark.parametrize(
    "no",
    [
        DENIED,
        answer(status="403 Forbidden"),
        answer(status="404 Not Found"),
        answer(status="500 No"),
        answer(status="302 Found"),
    ],
)
def test_no_other_answer_than_a_yes_names_anybody(no: bytes) -> None:
    desk = Desk()
    desk.get("/contents/orders", login("alice"))
    desk.answer(no)
    assert asked(desk.play.sent_up()).target == b"/contents/orders"
    desk.answer(CONTENTS)

    assert desk.viewer.reader.name is None
    assert desk.play.recorded == []
    assert_no_canary(desk.play.to_reader, CANARY)


def test_a_yes_where_everybody_gets_one_names_nobody_who_may_read_unmasked() -> None:
    desk = Desk()
    desk.get("/open", login("alice", "wrong"))
    desk.answer(DENIED)
    desk.answer(answer(b"a page for all"))
    desk.get("/danger", login("alice", "wrong"))

    assert seen(desk.play.to_reader.split(b"a page for all")[1]).status == 403
    assert desk.viewer.reader.name is None


def test_a_login_that_was_denied_is_not_tried_again_and_again() -> None:
    desk = Desk()
    desk.get("/open", login("alice", "wrong"))
    desk.answer(DENIED)
    desk.answer(DENIED)

    assert asked(desk.get("/open", login("alice", "wrong"))).target == b"/open"


def test_a_name_that_gets_in_with_any_password_is_an_ordinary_reader() -> None:
    desk = Desk()
    desk.play.proven = False
    desk.get("/contents/orders", login("alice"))
    desk.answer(answer(b"{}"))
    desk.answer(CONTENTS)

    assert_no_canary(desk.play.to_reader, CANARY)


def test_the_probe_asks_with_another_password_at_the_place_that_tells() -> None:
    desk = Desk()
    desk.play.stop_at = Ask
    desk.get("/contents/orders", login("alice"))
    desk.answer(answer(b"{}"))
    (waiting,) = desk.play.waiting
    assert isinstance(waiting.step, Ask)
    probe = waiting.step.probe
    tried = asked(probe.request("abcd"))

    assert (tried.target, tried.fields[b"authorization"]) == (b"/whoami", login("alice", "abcd").split(": ")[1].encode())
    assert [
        probe.verdict(each) for each in (b"HTTP/1.1 401", DENIED, answer(), b"HTTP/1.1 403 No\r\n", b"HTTP/1.1 4010\r\n")
    ] == [None, True, False, False, False]


def test_the_next_request_with_another_login_is_not_the_firsts() -> None:
    desk = Desk()
    field = desk.log_in("alice")
    for other in ([login("bob")], [login("alice", "other")], []):
        desk.get("/contents/orders", field)
        assert CANARY.encode() in desk.answer(CONTENTS)
        before = len(desk.play.to_reader)
        if asked(desk.get("/contents/orders", *other)).target == b"/whoami":
            desk.answer(DENIED)
        desk.answer(CONTENTS)
        assert_no_canary(desk.play.to_reader[before:], CANARY)
        desk.log_in("alice")


def test_pipelined_requests_of_two_readers_are_told_apart() -> None:
    desk = Desk()
    alice = desk.log_in("alice")
    desk.ask(request("/contents/orders", alice) + request("/contents/orders"))
    first = desk.answer(CONTENTS)
    second = desk.answer(CONTENTS)

    assert CANARY.encode() in first
    assert_no_canary(second, CANARY)


def test_an_ordinary_readers_name_is_on_the_trail_after_any_yes() -> None:
    desk = Desk()
    assert asked(desk.get("/open", login("bob"))).target == b"/open"
    desk.answer(answer())
    desk.get("/danger", login("bob"))

    assert [note.who for note in desk.play.notes] == ["bob"]


def test_a_name_good_enough_for_the_trail_lifts_nothing_once_it_is_granted_something() -> None:
    desk = Desk()
    desk.replace(CARDS, grants=())
    desk.get("/open", login("alice", "wrong"))
    desk.answer(answer())
    assert asked(desk.get("/contents/orders", login("alice", "wrong"))).target == b"/contents/orders"
    desk.replace(CARDS, grants=(EVERYTHING,))
    desk.answer(CONTENTS)
    assert asked(desk.get("/contents/orders", login("alice", "wrong"))).target == b"/whoami"
    desk.answer(DENIED)
    desk.answer(CONTENTS)

    assert desk.play.recorded == []
    assert_no_canary(desk.play.to_reader, CANARY)


def test_a_place_that_is_not_for_the_reader_makes_nobody_of_it_until_it_is_asked_for_again() -> None:
    desk = Desk()
    field = desk.log_in("alice")
    desk.get("/open", field)
    desk.answer(DENIED)
    assert desk.viewer.reader.name is None
    assert asked(desk.get("/contents/orders", field)).target == b"/whoami"
    desk.answer(answer(b"{}"))

    assert CANARY.encode() in desk.answer(CONTENTS)


def test_a_look_up_as_veil_says_nothing_of_the_reader() -> None:
    desk = Desk()
    field = desk.log_in("alice")
    told = asked(desk.get("/asking/x/veil", field))
    assert told.fields[b"authorization"] == login("veil").split(": ")[1].encode()
    desk.answer(DENIED)
    assert desk.viewer.reader.name == "alice"
    assert asked(desk.play.sent_up()).fields[b"authorization"] == field.split(": ")[1].encode()
    desk.answer(answer())
    desk.get("/asking/x/veil")
    desk.answer(answer())

    assert desk.viewer.reader.name is None


def test_a_cookie_beside_a_login_stays_behind() -> None:
    assert b"cookie" not in asked(Desk().get("/open", login("bob"), "Cookie: m=1")).fields
    assert asked(Desk().get("/open", "Cookie: m=1")).fields[b"cookie"] == b"m=1"


def test_a_bearer_token_and_a_cookie_name_nobody() -> None:
    for field in ("Authorization: Bearer alice", "Cookie: user=alice"):
        desk = Desk()
        desk.get("/contents/orders", field)
        desk.answer(CONTENTS)

        assert desk.viewer.reader.name is None
        assert_no_canary(desk.play.to_reader, CANARY)


def test_a_fixed_reader_stays_who_it_is() -> None:
    desk = Desk(fixed="alice")
    assert asked(desk.get("/contents/orders", login("bob"))).target == b"/contents/orders"
    assert CANARY.encode() in desk.answer(CONTENTS)
    desk = Desk(fixed="bob")
    assert asked(desk.get("/contents/orders", login("alice"))).target == b"/contents/orders"
    desk.answer(CONTENTS)

    assert_no_canary(desk.play.to_reader, CANARY)


TRUSTED = HeaderReader("X-Forwarded-User", (ipaddress.ip_network("127.0.0.0/8"),))


def test_a_trusted_header_names_each_request_and_goes_no_further() -> None:
    desk = Desk(header=TRUSTED)
    told = asked(desk.get("/contents/orders", "X-Forwarded-User: alice", "X_Forwarded_User: bob"))
    assert (told.target, [name for name in told.fields if b"forwarded" in name]) == (b"/contents/orders", [])
    assert CANARY.encode() in desk.answer(CONTENTS)
    before = len(desk.play.to_reader)
    for fields in ((), ("X-Forwarded-User: bob",), ("X_Forwarded_User: alice",), (login("alice"),)):
        assert asked(desk.get("/contents/orders", *fields)).target == b"/contents/orders"
        desk.answer(CONTENTS)

    assert [entry.who for entry in desk.play.recorded] == ["alice"]
    assert_no_canary(desk.play.to_reader[before:], CANARY)


def test_a_header_of_a_stranger_says_nothing() -> None:
    for desk in (Desk(header=TRUSTED, peer="10.0.0.1:5"), Desk()):
        told = asked(desk.get("/contents/orders", "X-Forwarded-User: alice"))
        assert not [name for name in told.fields if b"forwarded" in name]
        desk.answer(CONTENTS)

        assert_no_canary(desk.play.to_reader, CANARY)


def test_a_journal_that_is_down_masks() -> None:
    desk = Desk()
    field = desk.log_in("alice")
    desk.play.journal_works = False
    desk.get("/contents/orders", field)
    desk.answer(CONTENTS)
    desk.get("/danger", field)

    assert b"HTTP/1.1 403 " in desk.play.to_reader
    assert_no_canary(desk.play.to_reader, CANARY)


def test_a_rule_that_goes_while_an_answer_is_on_its_way_still_masks_it() -> None:
    desk = Desk()
    desk.get("/contents/orders")
    desk.replace(NOTES)
    told = seen(desk.answer(CONTENTS)).body

    assert told.count(MASK.encode()) == 2
    assert b"n0t3" not in told
    assert_no_canary(desk.play.to_reader, CANARY)


def test_a_rule_that_comes_while_an_answer_is_on_its_way_masks_it() -> None:
    desk = Desk()
    desk.replace()
    desk.get("/contents/orders")
    desk.replace(CARDS)
    desk.answer(CONTENTS)

    assert_no_canary(desk.play.to_reader, CANARY)


def test_a_rule_that_comes_while_a_read_is_recorded_masks_it() -> None:
    desk = Desk()
    field = desk.log_in("alice")
    desk.get("/contents/orders", field)
    desk.play.stop_at = Record
    desk.answer(CONTENTS)
    (waiting,) = desk.play.waiting
    desk.replace(CARDS, NOTES, grants=())
    desk.play.stop_at = None
    assert isinstance(waiting.step, Record)
    waiting.resume(None)

    assert b"n0t3" not in desk.play.to_reader
    assert_no_canary(desk.play.to_reader, CANARY)


def test_a_rule_that_comes_while_a_verdict_waits_for_a_look_up_is_judged_by() -> None:
    desk = Desk()
    desk.replace()
    desk.get("/asking/x")
    desk.replace(CARDS)
    desk.answer(answer(b"[1]"))

    assert asked(desk.play.sent_up()).target == b"/facts/x"
    desk.answer(answer(b"[2]"))
    assert asked(desk.play.sent_up()).target == b"/asking/x"
    assert len(desk.api.calls) == 2


def test_rules_that_change_with_every_look_up_end_the_call() -> None:
    desk = Desk()
    desk.get("/asking/x")
    for _ in range(4):
        desk.replace(CARDS)
        desk.answer(answer(b"[1]"))
        assert asked(desk.play.sent_up()).target == b"/facts/x"
    desk.replace(CARDS)

    assert broken(desk, answer(b"[1]")).startswith(b"HTTP/1.1 502 ")


def test_an_exception_of_a_judge_is_not_swallowed_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(BOOK)
    desk.get("/contents/orders")
    monkeypatch.setattr(desk.api, "shown", None)
    with pytest.raises(TypeError):
        desk.answer(CONTENTS)

    assert desk.play.to_reader == b""
