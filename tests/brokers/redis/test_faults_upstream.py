"""A broker that is refused, cut off inside a reply, or half-open: what arrives is whole or nothing, and never unmasked."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.brokers.faults import Line, cpu_s
from tests.brokers.processes import free_port, wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, entries

pytestmark = pytest.mark.slow

MASKED = b"$%d\r\n%b\r\n" % (len(MASK), MASK)


@pytest.fixture
def line(redis_once: RedisServer) -> Iterator[Line]:
    with Line((redis_once.host, redis_once.port)) as made:
        yield made


@pytest.fixture
def value(redis_once: RedisServer, canary: Canary) -> bytes:
    text = canary.text()
    redis_once.add_user("alice", PASSWORD)
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", text)
        direct.call("RPUSH", "secret:list", text, text)
    return text.encode()


def test_a_broker_that_refuses_hangs_up_its_readers_and_is_counted(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes
) -> None:
    running = veil(SECRET, upstream=f"127.0.0.1:{free_port()}")
    for _ in range(20):
        with running.client() as client:
            client.raw(b"GET secret:1\r\n")
            assert client.everything() == b""
    assert running.metric("veil_upstream_connect_failures_total") == 20
    assert running.page("/readyz")[0] == 200
    canary.assert_nowhere(running)


def test_a_reply_that_is_cut_anywhere_never_shows_what_it_held(
    redis_once: RedisServer, line: Line, veil: VeilFactory, canary: Canary, value: bytes
) -> None:
    running = veil(SECRET, upstream=line.address)
    whole = len(b"$%d\r\n%b\r\n" % (len(value), value))
    listed = len(b"*2\r\n") + 2 * whole
    for command, length in ((("GET", "secret:1"), whole), (("LRANGE", "secret:list", 0, -1), listed)):
        for at in range(length):
            line.cut_after = None
            with running.client() as client:
                assert client.call("PING") == b"PONG"
                line.cut_after = at
                client.send(*command)

                got = client.everything().removeprefix(b"+PONG\r\n")

                assert (b"*2\r\n" + 2 * MASKED).startswith(got) or MASKED.startswith(got)
                canary.assert_not_in(got, f"what came of a reply cut at {at}")
    line.cut_after = None
    with running.client() as later:
        assert later.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [later])


def test_a_half_open_broker_holds_up_its_own_readers_alone_and_nothing_comes_out_unmasked(
    redis_once: RedisServer, line: Line, veil: VeilFactory, canary: Canary, value: bytes
) -> None:
    running = veil(SECRET, ALICE, upstream=line.address, limits={"login_timeout": "1s"})
    with running.client() as known, running.client() as alice:
        assert known.call("GET", "secret:1") == MASK
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        line.fall_silent()
        known.send("GET", "secret:1")
        before = cpu_s(running.pid)
        strangers = [running.client() for _ in range(20)]
        for each in strangers:
            each.send("GET", "secret:1")
        for each in strangers:
            assert each.everything() == b"", "the time-out for logins ends it"
            each.close()

        assert cpu_s(running.pid) - before < 1
        assert running.page("/readyz")[0] == 200
        line.go_on()
        assert known.read() == MASK
        assert alice.call("GET", "secret:1") == value
        canary.assert_nowhere(running, [known, *strangers])
    assert len(entries(running, UNMASKED)) == 2
    assert_sound(running)


def test_a_broker_that_falls_silent_during_the_try_of_a_name_leaves_the_reader_masked(
    redis_once: RedisServer, line: Line, veil: VeilFactory, canary: Canary, value: bytes
) -> None:
    running = veil(SECRET, ALICE, upstream=line.address)
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        line.cut_after = 0  # of the try: it is hung up on before it gets a no
        asking = threading.Thread(target=alice.send, args=("GET", "secret:1"))
        asking.start()
        asking.join()

        got = alice.everything()

        canary.assert_not_in(got, "what came to a name that could not be tried")
    line.cut_after = None
    with running.client() as again:
        again.login("alice", PASSWORD)
        wait_until(lambda: again.call("GET", "secret:1") == value, "the name is tried anew")
    assert_sound(running)
    canary.assert_nowhere(running)
