from __future__ import annotations

import json

import pytest

from rules.cut import Cut
from rules.model import Field, Hit, Limits, Method, Partial, Platform, Redact, Refusal, Rule
from rules.plan import Plan, closed_plan

from .making import MASK, hash_field, header, masked, partial, path, plan, record_key, rule, whole_value

pytestmark = pytest.mark.usefixtures("scanner")

TYPED = (Platform.KAFKA, Platform.RABBITMQ, Platform.ARTEMIS)
TEXTUAL = (Platform.REDIS, Platform.MEMCACHED)
VALUE = Hit("value", "redact", "R")
MASK_ALL = rule("R", mask_all=True)
M = "••••"


def whole(one: Plan, text: str) -> str | None:
    cut = one.value(text.encode())
    assert cut.whole is None or (cut.data == MASK and cut.hits == ())
    return cut.whole


# What each method makes of each type in each position: a member, an element, a container's contents, the top.

SCALARS = ['"hello"', '""', "12345", "-1", "true", "false", "null"]
REDACTED = [f'"{M}"', f'"{M}"', "0", "0", "false", "false", "null"]
KEPT = ['"h•••o"', f'"{M}"', '"1•••5"', f'"{M}"', "false", "false", "null"]
METHODS: list[tuple[Method, list[str]]] = [(Redact(), REDACTED), (partial(1, 1), KEPT)]


@pytest.mark.parametrize(("method", "expected"), METHODS, ids=["redact", "partial"])
@pytest.mark.parametrize("at", range(len(SCALARS)), ids=SCALARS)
@pytest.mark.parametrize(
    ("chosen", "around"),
    [("$.a", '{"a": %s}'), ("$.a[*]", '{"a":[ %s ,null]}'), ("$..a", '[[{"x":{"a":%s}}]]'), ("$.*", '{"":%s}'), ("$.s.a", None)],
)  # fmt: skip
def test_a_scalar_under_a_path_is_masked_by_its_type(
    method: Method, expected: list[str], at: int, chosen: str, around: str | None
) -> None:
    def place(scalar: str) -> str:
        if around is not None:
            return around % scalar
        return json.dumps({"s": f'{{"a":{scalar}}}'}, ensure_ascii=False)

    assert masked(plan(path(chosen, method)), place(SCALARS[at])) == place(expected[at])


@pytest.mark.parametrize("method", [Redact(), partial(1, 1)], ids=["redact", "partial"])
@pytest.mark.parametrize("at", range(len(SCALARS)), ids=SCALARS)
@pytest.mark.parametrize("around", ['{"a":{"b":%s}}', '{"a":[%s]}', '{"a":[{"b":[[%s]],"c":{}}]}'])
def test_what_is_inside_a_container_under_a_path_is_redacted_whatever_the_method(method: Method, at: int, around: str) -> None:
    assert masked(plan(path("$.a", method)), around % SCALARS[at]) == around % REDACTED[at]


@pytest.mark.parametrize("platform", TYPED)
@pytest.mark.parametrize("at", range(len(SCALARS)), ids=SCALARS)
def test_a_scalar_at_the_top_is_masked_by_its_type(platform: Platform, at: int) -> None:
    text = f" {SCALARS[at]}\n"

    assert masked(plan(whole_value(), platform=platform), text) == f" {REDACTED[at]}\n"
    assert masked(plan(MASK_ALL, platform=platform), text) == f" {REDACTED[at]}\n"
    assert masked(plan(whole_value(partial(1, 1)), platform=platform), text) == f" {KEPT[at]}\n"


@pytest.mark.parametrize("platform", TEXTUAL)
@pytest.mark.parametrize("text", SCALARS)
def test_a_scalar_at_the_top_is_a_text_on_redis_and_memcached(platform: Platform, text: str) -> None:
    left = M if len(text) <= 2 else text[0] + "•" * (len(text) - 2) + text[-1]
    null = text == "null"

    assert masked(plan(whole_value(), platform=platform), text) == ("null" if null else M)
    assert masked(plan(MASK_ALL, platform=platform), text) == ("null" if null else M)
    assert masked(plan(whole_value(partial(1, 1)), platform=platform), text) == ("null" if null else left)


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("fields", [(whole_value(),), (whole_value(partial(1, 1)),), ()])
def test_a_whole_document_keeps_its_structure_and_no_value(platform: Platform, fields: tuple[Field, ...]) -> None:
    one = plan(rule("R", *fields, mask_all=not fields), platform=platform)

    assert masked(one, ' {"a":["x",1, {"b":true,"c":null}],"d":{}} ') == f' {{"a":["{M}",0, {{"b":false,"c":null}}],"d":{{}}}} '


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize(
    "data",
    [
        b"hello world",
        b'{"a":1',
        b"",
        b" ",
        b"[NaN]",
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}x',
        b'{\x00"\x00a\x00"\x00:\x001\x00}\x00',
    ],
)
def test_a_value_that_is_no_json_is_a_text(platform: Platform, data: bytes) -> None:
    text = data.decode()
    kept = M if len(text) <= 2 else text[:1] + "•" * (len(text) - 2) + text[-1:]

    assert plan(whole_value(), platform=platform).value(data) == Cut(MASK, (VALUE,))
    assert plan(MASK_ALL, platform=platform).value(data) == Cut(MASK, (VALUE,))
    assert plan(whole_value(partial(1, 1)), platform=platform).value(data) == Cut(
        kept.encode(), (Hit("value", "partial", "R"),)
    )
    assert plan(path("$.a"), platform=platform).value(data) == Cut(MASK, (), "not JSON", "R")


@pytest.mark.parametrize("platform", Platform)
def test_bytes_are_not_text_for_a_partial_alone(platform: Platform) -> None:
    data = b"h\xffllo"

    assert plan(whole_value(partial(1, 1)), platform=platform).value(data) == Cut(MASK, (), "not text", "R")
    assert plan(whole_value(), platform=platform).value(data) == Cut(MASK, (VALUE,))
    assert plan(path("$.a", partial(1)), platform=platform).value(data) == Cut(MASK, (), "not JSON", "R")


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("text", ['"text"', '"[x"', "5", "true", '"{\\"a\\":1"', '"{}x"', '" "'])
@pytest.mark.parametrize("chosen", ["$.a", "$..a", "$.*"])
def test_a_scalar_at_the_top_is_not_json_for_a_rule_that_looks_inside(platform: Platform, text: str, chosen: str) -> None:
    rules = rule("A", whole_value()), rule("B", path(chosen)), rule("C", whole_value(partial(1)))

    for others in ((), rules[:1], rules[2:]):
        cut = plan(*others, rules[1], platform=platform).value(text.encode())
        assert (cut.data, cut.hits, cut.whole, cut.rule) == (MASK, (), "not JSON", "B")


@pytest.mark.parametrize("platform", Platform)
def test_a_string_at_the_top_that_holds_a_document_is_opened(platform: Platform) -> None:
    assert masked(plan(path("$.a"), platform=platform), ' "{\\"a\\":1,\\"b\\":1}" ') == ' "{\\"a\\":0,\\"b\\":1}" '
    assert masked(plan(path("$..a"), platform=platform), '"[{\\"a\\":1}]"') == '"[{\\"a\\":0}]"'
    data = b'"{\\"b\\":1}"'
    assert plan(path("$.a"), platform=platform).value(data).data is data


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("text", ["null", " null\n", "\tnull\r"])
def test_null_stays_null_always(platform: Platform, text: str) -> None:
    data = text.encode()
    rules = [rule("A", path("$.a")), rule("B", hash_field("f")), rule("C", whole_value()), rule("D", mask_all=True)]

    for one in (*(plan(each, platform=platform) for each in rules), plan(*rules, platform=platform), closed_plan("x")):
        assert one.value(data).data is data
        assert one.field(b"f", data).data is data
        assert one.value(data).whole is None


def test_limits_are_looked_at_first() -> None:
    limits = Limits(max_value_bytes=12, max_depth=2)
    large = '{"a":"12345"}'

    assert len(large) == 13
    for fields in ((path("$.a"),), (whole_value(),), (whole_value(partial(1)),), (hash_field("f"),)):
        assert whole(plan(*fields, limits=limits), large) == "too large"
        assert whole(plan(*fields, limits=limits), "x" * 13) == "too large"
    assert masked(plan(path("$.a"), limits=limits), large.replace("5", "")) == f'{{"a":"{M}"}}'
    assert whole(plan(path("$.a"), limits=limits), "[[[1]]]") == "nested too deeply"
    assert whole(plan(whole_value(partial(1)), limits=limits), "[[[1]]]") == "nested too deeply"
    assert whole(plan(path("$.a"), limits=limits), "[[1]]") is None
    assert whole(plan(header("h"), limits=limits), large) is None


def test_a_header_a_key_and_a_hash_field_have_the_same_limit() -> None:
    one = plan(header("h", partial(1)), record_key(partial(1)), hash_field("f", partial(1)), limits=Limits(max_value_bytes=3))
    other = plan(whole_value(), limits=Limits(max_value_bytes=3))

    for cut in (one.header("h", b"abcd"), one.key(b"abcd"), one.field(b"f", b"abcd"), other.field(b"f", b"abcd")):
        assert cut == Cut(MASK, (), "too large", "R")
    assert one.field(b"g", b"abcd").whole is None
    assert one.key(b"abc").data == "a••".encode()


# mask_all and what is listed beside it.


def test_a_path_beside_mask_all_keeps_its_method_and_the_rest_is_redacted() -> None:
    one = plan(rule("R", path("$.card.number", partial(0, 4)), mask_all=True))

    cut = one.value(b'{"card":{"number":"4111111111111111","cvc":123},"name":"x","n":null}')

    assert cut.data.decode() == f'{{"card":{{"number":"••••••••••••1111","cvc":0}},"name":"{M}","n":null}}'
    assert cut.hits == (VALUE, Hit("$.card.number", "partial", "R"))


@pytest.mark.parametrize("platform", Platform)
def test_a_path_beside_mask_all_is_followed_into_strings(platform: Platform) -> None:
    one = plan(rule("R", path("$.s.a", partial(1)), mask_all=True), platform=platform)
    other = plan(rule("R", path("$..a", partial(1)), mask_all=True), platform=platform)

    assert (
        masked(one, '{"s":"{\\"a\\":\\"xyz\\",\\"b\\":1}","t":"{}"}') == f'{{"s":"{{\\"a\\":\\"x••\\",\\"b\\":0}}","t":"{M}"}}'
    )
    assert masked(one, '{"s":["{\\"a\\":\\"xyz\\"","text",5,true]}') == f'{{"s":["{M}","{M}",0,false]}}'
    assert (
        masked(other, '["{\\"a\\":\\"xyz\\",\\"b\\":1}","text","[",5]') == f'["{{\\"a\\":\\"x••\\",\\"b\\":0}}","{M}","{M}",0]'
    )
    assert one.value(b'{"s":5}').hits == (VALUE,)
    assert masked(one, '"{\\"s\\":{\\"a\\":\\"xyz\\",\\"b\\":1}}"') == '"{\\"s\\":{\\"a\\":\\"x••\\",\\"b\\":0}}"'


@pytest.mark.parametrize("text", ['"text"', '"[x"', "5", "[x", "text"])
def test_what_cannot_be_followed_beside_mask_all_is_masked_as_mask_all_does(text: str) -> None:
    listed = rule("R", path("$.s.a", partial(1)), mask_all=True)

    for platform in Platform:
        left = plan(listed, platform=platform).value(text.encode())
        assert left == plan(MASK_ALL, platform=platform).value(text.encode())
        assert left.hits == (VALUE,)


def test_another_rule_still_hides_what_is_listed_beside_mask_all() -> None:
    listed = rule("R", path("$.s.a", partial(1)), path("$.b", partial(1)), mask_all=True)
    text = '{"s":"{\\"a\\":\\"xyz\\"}","b":"xyz"}'

    assert masked(plan(listed), text) == '{"s":"{\\"a\\":\\"x••\\"}","b":"x••"}'
    for other in (rule("B", mask_all=True), rule("B", whole_value(partial(1))), rule("B", path("$.*"))):
        assert masked(plan(listed, other), text) == f'{{"s":"{M}","b":"{M}"}}'
    assert masked(plan(listed, rule("B", path("$.s", partial(1)))), text) == f'{{"s":"{M}","b":"x••"}}'
    assert masked(plan(listed, rule("B", path("$.s.a"))), text) == f'{{"s":"{{\\"a\\":\\"{M}\\"}}","b":"x••"}}'


def test_a_container_listed_beside_mask_all_is_decided_by_its_own_field() -> None:
    one = plan(rule("R", path("$.a", partial(1)), mask_all=True))

    assert one.value(b'{"a":{"b":1}}').hits == (Hit("$.a", "partial", "R"),)


def test_a_whole_value_beside_mask_all_keeps_its_method() -> None:
    one = rule("R", whole_value(partial(1)), mask_all=True)

    assert masked(plan(one), '"xyz"') == '"x••"'
    assert masked(plan(one, platform=Platform.REDIS), "xyz") == "x••"
    assert masked(plan(one), '["xyz"]') == f'["{M}"]'
    assert masked(plan(one), "xyz") == "x••"


def test_the_stricter_wins_across_rules_and_within_one() -> None:
    text = '{"x":"1234567"}'

    assert masked(plan(path("$.x", partial(4)), path("$.x", partial(0, 2))), text) == '{"x":"•••••67"}'
    assert masked(plan(rule("A", path("$.x", partial(4))), rule("B", path("$..x"))), text) == f'{{"x":"{M}"}}'
    assert masked(plan(rule("A", path("$.x", partial(2, 1))), rule("B", path("$.x", partial(1, 2)))), text) == '{"x":"1•••••7"}'
    assert masked(plan(rule("A", path("$.x", partial(1))), rule("B", path("$.x", partial(4, 4)))), text) == f'{{"x":"{M}"}}'
    assert masked(plan(rule("A", whole_value(partial(1))), rule("B", path("$.x"))), '{"x":1,"y":2}') == '{"x":0,"y":0}'
    assert masked(plan(rule("A", whole_value(partial(4))), rule("B", whole_value(partial(0, 1)))), "abcdefg") == "••••••g"
    assert masked(plan(rule("A", whole_value(partial(4))), rule("B", whole_value())), "abcdefg") == M


# Hashes.


def test_a_value_under_hash_fields_alone_is_not_a_hash() -> None:
    fields = rule("A", hash_field("f", partial(1)), hash_field("g"))

    for others in ((), (rule("B", path("$.x")),), (rule("B", whole_value(partial(1))),)):
        for text in ("abc", '{"f":1}'):
            cut = plan(*others, fields).value(text.encode())
            assert (cut.data, cut.hits, cut.whole, cut.rule) == (MASK, (), "not a hash", "A")


def test_a_value_under_hash_fields_and_value_fields_is_masked_by_the_latter() -> None:
    assert masked(plan(hash_field("f"), path("$.x")), '{"f":1,"x":1}') == '{"f":1,"x":0}'
    assert masked(plan(rule("A", hash_field("f", partial(1)), mask_all=True)), '{"f":1}') == '{"f":0}'


def test_a_named_hash_field_is_a_text_and_its_neighbour_is_untouched() -> None:
    one = plan(hash_field("f"), hash_field("ü", partial(1, 1)), platform=Platform.REDIS)
    neighbour = b"secret"

    assert one.field(b"f", b'{"a":1}') == Cut(MASK, (Hit("field:f", "redact", "R"),))
    assert one.field("ü".encode(), "grün".encode()) == Cut("g••n".encode(), (Hit("field:ü", "partial", "R"),))
    assert one.field("ü".encode(), b"\xff") == Cut(MASK, (), "not text", "R")
    assert one.field(b"F", neighbour).data is neighbour
    assert one.field(b"\xfc", neighbour).data is neighbour


def test_value_fields_apply_to_each_hash_field() -> None:
    one = plan(path("$.a"), platform=Platform.REDIS)

    assert one.field(b"f", b'{"a":1}').data == b'{"a":0}'
    assert one.field(b"f", b"text") == Cut(MASK, (), "not JSON", "R")
    assert plan(whole_value(partial(1)), platform=Platform.REDIS).field(b"f", b"abc").data == "a••".encode()


@pytest.mark.parametrize(
    ("name", "value", "text", "left"),
    [
        (hash_field("f", partial(1)), whole_value(), "abc", M),
        (hash_field("f"), whole_value(partial(1)), "abc", M),
        (hash_field("f", partial(2)), whole_value(partial(1)), "abc", "a••"),
        (hash_field("f", partial(1)), whole_value(partial(0, 2)), "abc", "a••"),
        (hash_field("f", partial(1)), path("$.a"), "abc", None),
        (hash_field("f"), path("$.a"), "abc", None),
        (hash_field("f", partial(1)), path("$.a"), '{"a":1}', M),
        (hash_field("f", partial(1)), path("$.a"), '{"b":1}', "{••••••"),
        (hash_field("f", partial(1)), path("$.a"), '{"b":1', None),
        (hash_field("f"), path("$.a"), '{"b":1}', M),
        (hash_field("f"), path("$.a"), '{"a":1}', M),
        (hash_field("f", partial(1)), whole_value(partial(1)), '{"a":1}', M),
        (hash_field("f", partial(0, 5)), path("$.a"), '"{\\"a\\":1}"', M),
    ],
)  # fmt: skip
def test_of_a_field_by_name_and_by_value_the_stricter_wins(name: Field, value: Field, text: str, left: str | None) -> None:
    for rules in ((rule("A", name), rule("B", value)), (rule("B", value), rule("A", name)), (rule("R", name, value),)):
        cut = plan(*rules, platform=Platform.REDIS).field(b"f", text.encode())
        assert cut.data.decode() == (M if left is None else left)
        assert cut.whole == ("not JSON" if left is None else None)
        assert cut.hits or cut.whole


def test_a_named_field_that_cannot_be_followed_is_masked_whole() -> None:
    one = plan(hash_field("f"), path("$.a"), limits=Limits(max_depth=2), platform=Platform.REDIS)

    assert one.field(b"f", b"[[[1]]]") == Cut(MASK, (), "nested too deeply", "R")


def test_both_who_ask_for_the_same_of_a_hash_field_are_named_in_order() -> None:
    one = plan(rule("A", whole_value()), rule("B", hash_field("f")), platform=Platform.REDIS)

    assert one.field(b"f", b"abc").hits == (Hit("value", "redact", "A"), Hit("field:f", "redact", "B"))


def test_a_hash_field_listed_beside_mask_all_keeps_its_method() -> None:
    one = rule("A", hash_field("f", partial(1)), hash_field("f", partial(2)), mask_all=True)

    assert plan(one).field(b"f", b"abc") == Cut("a••".encode(), (Hit("field:f", "partial", "A"),))
    assert plan(one).field(b"g", b"abc") == Cut(MASK, (Hit("value", "redact", "A"),))
    assert plan(one, rule("B", mask_all=True)).field(b"f", b"abc").data == MASK
    assert plan(one, rule("B", hash_field("f"))).field(b"f", b"abc").data == MASK
    looking = rule("A", hash_field("f", partial(1)), path("$.a", partial(1)), mask_all=True)
    assert plan(looking).field(b"f", b'{"a":"xyz","b":1}').data == MASK
    assert plan(looking).field(b"f", b"text").whole == "not JSON"
    assert plan(looking).field(b"g", b'{"a":"xyz","b":1}').data == '{"a":"x••","b":0}'.encode()


# Headers and record keys.


def test_a_header_is_a_text_whose_name_has_no_case() -> None:
    one = plan(header("X-Token"), header("Straße", partial(1, 1)))
    other = b"abc"

    assert one.header("x-tOKEN", b'{"a":1}') == Cut(MASK, (Hit("header:X-Token", "redact", "R"),))
    assert one.header("STRASSE", b"abc") == Cut("a•c".encode(), (Hit("header:Straße", "partial", "R"),))
    assert one.header("straße", b"\xff") == Cut(MASK, (), "not text", "R")
    assert one.header("x-tokens", other).data is other
    assert one.header("x-token", b"null").data == MASK
    assert one.value(other).data is other
    assert one.key(other).data is other


def test_a_record_key_is_a_text() -> None:
    one = plan(record_key(partial(1, 1)))

    assert one.key(b'{"a":1}') == Cut("{•••••}".encode(), (Hit("key", "partial", "R"),))
    assert one.key(b"null").data == "n••l".encode()
    assert one.key(b"\xff\xff\xff").whole == "not text"
    assert plan(record_key()).key(b"null") == Cut(MASK, (Hit("key", "redact", "R"),))


def test_mask_all_takes_in_headers_and_the_key_unless_they_are_listed() -> None:
    one = plan(MASK_ALL)
    listed = plan(rule("R", header("h", partial(1)), record_key(partial(1)), mask_all=True))

    assert one.header("any", b"abc") == Cut(MASK, (Hit("header:any", "redact", "R"),))
    assert one.key(b"abc") == Cut(MASK, (Hit("key", "redact", "R"),))
    assert (listed.header("H", b"abc").data, listed.key(b"abc").data) == ("a••".encode(), "a••".encode())
    assert listed.header("g", b"abc").data == MASK
    assert plan(*one.rules, *listed.rules).header("h", b"abc").data == MASK


def test_a_whole_value_is_the_value_alone() -> None:
    one = plan(whole_value())
    other = b"abc"

    assert (one.key(other).data is other, one.header("h", other).data is other) == (True, True)


def test_of_several_methods_on_a_header_the_stricter_wins() -> None:
    rules = [rule("A", header("h", partial(2))), rule("B", header("H", partial(0, 1))), rule("C", header("h"))]

    assert plan(*rules[:2]).header("h", b"abcd") == Cut("•••d".encode(), (Hit("header:H", "partial", "B"),))
    assert plan(*rules[:2]).header("h", b"ab") == Cut(MASK, (Hit("header:h", "partial", "A"),))
    assert plan(*rules).header("h", b"abcd") == Cut(MASK, (Hit("header:h", "redact", "C"),))


# What a plan says of itself.


def test_a_closed_plan_masks_everything_and_refuses() -> None:
    one = closed_plan("rules could not be read")
    cut = Cut(MASK, (), "rules could not be read")

    assert [one.value(b"{}"), one.field(b"f", b"1"), one.key(b"null"), one.header("h", b"null")] == [cut] * 4
    assert one.refusal == one.covers_field(b"f") == Refusal(None, "", "the masking rules could not be read")
    assert (one.rules, one.hides_whole) == ((), True)
    assert one.value_holds_mask(MASK) is one.field_holds_mask(b"f", MASK) is None


def test_a_refusal_names_the_first_rule_and_its_first_field() -> None:
    assert plan(rule("A", hash_field("f"), path("$.x")), MASK_ALL).refusal == Refusal("A", "field:f")
    assert plan(rule("B", mask_all=True)).refusal == Refusal("B", "value")
    assert plan(rule("C", header("h"), mask_all=True)).refusal == Refusal("C", "header:h")


def test_a_hash_field_is_covered_by_its_name_or_by_any_value_field() -> None:
    named = rule("A", hash_field("f"))

    assert plan(named).covers_field(b"f") == Refusal("A", "field:f")
    assert plan(named).covers_field(b"g") is None
    assert plan(named, rule("B", path("$.x"))).covers_field(b"g") == Refusal("B", "$.x")
    assert plan(rule("B", header("h"), mask_all=True), named).covers_field(b"f") == Refusal("B", "value")
    assert plan(rule("B", whole_value())).covers_field(b"f") == Refusal("B", "value")


@pytest.mark.parametrize(
    ("rules", "hides"),
    [
        ([rule("A", whole_value())], True),
        ([rule("A", mask_all=True)], True),
        ([rule("A", hash_field("f"))], True),
        ([rule("A", hash_field("f")), rule("B", path("$.x"))], True),
        ([rule("A", whole_value(), path("$.x", partial(1)))], True),
        ([rule("A", path("$.x")), rule("B", mask_all=True)], True),
        ([rule("A", whole_value(partial(1))), rule("B", whole_value(partial(0, 1)))], True),
        ([rule("A", whole_value(partial(1)))], False),
        ([rule("A", whole_value(partial(1)), mask_all=True)], False),
        ([rule("A", path("$.x"))], False),
        ([rule("A", path("$.x"), mask_all=True)], False),
        ([rule("A", path("$.x"), mask_all=True), rule("B", whole_value(partial(1)))], False),
        ([rule("A", path("$.x")), rule("B", whole_value(partial(1)))], False),
        ([rule("A", header("h"))], False),
    ],
)
def test_whether_a_plan_hides_every_value_whole(rules: list[Rule], hides: bool) -> None:
    assert plan(*rules).hides_whole is hides


def test_a_partial_that_keeps_nothing_is_redact() -> None:
    assert masked(plan(path("$.x", Partial(0, 0))), '{"x":5}') == '{"x":0}'
    assert masked(plan(path("$.x", partial(1)), path("$.x", partial(0, 1))), '{"x":5,"y":{"x":""}}') == '{"x":0,"y":{"x":""}}'
    assert masked(plan(path("$.x", partial(1)), path("$.x", partial(0, 1))), '{"x":"long"}') == f'{{"x":"{M}"}}'
