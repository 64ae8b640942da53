"""SIGTERM under load, descriptors that are used up, thousands of idle readers."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.brokers.faults import cpu_s, descriptors, rss
from tests.brokers.processes import wait_until
from tests.brokers.redis_server import REDIS, VALKEY, RedisFleet, RedisServer, offered
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .load import distinct
from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, entries, put_secret

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
DRAIN_S = 15.0


class Load:
    """Readers that keep several commands under way, and what they got until they were hung up on."""

    def __init__(self, running: Veil, commands: list[tuple[str, ...]], readers: int, login: str | None = None) -> None:
        self.clients = [running.client() for _ in range(readers)]
        self.torn: list[bytes] = []
        self.answered = 0
        for client in self.clients:
            if login is not None:
                client.login(login, PASSWORD)
        self._commands = commands
        self._threads = [threading.Thread(target=self._ask, args=(client,)) for client in self.clients]
        for thread in self._threads:
            thread.start()

    def _ask(self, client: RespClient) -> None:
        try:
            while True:
                for command in self._commands:
                    client.send(*command)
                for _ in self._commands:
                    self._read(client)
        except EOFError:
            return
        except OSError:  # it was hung up on while it wrote: what was sent to it before still counts
            self._rest(client)

    def _rest(self, client: RespClient) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._read(client)

    def _read(self, client: RespClient) -> None:
        begin = client.place
        try:
            client.read()
        except (EOFError, OSError):
            if len(client.received) > begin:
                self.torn.append(bytes(client.received[begin : begin + 100]))
            raise
        self.answered += 1

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        for client in self.clients:
            client.close()


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_sigterm_under_load_ends_in_time_with_whole_replies_and_everything_shown_on_record(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, rounds: int
) -> None:
    value = canary.text().encode()
    redis_once.add_user("alice", PASSWORD)
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", value)
        direct.call("SET", "open", "x" * 50_000)
    running = veil(SECRET, ALICE, upstream=redis_once)
    asked = [("GET", "secret:1"), ("GET", "open"), ("MGET", "secret:1", "open"), ("GET", "secret:1")]
    took: list[float] = []
    for _ in range(rounds):
        masked = Load(running, asked, 6)
        alice = Load(running, asked[:1] * 4, 2, "alice")
        wait_until(lambda alice=alice, masked=masked: alice.answered > 20 and masked.answered > 200, "there is load")  # type: ignore[misc]
        before = time.monotonic()

        assert running.stop() == 0

        took.append(time.monotonic() - before)
        masked.join()
        alice.join()
        assert masked.torn == alice.torn == [], "no half reply"
        for client in masked.clients:
            canary.assert_not_in(distinct(client.received), "what a masked reader received")
        shown = sum(bytes(client.received).count(value) for client in alice.clients)
        assert 0 < shown <= len(entries(running, UNMASKED))
        assert_sound(running)
        running.audit_path.unlink()
        running.audit_path.with_name("audit.jsonl.head").unlink()
        running.start()
    print(f"stopped under load in at most {max(took):.1f} s")
    assert max(took) < DRAIN_S
    canary.assert_nowhere(running)


def test_when_descriptors_run_out_nothing_spins_and_accepting_goes_on_when_there_are_some(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    used = descriptors(running.pid)
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (used + 40, used + 40))
    with ExitStack() as stack:
        first = [stack.enter_context(running.client()) for _ in range(10)]
        for each in first:
            assert each.call("GET", "secret:1") == MASK
        waiting = [stack.enter_context(running.client()) for _ in range(40)]
        wait_until(lambda: "accept-exhausted" in running.log(), "descriptors are used up")
        before, start = cpu_s(running.pid), time.monotonic()
        for each in first:  # whoever is in is served
            assert each.call("GET", "secret:1") == MASK
        wait_until(lambda: time.monotonic() - start > 2, "two seconds have passed")
        assert cpu_s(running.pid) - before < 0.5
        for each in (*first, *waiting[:-5]):
            each.close()
        wait_until(lambda: _served(running), "accepting goes on", 15)
        canary.assert_nowhere(running, [*first, *waiting])
    assert running.log().count("accept-exhausted") < 100, "at most a line each time that something was accepted meanwhile"


def _served(running: Veil) -> bool:
    with running.client() as client:
        try:
            return client.call("GET", "secret:1") == MASK
        except (EOFError, OSError):
            return False


@pytest.fixture
def server(redis_fleet: RedisFleet) -> Iterator[RedisServer]:
    """A process: a container has a limit of open files of its own."""
    running = redis_fleet.server(REDIS if REDIS in offered() else VALKEY)
    yield running
    running.reset()


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.soak
@pytest.mark.broker
def test_nine_thousand_idle_readers_fit_into_300_mib(
    server: RedisServer, veil: VeilFactory, canary: Canary, many_descriptors: int
) -> None:
    count = 9000
    if many_descriptors < 2 * count + 500:
        pytest.skip(f"{2 * count + 500} descriptors are needed, {many_descriptors} are allowed")
    put_secret(server, canary.text())
    running = veil(SECRET, upstream=server, limits={"login_timeout": "10m"})  # none of them says anything
    before = rss(running.pid)
    with ExitStack() as stack:
        idle = [stack.enter_context(running.client()) for _ in range(count)]
        wait_until(lambda: running.metric("veil_connections") == count, "all are served", 120)
        silent = rss(running.pid)
        busy, start = cpu_s(running.pid), os.times().elapsed
        wait_until(lambda: os.times().elapsed - start > 5, "five seconds have passed")
        busy = cpu_s(running.pid) - busy
        for each in idle:
            assert each.call("GET", "secret:1") == MASK
        used = rss(running.pid)
        print(
            f"{before / MIB:.0f} MiB, {silent / MIB:.0f} MiB with {count} readers, {used / MIB:.0f} MiB after a GET of each; {busy / 5:.1%} of a processor"
        )
        assert silent < 300 * MIB
        assert used < 360 * MIB
        assert busy < 1
        canary.assert_nowhere(running, idle[::50])
    wait_until(lambda: running.metric("veil_connections") == 0, "all are gone", 240)
