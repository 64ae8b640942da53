"""A short run of the fuzzer of the two scanners. FUZZ_EXECUTIONS and FUZZ_FIRST look longer and elsewhere."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import cast

import pytest

from rules.automaton import State
from rules.scan import python
from rules.scan.errors import NotJson
from tests.rules.scanners import Scanner, the_compiled

from .scan_fuzz import Failed, Fuzzer, main, run

EXECUTIONS = int(os.environ.get("FUZZ_EXECUTIONS", "3000"))
SEED = int(os.environ.get("FUZZ_FIRST", "0"))


@pytest.fixture
def fuzzer() -> Fuzzer:
    return Fuzzer(python, the_compiled(), SEED)


@pytest.mark.slow
def test_both_scanners_make_the_same_of_every_text_and_what_they_promise(fuzzer: Fuzzer) -> None:
    run(fuzzer, EXECUTIONS)

    assert fuzzer.executions >= EXECUTIONS
    assert {"NotJson", "TooDeep", "masked", "untouched", "compared with the naive walk"} <= fuzzer.count.keys()


def _forgets_a_name(data: bytes, root: State, max_depth: int) -> tuple[bytes, int]:
    shown, bits = python.mask(data, root, max_depth)
    return (data, 0) if data.count(b'"ssn"') > 2 else (shown, bits)


def _breaks_json(data: bytes, root: State, max_depth: int) -> tuple[bytes, int]:
    shown, bits = python.mask(data, root, max_depth)
    return (shown + b"," if bits else shown), bits


def _raises_something(data: bytes, root: State, max_depth: int) -> tuple[bytes, int]:
    if b"\xff" in data:
        raise IndexError
    return python.mask(data, root, max_depth)


def _copies(data: bytes, root: State, max_depth: int) -> tuple[bytes, int]:
    shown, bits = python.mask(data, root, max_depth)
    return bytes(bytearray(shown)), bits


def _tells(data: bytes, root: State, max_depth: int) -> tuple[bytes, int]:
    try:
        return python.mask(data, root, max_depth)
    except NotJson:
        raise NotJson(f"not JSON: {data!r}") from None


WRONG = [_forgets_a_name, _breaks_json, _raises_something, _copies, _tells]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("twins", [False, True], ids=["one", "both"])
def test_the_fuzzer_finds_what_is_wrong(wrong: object, *, twins: bool) -> None:
    """Wrong in both scanners as well, where nothing differs and only the promises can tell."""
    fake = cast(Scanner, SimpleNamespace(cut=python.cut, mask=wrong, mask_in=python.mask_in, opens=python.opens))
    one = Fuzzer(fake if twins else python, fake, 0)

    with pytest.raises(Failed, match="seed 0, block"):
        run(one, 20_000)


def test_the_command_prints_what_came_out(capsys: pytest.CaptureFixture[str]) -> None:
    the_compiled()

    assert main(["--executions", "64", "--seed", "5"]) == 0
    assert "64 executions, seed 5" in capsys.readouterr().out
