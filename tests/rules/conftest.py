"""The two scanners, one after the other: they are of equal meaning, so what is proven of one is proven of both."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from rules import scan
from rules.scan import python
from tests.brokers.mode import absent

try:
    from rules.scan import compiled
except ImportError:
    compiled = None  # type: ignore[assignment]


@pytest.fixture(scope="module", params=["python", "compiled"])
def scanner(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """One of the two, put where the plan finds its scanner; that of the module is asked for by a mark."""
    module = python if request.param == "python" else compiled
    if module is None:
        absent("compiled", "python setup.py build_ext --inplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "ENGINE", request.param)
        for name in ("mask", "mask_in", "opens"):
            patch.setattr(scan, name, getattr(module, name))
        yield module
