from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.model import Descend, Every, JsonPath, Name
from rules.paths import MAX_CHARACTERS, USE_MASK_ALL, USE_WHOLE_VALUE, PathError, parse_path


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("$.a", (Name("a"),)),
        ("$.customer.e-mail_1", (Name("customer"), Name("e-mail_1"))),
        ("$.1", (Name("1"),)),
        ("$.straße.日本", (Name("straße"), Name("日本"))),
        ("$['a b'].c", (Name("a b"), Name("c"))),
        (r"$['it\'s']['\\']", (Name("it's"), Name("\\"))),
        (r"$['\\\'']", (Name("\\'"),)),
        ("$['']", (Name(""),)),
        ("$['*'][\"]".replace('["]', "['$..x']"), (Name("*"), Name("$..x"))),
        ("$['a\nb\tc']", (Name("a\nb\tc"),)),
        ("$.*[*]", (Every(), Every())),
        ("$.cards[*].number", (Name("cards"), Every(), Name("number"))),
        ("$..iban", (Descend("iban"),)),
        ("$..a..b.*", (Descend("a"), Descend("b"), Every())),
    ],
)
def test_a_path_of_the_subset_is_read_step_by_step(text: str, steps: tuple[object, ...]) -> None:
    assert parse_path(text) == JsonPath(text, steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 0, "starts with $"),
        ("a.b", 0, "starts with $"),
        (" $.a", 0, "starts with $"),
        ("$", 0, USE_WHOLE_VALUE),
        ("$..*", 3, USE_MASK_ALL),
        ("$.a..*", 5, "everything below"),
        ("$..['a']", 3, "..["),
        ("$..[*]", 3, "..["),
        ("$..", 3, "name after .."),
        ("$...a", 3, "name after .."),
        ("$a", 1, "expected . or ["),
        ("$.a ", 3, "expected . or ["),
        ("$.a b", 3, "expected . or ["),
        ("$.a\t.b\tc", 3, "expected . or ["),
        ("$.*a", 3, "expected . or ["),
        ("$.", 2, "after the dot"),
        ("$.a.", 4, "after the dot"),
        ("$.a.'b'", 4, "after the dot"),
        ("$.a.[*]", 4, "without a dot"),
        ("$.a[0]", 4, "positions"),
        ("$.a[-1]", 4, "positions"),
        ("$.a[1:2]", 4, "slices"),
        ("$.a[:]", 4, "slices"),
        ("$.a[0,1]", 4, "unions"),
        ("$['a','b']", 5, "unions"),
        ("$[?(@.a)]", 2, "filters"),
        ("$[(@.length-1)]", 2, "expressions"),
        ('$["a"]', 2, "single quotes"),
        ("$[a]", 2, "after ["),
        ("$[", 2, "after ["),
        ("$[*", 3, "] after"),
        ("$[**]", 3, "] after"),
        ("$['a", 4, "closing quote"),
        ("$['a'", 5, "] after the name"),
        ("$['a'x]", 5, "] after the name"),
        (r"$['a\n']", 5, "escapes"),
        ("$['a\\", 5, "escapes"),
        ("$.ok" + ".a" * MAX_CHARACTERS, MAX_CHARACTERS, "at most"),
    ],
)
def test_what_is_not_understood_is_named_with_its_column(text: str, column: int, says: str) -> None:
    with pytest.raises(PathError) as caught:
        parse_path(text)

    assert (caught.value.column, says in caught.value.message) == (column, True), caught.value.message


@given(st.text(alphabet="$.*['\\]ab0é \t\n,:?", max_size=40).map("$".__add__))
def test_any_text_is_read_or_refused_within_its_length(text: str) -> None:
    try:
        assert parse_path(text).text == text
    except PathError as refused:
        assert 0 <= refused.column <= len(text)


@pytest.mark.slow
def test_a_thousand_paths_are_read_in_a_moment() -> None:
    begun = time.process_time()
    for number in range(1000):
        parse_path(f"$.customer.a{number}[*]['x y'].*..iban")

    assert time.process_time() - begun < 10


@pytest.mark.parametrize("text", ["$" + "[" * 9_999, "$['" + "\\'" * 4_990, "$" + "." * 9_999, "$" + ".a" * 4_999 + "["])
def test_a_hostile_path_is_refused_quickly(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(PathError):
        parse_path(text)

    assert time.process_time() - begun < 5


@pytest.mark.parametrize("count", [1, 100, 1024, 4_990])
def test_a_name_may_be_all_escapes(count: int) -> None:
    assert parse_path("$['" + r"\'" * count + "']").steps == (Name("'" * count),)
