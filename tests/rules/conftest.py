"""The two scanners, one after the other: they are of equal meaning, so what is proven of one is proven of both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rules import scan

from .scanners import Scanner, the_scanner


@pytest.fixture(scope="module", params=["python", "compiled"])
def scanner(request: pytest.FixtureRequest) -> Iterator[Scanner]:
    """One of the two, put where the plan finds its scanner. A module asks for it by a mark."""
    one = the_scanner(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "ENGINE", request.param)
        for name in ("cut", "mask", "mask_in", "opens"):
            patch.setattr(scan, name, getattr(one, name))
        yield one
