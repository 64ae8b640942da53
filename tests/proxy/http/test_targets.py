"""Targets: decoded once, judged, and written anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.http.errors import BadRequest
from proxy.protocols.http.targets import Target, parse

SEGMENTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\\;\r\n"), min_size=1, max_size=6).filter(
    lambda each: each not in (".", "..")
)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)


@given(st.lists(SEGMENTS, max_size=4), st.lists(st.tuples(NAMES, NAMES | st.just("")), max_size=3), st.booleans())
def test_what_is_written_is_read_as_the_same_place(segments: list[str], query: list[tuple[str, str]], slash: bool) -> None:
    target = Target(tuple(segments), tuple(query), slash and bool(segments))

    assert parse(target.encode()) == target


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"/", Target(())),
        (b"/?a=b", Target((), (("a", "b"),))),
        (b"/api/queues/%2F/a%20b", Target(("api", "queues", "/", "a b"))),
        (b"/api/%252F", Target(("api", "%2F"))),
        (b"/a/", Target(("a",), slash=True)),
        (b"/a?x=1&x=2&y", Target(("a",), (("x", "1"), ("x", "2"), ("y", "")))),
        (b"/a?&&x=%26+%2B&", Target(("a",), (("x", "& +"),))),
        (b"/a+b?c%3Dd=e=f", Target(("a+b",), (("c=d", "e=f"),))),
        (b"/a?", Target(("a",))),
    ],
)
def test_a_target_says_its_segments_and_pairs(raw: bytes, expected: Target) -> None:
    assert parse(raw) == expected


@pytest.mark.parametrize("raw", [b"/", b"/?a=b"])
def test_the_root_stays_the_root(raw: bytes) -> None:
    assert parse(raw).encode() == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"//", b"//a", b"/a//b", b"/a//", b"/./a", b"/a/..", b"/a/%2e%2E/b", b"/%2e", b"/a;b", b"/a%3bb", b"/a\\b", b"/a%5cb", b"/a%00", b"/%0d%0a",
        b"/a#b", b"/a%", b"/a%2", b"/a%zz", b"/%c0%af", b"/%ff", b"/%ed%a0%80", b"*", b"a", b"", b"/a?%zz", b"/a?=b", b"/a?b=%ff", b"/a?b#c",
        b"mq.local:80",
    ],
)  # fmt: skip
def test_what_could_mean_two_places_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)

    assert caught.value.status == 400


@pytest.mark.parametrize("raw", [b"http://mq.local/", b"https://169.254.169.254/latest"])
def test_the_absolute_form_is_another_servers(raw: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)

    assert caught.value.status == 421


def test_a_pair_is_asked_for_by_its_name() -> None:
    assert parse(b"/a?x=1&y=2&x=3").asked("x") == ["1", "3"]
