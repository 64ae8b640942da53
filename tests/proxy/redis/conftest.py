"""What the tests of Redis sessions share."""

from __future__ import annotations

import pytest

from .desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()
