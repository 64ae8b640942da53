"""proxy.protocols.redis.contents.arguments: what of a logged command may be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.redis.contents import arguments

from .lenses import CANARY, MASK


@pytest.mark.parametrize("name", [b"SET", b"set", b"BLPOP", b"MGET", b"PUBLISH", b"SPUBLISH", b"SORT", b"APPEND", b"LMOVE"])
def test_a_key_or_channel_that_comes_first_stays_and_nothing_behind_it(name: bytes) -> None:
    assert arguments.shown_args([name, b"user:1", CANARY, CANARY]) == (name, b"user:1", MASK, MASK)


@pytest.mark.parametrize(
    "name",
    [
        b"PSUBSCRIBE", b"LMPOP", b"SINTERCARD", b"EVAL", b"EVALSHA", b"FCALL", b"BITOP", b"AUTH", b"HELLO", b"ECHO", b"PING",
        b"OBJECT", b"XGROUP", b"CONFIG", b"ACL", b"CLIENT", b"FT.SEARCH", b"MIGRATE", b"XREAD", b"MOD.SECRET", b"NOSUCH", b"\xff",
    ],
)  # fmt: skip
def test_of_any_other_command_the_name_alone_stays(name: bytes) -> None:
    assert arguments.shown_args([name, CANARY, CANARY]) == (name, MASK, MASK)


@pytest.mark.parametrize("words", [(b"OBJECT", b"ENCODING"), (b"ACL", b"SETUSER"), (b"XINFO", b"STREAM"), (b"CONFIG", b"SET")])
def test_of_a_container_the_name_alone_stays(words: tuple[bytes, bytes]) -> None:
    assert arguments.shown_args([*words, CANARY]) == (words[0], MASK, MASK)


@pytest.mark.parametrize("cut", [b"S3CR... (172 more bytes)", b"... (3 more arguments)", b"... (1 more bytes)"])
def test_what_the_server_cut_is_replaced_and_tells_no_length(cut: bytes) -> None:
    assert arguments.shown_args([b"SET", b"k", cut]) == (b"SET", b"k", MASK)
    assert arguments.shown_args([b"SET", cut]) == (b"SET", MASK)
    assert arguments.shown_args([cut, b"k"]) == (MASK, MASK)


def test_a_command_without_arguments_and_no_command_at_all_are_shown_as_they_are() -> None:
    assert arguments.shown_args([]) == ()
    assert arguments.shown_args([b"SET"]) == (b"SET",)


@given(st.sampled_from([b"SET", b"EVAL", b"OBJECT", b"X"]), st.lists(st.binary() | st.just(b""), max_size=6))
def test_as_many_arguments_come_out_and_none_behind_the_second_is_shown(name: bytes, rest: list[bytes]) -> None:
    shown = arguments.shown_args([name, *rest])

    assert len(shown) == 1 + len(rest)
    assert set(shown[2:]) <= {MASK}
