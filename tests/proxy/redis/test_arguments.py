"""proxy.protocols.redis.arguments: what of a logged command may be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.redis import arguments, surface
from proxy.protocols.redis.surface import Row, Treatment

from .lenses import CANARY, MASK

ROWS = {
    b"SET": ("SET", "", "1 [rw access update insert]"),
    b"BLPOP": ("BLPOP", "", "1..-2 [rw access delete]"),
    b"MGET": ("MGET", "", "1..last"),
    b"PUBLISH": ("PUBLISH", "", "channels 1"),
    b"PSUBSCRIBE": ("PSUBSCRIBE", "", "patterns 1..last"),
    b"LMPOP": ("LMPOP", "", "1 numkeys (count at +0, keys from +1)"),
    b"EVAL": ("EVAL", "", "2 numkeys (count at +0, keys from +1)"),
    b"BITOP": ("BITOP", "", "2; 3..last"),
    b"FAR": ("FAR", "", "12"),
    b"AUTH": ("AUTH", "", "none"),
    b"ECHO": ("ECHO", "", "none"),
    b"OBJECT": ("OBJECT", "ENCODING", "1"),
}


def find(argv: tuple[bytes, ...]) -> Row:
    command, subcommand, keys = ROWS.get(argv[0].upper(), ("*", "", "1"))
    return Row(command, subcommand, keys, "", Treatment.PASS, "-", "-", "")


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surface, "find", find)


@pytest.mark.parametrize("name", [b"SET", b"set", b"BLPOP", b"MGET", b"PUBLISH"])
def test_a_key_or_channel_that_comes_first_stays_and_nothing_behind_it(name: bytes) -> None:
    assert arguments.shown_args([name, b"user:1", CANARY, CANARY]) == (name, b"user:1", MASK, MASK)


@pytest.mark.parametrize(
    "name", [b"PSUBSCRIBE", b"LMPOP", b"EVAL", b"BITOP", b"FAR", b"AUTH", b"ECHO", b"OBJECT", b"MOD.SECRET", b"\xff"]
)
def test_of_any_other_command_the_name_alone_stays(name: bytes) -> None:
    assert arguments.shown_args([name, CANARY, CANARY]) == (name, MASK, MASK)


@pytest.mark.parametrize("cut", [b"S3CR... (172 more bytes)", b"... (3 more arguments)", b"... (1 more bytes)"])
def test_what_the_server_cut_is_replaced_and_tells_no_length(cut: bytes) -> None:
    assert arguments.shown_args([b"SET", b"k", cut]) == (b"SET", b"k", MASK)
    assert arguments.shown_args([b"SET", cut]) == (b"SET", MASK)
    assert arguments.shown_args([cut, b"k"]) == (MASK, MASK)


def test_a_command_without_arguments_and_no_command_at_all_are_shown_as_they_are() -> None:
    assert arguments.shown_args([]) == ()
    assert arguments.shown_args([b"SET"]) == (b"SET",)


@given(st.sampled_from(sorted(ROWS)), st.lists(st.binary() | st.just(b""), max_size=6))
def test_as_many_arguments_come_out_and_none_behind_the_second_is_shown(name: bytes, rest: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "find", find)
        shown = arguments.shown_args([name, *rest])

    assert len(shown) == 1 + len(rest)
    assert set(shown[2:]) <= {MASK}
