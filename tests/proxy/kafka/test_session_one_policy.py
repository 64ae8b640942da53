"""Rules that come while an unmasked read is recorded: all of an answer, and all of a request, go by those of one moment."""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.steps import Record
from proxy.protocols.kafka import schema
from rules.audit import Receipt
from rules.model import Rule, RuleBook
from rules.policy import Policy

from .desk import (
    BOOK,
    CARDS,
    FETCH,
    MASK,
    PRODUCE,
    Desk,
    batch,
    card,
    fetch_answer,
    fetch_request,
    path,
    record,
    records_of,
    rule,
)
from .test_session_fetch import opened
from .test_session_produce import request, told, written

OTHERS = rule("Others", "public", path("$.card"))
NOTES = rule("Notes", "orders*", path("$.note"))


def while_recording(desk: Desk, begin: Callable[[], object], *rules: Rule) -> None:
    """Begins, and puts the rules in force while the first read is recorded."""
    desk.play.stop_at = Record
    begin()
    [waiting] = desk.play.waiting
    step = waiting.step
    assert isinstance(step, Record)
    desk.policy = Policy(RuleBook("2", rules, BOOK.access))
    desk.play.stop_at = None
    desk.play.recorded += step.entries
    waiting.resume(tuple(Receipt(entry, number) for number, entry in enumerate(step.entries, 1)))


def test_a_topic_that_is_covered_from_now_on_is_masked_beside_one_that_is_lifted() -> None:
    desk = Desk(fixed="erin")
    desk.ask(FETCH, 12, fetch_request(12, b"public", b"orders.eu"))
    section = batch(record(b"k", card()))
    answer = fetch_answer(12, b"public", section)
    answer["responses"] += fetch_answer(12, b"orders.eu", section)["responses"]
    while_recording(desk, lambda: desk.answer(answer), CARDS, OTHERS)

    shown = desk.read(FETCH, 12)
    assert opened(records_of(shown))[0][1] == card(MASK)
    assert opened(records_of(shown, topic=1))[0][1] == card()


def test_a_rule_that_comes_on_the_topic_itself_is_on_record_before_it_is_lifted() -> None:
    desk = Desk(fixed="erin")
    desk.ask(FETCH, 12, fetch_request(12, b"orders.eu"))
    answer = fetch_answer(12, b"orders.eu", batch(record(b"k", card())))
    while_recording(desk, lambda: desk.answer(answer), CARDS, NOTES)

    assert opened(records_of(desk.read(FETCH, 12)))[0][1] == card()
    assert [[tag.name for tag in entry.rules] for entry in desk.play.recorded] == [["Cards"], ["Cards", "Notes"]]


def test_a_topic_that_is_covered_from_now_on_takes_no_masked_item_beside_one_that_is_lifted() -> None:
    desk = Desk(fixed="erin")
    masked = batch(record(b"k", card(MASK)))
    wanted = request(9, (b"public", masked), (b"orders.eu", masked))
    sent: list[object] = []
    while_recording(desk, lambda: sent.extend(desk.ask(PRODUCE, 9, wanted)), CARDS, OTHERS)

    [(_, _, went)] = desk.went_up()
    assert [each["name"] for each in went["topic_data"]] == [b"orders.eu"]
    answer = told(9, desk.answer(written(9, b"orders.eu")))
    assert {topic: each["error_code"] for topic, each in answer.items()} == {b"public": 44, b"orders.eu": 0}


def test_a_rule_that_comes_while_a_guard_is_passed_is_on_record_before_it_is() -> None:
    desk = Desk(fixed="alice")
    wanted = schema.request(30, 3).blank() | {"creations": [schema.request(30, 3).item("creations").blank()]}
    while_recording(desk, lambda: desk.ask(30, 3, wanted), CARDS, OTHERS)

    assert len(desk.went_up()) == 1
    assert [tag.name for tag in desk.play.recorded[-1].rules] == ["Cards", "Others"]
