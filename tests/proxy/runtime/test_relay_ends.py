"""How a relay ends: by either side, by nonsense, by a step, by the clock, by a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import pytest
import trio
import trio.testing

from proxy.core.errors import WireError
from proxy.core.steps import Close, EndServer, Record, Step, Steps, ToReader, ToServer
from proxy.runtime import relay as relay_module
from proxy.runtime.relay import Relay, Times
from rules.audit import Entry
from rules.view import plain

from .wired import Desk, Feed, Scripted, Wired, rest, steps, take


async def test_nonsense_is_answered_and_then_both_sides_are_closed(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        yield ToServer(b"before")
        raise WireError("bad", b"-ERR no\r\n")

    wired = Wired(Scripted(from_reader))
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"x")

    assert await rest(wired.reader) == b"-ERR no\r\n"
    assert await rest(wired.server) == b"before"
    await trio.testing.wait_all_tasks_blocked()
    await wired.reader.aclose()
    await trio.sleep(2)
    assert wired.ended == "nonsense: WireError"


async def test_nothing_of_the_other_direction_is_sent_after_nonsense(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    def from_server(data: bytes) -> Steps[None]:
        yield Record((Entry("e", "w"),))
        yield ToReader(plain(b"SECRET"))

    def from_reader(data: bytes) -> Steps[None]:
        raise WireError("bad", b"sorry")
        yield

    wired = Wired(Scripted(from_reader, from_server))
    nursery.start_soon(wired.run)
    await wired.server.send_all(b"x")
    await trio.testing.wait_all_tasks_blocked()
    await wired.reader.send_all(b"x")
    await trio.testing.wait_all_tasks_blocked()
    wired.desk.may_go_on.set()

    assert await rest(wired.reader) == b"sorry"


async def test_a_reader_that_takes_no_last_words_is_closed_in_time(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    def from_reader(data: bytes) -> Steps[None]:
        raise WireError("bad", b"sorry")
        yield

    near, far = trio.testing.lockstep_stream_pair()
    server, _far_server = trio.testing.memory_stream_pair()
    relay = Relay(Scripted(from_reader), near, server, Desk())
    began_s = trio.current_time()
    nursery.start_soon(far.send_all, b"x")

    assert await relay.run() == "nonsense: WireError"
    assert trio.current_time() - began_s <= relay_module.LAST_WORDS_S + relay_module.LINGER_S + 0.1


async def test_the_end_of_the_reader_is_told_to_the_server_and_the_rest_of_its_answer_arrives(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"QUIT")
    await wired.reader.send_eof()

    assert await rest(wired.server) == b"QUIT"

    await wired.server.send_all(b"bye")
    await wired.server.aclose()

    assert await rest(wired.reader) == b"bye"


async def test_a_server_that_never_ends_after_its_end_is_closed_in_time(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted(), Times(half_close_s=5))
    nursery.start_soon(wired.run)
    await wired.reader.send_eof()
    await trio.sleep(5.5)

    assert wired.ended == "the server did not end in time"


async def test_the_end_of_the_server_closes_the_reader_after_what_was_sent(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    def from_server(data: bytes) -> Steps[None]:
        yield ToReader(plain(data or b"<end>"))

    wired = Wired(Scripted(None, from_server))
    nursery.start_soon(wired.run)
    await wired.server.send_all(b"last")
    await wired.server.aclose()

    assert await rest(wired.reader) == b"last<end>"
    await trio.sleep(1.5)
    assert wired.ended == "the server ended"
    assert wired.relay.server_lost


async def test_what_a_server_said_before_it_stopped_taking_still_arrives(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    await wired.server.send_all(b"-ERR max clients\r\n")
    await wired.server.aclose()
    await wired.reader.send_all(b"PING")
    nursery.start_soon(wired.run)

    assert await rest(wired.reader) == b"-ERR max clients\r\n"


async def test_close_ends_both_sides_at_once_even_while_the_reader_takes_nothing(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    near, far = trio.testing.lockstep_stream_pair()
    server, far_server = trio.testing.memory_stream_pair()
    relay = Relay(Scripted(lambda data: steps(Close("enough"))), near, server, Desk())
    await far_server.send_all(b"x" * 1000)
    nursery.start_soon(far.send_all, b"x")

    with trio.fail_after(relay_module.LINGER_S + 0.1):
        assert await relay.run() == "enough"


async def test_one_who_never_logs_in_is_closed(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    session = Scripted()
    session.logged_in = False
    wired = Wired(session, Times(login_s=30))
    nursery.start_soon(wired.run)
    await trio.sleep(29)

    assert wired.ended is None

    await trio.sleep(2)

    assert wired.ended == "not logged in in time"


async def test_a_silent_connection_lives_for_ever_unless_an_idle_time_is_set(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    silent, timed = Wired(Scripted()), Wired(Scripted(), Times(idle_s=10))
    nursery.start_soon(silent.run)
    nursery.start_soon(timed.run)
    await trio.sleep(9)
    await timed.reader.send_all(b"x")
    await timed.server.send_all(b"x")
    await trio.sleep(9)

    assert timed.ended is None

    await trio.sleep(100_000)

    assert timed.ended == "idle"
    assert silent.ended is None


async def test_whoever_waits_for_an_answer_is_not_silent_until_it_is_there(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    waits = Wired(Scripted(), Times(idle_s=10))
    nursery.start_soon(waits.run)
    await waits.reader.send_all(b"x")
    await trio.sleep(35)
    await waits.server.send_all(b"x")
    await trio.sleep(9)

    assert waits.ended is None

    await trio.sleep(12)

    assert waits.ended == "idle"


async def test_a_fault_of_a_session_closes_both_sides_and_is_raised(autojump_clock: trio.testing.MockClock) -> None:
    def from_reader(data: bytes) -> Iterator[Step]:
        raise PermissionError("a view masks")
        yield

    wired = Wired(Scripted(cast("Feed", from_reader)))
    await wired.reader.send_all(b"x")

    with pytest.RaisesGroup(PermissionError):
        await wired.relay.run()

    assert await rest(wired.server) == b""
    assert await rest(wired.reader) == b""


async def test_a_reader_that_is_gone_ends_the_server_s_side(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted(lambda data: steps()))
    nursery.start_soon(wired.run)
    await wired.reader.aclose()
    await wired.server.send_all(b"nobody hears this")

    assert await rest(wired.server) == b""
    await trio.testing.wait_all_tasks_blocked()
    assert wired.ended == "the reader's connection broke"
    assert not wired.relay.server_lost


class Resetting(trio.abc.HalfCloseableStream):
    """A connection that was reset: whatever is done with it breaks."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_reset_by_the_server_is_its_end_to_the_session(autojump_clock: trio.testing.MockClock) -> None:
    far, near = trio.testing.memory_stream_pair()
    relay = Relay(
        Scripted(None, lambda data: steps(ToReader(plain(b"<end>" if not data else b"?")))), near, Resetting(), Desk()
    )

    assert await relay.run() == "the server ended"
    assert await rest(far) == b"<end>"
    assert relay.server_lost


async def test_a_reset_by_the_reader_ends_the_server_s_side(autojump_clock: trio.testing.MockClock) -> None:
    far, near = trio.testing.memory_stream_pair()
    relay = Relay(Scripted(), Resetting(), near, Desk())

    assert await relay.run() == "the reader's connection broke"
    assert await rest(far) == b""


async def test_a_server_that_takes_no_more_gets_half_a_minute_to_say_the_rest(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    class Deaf(Resetting):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.sleep_forever()
            return b""

    far, near = trio.testing.memory_stream_pair()
    relay = Relay(
        Scripted(lambda data: steps(ToServer(data), ToServer(data), EndServer())), near, Deaf(), Desk(), Times(half_close_s=3)
    )
    await far.send_all(b"x")

    with trio.fail_after(3.5):
        assert await relay.run() == "the server did not end in time"


async def test_nonsense_in_the_news_of_a_policy_closes_both_sides(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    class Broken(Scripted):
        def policy_changed(self) -> Steps[None]:
            raise WireError("bad")
            yield

    wired = Wired(Broken())
    nursery.start_soon(wired.run)
    await trio.testing.wait_all_tasks_blocked()
    wired.relay.policy_changed()

    assert await rest(wired.server) == b""
    assert await rest(wired.reader) == b""


async def test_a_reader_that_never_falls_silent_is_read_no_further_while_draining_and_its_answers_go_out(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"one")
    assert await take(wired.server, 3) == b"one"
    wired.relay.drain()
    await wired.reader.send_all(b"two")  # it was being waited for: one more is carried
    assert await take(wired.server, 3) == b"two"
    await wired.reader.send_all(b"three")
    await trio.sleep(1)
    await wired.server.send_all(b"answer")

    assert await take(wired.reader, 6) == b"answer"
    assert wired.relay.quiet_for_s() == 0
    await trio.sleep(1)
    assert wired.relay.quiet_for_s() >= 1

    wired.relay.end("draining")

    assert await rest(wired.reader) == b""
    assert await rest(wired.server) == b"", "the third was never sent up"


async def test_a_reader_that_is_let_go_with_commands_unread_is_not_reset(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Closing with unread bytes resets the connection, and the reset may overtake the last answer."""
    wired = Wired(Scripted())
    nursery.start_soon(wired.run)
    await wired.reader.send_all(b"one")
    await take(wired.server, 3)
    wired.relay.drain()
    await wired.server.send_all(b"answer")
    assert await take(wired.reader, 6) == b"answer"
    wired.relay.end("draining")
    for _ in range(20):
        await trio.lowlevel.checkpoint()

    await wired.reader.send_all(b"more")  # it is still taken, and dropped

    assert await rest(wired.reader) == b""
    assert await rest(wired.server) == b""


@pytest.mark.parametrize("end", ["the reader", "the server", "from outside", "a fault"])
async def test_news_may_come_at_any_moment_of_an_end(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, end: str
) -> None:
    def fault(data: bytes) -> Steps[None]:
        raise PermissionError("a view masks")
        yield

    for tick in range(12 * 10):  # the scheduler's ticks, of which an end takes a few, in whatever order it likes
        wired = Wired(Scripted(fault if end == "a fault" else None), Times(half_close_s=0))
        over, ending = trio.Event(), trio.CancelScope()

        async def run(wired: Wired = wired, over: trio.Event = over, ending: trio.CancelScope = ending) -> None:
            with ending, suppress(PermissionError, ExceptionGroup):
                await wired.run()
            over.set()

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        match end:
            case "the reader":
                await wired.reader.aclose()
            case "the server":
                await wired.server.aclose()
            case "from outside":
                ending.cancel()
            case _:
                await wired.reader.send_all(b"x")
        for _ in range(tick % 12):
            await trio.lowlevel.checkpoint()

        wired.relay.policy_changed()

        with trio.fail_after(60):
            await over.wait()
        await wired.reader.aclose()
        await wired.server.aclose()
