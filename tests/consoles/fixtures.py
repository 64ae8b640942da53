"""Fixtures: a console, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import Veil

from .browser import Browser
from .redis_commander import RedisCommander
from .watched import Watched

ConsoleFactory = Callable[..., RedisCommander]


@pytest.fixture
def redis_commander(tmp_path: Path) -> Iterator[ConsoleFactory]:
    """Starts redis-commander: `redis_commander(server_or_veil, user="", password="")`."""
    started: list[RedisCommander] = []

    def begin(target: RedisServer | Veil, *, user: str = "", password: str = "") -> RedisCommander:
        folder = tmp_path / f"redis-commander{len(started)}"
        folder.mkdir()
        started.append(RedisCommander(folder, target.host, target.port, user=user, password=password))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A headless Chromium with a profile of its own."""
    profile = tmp_path / "chromium"
    profile.mkdir()
    one = Browser(profile)
    yield one
    one.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A headless Chromium of which every answer it gets is kept."""
    profile = tmp_path / "chromium-watched"
    profile.mkdir()
    one = Watched(profile)
    yield one
    one.close()
