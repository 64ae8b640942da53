"""Listening for word of a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import trio

from proxy.runtime import hear
from proxy.runtime.hear import Ears


async def heard(answers: Sequence[bool | str | None], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[float]]:
    """How often a look was asked for until the answers end, and how long was waited after each."""
    looks: list[bool] = []
    waits: list[float] = []
    coming: Iterator[bool | str | None] = iter(answers)
    done = trio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await trio.lowlevel.checkpoint()

    async def run_sync(work: object, **_: object) -> bool | None:
        await trio.lowlevel.checkpoint()
        answer = next(coming, "end")
        if answer == "end":
            done.set()
            await trio.sleep_forever()
        if answer == "no thread":
            raise RuntimeError
        assert not isinstance(answer, str)
        return answer

    monkeypatch.setattr(trio, "sleep", sleep)
    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Ears(lambda: None, lambda: looks.append(True)).run)
        await done.wait()
        nursery.cancel_scope.cancel()
    return len(looks), waits


async def test_each_word_is_worth_a_look_and_silence_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await heard([True, False, False, True], monkeypatch) == (2, [hear.BREATH_S, hear.BREATH_S])


async def test_a_connection_that_stays_lost_is_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, waits = await heard([*[None] * 8, True, None], monkeypatch)

    assert looks == 1
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, hear.BREATH_S, 0.5]


async def test_without_a_thread_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await heard(["no thread", True], monkeypatch) == (1, [0.5, hear.BREATH_S])
