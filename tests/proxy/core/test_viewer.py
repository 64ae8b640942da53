"""When a reader's view is lifted, when it is not, and what is recorded for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import pytest

from proxy.core.steps import Ask, Note, Probe, Record, Step, Steps
from proxy.core.viewer import Read, Viewer
from rules.access import Reader
from rules.audit import Entry, Receipt, RuleTag
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Platform,
    Redact,
    Refusal,
    Rule,
    RuleBook,
    Whom,
)
from rules.policy import Policy

T = TypeVar("T")
SHOP = Connection("shop", Platform.REDIS)
WHOLE = Field(FieldKind.WHOLE_VALUE, Redact())
RULES = (
    Rule("One", Platform.REDIS, ((Kind.KEY, ("a:*",)),), fields=(WHOLE,)),
    Rule("Two", Platform.REDIS, ((Kind.KEY, ("b:*",)),), fields=(WHOLE,)),
)
ACCESS = AccessList(
    grants=(Grant(True, "messages.read.unmasked", Whom.USER, "ann", Extent(resources=((Kind.KEY, ("a:*",)),))),)
)


class Stage:
    def __init__(self, *, fixed: str | None = None, verify_names: bool = True) -> None:
        self.policy = Policy(RuleBook("1", RULES, ACCESS))
        self.now_s = 0.0
        self.viewer = Viewer(
            SHOP,
            "redis",
            "peer",
            lambda: self.policy,
            lambda: self.now_s,
            fixed=None if fixed is None else Reader(fixed),
            verify_names=verify_names,
        )
        self.viewer.prove = lambda name: Probe(name, lambda nonce: nonce.encode(), lambda data: None)
        self.steps: list[Step] = []
        self.durable = True
        self.proven = True

    def run(self, steps: Steps[T]) -> T:
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            self.steps.append(step)
            answer = self.answer(step)

    def answer(self, step: Step) -> object:
        if isinstance(step, Record) and self.durable:
            return tuple(Receipt(entry, 1) for entry in step.entries)
        return self.proven if isinstance(step, Ask) else None

    def settle(self) -> list[type[Step]]:
        """What is asked for when a login was accepted."""
        before = len(self.steps)
        self.run(self.viewer.settle())
        return [type(step) for step in self.steps[before:]]

    def lift(self, *names: bytes, read: Read | None = None) -> list[bool]:
        """Which of the keys are shown unmasked."""
        views = [self.viewer.view(self.viewer.resource(Kind.KEY, name)) for name in names]
        return [not view.masks for view in self.run(self.viewer.lift(views, read or self.viewer.begin(), "GET"))]

    @property
    def recorded(self) -> Sequence[Entry]:
        return [entry for step in self.steps if isinstance(step, Record) for entry in step.entries]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.viewer.named("ann")
    return stage


def test_only_what_is_permitted_is_lifted_and_recorded(stage: Stage) -> None:
    assert stage.lift(b"a:1", b"b:1", b"free") == [True, False, True]
    assert [(entry.who, entry.resource.name) for entry in stage.recorded if entry.resource] == [("ann", b"a:1")]


def test_a_read_is_recorded_once(stage: Stage) -> None:
    read = stage.viewer.begin()

    assert stage.lift(b"a:1", read=read) == [True]
    assert stage.lift(b"a:1", b"a:2", read=read) == [True, True]
    assert [entry.resource.name for entry in stage.recorded if entry.resource] == [b"a:1", b"a:2"]


def test_a_rule_that_came_since_is_recorded_anew(stage: Stage) -> None:
    read = stage.viewer.begin()
    stage.lift(b"a:1", read=read)
    stage.policy = Policy(
        RuleBook("2", (*RULES, Rule("New", Platform.REDIS, ((Kind.KEY, ("a:*",)),), fields=(WHOLE,))), ACCESS)
    )
    stage.viewer.look()
    view = stage.viewer.view(stage.viewer.resource(Kind.KEY, b"a:1"))

    assert stage.viewer.recorded(view, read).masks
    assert stage.lift(b"a:1", read=read) == [True]
    assert [tag.name for tag in stage.recorded[-1].rules] == ["One", "New"]


def test_a_rule_that_comes_in_the_middle_of_a_step_is_seen_at_the_next_look(stage: Stage) -> None:
    before = stage.viewer.policy
    stage.policy = Policy(RuleBook("2", (), ACCESS))

    assert stage.viewer.policy is before
    assert stage.viewer.view(stage.viewer.resource(Kind.KEY, b"a:1")).masks
    assert stage.viewer.anything().masks
    assert stage.viewer.look()
    assert stage.viewer.policy is stage.policy
    assert not stage.viewer.view(stage.viewer.resource(Kind.KEY, b"a:1")).masks
    assert not stage.viewer.look()


def test_nothing_is_lifted_without_a_receipt(stage: Stage) -> None:
    stage.durable = False

    assert stage.lift(b"a:1", b"free") == [False, True]


def test_a_name_that_proves_nothing_is_asked_for_once_and_never_lifted(stage: Stage) -> None:
    stage.proven = False

    assert stage.lift(b"a:1") == [False]
    assert stage.lift(b"a:1") == [False]
    assert [type(step) for step in stage.steps] == [Ask]


def test_with_names_unverified_nobody_is_lifted() -> None:
    stage = Stage(verify_names=False)
    stage.viewer.named("ann")

    assert stage.lift(b"a:1") == [False]
    assert stage.steps == []


def test_a_fixed_reader_is_never_asked_for_and_never_changes() -> None:
    stage = Stage(fixed="ann")
    stage.viewer.named("eve")

    assert stage.lift(b"a:1") == [True]
    assert [type(step) for step in stage.steps] == [Record]


def test_a_change_of_reader_takes_what_was_lifted(stage: Stage) -> None:
    read = stage.viewer.begin()
    stage.lift(b"a:1", read=read)
    stage.viewer.named("eve")

    assert stage.viewer.recorded(stage.viewer.view(stage.viewer.resource(Kind.KEY, b"a:1")), read).masks


def test_a_login_that_is_accepted_while_the_name_is_proven_does_not_inherit_it(stage: Stage) -> None:
    def answer(step: Step) -> object:
        stage.viewer.named("bob")
        return True

    stage.answer = answer  # type: ignore[method-assign]

    assert stage.lift(b"a:1") == [False]


def test_a_read_lapses_and_is_not_recorded_again(stage: Stage) -> None:
    read = stage.viewer.begin()
    stage.lift(b"a:1", read=read)
    stage.now_s = 600.0

    assert stage.lift(b"a:1", read=read) == [False]
    assert len(stage.recorded) == 1
    assert stage.lift(b"a:1") == [True]


def test_a_read_that_lapses_while_it_is_recorded_stays_masked(stage: Stage) -> None:
    def answer(step: Step) -> object:
        if isinstance(step, Record):
            stage.now_s = 601.0
            return tuple(Receipt(entry, 1) for entry in step.entries)
        return True

    read = stage.viewer.begin()
    stage.answer = answer  # type: ignore[method-assign]

    assert stage.lift(b"a:1", read=read) == [False]


def test_what_was_on_record_is_masked_too_when_the_read_lapses_while_more_of_it_is_recorded(stage: Stage) -> None:
    read = stage.viewer.begin()
    stage.lift(b"a:1", read=read)

    def answer(step: Step) -> object:
        if isinstance(step, Record):
            stage.now_s = 600.0
            return tuple(Receipt(entry, 1) for entry in step.entries)
        return True

    stage.answer = answer  # type: ignore[method-assign]

    assert stage.lift(b"a:1", b"a:2", read=read) == [False, False]


def test_what_is_on_record_stays_lifted_when_more_of_it_cannot_be_recorded(stage: Stage) -> None:
    read = stage.viewer.begin()
    stage.lift(b"a:1", read=read)
    stage.durable = False

    assert stage.lift(b"a:1", b"a:2", read=read) == [True, False]


def test_the_lapse_that_is_waited_for_is_that_of_the_oldest_read_that_showed_something(stage: Stage) -> None:
    assert stage.viewer.lapses_at_s == math.inf
    stage.now_s = 5.0
    first = stage.viewer.begin()
    stage.lift(b"b:1", b"free", read=stage.viewer.begin())
    assert stage.viewer.lapses_at_s == math.inf

    stage.now_s = 7.0
    stage.lift(b"a:2")
    stage.lift(b"a:1", read=first)
    assert stage.viewer.lapses_at_s == 605.0

    stage.viewer.forget()
    assert stage.viewer.lapses_at_s == math.inf
    stage.viewer.recorded(stage.viewer.view(stage.viewer.resource(Kind.KEY, b"a:1")), first)
    assert stage.viewer.lapses_at_s == 605.0


def test_a_read_lapses_at_the_very_time_that_is_waited_for(stage: Stage) -> None:
    stage.now_s = 0.1 + 0.2
    read = stage.viewer.begin()
    stage.lift(b"a:1", read=read)
    stage.now_s = stage.viewer.lapses_at_s

    assert stage.viewer.lapsed(read)


@pytest.mark.parametrize(("proven", "verify", "doubted"), [(True, True, False), (False, True, True), (True, False, True)])
def test_a_name_that_lifts_nothing_is_doubted(proven: bool, verify: bool, doubted: bool) -> None:
    stage = Stage(verify_names=verify)
    stage.viewer.named("ann")
    assert stage.viewer.is_doubted is not verify
    stage.proven = proven
    stage.settle()

    assert stage.viewer.is_doubted is doubted


def test_a_refusal_is_noted_with_its_rule_and_counted(stage: Stage) -> None:
    note = stage.viewer.refused(Refusal("One", "value"), stage.viewer.resource(Kind.KEY, b"a:1"), "STRLEN")

    assert isinstance(note, Note)
    assert (note.entry.event, note.entry.operation, note.entry.field) == ("masking.refused", "STRLEN", "value")
    assert stage.viewer.tally.refusals == {"One": 1}


def test_a_refusal_bears_the_tags_of_its_rule_so_that_a_search_by_tag_finds_it(stage: Stage) -> None:
    tagged = Rule("One", Platform.REDIS, RULES[0].resources, fields=(WHOLE,), compliance=("GDPR",), risk="high")
    stage.policy = stage.viewer.policy = Policy(RuleBook("2", (tagged, RULES[1])))

    for rule, expected in (
        ("One", RuleTag("One", ("GDPR",), None, "high")),
        ("Two", RuleTag("Two")),
        ("Gone", RuleTag("Gone")),
    ):
        assert stage.viewer.refused(Refusal(rule, "value"), None, "EVAL").entry.rules == (expected,)
    assert stage.viewer.refused(Refusal(None, reason="not read"), None, "EVAL").entry.rules == ()


def test_a_name_that_may_lift_something_is_tried_at_its_login_and_not_again(stage: Stage) -> None:
    assert stage.settle() == [Ask]
    stage.proven = False

    assert stage.lift(b"a:1") == [True]
    assert stage.settle() == []


def test_a_name_that_got_in_without_a_password_stays_ordinary_when_one_is_set_later(stage: Stage) -> None:
    stage.proven = False
    stage.settle()
    stage.proven = True

    assert stage.lift(b"a:1") == [False]


def test_each_login_of_a_name_is_tried_for_itself(stage: Stage) -> None:
    stage.settle()
    stage.proven = False
    stage.viewer.named("ann")
    stage.settle()

    assert stage.lift(b"a:1") == [False]


@pytest.mark.parametrize("name", ["eve", None])
def test_a_name_that_may_lift_nothing_is_not_tried(stage: Stage, name: str | None) -> None:
    stage.viewer.named(name)

    assert stage.settle() == []
