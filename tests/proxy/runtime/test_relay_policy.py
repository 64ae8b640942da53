"""The lane of the policy is there only while it is needed, and nothing that is told is lost by that."""

from __future__ import annotations

import trio
import trio.testing

from .wired import Scripted, Wired, take


async def test_news_before_the_first_byte_and_after_the_last_do_no_harm(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    wired.relay.policy_changed()
    nursery.start_soon(wired.run)

    assert await take(wired.reader, 6) == b"!news!"
    wired.relay.end("over")
    wired.relay.policy_changed()
    await trio.sleep(10)
    wired.relay.policy_changed()

    assert wired.ended == "over"
    assert wired.session.policy_changes == 1


async def test_each_news_is_told_whether_or_not_the_lane_was_open(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    for number in range(1, 4):
        wired.relay.policy_changed()
        assert await take(wired.reader, 6) == b"!news!"
        await trio.sleep(1)
        assert wired.session.policy_changes == number
        assert not wired.relay._is_policy_lane_open
    wired.relay.end("over")


async def test_an_alarm_that_a_step_sets_rings_and_news_meanwhile_are_told(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    await trio.sleep(1)
    for _ in range(2):
        wired.session.wakes_at_s = trio.current_time() + 60
        await wired.reader.send_all(b"ask")
        await take(wired.server, 3)
        await trio.sleep(5)
        wired.relay.policy_changed()
        assert await take(wired.reader, 6) == b"!news!"
        began_s = trio.current_time()
        assert await take(wired.reader, 7) == b"!woken!"
        assert 54 < trio.current_time() - began_s < 56
    wired.relay.end("over")


async def test_an_alarm_that_a_step_takes_back_does_not_ring(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    for wakes_at_s in (trio.current_time() + 60, trio.current_time() + 3600):
        wired.session.wakes_at_s = wakes_at_s
        await wired.reader.send_all(b"ask")
        await take(wired.server, 3)
    await trio.sleep(600)
    wired.relay.policy_changed()

    assert await take(wired.reader, 6) == b"!news!"
    wired.relay.end("over")
