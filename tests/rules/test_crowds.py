"""Which paths are told to run out of states, and that they do."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import automaton, check, crowds
from rules.automaton import Automaton, TooManyPaths
from rules.model import Platform
from rules.plan import TOO_MANY_PATHS
from rules.store.book import bind
from tests.rules.making import path, plan
from tests.rules.making import rule as made

DEEP = "$..a" + ".*" * 7
TOO_DEEP = "$..a" + ".*" * 13


def rule(name: str, *paths: str, resources: str = '["a"]', more: str = "") -> str:
    fields = ", ".join(f"{{kind: json_path, path: '{each}', method: redact}}" for each in paths)
    return f"- {{name: {name}, platform: redis, resources: {resources}, fields: [{fields}]{more}}}\n"


def told(*rules: str) -> list[str]:
    bound = bind([("f", ("rules:\n" + "".join(rules)).encode())])
    assert bound.book is not None, bound.problems
    return [str(each) for each in crowds.crowds([each for each in bound.book.rules if each.enabled])]


def test_a_path_that_runs_out_alone_is_told_at_its_place() -> None:
    (line,) = told(rule("one", "$.x", TOO_DEEP))

    assert line == (
        f"f:2:131: warning: {TOO_DEEP}: a document can need more than 10000 combinations of their steps, and is masked whole then"
    )


def test_check_warns_of_it() -> None:
    bound = bind([("f", ("rules:\n" + rule("one", TOO_DEEP)).encode())])
    assert bound.book is not None

    assert any("combinations of their steps" in str(each) for each in check.warnings(bound.book))


def test_what_is_told_happens_to_a_document() -> None:
    def nested(depth: int) -> object:
        return {"a": nested(depth - 1), "b": nested(depth - 1)} if depth else 1

    cut = plan(path(TOO_DEEP), platform=Platform.REDIS).value(json.dumps(nested(14)).encode())

    assert cut.whole == TOO_MANY_PATHS


def test_rules_that_run_out_together_are_named_and_no_others() -> None:
    (line,) = told(
        rule("one", DEEP),
        rule("harmless", "$.orders[*].mail", "$..iban"),
        rule("two", DEEP.replace("a", "b"), resources='["*"]'),
        rule("three", "$..c.*"),
    )

    assert line.startswith(f'f:4:83: warning: {DEEP.replace("a", "b")} beside {DEEP} in rule "one" (f:2:83): a document')


def test_a_path_that_adds_nothing_is_left_out() -> None:
    (line,) = told(rule("one", DEEP), rule("two", DEEP.removesuffix(".*")), rule("three", "$..b" + ".*" * 6))

    assert 'rule "one"' in line
    assert 'rule "two"' not in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"resources": '["b"]'},
        {"resources": '["a?", "?a"]'},
        {"more": ", except: [a]", "resources": '["*"]'},
        {"more": ", enabled: false"},
        {"more": ", scope: {environment: test}"},
        {"more": ", scope: {connection: test}"},
    ],
)
def test_rules_that_never_cover_one_name_together_are_not_told(more: dict[str, str]) -> None:
    scope = f", scope: {{{'connection' if 'connection' in str(more) else 'environment'}: production}}"

    assert told(rule("one", DEEP, more=scope), rule("two", DEEP.replace("a", "b"), **more)) == []
    assert told(rule("one", DEEP, more=scope), rule("two", DEEP.replace("a", "b"), more=scope)) != []


@pytest.mark.parametrize(
    "paths",
    [
        [f"$..name{each}" for each in range(40)],
        [f"$..name{each}.*" for each in range(40)],
        [f"$.name{each}[*].*" for each in range(40)],
        [f"$.rows[*].name{each}" for each in range(40)],
        ["$..a[*].*", "$..b[*].c", "$.orders[*].items[*].sku", "$.*.e", "$..f..g", "$..h.i.*"],
    ],
)
def test_paths_as_people_write_them_are_not_told(paths: list[str]) -> None:
    assert told(*(rule(f"r{at}", each) for at, each in enumerate(paths))) == []


@pytest.mark.slow
def test_many_rules_in_a_crowd_are_told_shortly() -> None:
    (line,) = told(*(rule(f"r{each}", f"$..a{each}..b{each}") for each in range(12)))

    assert line.count("in rule") == crowds.PATHS_NAMED
    assert " more: a document" in line


def test_the_work_has_an_end_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "STEPS_TAKEN", 50)

    assert told(rule("one", "$.a[*].b", DEEP)) == [
        "f:2:10: warning: there are too many combinations of paths to try whether all find room"
    ]


@pytest.mark.slow
def test_where_time_runs_out_before_paths_can_be_left_out_all_are_told_the_same_each_time() -> None:
    rules = [rule(f"r{each}", "$" + ".*" * each + ".a" + ".*" * (15 - each)) for each in range(15)]
    lines = told(*rules)

    assert "9 more: a document" in lines[0]
    assert lines == told(*rules)


SPELLED = ["".join(each) for length in (1, 2, 3) for each in itertools.product((".a", ".b", ".*", "..a", "..b"), repeat=length)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SPELLED), min_size=1, max_size=6, unique=True))
def test_whatever_is_told_is_true_of_the_automaton(spelled: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(automaton, "MAX_STATES", 60)
        patch.setattr(crowds, "MANY", 20)
        patch.setattr(crowds, "IN_ANY_CASE", 20)
        lines = told(*(rule(f"r{at}", "$" + each) for at, each in enumerate(spelled)))
        for line in lines:
            assert runs_out([f"${each}" for each in spelled if re.search(rf"\$ ?{re.escape(each)}(?=[ :])", line)])


def runs_out(paths: list[str]) -> bool:
    home = Automaton([made("R", *map(path, paths))])
    left, seen = [home.root], {id(home.root)}
    try:
        while left:
            state = left.pop()
            for child in (state.element, state.other, *map(state.member, state.names())):
                if id(child) not in seen:
                    seen.add(id(child))
                    left.append(child)
    except TooManyPaths:
        return True
    return False
