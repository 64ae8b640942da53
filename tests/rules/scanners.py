"""The two scanners, for tests that name one."""

from __future__ import annotations

from typing import Protocol

from rules import scan
from rules.automaton import State
from rules.cut import Cut
from rules.scan import python
from tests.brokers.mode import absent


class Scanner(Protocol):
    """What both of `rules.scan` are."""

    def cut(self, data: bytes, root: State, max_depth: int, /) -> Cut[bytes] | None: ...
    def mask(self, data: bytes, root: State, max_depth: int, /) -> tuple[bytes, int]: ...
    def mask_in(self, data: bytes, root: State, max_depth: int, /) -> int | None: ...
    def opens(self, data: bytes, root: State, max_depth: int, /) -> bool: ...


def the_compiled() -> Scanner:
    """It, or the test is skipped; it fails where VEIL_REQUIRE names `compiled`."""
    if scan.LEFT_OUT is not None:
        absent("compiled", f"{scan.LEFT_OUT}: python setup.py build_ext --inplace")
    from rules.scan import compiled

    return compiled


def the_scanner(name: str) -> Scanner:
    return python if name == "python" else the_compiled()
