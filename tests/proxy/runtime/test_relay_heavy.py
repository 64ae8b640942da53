"""Steps that take long: worked out in threads, one at a time for each session, and nobody else waits.

A step that "takes long" here waits until the test lets it go on, so nothing depends on how fast anything is. No clock
that jumps: it would jump while a thread works.
"""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from proxy.core.errors import WireError
from proxy.core.steps import Record, Steps, ToReader, ToServer
from proxy.runtime import relay as relay_module
from proxy.runtime.relay import GATHER_BYTES, HEAVY_BYTES, Relay, Times
from rules.audit import Entry
from rules.view import plain

from .wired import Desk, Scripted, Wired, asking_fifty_times, rest, take

LIMIT_S = 20.0  # nothing takes as long; a test that fails ends
LARGE = b"x" * (HEAVY_BYTES + 1)


class Stalled:
    """A step that begins to work and goes on when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.thread: threading.Thread | None = None

    def work(self) -> None:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.let_go.wait(LIMIT_S)

    async def until_begun(self) -> None:
        assert await trio.to_thread.run_sync(self.begun.wait, LIMIT_S)


class Heavy(Scripted):
    """Shows what the server says once it is `LARGE` in all, which takes as long as `stalled`."""

    def __init__(self, stalled: Stalled) -> None:
        super().__init__()
        self.stalled = stalled
        self.held = b""
        self.order: list[str] = []

    def from_server(self, data: bytes) -> Steps[None]:
        self.held += data
        if len(self.held) < len(LARGE):
            return
        self.order.append("begins")
        self.stalled.work()
        self.order.append("ends")
        shown, self.held = len(self.held), b""
        yield ToReader(plain(b"%d" % shown))

    def from_reader(self, data: bytes) -> Steps[None]:
        self.order.append("reader")
        yield from super().from_reader(data)

    def policy_changed(self) -> Steps[None]:
        self.order.append("policy")
        yield from super().policy_changed()


@pytest.fixture
def stalled() -> Stalled:
    return Stalled()


async def test_while_one_session_works_for_long_the_others_are_carried(nursery: trio.Nursery, stalled: Stalled) -> None:
    slow, quick = Wired(Heavy(stalled)), Wired(Scripted())
    nursery.start_soon(slow.run)
    nursery.start_soon(quick.run)
    await slow.server.send_all(LARGE)
    await stalled.until_begun()
    with trio.fail_after(LIMIT_S):
        for _ in range(100):
            await quick.reader.send_all(b"PING")
            assert await take(quick.server, 4) == b"PING"
            await quick.server.send_all(b"PONG")
            assert await take(quick.reader, 4) == b"PONG"
    stalled.let_go.set()

    assert await take(slow.reader, 5) == b"%d" % len(LARGE)


async def test_what_is_small_never_leaves_the_loop_s_thread(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "SLOW_S", LIMIT_S)
    threads = set()

    def from_server(data: bytes) -> Steps[None]:
        threads.add(threading.current_thread())
        yield ToReader(plain(data))

    wired = Wired(Scripted(None, from_server))
    nursery.start_soon(wired.run)
    for _ in range(4 * HEAVY_BYTES // 1024):  # each comes to something: no amount of them is heavy
        await wired.server.send_all(b"x" * 1024)
        await take(wired.reader, 1024)

    assert threads == {threading.current_thread()}


async def test_a_frame_in_many_small_chunks_is_heavy_by_its_sum(nursery: trio.Nursery, stalled: Stalled) -> None:
    stalled.let_go.set()
    wired = Wired(Heavy(stalled))
    nursery.start_soon(wired.run)
    for start in range(0, len(LARGE), 1000):
        await wired.server.send_all(LARGE[start : start + 1000])

    assert await take(wired.reader, 5) == b"%d" % len(LARGE)
    assert stalled.thread is not threading.current_thread()


async def test_what_only_adds_up_stays_in_the_loop_and_what_completes_a_frame_does_not(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "SLOW_S", LIMIT_S)
    threads: list[threading.Thread] = []

    def from_server(data: bytes) -> Steps[None]:
        threads.append(threading.current_thread())
        wired.session.missing_bytes -= len(data)
        if not wired.session.missing_bytes:
            yield ToReader(plain(b"whole"))

    wired = Wired(Scripted(None, from_server))
    wired.session.missing_bytes = 3 * HEAVY_BYTES
    nursery.start_soon(wired.run)
    await wired.server.send_all(b"x" * (3 * HEAVY_BYTES - 1))
    with trio.fail_after(LIMIT_S):
        while wired.session.missing_bytes > 1:
            await trio.testing.wait_all_tasks_blocked()
    kept_in = set(threads)
    await wired.server.send_all(b"x")

    assert await take(wired.reader, 5) == b"whole"
    assert kept_in == {threading.current_thread()}
    assert threads[-1] is not threading.current_thread()


async def test_what_a_session_keeps_from_before_counts_as_well(nursery: trio.Nursery, stalled: Stalled) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        stalled.work()
        yield ToServer(data)

    stalled.let_go.set()
    wired = Wired(Scripted(from_reader))
    wired.session.weight = HEAVY_BYTES
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"EXEC")

    assert await take(wired.server, 4) == b"EXEC"
    assert stalled.thread is not threading.current_thread()


async def test_a_change_of_policy_is_heavy_where_much_is_kept(nursery: trio.Nursery, stalled: Stalled) -> None:
    class Keeping(Scripted):
        def policy_changed(self) -> Steps[None]:
            stalled.work()
            yield from super().policy_changed()

    stalled.let_go.set()
    wired = Wired(Keeping())
    wired.session.weight = HEAVY_BYTES + 1
    nursery.start_soon(wired.run)
    await trio.testing.wait_all_tasks_blocked()
    wired.relay.policy_changed()

    assert await take(wired.reader, 6) == b"!news!"
    assert stalled.thread is not threading.current_thread()


async def test_a_lane_whose_last_chunk_was_slow_goes_to_a_thread_with_the_next(
    mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    threads = []

    def from_reader(data: bytes) -> Steps[None]:
        threads.append(threading.current_thread())
        mock_clock.jump(float(data))
        yield ToServer(data)

    wired = Wired(Scripted(from_reader))
    nursery.start_soon(wired.run)
    for data in (b"1", b"0", b"0"):
        await wired.reader.send_all(data)
        await take(wired.server, 1)

    assert [thread is threading.current_thread() for thread in threads] == [True, False, True]


async def test_no_other_lane_is_in_a_step_while_a_thread_works_one_out(nursery: trio.Nursery, stalled: Stalled) -> None:
    session = Heavy(stalled)
    wired = Wired(session)
    nursery.start_soon(wired.run)
    await wired.server.send_all(LARGE)
    await stalled.until_begun()
    await wired.reader.send_all(b"request")
    wired.relay.policy_changed()
    await trio.testing.wait_all_tasks_blocked()

    assert session.order == ["begins"]

    stalled.let_go.set()

    assert await take(wired.server, 7) == b"request"
    assert await take(wired.reader, 11) == b"%d!news!" % len(LARGE)
    assert session.order[:2] == ["begins", "ends"]
    assert set(session.order[2:]) == {"reader", "policy"}


async def test_the_steps_of_a_lane_keep_their_order_from_thread_to_thread(nursery: trio.Nursery) -> None:
    def from_server(data: bytes) -> Steps[None]:
        for number in range(200):
            wired.session.weight = HEAVY_BYTES + 1 if number % 3 else 0
            yield ToReader(plain(b"%03d" % number))

    wired = Wired(Scripted(None, from_server))
    nursery.start_soon(wired.run)
    await wired.server.send_all(b"go")

    assert await take(wired.reader, 600) == b"".join(b"%03d" % number for number in range(200))


async def test_the_answer_to_a_step_reaches_the_thread(nursery: trio.Nursery) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        answer = yield Record((Entry("e", "w"),))
        yield ToServer(b"clear" if answer is not None else b"masked")

    wired = Wired(Scripted(from_reader))
    wired.session.weight = HEAVY_BYTES
    wired.desk.may_go_on.set()
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")

    assert await take(wired.server, 6) == b"masked"


async def test_hold_in_a_thread_misses_no_progress(nursery: trio.Nursery) -> None:
    wired = Wired(asking_fifty_times())
    wired.session.weight = HEAVY_BYTES + 1
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")
    with trio.fail_after(LIMIT_S):
        for _ in range(50):
            assert await take(wired.server, 1) == b"q"
            await wired.server.send_all(b"a")

        assert await take(wired.server, 4) == b"done"


async def test_an_end_waits_for_the_thread_and_shows_nothing_of_its_work(nursery: trio.Nursery, stalled: Stalled) -> None:
    session = Heavy(stalled)
    wired = Wired(session)
    nursery.start_soon(wired.run)
    await wired.server.send_all(LARGE)
    await stalled.until_begun()

    assert wired.relay.quiet_for_s() == 0

    wired.relay.end("draining")
    await trio.testing.wait_all_tasks_blocked()

    assert wired.ended is None

    stalled.let_go.set()

    assert await rest(wired.reader) == b""
    await wired.reader.aclose()  # it is waited for, a moment
    await trio.testing.wait_all_tasks_blocked()
    assert wired.ended == "draining"
    assert session.order == ["begins", "ends"]


async def test_a_reader_that_goes_while_a_thread_works_ends_the_connection(nursery: trio.Nursery, stalled: Stalled) -> None:
    wired = Wired(Heavy(stalled))
    nursery.start_soon(wired.run)
    await wired.server.send_all(LARGE)
    await stalled.until_begun()
    await wired.reader.aclose()
    stalled.let_go.set()

    assert await rest(wired.server) == b""


async def test_what_a_thread_worked_out_is_not_sent_while_last_words_wait(nursery: trio.Nursery, stalled: Stalled) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        stalled.work()
        yield ToServer(data)

    near, far = trio.testing.lockstep_stream_pair()
    server, far_server = trio.testing.memory_stream_pair()
    session = Scripted(from_reader)
    session.weight = HEAVY_BYTES
    relay = Relay(session, near, server, Desk())
    nursery.start_soon(relay.run)
    await far.send_all(b"request")
    await stalled.until_begun()
    nursery.start_soon(relay._hang_up, WireError("bad", b"sorry"))
    await trio.testing.wait_all_tasks_blocked()
    stalled.let_go.set()

    assert await rest(far_server) == b""


async def test_nonsense_found_in_a_thread_is_answered_like_any_other(nursery: trio.Nursery) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        yield ToServer(b"before")
        raise WireError("bad", b"-ERR no\r\n")

    wired = Wired(Scripted(from_reader))
    wired.session.weight = HEAVY_BYTES
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")

    assert await rest(wired.reader) == b"-ERR no\r\n"
    assert await rest(wired.server) == b"before"


async def test_a_fault_in_a_thread_closes_both_sides_and_is_raised() -> None:
    def from_reader(data: bytes) -> Steps[None]:
        raise PermissionError("a view masks")
        yield

    wired = Wired(Scripted(from_reader))
    wired.session.weight = HEAVY_BYTES
    await wired.reader.send_all(b"x")

    with pytest.RaisesGroup(PermissionError):
        await wired.relay.run()

    assert await rest(wired.server) == b""
    assert await rest(wired.reader) == b""


async def test_spans_of_work_in_a_thread_are_told_in_that_thread(nursery: trio.Nursery, stalled: Stalled) -> None:
    told = []
    stalled.let_go.set()
    wired = Wired(Heavy(stalled))
    wired.desk.worked = lambda seconds: told.append(threading.current_thread())  # type: ignore[method-assign]
    nursery.start_soon(wired.run)
    await wired.server.send_all(LARGE)
    await take(wired.reader, 5)

    assert stalled.thread in told


async def test_a_large_frame_is_read_in_large_chunks_and_what_streams_in_small_ones(nursery: trio.Nursery) -> None:
    sizes: list[int] = []
    all_read = threading.Event()

    def from_server(data: bytes) -> Steps[None]:
        sizes.append(len(data))
        if sum(sizes) == HEAVY_BYTES + GATHER_BYTES:
            all_read.set()
        if wired.session.weight:
            yield ToReader(plain(b"."))

    wired = Wired(Scripted(None, from_server))
    await wired.server.send_all(b"x" * (HEAVY_BYTES + GATHER_BYTES))
    nursery.start_soon(wired.run)

    assert await trio.to_thread.run_sync(all_read.wait, LIMIT_S)
    assert sizes == [HEAVY_BYTES, GATHER_BYTES]

    sizes.clear()
    wired.session.weight = 1
    await wired.server.send_all(b"x")
    await take(wired.reader, 1)
    await wired.server.send_all(b"x" * GATHER_BYTES)
    await take(wired.reader, GATHER_BYTES // HEAVY_BYTES)

    assert max(sizes) == HEAVY_BYTES


@pytest.mark.parametrize("logs_in", [True, False])
async def test_the_time_a_step_takes_is_not_held_against_a_reader_who_logs_in(
    mock_clock: trio.testing.MockClock, nursery: trio.Nursery, stalled: Stalled, logs_in: bool
) -> None:
    wired = Wired(Heavy(stalled), Times(login_s=30))
    wired.session.logged_in = False
    nursery.start_soon(wired.run)
    await wired.server.send_all(LARGE)
    await stalled.until_begun()
    mock_clock.jump(40)
    await trio.testing.wait_all_tasks_blocked()

    assert wired.ended is None

    stalled.let_go.set()
    await take(wired.reader, 5)
    wired.session.logged_in = logs_in
    await trio.testing.wait_all_tasks_blocked()

    assert wired.ended is None

    mock_clock.jump(31)
    if not logs_in:
        assert await rest(wired.reader) == b""
    await trio.testing.wait_all_tasks_blocked()
    assert wired.relay._reason == (None if logs_in else "not logged in in time")
