"""Several workers under a supervisor: killed, told to end, told of new rules, and refused at the start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.brokers.processes import answers, wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import Veil, VeilFactory, environment
from tests.canary import Canary

from .scenery import ALICE, MASK, OPEN, PASSWORD, SECRET, UNMASKED, assert_sound, entries, put_secret

pytestmark = pytest.mark.slow
WORKERS = 3
START_S = 60.0  # three interpreters, on a machine that has other work


def begin(veil: VeilFactory, rules: str, upstream: RedisServer, access: str = "", **settings: object) -> Veil:
    running = veil(rules, access, upstream=upstream, start=False, **settings)
    running.workers = WORKERS
    running.start(ready=False)
    wait_until(lambda: running.page("/readyz")[0] == 200, "all workers serve", START_S)
    return running


def workers(running: Veil) -> dict[int, int]:
    """Number -> process of those that serve."""
    told = json.loads(running.page("/readyz")[1] or "{}").get("workers", [])
    return {each["worker"]: each["process"] for each in told if each["ready"]}


def all_serve_but(running: Veil, process: int) -> bool:
    now = workers(running)
    return len(now) == WORKERS and process not in now.values()


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def worker_of(client: RespClient, running: Veil) -> int:
    """The number of the worker that holds this reader's connection, once it has taken it out of its queue."""
    wait_until(lambda: _holder_of(client, running) is not None, "a worker has accepted the reader", START_S)
    number = _holder_of(client, running)
    assert number is not None
    return number


def _holder_of(client: RespClient, running: Veil) -> int | None:
    own, other = client._socket.getsockname(), client._socket.getpeername()
    wanted = f"{_hex(other)} {_hex(own)}"
    inode = next(
        line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines() if " ".join(line.split()[1:3]) == wanted
    )
    for number, process in workers(running).items():
        for each in Path(f"/proc/{process}/fd").iterdir():
            if str(each.readlink()) == f"socket:[{inode}]":
                return number
    return None


def _hex(address: tuple[str, int]) -> str:
    return f"{socket.inet_aton(address[0])[::-1].hex().upper()}:{address[1]:04X}"


class Load:
    """Readers that come, read and stay, until they are told to stop."""

    def __init__(self, running: Veil) -> None:
        self.running = running
        self.stop = threading.Event()
        self.masked = 0
        self.shown: list[str] = []
        self.wrong: list[object] = []
        self.lost = 0
        self.backwards: list[str] = []

    def client(self, **login: str) -> redis.Redis:
        retry = Retry(ConstantBackoff(0.02), 0)
        return redis.Redis(
            self.running.host,
            self.running.port,
            retry=retry,
            socket_timeout=20,
            **login,  # type: ignore[arg-type]
        )

    def ordinary(self) -> None:
        with self.client() as client:
            while not self.stop.is_set():
                try:
                    got = client.get("secret:1")
                except (redis.ConnectionError, redis.TimeoutError):
                    self.lost += 1
                    continue
                if got == MASK:
                    self.masked += 1
                else:
                    self.wrong.append(got)

    def alice(self, number: int) -> None:
        with self.client(username="alice", password=PASSWORD) as client:
            for at in range(1_000_000):
                if self.stop.is_set():
                    return
                key = f"secret:{number}:{at % 50}"
                try:
                    got = client.get(key)
                except (redis.ConnectionError, redis.TimeoutError):
                    self.lost += 1
                    continue
                if got == b"original":
                    self.shown.append(key)
                elif got != MASK:
                    self.wrong.append(got)

    def sampler(self) -> None:
        """No counter ever reads less than before."""
        before: dict[str, float] = {}
        while not self.stop.is_set():
            for line in self.running.page("/metrics")[1].splitlines():
                name, _, value = line.rpartition(" ")
                if not re.match(r"\w+_(?:total|bucket|count|sum)\b", name):
                    continue
                if float(value) < before.get(name, 0.0):
                    self.backwards.append(f"{name}: {value} after {before[name]}")
                before[name] = float(value)
            self.stop.wait(0.05)


@contextmanager
def load(running: Veil) -> Iterator[Load]:
    made = Load(running)
    threads = [threading.Thread(target=made.ordinary) for _ in range(4)]
    threads += [threading.Thread(target=made.alice, args=(number,)) for number in range(2)]
    threads.append(threading.Thread(target=made.sampler))
    for each in threads:
        each.start()
    try:
        yield made
    finally:
        made.stop.set()
        for each in threads:
            each.join()


def test_a_killed_worker_is_replaced_while_the_others_serve_and_nothing_is_shown_or_counted_wrongly(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_once.add_user("alice", PASSWORD)
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", canary.text())
        for number in range(2):
            direct.pipeline(*[("SET", f"secret:{number}:{at}", "original") for at in range(50)])
    running = begin(veil, SECRET, redis_once, ALICE)
    with ExitStack() as stack:
        steady = [stack.enter_context(running.client()) for _ in range(12)]
        held = {number: [each for each in steady if worker_of(each, running) == number] for number in workers(running)}
        assert all(held.values()), "the kernel spreads readers over all workers"
        with load(running) as made:
            wait_until(lambda: made.masked > 200 and len(made.shown) > 20, "there is load")
            victim = workers(running)[2]
            os.kill(victim, signal.SIGKILL)
            killed_s = time.monotonic()
            for number in (1, 3):
                for each in held[number]:
                    assert each.call("GET", "secret:1") == MASK
            wait_until(lambda: all_serve_but(running, victim), "there is another worker", START_S)
            took_s = time.monotonic() - killed_s
            done = made.masked, len(made.shown)
            wait_until(lambda: made.masked > done[0] + 200 and len(made.shown) > done[1] + 20, "the load goes on")
        assert all(each.at_end() for each in held[2])
        canary.assert_nowhere(running, steady)

    assert (made.wrong, made.backwards) == ([], [])
    started = [json.loads(line) for line in running.log().splitlines() if '"worker-ended"' in line]
    assert [(each["worker"], each["reason"]) for each in started] == [(2, "signal SIGKILL")]
    assert running.metric("veil_worker_restarts_total") == 1
    assert running.metric("veil_workers") == running.metric("veil_workers_wanted") == WORKERS
    recorded = {str(entry["resource"]) for entry in entries(running, UNMASKED)}
    assert {str({"key": key}) for key in made.shown} <= recorded
    assert len(made.shown) <= len(entries(running, UNMASKED))
    assert_sound(running)
    verified = subprocess.run(
        [sys.executable, "-m", "proxy", "audit", "verify", str(running.audit_path)], capture_output=True, env=environment()
    )
    assert (verified.returncode, verified.stderr) == (0, b"")
    assert took_s < START_S


def test_workers_end_with_a_supervisor_that_is_killed(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    put_secret(redis_once, canary.text())
    running = begin(veil, SECRET, redis_once)
    processes = list(workers(running).values())
    with running.client() as client:
        assert client.call("GET", "secret:1") == MASK

        running.kill()

        wait_until(lambda: not any(map(alive, processes)), "the workers have ended")
        assert client.at_end()
        assert not answers(running.host, running.port)
        canary.assert_not_in(bytes(client.received))
        canary.assert_not_in(running.log())


def test_a_supervisor_that_is_told_to_stop_drains_its_workers(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = begin(veil, SECRET, redis_once)
    with ExitStack() as stack:
        idle = [stack.enter_context(running.client()) for _ in range(6)]
        waiting = stack.enter_context(running.client())
        for each in idle:
            assert each.call("GET", "secret:1") == MASK
        waiting.send("BLPOP", "secret:list", "0")
        wait_until(lambda: running.metric("veil_connections") == 7, "all are there")
        processes = list(workers(running).values())

        assert running.stop() == 0

        assert all(each.at_end() for each in idle)
        assert not any(map(alive, processes))
        for each in idle:
            canary.assert_not_in(bytes(each.received))
        canary.assert_not_in(running.log())
    lines = [json.loads(line) for line in running.log().splitlines()]
    for event in ("serving", "signal"):
        assert sum(line["event"] == event for line in lines) == 1
    assert {line["worker"] for line in lines if line["event"] == "draining"} == {1, 2, 3}


def test_a_changed_rule_reaches_the_readers_of_every_worker(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    running = begin(veil, OPEN, redis_once)
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", "shown")
    with ExitStack() as stack:
        readers = [stack.enter_context(running.client()) for _ in range(12)]
        assert {worker_of(each, running) for each in readers} == {1, 2, 3}
        for each in readers:
            assert each.call("GET", "secret:1") == b"shown"

        running.write_rules(SECRET)
        wait_until(
            lambda: all(each.call("GET", "secret:1") == MASK for each in readers), "every worker has the new rules", 10.0
        )

        with redis_once.admin() as direct:
            direct.call("SET", "secret:1", canary.text())
        for each in readers:
            assert each.call("GET", "secret:1") == MASK
        wait_until(lambda: running.metric("veil_rules") == 1, "the page has them")
        assert not json.loads(running.page("/readyz")[1])["warnings"]
        os.kill(running.pid, signal.SIGHUP)
        before = time.time()
        wait_until(lambda: (running.metric("veil_rules_read_timestamp_seconds") or 0) >= before - 1, "all have read again")
        canary.assert_nowhere(running, readers)
    events = [entry["event"] for entry in running.audit()]
    assert events == ["configuration.masking-rule.create"], "told once, not by each worker"


def test_broken_rules_are_named_once_and_the_old_ones_hold_in_every_worker(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = begin(veil, SECRET, redis_once)
    with ExitStack() as stack:
        readers = [stack.enter_context(running.client()) for _ in range(6)]

        running.write_rules("rules: [\n")
        wait_until(lambda: running.log().count("rules-refused") == WORKERS, "all have looked")
        wait_until(lambda: running.metric("veil_rules_last_reload_successful") == 0, "the page says so")

        status, body = running.page("/readyz")
        assert status == 200
        assert len(json.loads(body)["problems"]) == 1
        for each in readers:
            assert each.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, readers)


def test_a_worker_that_stands_still_is_told_and_counts_do_not_go_backwards(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = begin(veil, SECRET, redis_once)
    with running.client() as client:
        assert client.call("GET", "secret:1") == MASK
        wait_until(lambda: running.metric("veil_values_masked_total") == 1, "it is counted")
        victim = workers(running)[worker_of(client, running)]

        os.kill(victim, signal.SIGSTOP)
        try:
            wait_until(lambda: running.page("/readyz")[0] == 503, "a worker is missed")
            assert "does not answer" in running.page("/readyz")[1]
            assert running.page("/livez")[0] == 200
            assert running.metric("veil_values_masked_total") == 1
            assert running.metric("veil_workers") == WORKERS - 1
        finally:
            os.kill(victim, signal.SIGCONT)
        wait_until(lambda: running.page("/readyz")[0] == 200, "it is there again")
        canary.assert_nowhere(running, [client])


def run(running: Veil, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs until it ends by itself."""
    command = [sys.executable, "-bb", "-m", "proxy", "run", "--config", str(running.config_path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=running.folder, timeout=START_S)


def test_an_address_that_is_taken_ends_it_with_three_and_one_line(redis_once: RedisServer, veil: VeilFactory) -> None:
    running = veil(OPEN, upstream=redis_once, start=False)
    with socket.create_server((running.host, running.port)):
        done = run(running, "--workers", "3")

    assert (done.returncode, done.stderr) == (3, f"cannot listen on {running.host}:{running.port}: Address already in use\n")


def test_a_second_veil_does_not_share_the_address_of_the_first(redis_once: RedisServer, veil: VeilFactory) -> None:
    running = begin(veil, OPEN, redis_once)
    other = veil(OPEN, upstream=redis_once, start=False)
    other.config_path.write_text(other.config_path.read_text().replace(str(other.port), str(running.port)))

    for arguments in ([], ["--workers", "2"]):
        done = run(other, *arguments)

        assert done.returncode == 3
        assert f"cannot listen on {running.host}:{running.port}" in done.stderr


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"nonsense": True}, 'no key "nonsense"'),
        ({"audit": {"file": {"path": "rules.d/rules.yaml"}}}, "that is not an audit entry"),
    ],
)
def test_a_bad_config_ends_it_with_two_and_one_line_a_problem(
    redis_once: RedisServer, veil: VeilFactory, settings: dict[str, object], expected: str
) -> None:
    running = veil(OPEN, upstream=redis_once, start=False, **settings)
    done = run(running, "--workers", "3")

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert expected in line
