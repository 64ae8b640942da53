"""The relay, with sessions that follow a script, over memory streams and a clock that jumps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest
import trio
import trio.testing

from proxy.core.errors import WireError
from proxy.core.steps import Ask, Close, EndServer, Hold, Note, Probe, Record, Step, Steps, ToReader, ToServer
from proxy.runtime import relay as relay_module
from proxy.runtime.relay import Relay, Times
from rules.audit import Entry, Receipt
from rules.view import plain

Feed = Callable[[bytes], Steps[None]]


class Scripted:
    """A session made of two functions; left out, bytes pass and the reader's end ends the server's side."""

    def __init__(self, from_reader: Feed | None = None, from_server: Feed | None = None) -> None:
        self._from_reader = from_reader
        self._from_server = from_server
        self.logged_in = True
        self.policy_changes = 0

    def from_reader(self, data: bytes) -> Steps[None]:
        if self._from_reader is not None:
            yield from self._from_reader(data)
        elif data:
            yield ToServer(data)
        else:
            yield EndServer()

    def from_server(self, data: bytes) -> Steps[None]:
        if self._from_server is not None:
            yield from self._from_server(data)
        elif data:
            yield ToReader(plain(data))

    def policy_changed(self) -> Steps[None]:
        self.policy_changes += 1
        yield ToReader(plain(b"!news!"))


class Desk:
    """Services under a test's hand."""

    def __init__(self) -> None:
        self.notes: list[Entry] = []
        self.recorded: list[Entry] = []
        self.may_go_on = trio.Event()
        self.answer: tuple[Receipt, ...] | None = None

    async def record(self, entries: tuple[Entry, ...]) -> tuple[Receipt, ...] | None:
        self.recorded += entries
        await self.may_go_on.wait()
        return self.answer

    def note(self, entry: Entry) -> None:
        self.notes.append(entry)

    async def ask(self, probe: Probe) -> bool:
        return probe.subject == "yes"


Stapled = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]


class Wired:
    """A relay between two memory streams; `reader` and `server` are the far ends."""

    def __init__(self, session: Scripted, times: Times = Times()) -> None:
        self.reader, near_reader = trio.testing.memory_stream_pair()
        self.server, near_server = trio.testing.memory_stream_pair()
        self.desk = Desk()
        self.relay = Relay(session, near_reader, near_server, self.desk, times)
        self.ended: str | None = None

    async def run(self) -> None:
        self.ended = await self.relay.run()


async def take(stream: trio.abc.ReceiveStream, count: int) -> bytes:
    got = b""
    while len(got) < count:
        data = await stream.receive_some(count - len(got))
        if not data:
            break
        got += data
    return got


async def rest(stream: trio.abc.ReceiveStream) -> bytes:
    return await take(stream, 1 << 40)


def steps(*given: Step) -> Steps[None]:
    yield from given


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
    replies = 0

    def from_reader(data: bytes) -> Steps[None]:
        nonlocal replies
        for _ in range(50):
            yield ToServer(b"q")
            while not replies:
                yield Hold()
            replies -= 1
        yield ToServer(b"done")

    def from_server(data: bytes) -> Steps[None]:
        nonlocal replies
        replies += len(data)
        yield ToReader(plain(b"."))

    wired = Wired(Scripted(from_reader, from_server))
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
    await trio.sleep(9)

    assert timed.ended is None

    await trio.sleep(100_000)

    assert timed.ended == "idle"
    assert silent.ended is None


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
