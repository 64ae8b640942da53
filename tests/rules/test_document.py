"""The strict YAML loader: what it takes, what it refuses, and where it says so."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.model import Place
from rules.store import document
from rules.store.document import MAX_DEPTH, Mapping, Scalar, Sequence, Unread, load, reads_otherwise


def told(text: str | bytes) -> list[tuple[int, int]]:
    return [(each.place.line, each.place.column) for each in load(text, "f").problems]


def scalar(text: str, key: str = "a") -> Scalar:
    root, problems = load(text, "f")
    assert problems == ()
    assert isinstance(root, Mapping)
    node = root.get(key)
    assert isinstance(node, Scalar)
    return node


@pytest.fixture(params=["quick", "pure"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(document, "_PARSER", yaml.Loader)


def test_a_tree_knows_where_its_nodes_stand() -> None:
    root, problems = load("a:\n  - x\n  - {b: 'c'}\n", "dir/f.yaml")

    assert problems == ()
    assert isinstance(root, Mapping)
    items = root.get("a")
    assert isinstance(items, Sequence)
    assert items.items[0] == Scalar(Place("dir/f.yaml", 2, 5), "x", plain=True, inner=0)
    inner = items.items[1]
    assert isinstance(inner, Mapping)
    assert inner.get("b") == Scalar(Place("dir/f.yaml", 3, 9), "c", plain=False, inner=1)
    assert inner.get("d") is None


def test_columns_count_code_points() -> None:
    assert scalar("é😀: x\n", "é😀").place == Place("f", 1, 5)


def test_crlf_and_cr_end_lines() -> None:
    assert scalar("b: 1\r\na: x\r\n").place == Place("f", 2, 4)
    assert scalar("b: 1\ra: x\r").place == Place("f", 2, 4)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "--- # nothing\n...\n"])
def test_an_empty_file_is_taken_for_a_half_finished_write(text: str) -> None:
    root, problems = load(text, "f")

    assert root is None
    assert [str(each)[:9] for each in problems] == ["f:1:1: em"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rules: x\nrules: []\n", (2, 1)),
        ("a: {b: 1, c: 2, b: 3}\n", (1, 17)),
        ("a: 1\n'a': 2\n", (2, 1)),
        ("a: 1\n---\nb: 1\n", (2, 1)),
        ("a: 1\n---\n", (2, 1)),
        ("a: &x b\n", (1, 4)),
        ("a: !!str b\n", (1, 4)),
        ("a: ! b\n", (1, 4)),
        ("a: !x {b: c}\n", (1, 4)),
        ("a: &x [b]\n", (1, 4)),
        ("<<: {a: b}\n", (1, 1)),
        ("? [a]\n: b\n", (1, 3)),
        ("? {a: b}\n: b\n", (1, 3)),
        ("%YAML 1.1\n---\na: b\n", (1, 1)),
        ("%TAG ! tag:x,2002:\n---\na: b\n", (1, 1)),
        ("\ufeffa: b\n", (1, 1)),
        ("a: b\ufeff\n", (1, 5)),
        ("a: x\u2028y\n", (1, 5)),
        ("a: x\u2029y\n", (1, 5)),
        ("a: 1\n# x\x85b: c\n", (2, 4)),
        ("a: |\n  x\u2028y\n", (2, 4)),
        ("a: b\x07\n", (1, 5)),
        ("a: b\x7f\n", (1, 5)),
        ("a: b\x9b\n", (1, 5)),
        ("a: b\x00\n", (1, 5)),
        ("a: b\ud800\n", (1, 5)),
        ("a: [b\n", (2, 1)),
        ("a: b\n\tc: d\n", (2, 1)),
        ("a: b: c\n", (1, 5)),
        ("a: b\n...\nfoo: bar\n", (3, 1)),
    ],
)
def test_what_is_refused_is_told_at_its_place(text: str, expected: tuple[int, int]) -> None:
    assert told(text) == [expected]


def test_an_invalid_byte_is_told_at_its_place() -> None:
    assert told(b"\xc3\xa9: b\n# \xc3\xa9\xff\n") == [(2, 4)]
    assert told(b"a: b\xc3") == [(1, 5)]
    assert told("a: b".encode("utf-16")) == [(1, 1)]


def test_an_alias_is_told_together_with_its_anchor() -> None:
    root, problems = load("a: &x 1\nb: *x\n", "f")

    assert [str(each.place) for each in problems] == ["f:1:4", "f:2:4"]
    assert isinstance(root, Mapping)
    assert isinstance(root.get("b"), Unread)


def test_an_alias_as_a_key_is_told_once() -> None:
    assert told("a: &x b\n*x : c\n") == [(1, 4), (2, 1)]


def test_all_refused_constructs_of_a_file_are_told() -> None:
    assert sorted(told("a: 1\na: 2\nb: !x 1\nc: {d: 1, d: 2}\n")) == [(2, 1), (3, 4), (4, 11)]


def test_a_bomb_of_aliases_is_read_in_no_time() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))

    assert len(told(bomb)) == 10 + 81


def test_depth_is_bounded() -> None:
    assert load("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), "f").problems == ()
    assert told("a: " + "[" * 100) == [(1, 3 + MAX_DEPTH)]
    assert len(told("a: " + "[" * 100_000)) == 1


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_NODES", 5)

    assert load("a: [1, 2]", "f").problems == ()
    assert told("a: [1, 2, 3, 4, 5]") == [(1, 17)]


def test_a_large_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_BYTES", 10)

    assert load(b"a: 1234567", "f").problems == ()
    assert told(b"a: 12345678") == [(1, 1)]


def test_odd_line_ends_inside_quotes_are_kept() -> None:
    assert scalar("b: 1\na: 'x\u2028y\x85z'\nc: 1\n").text == "x\u2028y\x85z"
    assert scalar('a: "x\u2029y"\nb: "z"\n', "b").place == Place("f", 2, 4)


@pytest.mark.parametrize(
    ("text", "inner"),
    [("a: $.x", 0), ("a: '$.x'", 1), ('a: "$.x"', 1), ('a: "\\x24.x"', None), ("a: |-\n  $.x", None), ("a: '$.''x'", None)],
)
def test_columns_inside_a_text_are_known_where_it_has_no_escapes(text: str, inner: int | None) -> None:
    node = scalar(text)

    assert node.inner == inner
    assert node.at(2) == (node.place if inner is None else Place("f", 1, 4 + inner + 2))


NOT_TEXT = [
    "~",
    "null",
    "Null",
    "NULL",
    "y",
    "Y",
    "yes",
    "Yes",
    "YES",
    "n",
    "N",
    "no",
    "No",
    "NO",
    "on",
    "On",
    "off",
    "OFF",
    "true",
    "True",
    "false",
    "FALSE",
    "yEs",
    "=",
    "<<",
    "0",
    "1",
    "-1",
    "+1",
    "012",
    "0o14",
    "0x1F",
    "0b10",
    "1_000",
    "1.5",
    ".5",
    "5.",
    "1e3",
    "1E-3",
    "-1.5e+3",
    ".inf",
    "-.INF",
    ".nan",
    ".NaN",
    "12:30",
    "12:30:45",
    "190:20:30.15",
    "2001-12-14",
    "2001-1-1",
    "2001-12-14t21:59:43.10-05:00",
]


@pytest.mark.parametrize("text", ["", "2001-12-14 21:59:43", *NOT_TEXT])
def test_a_plain_scalar_that_some_reader_takes_otherwise_is_no_text(text: str) -> None:
    assert reads_otherwise(text)
    assert not Scalar(Place("f", 1, 1), text, plain=True).is_text
    assert Scalar(Place("f", 1, 1), text, plain=False).is_text


@pytest.mark.parametrize(
    "text",
    [
        "nobody",
        "yess",
        "e",
        "e5",
        "x1",
        "127.0.0.1",
        "127.0.0.1:9480",
        "127.0.0.1:55",
        "localhost:80",
        "19100-19149",
        "64MiB",
        "30s",
        "10m",
        "orders.*",
        "a=b",
        "$.x",
        "1.2.3",
        "-",
        "+",
        ".",
        "_",
        "*",
        "?",
        "0xg",
        "2001-12",
        "12:60x",
        "über",
        "a:b",
    ],
)
def test_a_plain_word_is_text(text: str) -> None:
    assert not reads_otherwise(text)


@pytest.mark.parametrize("start", ["", "0x", "0b", "0o", "+.", "1.", "1:", "1e", "2001-1-1 "])
@pytest.mark.parametrize("more", ["1", "_", "1:", "1_", ".", "e1"])
def test_a_long_scalar_is_judged_in_linear_time(start: str, more: str) -> None:
    begun = time.process_time()
    reads_otherwise(start + more * 50_000 + "x")

    assert time.process_time() - begun < 10


pieces = st.sampled_from(
    [
        "a",
        "b: ",
        "- ",
        "\n",
        "  ",
        "{",
        "}",
        "[",
        "]",
        ",",
        '"',
        "'",
        "&x ",
        "*x",
        "!t ",
        "|",
        ">",
        "#",
        "? ",
        ": ",
        "<<",
        "%",
        "---",
        "\\u0041",
        "\u2028",
        "\x85",
        "\r",
        "\t",
        "é",
        "...",
        "\ufeff",
        "\x00",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.binary(), st.lists(pieces, max_size=30).map("".join)))
def test_any_input_gives_a_tree_or_problems_in_the_file(data: str | bytes) -> None:
    root, problems = load(data, "f")

    assert root is not None or problems
    for each in problems:
        assert each.place.line >= 1
        assert each.place.column >= 1
        assert str(each).isprintable()


def test_whatever_the_parser_raises_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object, **__: object) -> None:
        raise OverflowError

    monkeypatch.setattr(yaml, "parse", raises)

    assert told("a: b") == [(1, 1)]
