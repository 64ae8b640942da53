"""The process under pressure: few descriptors, a log that nobody reads, churn, storms of signals, lost upstreams."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
from contextlib import ExitStack

import pytest

from tests.brokers.faults import cpu_s, descriptors, rss
from tests.brokers.processes import free_port, wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import MASK, SECRET, assert_sound, put_secret

MIB = 1024 * 1024


@pytest.mark.slow
def test_with_few_descriptors_probes_are_answered_and_nothing_spins(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    used = descriptors(running.pid)
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))  # behind its back: worse than at its start
    with ExitStack() as stack:
        readers = [stack.enter_context(running.client()) for _ in range(60)]
        assert readers[0].call("GET", "secret:1") == MASK
        wait_until(lambda: "accept-exhausted" in running.log(), "descriptors are used up")
        before, start = cpu_s(running.pid), os.times().elapsed
        wait_until(lambda: os.times().elapsed - start > 1, "a second has passed")
        assert cpu_s(running.pid) - before < 0.5
    wait_until(lambda: running.page("/livez")[0] == 200, "it answers again")
    with running.client() as later:
        assert later.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [*readers, later])


@pytest.mark.slow
def test_readers_leave_descriptors_for_the_admin_port(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once, start=False)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    running.start(env={"VEIL_LIMITS__MAX_CONNECTIONS": "1000000"})
    if hard < 2_000_000:
        assert "few-descriptors" in running.log()
    with running.client() as reader:
        assert reader.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [reader])


@pytest.mark.slow
def test_idle_connections_to_the_admin_port_keep_neither_probes_nor_readers_out(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with ExitStack() as stack, running.client() as reader:
        for _ in range(400):
            stack.enter_context(socket.create_connection((running.host, running.admin_port)))

        for page in ("/livez", "/readyz", "/metrics"):
            assert running.page(page)[0] == 200
        assert reader.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [reader])


@pytest.mark.slow
def test_connections_that_come_and_go_leave_nothing_behind(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)

    def churn(count: int) -> None:
        for number in range(count):
            with running.client() as client:
                if number % 3:
                    client.send("GET", "secret:1")
                if number % 3 == 1:
                    assert client.read() == MASK
        wait_until(lambda: running.metric("veil_connections") == 0, "all are gone")

    churn(200)
    files, memory = descriptors(running.pid), rss(running.pid)
    churn(600)

    assert descriptors(running.pid) <= files + 2
    assert rss(running.pid) - memory < 8 * MIB
    canary.assert_nowhere(running)


@pytest.mark.slow
def test_keys_of_a_megabyte_are_not_kept(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client:
        client.call("GET", b"k" * MIB)
        memory = rss(running.pid)
        for number in range(100):
            assert client.call("GET", b"%d" % number + b"k" * MIB) is None
            client.call("STRLEN", b"secret:%d" % number + b"k" * MIB)

        assert rss(running.pid) - memory < 40 * MIB
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_a_storm_of_hangups_stops_nobody_and_a_second_sigterm_ends_at_once(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    with redis_once.admin() as direct:
        direct.call("SET", "open", "x" * MIB)
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client:
        for _ in range(300):
            running.signal(signal.SIGHUP)
            assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])

    def load(client: RespClient) -> None:
        try:
            while True:
                client.pipeline(*[("GET", "open")] * 4)
        except (EOFError, OSError):
            client.close()

    busy = [threading.Thread(target=load, args=(running.client(),)) for _ in range(2)]
    for each in busy:
        each.start()
    running.signal(signal.SIGTERM)
    wait_until(lambda: '"draining"' in running.log(), "it drains")
    running.signal(signal.SIGTERM)
    assert running.stop() == 0
    for each in busy:
        each.join()
    assert "fault" not in running.log()
    assert_sound(running)


def test_the_next_address_is_taken_when_the_first_refuses(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=f"127.0.0.1:{free_port()},{redis_once.address}")
    with running.client() as client:
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])
