"""JSON with places: as strict as can be, and no other byte is touched."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.http.documents import MOST_DEPTH, NotStrict, Value, canonical, everything, parse, spliced, written

SUITE = sorted((Path(__file__).parents[2] / "corpora" / "JSONTestSuite").rglob("*.json"))
HALF = set(map(chr, range(0xD800, 0xE000)))


def says(value: Value) -> Any:
    if value.is_object:
        return {name: says(each) for name, each in value.inside.items()}
    if value.is_array:
        return [says(each) for each in value.inside]
    return json.loads(value.number) if value.number else value.inside


def as_python_reads(data: bytes) -> Any:
    """
    Raises:
        ValueError: it is not strict.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("duplicate")
        return dict(pairs)

    def constant(_name: str) -> Any:
        raise ValueError("constant")

    told = json.loads(data.decode("utf-8"), object_pairs_hook=once, parse_constant=constant)
    if HALF & set(json.dumps(told, ensure_ascii=False)):
        raise ValueError("half a pair")
    return told


def both_read(data: bytes) -> None:
    try:
        expected = as_python_reads(data)
    except (ValueError, RecursionError):
        with pytest.raises(NotStrict):
            parse(data)
    else:
        text, value = parse(data)
        assert says(value) == expected
        assert json.loads(canonical(value)) == expected
        assert spliced(text, []) == data
        for each in everything(value):
            assert json.loads(text[each.start : each.end]) == says(each)


@pytest.mark.parametrize("file", SUITE, ids=[each.name for each in SUITE])
def test_the_test_suite_is_read_as_strictly_as_by_the_standard_library(file: Path) -> None:
    data = file.read_bytes()
    deepest = max((data[:at].count(b"[") for at in (len(data),)), default=0)
    if deepest > MOST_DEPTH:
        with pytest.raises(NotStrict):
            parse(data)
        return
    both_read(data)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(TREES, st.sampled_from([None, 0, 2]), st.booleans())
def test_what_the_standard_library_writes_is_read_with_every_place(tree: Any, indent: int | None, ascii_alone: bool) -> None:
    both_read(json.dumps(tree, indent=indent, ensure_ascii=ascii_alone).encode())


PIECES = ['"', "\\", "{", "}", "[", "]", ",", ":", "a", "\\u00e9", "\\ud83d", "\\ude00", "1", "-", ".", "e", "0", " ", "\t", "\n", "\x01", "true", "null", "NaN", "\ufeff", "é", "//", "\x7f"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(lambda each: "".join(each).encode()))
def test_what_is_nearly_json_is_read_like_the_standard_library_or_not_at_all(data: bytes) -> None:
    both_read(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b"\xef\xbb\xbf{}", b"{} {}", b"{}x", b"[1,]", b'{"a":1,}', b"[NaN]", b"[Infinity]",
        b"[-Infinity]", b"// x\n{}", b"{}/**/", b"[01]", b"[1.]", b"[.5]", b"[+1]", b"[0x1]", b"['a']", b'["\\x41"]', b'["\x00"]',
        b'["\\ud800"]', b'["\\udc00\\ud800"]', b'{"\\ud800":1}', b'["\xff"]', b'["\xed\xa0\x80"]', b'["\xc0\xaf"]', b"", b" ",
        "{}".encode("utf-16"), "{}".encode("utf-16-le"), b"[\x0b1]", b"[\xc2\xa01]", b'"', b'"\\', b'"\\u12', b'{"a"', b'{"a":', b"[", b"tru",
    ],
)  # fmt: skip
def test_what_two_servers_could_read_in_two_ways_is_read_in_none(data: bytes) -> None:
    with pytest.raises(NotStrict):
        parse(data)


def test_a_whole_pair_of_escapes_is_one_character() -> None:
    assert parse(b'["\\ud83d\\ude00"]')[1].inside[0].inside == "\U0001f600"


def test_depth_is_bounded_and_what_is_below_passes() -> None:
    parse(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)
    with pytest.raises(NotStrict):
        parse(b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(NotStrict):
        parse(b'{"a":' * 100_000)


def test_numbers_keep_their_spelling_however_long() -> None:
    data = b'{"a": 1E400, "b":-0.0 ,"c":' + b"9" * 5000 + b"}"
    _, value = parse(data)

    assert [each.number for each in value.inside.values()] == ["1E400", "-0.0", "9" * 5000]
    assert canonical(value) == data.replace(b" ", b"")


def test_one_value_is_replaced_and_every_other_byte_stays() -> None:
    data = '[ {"ä" : "x\\u0041" , "n":1e3}\t,{"ä":"y"} ]\n'.encode()
    text, value = parse(data)
    first, second = value.inside

    changed = spliced(text, [(second.member("ä"), '"•"'), (first.member("ä"), "null")])

    assert changed == '[ {"ä" : null , "n":1e3}\t,{"ä":"•"} ]\n'.encode()


def test_a_value_inside_another_cannot_be_replaced_along_with_it() -> None:
    text, value = parse(b"[[1]]")
    with pytest.raises(ValueError, match="inside another"):
        spliced(text, [(value.inside[0], "2"), (value.inside[0].inside[0], "3")])


def test_members_are_told_apart_by_their_kind() -> None:
    _, value = parse(b'{"t":"1","n":1,"w":true,"o":{},"a":[]}')

    assert [value.text(name) for name in ("t", "n", "w", "o", "a", "none")] == ["1", None, None, None, None, None]
    assert value.member("none") is None
    assert value.inside["a"].member("t") is None


def test_no_contents_are_in_what_is_said_of_a_value_or_a_fault() -> None:
    _, value = parse(b'["c4n4ry-4111"]')
    with pytest.raises(NotStrict) as caught:
        parse(b'{"c4n4ry-4111": "\x01"}')

    assert "c4n4ry" not in repr(value) + repr(caught.value)


def seconds(data: bytes) -> float:
    gc.disable()  # which goes over all that is there, as often as there is more
    try:
        began = time.perf_counter()
        parse(data)
        return time.perf_counter() - began
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "piece", [b'{"name":"value\\n","n":-12.5e3},', b'"' + b"\\n" * 20 + b'",', b'"' + b"\\u00e9" * 20 + b'",', b" 1,"]
)
def test_the_time_is_in_proportion_to_the_length(piece: bytes) -> None:
    small, large = (b"[" + piece * count + b"1]" for count in (2_000, 20_000))

    assert min(seconds(large) for _ in range(3)) < 40 * min(seconds(small) for _ in range(3))


def test_a_long_string_takes_no_more_room_than_a_few_of_its_kind() -> None:
    text = written("\n" * 2_000_000).encode()

    assert seconds(text) < 2.0
    assert seconds(b'"' + b"a" * 8_000_000 + b'"') < 2.0
