"""Servers that die or hang, readers that do not read, floods, and signals: bounded memory, no leak, no torn reply."""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Iterator
from typing import Self

import pytest

from tests.brokers.faults import rss
from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisFleet, RedisServer, offered
from tests.brokers.resp_client import RespClient, encode
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import ELSEWHERE, MASK, OPEN, SECRET, put_secret

pytestmark = pytest.mark.broker

MIB = 1024 * 1024
BIG = 200 * MIB
GROWTH = 100 * MIB


@pytest.fixture
def server(redis_fleet: RedisFleet) -> Iterator[RedisServer]:
    """A process where there is one: a signal reaches it at once, through a container engine it does not."""
    flavours = offered()
    chosen = next((flavour for flavour in flavours if flavour.endswith("-process")), *flavours[:1] or ("redis",))
    running = redis_fleet.server(chosen)
    yield running
    running.reset()


class Highest:
    """The most that a process held while the block ran, looked at every few milliseconds."""

    def __init__(self, veil: Veil) -> None:
        self._veil = veil
        self._end = threading.Event()
        self.before = self.most = rss(veil.pid)
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._end.wait(0.005):
            self.most = max(self.most, rss(self._veil.pid))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return self.most - self.before


def big(server: RedisServer, key: str, size: int = BIG, start: str = "") -> None:
    with server.admin() as direct:
        direct.call("SET", key, start)
        direct.call("SETRANGE", key, size - 1, "x")


# --- the server ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_killed_in_mid_reply_closes_its_readers_and_veil_serves_the_next(
    server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    running = veil(SECRET, upstream=server)
    value = canary.text()
    big(server, "open")
    big(server, "secret:big", 60 * MIB, value)
    with running.client() as reader, running.client() as masked:
        reader.send("GET", "open")
        masked.send("GET", "secret:big")
        reader.raw(b"")
        head = reader._socket.recv(MIB)
        assert head.startswith(b"$%d\r\n" % BIG)

        server.kill()

        assert len(reader.everything()) < BIG
        got = masked.everything()
        assert got in (b"", b"$%d\r\n%b\r\n" % (len(MASK), MASK))
        assert running.page("/livez")[0] == 200
        with running.client() as early:
            assert early.at_end()
        server.start()
        with server.admin() as direct:
            direct.call("SET", "secret:1", value)
        with running.client() as later:
            assert later.call("GET", "secret:1") == MASK
            canary.assert_nowhere(running, [masked, later])


@pytest.mark.slow
def test_a_server_that_hangs_keeps_its_readers_waiting_and_goes_on(
    server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    running = veil(SECRET, upstream=server, limits={"login_timeout": "1s"})
    put_secret(server, canary.text())
    with running.client() as known:
        assert known.call("PING") == b"PONG"
        server.pause()
        known.send("GET", "secret:1")

        with running.client() as stranger:
            stranger.send("GET", "secret:1")
            assert stranger.everything() == b"", "the time-out for logins ends it"

        assert running.page("/readyz")[0] == 200
        server.resume()
        assert known.read() == MASK
        with running.client() as later:
            assert later.call("GET", "secret:1") == MASK
            canary.assert_nowhere(running, [known, later])


# --- readers that do not read ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rules", [OPEN, ELSEWHERE], ids=["no rule", "rules for other keys"])
def test_a_reader_that_stops_reading_holds_up_nobody_and_little_memory(
    server: RedisServer, veil: VeilFactory, rules: str
) -> None:
    running = veil(rules, upstream=server)
    big(server, "open")
    with running.client() as stuck, running.client() as other, Highest(running) as held:
        stuck.send("GET", "open")
        stuck._socket.recv(1)

        for _ in range(300):
            assert other.call("PING") == b"PONG"

    assert held.growth < GROWTH


@pytest.mark.slow
def test_a_value_above_the_limit_is_masked_whole_and_never_held(server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = veil(SECRET, upstream=server)
    big(server, "secret:big", start=canary.text())
    with running.client() as reader, running.client() as other, Highest(running) as held:
        reader.send("GET", "secret:big")
        assert other.call("PING") == b"PONG"

        assert reader.read() == MASK
        canary.assert_nowhere(running, [reader, other])

    assert held.growth < GROWTH


@pytest.mark.slow
def test_a_reader_that_sends_and_never_reads_is_not_read_for_ever(
    server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    running = veil(SECRET, upstream=server)
    with server.admin() as direct:
        direct.call("SET", "secret:1", canary.text())
        direct.call("SET", "open", "x" * 10_000)
    chunk = encode("GET", "open") * 10_000 + encode("EVAL", "return 1", 0) * 10_000 + encode("GET", "secret:1") * 10_000
    with running.client() as flood, running.client() as other, Highest(running) as held:
        flood._socket.settimeout(1)
        with pytest.raises(TimeoutError):
            flood.raw(chunk * 100)

        assert other.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [other])

    assert held.growth < GROWTH


FLOOD = 100_000
"""Commands in one write. A million have the same bounds and take ten times as long."""


@pytest.mark.slow
def test_a_flood_of_pipelined_commands_keeps_its_order_in_little_memory(
    server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    running = veil(SECRET, upstream=server)
    put_secret(server, canary.text())
    flood = (encode("INCR", "open") + encode("GET", "secret:1")) * (FLOOD // 2)
    masked = b"$%d\r\n%b\r\n" % (len(MASK), MASK)
    with running.client() as client, Highest(running) as held:
        client._socket.settimeout(60)
        writing = threading.Thread(target=client.raw, args=(flood,))
        start = time.monotonic()
        writing.start()
        whole = bytearray()
        expected = b"".join(b":%d\r\n%b" % (number, masked) for number in range(1, FLOOD // 2 + 1))
        while len(whole) < len(expected):
            whole += client._socket.recv(MIB)
        writing.join()
        print(f"{FLOOD / (time.monotonic() - start):.0f} commands/s, {held.growth / MIB:.0f} MiB more")

    assert whole == expected
    assert held.growth < GROWTH
    canary.assert_nowhere(running)


@pytest.mark.slow
def test_thousands_of_idle_connections_leave_room_for_one_more(server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    count = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 500
    if hard < wanted:
        pytest.skip(f"{wanted} descriptors are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    running = veil(SECRET, upstream=server)
    put_secret(server, canary.text())
    idle: list[RespClient] = []
    try:
        with Highest(running) as held:
            idle.extend(running.client() for _ in range(count))
            wait_until(lambda: running.metric("veil_connections") == count, "all are served")

            with running.client() as one_more:
                assert one_more.call("GET", "secret:1") == MASK
            assert idle[0].call("GET", "secret:1") == idle[-1].call("GET", "secret:1") == MASK
            canary.assert_nowhere(running, idle)
        assert held.growth < 2 * GROWTH
    finally:
        for client in idle:
            client.close()
    wait_until(lambda: running.metric("veil_connections") == 0, "all are gone")


# --- ends ------------------------------------------------------------------------------------------------------------


def test_a_reader_that_ends_its_side_still_gets_its_answers(server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = veil(SECRET, upstream=server)
    put_secret(server, canary.text())
    with running.client() as client:
        client.raw(b"PING\r\nGET secret:1\r\nEVAL 'return 1' 0\r\nPING last\r\n")
        client.end_of_writing()

        got = client.everything()

        assert got.startswith(b"+PONG\r\n$%d\r\n%b\r\n-NOPERM veil: EVAL" % (len(MASK), MASK))
        assert got.endswith(b"$4\r\nlast\r\n")
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_a_flood_whose_sender_has_ended_is_answered_to_the_last(server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = veil(SECRET, upstream=server)
    put_secret(server, canary.text())
    flood = (encode("INCR", "open") + encode("GET", "secret:1")) * 5000
    with running.client() as client:

        def write() -> None:
            client.raw(flood)
            client.end_of_writing()

        writing = threading.Thread(target=write)
        writing.start()

        got = client.everything()

        writing.join()
        masked = b"$%d\r\n%b\r\n" % (len(MASK), MASK)
        assert got == b"".join(b":%d\r\n%b" % (number, masked) for number in range(1, 5001))
    canary.assert_nowhere(running)


def test_commands_of_single_bytes_are_judged_like_any_other(server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = veil(SECRET, upstream=server)
    put_secret(server, canary.text())
    with running.client() as client:
        for byte in encode("GET", "secret:1") + b"GET secret:1\r\n" + encode("GETRANGE", "secret:1", 0, 100):
            client.raw(bytes([byte]))

        assert [client.read(), client.read(), client.read()] == [MASK, MASK, MASK]
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_whoever_does_not_log_in_in_time_is_let_go(server: RedisServer, veil: VeilFactory) -> None:
    server.add_user("alice", "password")
    server.close_default()
    running = veil(SECRET, upstream=server, limits={"login_timeout": "1s"})
    with running.client() as silent, running.client() as trying, running.client() as alice:
        assert alice.call("AUTH", "alice", "password") == b"OK"
        trying.call("GET", "secret:1")

        assert silent.everything() == b""
        assert trying.everything().startswith(b"-NOAUTH")
        assert alice.call("PING") == b"PONG"


def test_beyond_the_limit_of_connections_readers_are_turned_away_until_one_leaves(
    server: RedisServer, veil: VeilFactory
) -> None:
    running = veil(SECRET, upstream=server, limits={"max_connections": 2})
    with running.client() as first, running.client() as second:
        assert first.call("PING") == second.call("PING") == b"PONG"
        with running.client() as third:
            assert third.everything() == b""

        second.close()
        wait_until(lambda: running.metric("veil_connections") == 1, "there is room again")
        with running.client() as fourth:
            assert fourth.call("PING") == b"PONG"
        assert first.call("PING") == b"PONG"


# --- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sigterm_lets_replies_in_flight_arrive_whole(server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    size = 30 * MIB
    running = veil(SECRET, upstream=server)
    big(server, "open", size)
    put_secret(server, canary.text())
    with running.client() as slow, running.client() as idle, running.client() as waiting:
        assert idle.call("GET", "secret:1") == MASK
        waiting.send("BLPOP", "secret:list", 1)
        slow.send("GET", "open")
        wait_until(lambda: running.metric("veil_connections") == 3, "all are served")
        slow.received += slow._socket.recv(1)

        running.signal(signal.SIGTERM)

        assert idle.at_end()
        assert waiting.read() is None
        assert len(slow.everything()) == len(b"$%d\r\n" % size) + size + 2
        canary.assert_nowhere(running, [idle, waiting])
    assert running.stop() == 0


def test_sighup_reads_the_rules_though_nothing_changed(server: RedisServer, veil: VeilFactory) -> None:
    running = veil(SECRET, upstream=server)
    before = running.metric("veil_rules_read_timestamp_seconds")

    running.signal(signal.SIGHUP)

    wait_until(lambda: running.metric("veil_rules_read_timestamp_seconds") != before, "the rules are read again", 2)
    with running.client() as client:
        assert client.call("PING") == b"PONG"
