"""Waits for word that the rules were changed, where the store can send it. What is not heard is seen at the next poll."""

from __future__ import annotations

from collections.abc import Callable

import trio

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
BREATH_S = 0.05  # between two looks: whoever says much must not keep the store busy


class Ears:
    """`hear` blocks for a moment: True, it is worth a look; False, nothing was said; None, the connection was lost."""

    def __init__(self, hear: Callable[[], bool | None], look: Callable[[], None]) -> None:
        self._hear = hear
        self._look = look
        self._thread = trio.CapacityLimiter(1)

    async def run(self) -> None:
        """Listens until it is cancelled."""
        wait_s = FIRST_WAIT_S
        while True:
            heard: bool | None = None
            try:
                heard = await trio.to_thread.run_sync(self._hear, limiter=self._thread, abandon_on_cancel=True)
            except RuntimeError:  # no thread can be started
                heard = None
            if heard is None:
                await trio.sleep(wait_s)
                wait_s = min(wait_s * 2, LONGEST_WAIT_S)
                continue
            wait_s = FIRST_WAIT_S
            if heard:
                self._look()
                await trio.sleep(BREATH_S)
