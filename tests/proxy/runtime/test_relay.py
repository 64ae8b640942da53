"""The relay while both sides live: order, waiting, back-pressure. Memory streams and a clock that jumps."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from proxy.core.steps import Ask, Hold, Note, Probe, Record, Steps, ToReader, ToServer
from proxy.runtime import relay as relay_module
from proxy.runtime.relay import Relay
from rules.audit import Entry
from rules.view import plain

from .wired import Desk, Scripted, Wired, asking_fifty_times, steps, take


async def test_bytes_go_through_both_ways_in_order(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    for number in range(20):
        await wired.reader.send_all(b"%03d" % number)
        await wired.server.send_all(b"%03d" % number)

    expected = b"".join(b"%03d" % number for number in range(20))

    assert await take(wired.server, 60) == expected
    assert await take(wired.reader, 60) == expected


async def test_a_chunk_is_read_only_when_the_last_one_is_done(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    fed: list[bytes] = []

    def from_reader(data: bytes) -> Steps[None]:
        fed.append(data)
        yield Record((Entry("e", "w"),))
        yield ToServer(data)

    wired = Wired(Scripted(from_reader))
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"one")
    await trio.testing.wait_all_tasks_blocked()
    await wired.reader.send_all(b"two")
    await trio.testing.wait_all_tasks_blocked()

    assert fed == [b"one"]

    wired.desk.may_go_on.set()

    assert await take(wired.server, 6) == b"onetwo"


async def test_a_step_that_waits_leaves_the_other_direction_running(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted(lambda data: steps(Record((Entry("e", "w"),)), ToServer(data))))
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"waits")
    await trio.testing.wait_all_tasks_blocked()
    await wired.server.send_all(b"runs")

    assert await take(wired.reader, 4) == b"runs"


async def test_the_journal_s_no_reaches_the_session(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        answer = yield Record((Entry("e", "w"),))
        yield ToServer(b"clear" if answer is not None else b"masked")

    wired = Wired(Scripted(from_reader))
    wired.desk.may_go_on.set()
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")

    assert await take(wired.server, 6) == b"masked"


async def test_ask_and_note_are_carried_to_the_services(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        verdict = yield Ask(Probe(data.decode(), lambda nonce: b"", lambda got: None))
        yield Note(Entry("refused", "w"))
        yield ToServer(b"1" if verdict else b"0")

    wired = Wired(Scripted(from_reader))
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"yes")

    assert await take(wired.server, 1) == b"1"
    assert [entry.event for entry in wired.desk.notes] == ["refused"]


async def test_hold_waits_until_the_other_direction_has_moved(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    seen: list[bytes] = []
    looks = 0

    def from_reader(data: bytes) -> Steps[None]:
        nonlocal looks
        looks += 1
        while not seen:
            yield Hold()
            looks += 1
        yield ToServer(data)

    def from_server(data: bytes) -> Steps[None]:
        yield ToReader(plain(data))
        seen.append(data)

    wired = Wired(Scripted(from_reader, from_server))
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"held")
    await trio.testing.wait_all_tasks_blocked()

    assert looks == 1

    await wired.server.send_all(b"go")

    assert await take(wired.server, 4) == b"held"


async def test_hold_misses_no_progress_made_while_it_was_being_carried_out(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(asking_fifty_times())
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")
    for _ in range(50):
        assert await take(wired.server, 1) == b"q"
        await wired.server.send_all(b"a")

    assert await take(wired.server, 4) == b"done"


async def test_two_directions_that_hold_do_not_wake_each_other_for_ever(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    looks = 0

    def hold(data: bytes) -> Steps[None]:
        nonlocal looks
        while True:
            looks += 1
            yield Hold()

    wired = Wired(Scripted(hold, hold))
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")
    await wired.server.send_all(b"x")
    await trio.testing.wait_all_tasks_blocked()

    assert looks <= 6


async def test_a_reader_that_does_not_read_stops_only_its_own_upstream(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    near, far = trio.testing.lockstep_stream_pair()
    near_server, far_server = trio.testing.memory_stream_pair()
    relay = Relay(Scripted(), near, near_server, Desk())
    nursery.start_soon(relay.run)
    await far_server.send_all(b"reply that nobody takes")
    await trio.testing.wait_all_tasks_blocked()
    await far.send_all(b"request")

    assert await take(far_server, 7) == b"request"
    relay.end("test over")


@pytest.mark.slow
async def test_an_endless_reply_is_held_a_chunk_at_a_time(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    class Endless(trio.abc.HalfCloseableStream):
        taken = 0

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            assert max_bytes is not None
            Endless.taken += max_bytes
            return b"x" * max_bytes

        async def send_all(self, data: bytes | bytearray | memoryview) -> None: ...
        async def wait_send_all_might_not_block(self) -> None: ...
        async def send_eof(self) -> None: ...
        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    near, far = trio.testing.lockstep_stream_pair()
    relay = Relay(Scripted(), near, Endless(), Desk())
    nursery.start_soon(relay.run)
    read = 0
    while read < 200 * 1024 * 1024:
        read += len(await far.receive_some(64 * 1024 * 1024))
        assert Endless.taken - read <= 2 * relay_module.CHUNK_BYTES
    relay.end("test over")


async def test_news_of_the_policy_does_not_cut_into_a_step_of_a_direction(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    near, far = trio.testing.lockstep_stream_pair()
    near_server, far_server = trio.testing.memory_stream_pair()
    session = Scripted()
    relay = Relay(session, near, near_server, Desk())
    nursery.start_soon(relay.run)
    await far_server.send_all(b"0123456789")
    await trio.testing.wait_all_tasks_blocked()
    relay.policy_changed()
    await trio.testing.wait_all_tasks_blocked()

    assert session.policy_changes == 1
    assert await take(far, 16) == b"0123456789!news!"
    relay.end("test over")


async def test_a_connection_is_quiet_once_the_server_has_answered(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"ask")
    await take(wired.server, 3)
    await trio.sleep(3)

    assert wired.relay.quiet_for_s() == 0

    await wired.server.send_all(b"answer")
    await take(wired.reader, 6)
    await trio.sleep(3)

    assert wired.relay.quiet_for_s() >= 3


async def test_each_span_of_work_is_told_without_what_it_waited_for(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "SLOW_S", 1.0)  # a thread would be outrun by a clock that jumps

    def from_server(data: bytes) -> Steps[None]:
        if data:
            autojump_clock.jump(0.25)
            yield Record((Entry("e", "w"),))
            autojump_clock.jump(0.5)
            yield ToReader(plain(data))

    wired = Wired(Scripted(from_server=from_server))
    nursery.start_soon(wired.run)
    await wired.server.send_all(b"x")
    await trio.sleep(60.0)
    wired.desk.may_go_on.set()
    await take(wired.reader, 1)

    assert [span for span in wired.desk.spans_s if span] == pytest.approx([0.25, 0.5])


async def test_a_session_is_woken_when_it_wants_to_be_and_not_again(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    await trio.testing.wait_all_tasks_blocked()

    wired.session.wakes_at_s = trio.current_time() + 600.0  # as of the next step
    await wired.reader.send_all(b"one")
    await take(wired.server, 3)
    began_s = trio.current_time()
    assert await take(wired.reader, 7) == b"!woken!"
    assert trio.current_time() - began_s == 600.0
    wired.relay.policy_changed()
    assert await take(wired.reader, 6) == b"!news!"
    with trio.move_on_after(10_000) as waited:
        await take(wired.reader, 1)
    assert waited.cancelled_caught


async def test_a_session_may_put_off_its_waking(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    wired = Wired(Scripted())
    wired.session.wakes_at_s = trio.current_time() + 5.0
    nursery.start_soon(wired.run)
    await trio.testing.wait_all_tasks_blocked()

    wired.session.wakes_at_s = trio.current_time() + 50.0
    await wired.server.send_all(b"one")
    await take(wired.reader, 3)
    began_s = trio.current_time()

    assert await take(wired.reader, 7) == b"!woken!"
    assert trio.current_time() - began_s == 50.0
