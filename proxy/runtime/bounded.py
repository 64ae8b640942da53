"""Blocking work that may hang, in a thread of its own and with a time-out: a disk or a server that does not answer
stops what asked it, never the serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from proxy.core.errors import ProxyError

T = TypeVar("T")


class NoAnswer(ProxyError):
    """The work was not done in time, or no thread could be started for it."""


async def in_thread(work: Callable[[], T], limiter: trio.CapacityLimiter, limit_s: float) -> T:
    """What the work comes to. Work that hangs keeps its place in the limiter, so that there is never a second.

    Raises:
        NoAnswer: see there.
    """
    with trio.move_on_after(limit_s):
        try:
            return await trio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)
        except RuntimeError:  # no thread can be started
            raise NoAnswer from None
    raise NoAnswer
