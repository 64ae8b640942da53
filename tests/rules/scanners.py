"""The two scanners, for tests that name one; the one in Python is two as well, with orjson and without."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import ParamSpec, Protocol, TypeVar, cast

from rules import scan
from rules.automaton import State
from rules.cut import Cut
from rules.scan import canonical, python
from tests.brokers.mode import absent

FUNCTIONS = ("cut", "mask", "mask_in", "opens")

P = ParamSpec("P")
R = TypeVar("R")


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


def without_orjson() -> Scanner:
    """The one in Python as it is where orjson is not installed."""
    return cast(Scanner, SimpleNamespace(**{name: _without(getattr(python, name)) for name in FUNCTIONS}))


class _Without:
    """Whoever is inside, in whatever thread, has no orjson."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._kept = canonical.LEAST_DEPTH

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            canonical.LEAST_DEPTH = sys.maxsize

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                canonical.LEAST_DEPTH = self._kept


_WITHOUT = _Without()


def _without(call: Callable[P, R]) -> Callable[P, R]:
    @wraps(call)
    def run(*args: P.args, **named: P.kwargs) -> R:
        with _WITHOUT:
            return call(*args, **named)

    return run


def the_scanner(name: str) -> Scanner:
    return {"python": lambda: python, "python without orjson": without_orjson, "compiled": the_compiled}[name]()
