"""Which brokers a test run wants, and what happens when one cannot be had.

VEIL_BROKERS=containers|processes|auto: where brokers run; auto takes a container where an engine answers.
VEIL_REQUIRE=redis,kafka,rabbitmq,console,compiled: names that may not be skipped: their absence fails the test instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest


def _take(name: str, default: str) -> str:
    # Taken out of the environment: what is left under VEIL_ there is an override of Veil's own configuration,
    # and every Veil that a test starts would refuse these.
    return os.environ.pop(name, default)


BROKERS = _take("VEIL_BROKERS", "auto")
REQUIRED = frozenset(each.strip() for each in _take("VEIL_REQUIRE", "").split(",") if each.strip())
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "veil"
CONTAINERS = Path(_take("VEIL_CONTAINERS", str(CACHE / "containers")))
ARTIFACTS = Path(__file__).parents[2] / "artifacts"

if BROKERS not in {"auto", "containers", "processes"}:
    raise pytest.UsageError(f"VEIL_BROKERS={BROKERS}: it is containers, processes or auto")


def absent(name: str, how: str) -> NoReturn:
    """Skips the test with one line that says how to get `name`, or fails it where the run requires it."""
    if name in REQUIRED:
        pytest.fail(f"{name} is required (VEIL_REQUIRE) and is not there: {how}", pytrace=False)
    pytest.skip(f"{name} is not there: {how}")
