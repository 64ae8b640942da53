from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules import automaton
from rules.automaton import Automaton, TooManyPaths
from rules.model import Hit, Rule

from . import naive
from .making import masked, partial, path, plan, rule, whole_value

pytestmark = pytest.mark.usefixtures("scanner")

NAMES = ["a", "a", "b", "c"]
METHODS = st.sampled_from([path("$.a").method, path("$.a").method, partial(1, 0), partial(0, 2), partial(2, 2), partial(1, 1)])
STEPS = st.sampled_from([".a", ".b", ".*", "[*]", "..a", "..b", "['c']"])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(lambda steps: "$" + "".join(steps))
FIELDS = st.builds(path, PATHS, METHODS) | st.builds(path, PATHS, METHODS) | st.builds(whole_value, METHODS)
RULES = st.lists(
    st.builds(lambda fields, everything: (tuple(fields), everything), st.lists(FIELDS, max_size=3), st.booleans()).filter(
        lambda made: bool(made[0]) or made[1]
    ),
    min_size=1,
    max_size=3,
).map(lambda made: [rule(f"R{at}", *fields, mask_all=everything and at > 0) for at, (fields, everything) in enumerate(made)])
LEAVES = st.sampled_from(["hello", "", "xy", "[q", " {", "{}x", "1234567", "naïve"]) | st.sampled_from(
    [True, False, None, 0, 12345, -1]
)


def _nest(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    objects = st.lists(st.tuples(st.sampled_from(NAMES), inner), min_size=1, max_size=2).map(
        lambda pairs: naive.Members(tuple(pairs))
    )
    lists = st.lists(inner, min_size=1, max_size=2)
    return objects | lists | (objects | lists).map(naive.Holding)


# Nested by hand: a recursive strategy makes mostly flat documents, where hardly a path goes anywhere.
DOCUMENTS = _nest(_nest(LEAVES | _nest(LEAVES | _nest(LEAVES)))).filter(lambda tree: not isinstance(tree, naive.Holding))


@settings(max_examples=250, deadline=None)
@given(RULES.filter(lambda rules: bool(rules[0].fields)), DOCUMENTS)
@example([rule("R", path("$[*].*.a"))], [[naive.Members((("b", naive.Members((("a", 1),))),))]])
def test_the_engine_masks_what_a_naive_walk_masks(rules: list[Rule], tree: object) -> None:
    text = naive.dump(tree)
    document = naive.parse(text)

    cut = plan(*rules).value(text.encode())

    assert cut.whole is None
    assert naive.parse(cut.data.decode()) == naive.parse(naive.dump(naive.Walk(rules).run(document)))
    assert bool(cut.hits) or cut.data.decode() == text


@pytest.mark.parametrize(
    ("chosen", "text", "left"),
    [
        ("$.a", '{"a":1,"b":1,"c":{"a":1}}', '{"a":0,"b":1,"c":{"a":1}}'),
        ("$.a", '[[{"a":1}],{"a":1}]', '[[{"a":0}],{"a":0}]'),
        ("$.a.b", '{"a":[{"b":1,"c":1},[[{"b":1}]]]}', '{"a":[{"b":0,"c":1},[[{"b":0}]]]}'),
        ("$.a.b", '{"a":"text"}', '{"a":"••••"}'),
        ("$.a.b", '{"a":[1,"x",true,null,{"c":1}]}', '{"a":[0,"••••",false,null,{"c":1}]}'),
        ("$.a[*]", '{"a":[1,[2],{"x":3}],"b":[1]}', '{"a":[0,[0],{"x":0}],"b":[1]}'),
        ("$.a[*]", '{"a":{"x":1,"y":{"z":2}}}', '{"a":{"x":0,"y":{"z":0}}}'),
        ("$.a.*", '{"a":5}', '{"a":0}'),
        ("$.a[*].b", '{"a":[{"b":1,"c":1},{"c":{"b":1}}]}', '{"a":[{"b":0,"c":1},{"c":{"b":0}}]}'),
        ("$.a[*].b", '{"a":{"b":{"x":1},"c":{"y":1}}}', '{"a":{"b":{"x":0},"c":{"y":1}}}'),
        ("$.a[*][*].b", '{"a":{"b":{"c":{"x":1}}}}', '{"a":{"b":{"c":{"x":0}}}}'),
        ("$.a[*]..b", '{"a":{"b":1}}', '{"a":{"b":0}}'),
        ("$.*.a", '[{"b":{"a":1,"c":1}}]', '[{"b":{"a":0,"c":1}}]'),
        ("$..a", '{"a":1,"b":[{"a":[1]},2],"c":{"c":{"a":{"b":1}}}}', '{"a":0,"b":[{"a":[0]},2],"c":{"c":{"a":{"b":0}}}}'),
        ("$..a..b", '{"b":1,"a":{"c":{"b":1},"d":1}}', '{"b":1,"a":{"c":{"b":0},"d":1}}'),
        ("$..a.b", '{"a":{"a":{"b":1},"c":1}}', '{"a":{"a":{"b":0},"c":1}}'),
        ("$.x", '{"a":1}', '{"a":1}'),
        ("$..a", '{"b":"[1","c":" {\\"a\\":1}","d":"[]","e":"a"}', '{"b":"••••","c":" {\\"a\\":0}","d":"[]","e":"a"}'),
        ("$.a[*].b", '{"a":[{"c":"{\\"b\\":1}","d":"[x","e":"{\\"x\\":1}"}]}', '{"a":[{"c":"{\\"b\\":0}","d":"[x","e":"{\\"x\\":1}"}]}'),
    ],
)  # fmt: skip
def test_a_path_reaches_what_it_says_through_arrays_and_strings(chosen: str, text: str, left: str) -> None:
    assert masked(plan(path(chosen)), text) == left


def test_a_card_keeps_its_brand_and_four_digits() -> None:
    one = plan(path("$.cards[*].number", partial(0, 4)))

    assert masked(one, '{"cards":[{"number":"4111111111111111","brand":"visa"}]}') == (
        '{"cards":[{"number":"••••••••••••1111","brand":"visa"}]}'
    )


def test_kept_ends_never_show_what_a_path_below_hides() -> None:
    one = plan(path("$.s", partial(3, 9)), path("$.s.q"))
    other = plan(path("$.s", partial(3, 9)), path("$..q"))
    text = '{"s":"{\\"x\\":12345678901234567890,\\"q\\":\\"S3CR3T\\"}"}'

    assert masked(one, text) == masked(other, text) == '{"s":"••••"}'
    assert masked(one, '{"s":"just any text"}') == '{"s":"••••"}'
    assert masked(other, '{"s":"just any text"}') == '{"s":"jus• any text"}'
    assert masked(other, '{"s":"[ust any text"}') == '{"s":"••••"}'


def test_who_entered_decides_what_a_scalar_in_the_way_reads() -> None:
    rules = (rule("A", path("$.s", partial(1, 0))), rule("B", path("$.s.q", partial(0, 1))), rule("C", path("$.s")))

    assert plan(*rules[:2]).value(b'{"s":12345}').hits == (Hit("$.s.q", "partial", "B"),)
    assert plan(*rules).value(b'{"s":12345}').hits == (Hit("$.s.q", "partial", "B"), Hit("$.s", "redact", "C"))


def test_rules_of_equal_strictness_are_all_named_in_order_and_once() -> None:
    rules = (
        rule("A", path("$.x"), path("$..y", partial(1, 0))),
        rule("B", path("$.*"), path("$.*")),
        rule("C", path("$.z", partial(1, 0))),
    )

    cut = plan(*rules).value(b'{"z":"abc","x":1,"y":{"x":2}}')

    assert cut.hits == (Hit("$.x", "redact", "A"), Hit("$..y", "partial", "A"), Hit("$.*", "redact", "B"))


def test_a_weaker_rule_is_not_named() -> None:
    one = plan(rule("A", path("$.x", partial(2, 0))), rule("B", path("$.x", partial(1, 0))))

    assert one.value(b'{"x":"abc"}').hits == (Hit("$.x", "partial", "B"),)
    assert one.value(b'{"x":"ab"}').hits == (Hit("$.x", "partial", "A"),)
    assert one.value(b'{"x":"a"}').hits == (Hit("$.x", "partial", "A"), Hit("$.x", "partial", "B"))
    assert one.value(b'{"x":true}').hits == (Hit("$.x", "partial", "B"),)


def test_nothing_is_named_for_null_or_for_what_is_empty() -> None:
    data = b'{"x":null,"y":{"x":{}},"z":[{"x":[[]]}]}'

    cut = plan(path("$..x")).value(data)

    assert cut.data is data
    assert cut.hits == ()


MANY = "$..a" + ".*" * 6


def test_a_document_that_needs_too_many_states_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_STATES", 40)
    one = plan(rule("A", path("$.q")), rule("B", path(MANY)))
    branching = '{"a":%s,"b":%s}'
    text = '{"c":1}'
    for _ in range(6):
        text = branching % (text, text)

    cut = one.value(text.encode())

    assert (cut.data.decode(), cut.hits, cut.whole, cut.rule) == ("••••", (), "too many paths", "A")
    assert masked(one, '{"q":1}') == '{"q":0}'
    assert one.value_holds_mask(text.encode()) is None


def test_what_one_document_needed_is_not_held_against_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_STATES", 12)
    one = plan(path(MANY))
    for names in ("aaaa", "abab", "aabb", "bbaa", "abba", "baba"):
        text = "".join(f'{{"{name}":' for name in names) + "1" + "}" * 4
        assert one.value(text.encode()).whole is None


def test_states_are_limited_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_STATES", 2)
    one = Automaton([rule("R", path("$.a.b.c"))])

    child = one.root.member(b"a")

    with pytest.raises(TooManyPaths):
        child.member(b"b")


@pytest.mark.slow
def test_hundreds_of_rules_make_states_that_are_still_quick() -> None:
    one = plan(*(rule(f"R{at}", path(f"$..x{at}.y"), path(f"$.a.b{at}[*].c", partial(1, 0))) for at in range(300)))
    begun = time.process_time()
    text = "[" + ",".join(f'{{"a":{{"b{at}":[{{"c":"abc"}}],"x{at}":{{"y":1}}}}}}' for at in range(300)) + "]"
    left = masked(one, text)

    assert left == text.replace('"abc"', '"a••"').replace(":1}", ":0}")
    assert time.process_time() - begun < 30
