from __future__ import annotations

import base64
import json
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules import scan
from rules.automaton import Automaton, State
from rules.model import Limits

from .making import MASK, masked, partial, path, plan, rule

pytestmark = pytest.mark.usefixtures("scanner")

CORPORA = Path(__file__).parent.parent / "corpora"
SUITE = sorted((CORPORA / "JSONTestSuite" / "test_parsing").glob("*.json"))
TRANSFORM = sorted((CORPORA / "JSONTestSuite" / "test_transform").glob("*.json"))
EDGES = [json.loads(line) for line in (CORPORA / "json_edge.jsonl").read_text(encoding="utf-8").splitlines()]

GENERATED = {
    "digits_5000": b'{"a":' + b"9" * 5000 + b',"ssn":"S3CR3T"}',
    "deep_512": b"[" * 512 + b'{"ssn":"S3CR3T"}' + b"]" * 512,
    "deep_obj": b'{"ssn":' * 20000 + b'"S3CR3T"' + b"}" * 20000,
}
"""The lines of json_edge.jsonl that say how they are made, made."""

SSN = plan(path("$.ssn"))


def root(*paths: str) -> State:
    return Automaton([rule("R", *map(path, paths))]).root


def wrap(data: bytes) -> tuple[bytes, bytes]:
    """A document around the data with a secret, and what is to be left of it."""
    return b'{"ssn":"S3CR3T","d":' + data + b"}", b'{"ssn":"' + MASK + b'","d":' + data + b"}"


@pytest.mark.parametrize("file", SUITE, ids=lambda file: file.name)
def test_the_parsing_suite_is_masked_byte_for_byte_or_whole(file: Path) -> None:
    data = file.read_bytes()
    wrapped, expected = wrap(data)

    cut = SSN.value(wrapped)
    bare = SSN.value(data)

    assert b"S3CR3T" not in cut.data
    if cut.whole is None:
        assert file.name[0] in "yi"
        assert cut.data == expected
    else:
        assert file.name[0] in "ni"
        assert cut.data == MASK
    if file.name[0] == "n":
        assert (bare.data, bare.whole is not None) == (MASK, True)
    if file.name[0] == "y" and data.lstrip()[:1] in (b"{", b"["):
        assert bare.whole is None


@pytest.mark.parametrize("file", [file for file in SUITE if file.name[0] == "y"], ids=lambda file: file.name)
def test_what_nothing_reaches_is_the_very_object_that_came_in(file: Path) -> None:
    data = file.read_bytes()

    assert scan.mask(data, root("$..no-such-member"), 512)[0] is data


@pytest.mark.parametrize("file", TRANSFORM, ids=lambda file: file.name)
def test_the_transform_suite_keeps_its_bytes_or_is_masked_whole(file: Path) -> None:
    wrapped, expected = wrap(file.read_bytes())

    cut = SSN.value(wrapped)

    assert cut.data == (expected if cut.whole is None else MASK)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: str(edge["id"]))
def test_the_edge_corpus_is_masked_as_it_says(edge: dict[str, str]) -> None:
    data = base64.b64decode(edge["b64"]) if "b64" in edge else GENERATED[edge["id"]]

    cut = SSN.value(data)

    assert b"S3CR3T" not in cut.data or "sentinel_allowed" in edge
    assert edge.get("keep", "").encode() in cut.data
    if edge["verdict"] == "maskable":
        assert cut.whole is None
    elif "also_ok" not in edge["why"]:
        assert (cut.data, cut.whole is not None) == (MASK, True)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", "[", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "[1,", "[1,]", "[1", "[,1]", '{,"a":1}', "[1}",
        '{"a":1]', '{"a" 1}', "{1:2}", '{"a":1 "b":2}', "[1 2]", '"a', '"\t"', r'"\x"', r'"\u12g4"', "01", "-", "1.", "1e",
        ".5", "+1", "nul", "truefalse", "nullnull", "NaN", "Infinity", "-Infinity", "[1]]", "{}{}", "[] x", "'a'", "\f1",
        "\u00a01", "[1]\x00",
    ],
)  # fmt: skip
@pytest.mark.parametrize("paths", [("$.q.r",), ("$..q",), ("$.*",)])
def test_what_is_no_json_is_not_json_whether_looked_at_or_skipped(text: str, paths: tuple[str, ...]) -> None:
    for data in (text, f'{{"x":1,"y":[2,{text}],"z":3}}', f'{{"x":{{"y":{text}}},"z":3}}'):
        try:
            json.loads(data, parse_constant=lambda _: pytest.fail("a constant"))
        except ValueError:
            with pytest.raises(scan.NotJson):
                scan.mask(data.encode(), root(*paths), 512)
        except pytest.fail.Exception:
            with pytest.raises(scan.NotJson):
                scan.mask(data.encode(), root(*paths), 512)
        else:
            scan.mask(data.encode(), root(*paths), 512)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\x80"])
def test_what_is_no_utf8_is_not_json_wherever_it_stands(bad: bytes) -> None:
    for data in (b'{"a":"' + bad + b'"}', b'{"' + bad + b'":1}', b'["' + bad, b"[1]" + bad):
        with pytest.raises(scan.NotJson):
            scan.mask(data, root("$.q"), 512)


@pytest.mark.parametrize("bad", [b"\xff", b"\xe2\x80", b"\xed\xa0\x80"])
def test_what_is_no_utf8_is_found_in_a_long_text_as_well(bad: bytes) -> None:
    for data in (b'["' + b"x" * ((1 << 20) - 3) + bad + b'"]', b'["' + b"x" * (1 << 20) + b'"]' + bad):
        with pytest.raises(scan.NotJson):
            scan.mask(data, root("$..q"), 512)


@pytest.mark.parametrize("count", [2, 3, 4, 1024, 2000])
def test_an_escaped_string_no_longer_than_its_kept_ends_is_hidden_whole(count: int) -> None:
    document = '{"q":"' + r"\u0041" * count + '"}'
    hidden = masked(plan(path("$.q", partial(count - 1, 1))), document)

    assert hidden == '{"q":"••••"}'


def test_a_character_across_the_border_of_two_checks_is_utf8() -> None:
    data = b'["' + b"x" * ((1 << 20) - 3) + "é".encode() + b'"]'

    assert scan.mask(data, root("$..q"), 512)[0] is data


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"q":', " [ 1, "])
@pytest.mark.parametrize("chosen", ["$.q", "$..q", "$.*", "$.z.z"])
def test_512_open_brackets_are_followed_and_the_513th_is_too_deep(opening: str, chosen: str) -> None:
    closing = "]" if "[" in opening else "}"
    for inner, brackets in (("1", 0), ("[]", 1), ('{"k":1}', 1), ("[1,2]", 1), ("[[1]]", 2)):
        for more in (0, 1):
            depth = 512 - brackets + more
            text = opening * depth + inner + closing * depth
            if more:
                with pytest.raises(scan.TooDeep):
                    scan.mask(text.encode(), root(chosen), 512)
            else:
                scan.mask(text.encode(), root(chosen), 512)


def test_brackets_that_are_closed_again_do_not_count() -> None:
    data = b"[" + b"[[]]," * 1000 + b"[]]"

    assert scan.mask(data, root("$..q"), 3)[0] is data
    assert scan.mask(data, root("$.q.r"), 3)[0] is data


def test_depth_counts_on_in_opened_strings() -> None:
    inner = "[" * 100 + '{"q":1}' + "]" * 100
    text = "[" * 50 + json.dumps(inner) + "]" * 50

    assert masked(plan(path("$..q")), text) == text.replace(":1}", ":0}")
    assert plan(path("$..q"), limits=Limits(max_depth=151)).value(text.encode()).whole is None
    assert plan(path("$..q"), limits=Limits(max_depth=150)).value(text.encode()).whole == "nested too deeply"


def nested(levels: int, inmost: str) -> str:
    text = inmost
    for _ in range(levels):
        text = json.dumps({"s": text})
    return text


def test_eight_strings_are_opened_within_each_other_and_no_ninth() -> None:
    one = plan(path("$..q"))

    assert masked(one, nested(8, '{"q":"S3CR3T"}')) == nested(8, '{"q":"####"}').replace("####", MASK.decode())
    assert one.value(nested(9, '{"q":"S3CR3T"}').encode()).whole == "nested too deeply"
    assert one.value(nested(9, "[ no JSON S3CR3T").encode()).whole == "nested too deeply"
    assert one.value(nested(9, "text").encode()).whole is None


@pytest.mark.parametrize(
    ("inner", "left"),
    [
        (r"{\"q\":\"hello\"}", r"{\"q\":\"h•••o\"}"),
        (r"{\u0022q\u0022:\u0022hello\u0022}", r"{\u0022q\u0022:\u0022h•••o\u0022}"),
        (r"\n\t {\"é\":\"\u00e9\u20ac\ud83d\ude00\u0041\",\"q\":\"hello\"}", None),
        (r"{\"q\":\"\u00e9l\ud83d\ude00o\u20ac\"}", r"{\"q\":\"\u00e9•••\u20ac\"}"),
        (r"{\"q\":\"\\u00e9ll\\ud83d\\ude00\\n\"}", r"{\"q\":\"\\u00e9•••\\n\"}"),
        (r"{\"q\":12345}", r"{\"q\":\"1•••5\"}"),
        (r"{\"q\":1,\"\u0071\":true,\"\\u0071\":null}", r"{\"q\":\"••••\",\"\u0071\":false,\"\\u0071\":null}"),
        (r"\u005b{\"q\":\"hello\"}]", r"\u005b{\"q\":\"h•••o\"}]"),
        (r"\u007B\"q\":\"hello\"}", r"\u007B\"q\":\"h•••o\"}"),
        (r"\u000A\r\u0020\u0009{\"q\":\"hello\"\/\/}", "••••"),
        ('{\\"q\\":\\"a\\nb\\"}', "••••"),
        (r"{\"q\":\"\ud800\"}", "••••"),
        (r"{\"q\":\"\\ud800hello\"}", r"{\"q\":\"\\ud800••••o\"}"),
        ("[", "••••"),
        (r"{\"x\":1}", r"{\"x\":1}"),
        ("hello", "••••"),
        ("", "••••"),
        (r"\ufeff{}", "••••"),
    ],
)  # fmt: skip
def test_json_in_a_string_is_masked_and_keeps_its_outer_spelling(inner: str, left: str | None) -> None:
    if left is None:
        left = inner.replace("hello", "h•••o")

    shown = masked(plan(path("$.s.q", partial(1, 1))), f'{{"s" : "{inner}", "n":1}}')

    assert shown == f'{{"s" : "{left}", "n":1}}'
    json.loads(shown)


@pytest.mark.parametrize(
    "begun", ['{"b":1', '[{"b":1},x', '{"b":"text","c":[', '[[{"b":"{\\"b\\":1}"}]]]', '{"b":true}{', '[{"b":12},"\\ud800"']
)
def test_what_was_begun_in_a_string_that_proves_to_be_no_document_is_taken_back(begun: str) -> None:
    string = json.dumps(begun)
    alone = f'{{"a":[{{"d":{string}}}]}}'.encode()
    between = f'{{"a":[{{"b":1,"d":{string}}},{{"b":{string}}}]}}'
    inside = json.dumps([{"d": begun, "b": 1}])
    one = plan(path("$.a[*].b", partial(1, 1)), path("$.q"))

    cut = one.value(alone)

    assert (cut.data is alone, cut.hits) == (True, ())
    assert masked(plan(path("$.a[*].b")), between) == f'{{"a":[{{"b":0,"d":{string}}},{{"b":"••••"}}]}}'
    assert masked(plan(path("$.a[*].b")), f'{{"a":[{{"e":{json.dumps(inside)}}}]}}') == (
        f'{{"a":[{{"e":{json.dumps(json.dumps([{"d": begun, "b": 0}]))}}}]}}'
    )


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ("hello", "h•••o"),
        ("h", None),
        ("ho", None),
        ("", None),
        ("abc", "a•c"),
        (r"\u0041bc", r"\u0041•c"),
        (r"\n\\\"", r"\n•\""),
        (r"\ud83d\ude00x\uD83D\uDE00", r"\ud83d\ude00•\uD83D\uDE00"),
        (r"\ud83dx\ude00", r"\ud83d•\ude00"),
        (r"\ud83d\ud83d\ude00x", r"\ud83d•x"),
        (r"\ude00\ud83dab", r"\ude00••b"),
        (r"\ud83d\ude00", None),
        ("😀é日x", "😀••x"),
        ("é\\/日", "é•日"),
        (r"\\u0041", r"\••••1".replace("\\", r"\\", 1)),
        ("x" * 5000, "x" + "•" * 4998 + "x"),
        (r"\n" * 3000, r"\n" + "•" * 2998 + r"\n"),
        (r"\ud83d\ude00" * 2050, r"\ud83d\ude00" + "•" * 2048 + r"\ud83d\ude00"),
    ],
)
def test_partial_keeps_characters_as_they_are_spelled(raw: str, left: str | None) -> None:
    shown = masked(plan(path("$.a", partial(1, 1))), f'{{"a":"{raw}"}}')

    assert shown == f'{{"a":"{"••••" if left is None else left}"}}'


@pytest.mark.parametrize(
    ("number", "left"),
    [("0", "••••"), ("12", "••••"), ("123", "1•3"), ("-1.5e+10", "-••••••0"), ("1E400", "1•••0"), ("-0", "••••")],
)
def test_partial_shows_a_number_by_its_spelling(number: str, left: str) -> None:
    assert masked(plan(path("$.a", partial(1, 1))), f'[{{"a": {number} }}]') == f'[{{"a": "{left}" }}]'


@pytest.mark.parametrize("name", [r"\u0073sn", r"s\u0073n", r"\u0073\u0073\u006E", "ssn"])
def test_names_are_compared_after_their_escapes(name: str) -> None:
    assert masked(SSN, f'{{"{name}" :"S3CR3T"}}') == f'{{"{name}" :"••••"}}'


@pytest.mark.parametrize("name", [r"SSN", r"ssn ", r"s\\u0073n", r"", r"\ud800", "ßsn"])
def test_other_names_are_other_members(name: str) -> None:
    assert masked(SSN, f'{{"{name}":1,"ssn":1}}') == f'{{"{name}":1,"ssn":0}}'


@pytest.mark.parametrize(
    ("name", "raw"),
    [("\ud800", r"\ud800"), ("\U0001f600", r"\ud83d\ude00"), ("\ud83d\ude00", "😀"), ("\ude00\ud83d", r"\ude00\uD83D"),
     ("a\nb", r"a\nb"), ("é", r"\u00e9")],
)  # fmt: skip
def test_lone_surrogates_in_names_are_themselves_and_pairs_are_one_character(name: str, raw: str) -> None:
    assert masked(plan(path(f"$['{name}']")), f'{{"{raw}":1,"x":1}}') == f'{{"{raw}":0,"x":1}}'


def test_every_occurrence_of_a_duplicate_name_is_masked() -> None:
    assert masked(SSN, '{"ssn":1,"x":{"y":1,"y":2},"ssn":"S","ssn":[2],"ssn":null}') == (
        '{"ssn":0,"x":{"y":1,"y":2},"ssn":"••••","ssn":[0],"ssn":null}'
    )


WHITE = st.text(alphabet=" \t\r\n", max_size=3)
STRINGS = st.sampled_from(
    ['""', '"x"', r'"\u00e9\n\/"', r'"\ud800"', '"é😀\u2028"', '"•"', '"ssn"', r'"\"ssn\":1"', '"\x7f"', r'"\\"', '"plain {"']
)
NUMBERS = st.sampled_from(["0", "-0", "1.10", "1E2", "1e400", "-1.0e-0", "9" * 40, "1.000000000000000005"])
NAMES = st.sampled_from(['"a"', '""', r'"\u0061"', '"ssn "', '"a"', r'"\ud800"', '"日"'])
SSN_NAMES = st.sampled_from(['"ssn"', r'"\u0073sn"'])

Pair = tuple[str, str]
"""A piece of JSON text, and what is to be left of it."""


def _spaced(pairs: list[Pair], opening: str, closing: str, white: list[str]) -> Pair:
    one, two, three = [*white, "", "", ""][:3]
    return (
        opening + one + f"{two},{three}".join(pair[0] for pair in pairs) + one + closing,
        opening + one + f"{two},{three}".join(pair[1] for pair in pairs) + one + closing,
    )


def _kept(text: str) -> Pair:
    return text, text


SCALARS = STRINGS | NUMBERS | st.sampled_from(["true", "false", "null"])
HIDDEN = (
    STRINGS.map(lambda text: (text, '"••••"'))
    | NUMBERS.map(lambda text: (text, "0"))
    | st.sampled_from([("true", "false"), ("false", "false"), ("null", "null")])
)


def _containers(inner: st.SearchStrategy[Pair], secrets: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def member(name: str, white: str, value: Pair) -> Pair:
        return f"{name}{white}:{white}{value[0]}", f"{name}{white}:{white}{value[1]}"

    members = st.builds(member, NAMES, WHITE, inner) | st.builds(member, SSN_NAMES, WHITE, secrets)
    spaces = st.lists(WHITE, max_size=3)
    return st.builds(_spaced, st.lists(members, max_size=4), st.just("{"), st.just("}"), spaces) | st.builds(
        _spaced, st.lists(inner, max_size=4), st.just("["), st.just("]"), spaces
    )


SECRETS = st.recursive(HIDDEN, lambda inner: _containers(inner, inner), max_leaves=4)
DOCUMENTS = st.recursive(SCALARS.map(_kept), lambda inner: _containers(inner, SECRETS), max_leaves=12)


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS, WHITE)
def test_every_byte_outside_what_is_masked_comes_out_as_it_went_in(document: Pair, white: str) -> None:
    text, left = (white + side + white for side in document)

    data = text.encode()
    shown, bits = scan.mask(data, root("$..ssn"), 512)

    assert shown.decode() == left
    assert bits or shown is data


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS, st.integers(0, 200), st.sampled_from(["", '"', "{", "]", "\\", ",", "\x00", "é", "1", ":"]), st.booleans())
@example(("[1]", "[1]"), 0, '"', True)
def test_the_scanner_and_a_strict_json_reader_accept_the_same_texts(
    document: Pair, place: int, piece: str, replaces: bool
) -> None:
    text = document[0][:place] + piece + document[0][place + replaces :]

    def refuse(constant: str) -> object:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
        accepted = True
    except ValueError:
        accepted = False
    for chosen in ("$..ssn", "$.zz.y"):
        try:
            scan.mask(text.encode(), root(chosen), 512)
            taken = True
        except scan.NotJson:
            taken = False
        assert taken == accepted


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0123x ', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_what_is_documented(data: bytes) -> None:
    for chosen in ("$..q", "$.*.*", "$.a.b"):
        try:
            scan.mask(data, root(chosen), 3)
        except (scan.NotJson, scan.TooDeep):
            continue


@pytest.mark.slow
def test_a_long_string_is_masked_without_a_way_back() -> None:
    one = plan(path("$.a", partial(1, 1)), path("$.b"))
    size = 4 << 20

    assert one.value(b'{"b":"' + b"\\n" * (size // 2) + b'"}').data == b'{"b":"' + MASK + b'"}'
    assert len(one.value(b'{"a":"' + b"x" * size + b'"}').data) == 3 * size - 4 + len('{"a":""}')
    assert one.value(b'{"a":"' + b"\\" * (size + 1) + b'x"}').whole == "not JSON"
    assert one.value(b'{"c":"' + b"x" * size).whole == "not JSON"


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["$.*", "$..q", "$.a.b"])
def test_a_document_of_many_small_values_is_masked_in_linear_time(chosen: str) -> None:
    one = plan(path(chosen))
    documents = [
        b"[" + b"1," * 75_000 + b"1]",
        b"[" + b'"{",' * 40_000 + b"1]",
        b'{"x":[' + b'{"a":1,"b":{"d":{}}},' * 10_000 + b"1]}",
    ]
    begun = time.process_time()
    for data in documents:
        one.value(data)

    assert time.process_time() - begun < 60  # squared it would be hours


AROUND_A_PIECE = [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 1023, 1024, 1025, 2047, 2048, 2049, 3100]
"""Counts on both sides of each border at which the scanner begins a new piece."""


@pytest.mark.parametrize("count", AROUND_A_PIECE)
@pytest.mark.parametrize("escape", [r"\n", r"\u0041", r"\\", r"\"", r"\ud83d\ude00", r"x\/y", r"\u0020"])
def test_no_count_of_escapes_changes_what_is_masked(count: int, escape: str) -> None:
    text = escape * count
    for opening, closing in (("", ""), ('[["', '",1],2]'), ('{"k":"', '"}'), ('{"', '":[1]}')):
        inner = f"{opening}{text}{closing}" if opening else f'"{text}"'
        document = f'{{"d":{inner},"q":"S3CR3T","e":[{inner},{inner},0]}}'

        assert masked(plan(path("$.q")), document) == document.replace("S3CR3T", "••••")
        assert masked(plan(path("$..q")), document) == document.replace("S3CR3T", "••••")
    assert masked(plan(path("$.q")), f'{{"q":"{text}","r":"{text}"}}') == f'{{"q":"••••","r":"{text}"}}'
    for broken in (f'{text}\\x"', f"{text}", f'{text}\n"', f'{text}""'):
        assert plan(path("$.q")).value(f'{{"q":"S3CR3T","d":["{broken}]}}'.encode()).data == MASK
        assert plan(path("$.q")).value(f'{{"q":"S3CR3T","d":[0,"{broken},0]}}'.encode()).data == MASK


@pytest.mark.parametrize("count", AROUND_A_PIECE)
def test_no_count_of_members_changes_what_is_masked(count: int) -> None:
    for item in ("1", '"a"', "[]", '{"q":1}', "[1,[2]]", "-1.5e3", "null"):
        items = f"{item}," * count
        pairs = f'"a\\n" : {item} , ' * count
        for inner in (f"[{items}0]", f"[[{items}0]]", f'{{{pairs}"z":0}}', f'[{{{pairs}"z":0}}]', f'[{{"q":[{items}0]}},0]'):
            document = f'{{"d":{inner},"ssn":"S3CR3T"}}'

            assert masked(SSN, document) == document.replace("S3CR3T", "••••")
            assert SSN.value(document.replace("0", ",", 1).encode()).data == MASK


@pytest.mark.parametrize("count", AROUND_A_PIECE)
@pytest.mark.parametrize("white", [" ", r"\n", r"\u0020", r"\u000A"])
def test_no_count_of_blanks_hides_json_in_a_string(count: int, white: str) -> None:
    start = white * count

    assert masked(plan(path("$..q")), f'["{start}{{\\"q\\":1}}"]') == f'["{start}{{\\"q\\":0}}"]'
    assert masked(plan(path("$..q")), f'["{start}[\\"q\\":1"]') == '["••••"]'
    assert masked(plan(path("$..q")), f'["{start}x{{"]') == f'["{start}x{{"]'


HOSTILE = {
    "escapes": b'"' + b"\\n" * 500_000 + b'"',
    "quotes": b'"' + b'\\"' * 500_000 + b'"',
    "escapes without an end": b'"' + b"\\n" * 500_000,
    "small strings": b"[" + b'"a\\n",' * 50_000 + b"1]",
    "flat lists of escapes": b"[" + (b"[" + b'"' + b"\\n" * 8 + b'",' * 31 + b"1],") * 500 + b"1]",
    "flat objects of escapes": b"[" + (b'{"' + b"\\n" * 8 + b'":"' + b"\\n" * 8 + b'"},') * 5_000 + b"1]",
    "members of escapes": b"{" + (b'"' + b"\\n" * 64 + b'":"' + b"\\n" * 64 + b'",') * 1_000 + b'"a":1}',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("chosen", ["$.q", "$..q"])
def test_ways_back_take_a_few_megabytes_at_most(name: str, chosen: str) -> None:
    data = b'{"x"\n:' + HOSTILE[name] + b"}"  # never a tree, whose memory is another matter
    state = root(chosen)
    tracemalloc.start()
    try:
        try:
            scan.mask(data, state, 512)
        except scan.NotJson:
            assert name == "escapes without an end"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 8 << 20
