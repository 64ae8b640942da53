"""The trail under attack: names that forge lines, a file that is taken away, and a process that is killed."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rules.audit import broken_links
from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, entries, put_secret

NAMES = [
    b'secret:\r\n{"time":"2026","event":"broker.message.read-unmasked"}\r\n',
    b"secret:\x1b[2J\x1b]0;title\x07",
    "secret:\u2028\u2029\x85\u202e".encode(),
    b"secret:\xff\xfe\xc3",
    b"secret:\\xff\\xfe\\xc3",
    b"secret:\xed\xa0\x80",
    b"secret:\x00nul",
    b'secret:"}],"hash":"',
    b"secret:" + b"y" * 1024 * 1024,
    b"secret:" + b"\x00" * 1024 * 1024,
]


def test_no_name_forges_or_hides_a_line_of_the_trail(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    redis_server.add_user("alice", PASSWORD)
    value = canary.text().encode()
    with redis_server.admin() as direct:
        direct.pipeline(*(("SET", name, value) for name in NAMES))
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as alice, running.client() as mallory:
        alice.login("alice", PASSWORD)
        for name in NAMES:
            assert alice.call("GET", name) == value
            assert isinstance(mallory.call("STRLEN", name), Fault)
        mallory.call(b"EV\r\nAL \x1b[31m" * 100, "x")
        canary.assert_nowhere(running, [mallory])
    running.stop()

    trail = running.audit_bytes()
    assert len(entries(running, UNMASKED)) == len(NAMES)
    assert len({str(entry["resource"]) for entry in entries(running, UNMASKED)}) == len(NAMES)
    assert len(entries(running, "masking.refused")) == len(NAMES) + 1
    assert len(trail.splitlines()) == len(trail.decode().splitlines()) == trail.count(b"\n") == len(running.audit())
    assert all(32 <= byte < 127 or byte == 10 for byte in trail + running.log().encode())
    assert max(map(len, trail.splitlines())) < 20_000
    assert_sound(running)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


TAKEN: list[Callable[[Path], object]] = [
    Path.mkdir,
    os.mkfifo,
    loop,
    lambda path: path.symlink_to("/dev/null"),
    lambda path: path.symlink_to("/dev/full"),
    lambda path: path.write_text("not a trail\n"),
    lambda path: path.write_bytes(b"\x00" * 8192),
]


@pytest.mark.slow
@pytest.mark.parametrize("take", TAKEN, ids=["directory", "fifo", "loop", "null", "full", "foreign", "zeros"])
def test_whatever_takes_the_place_of_the_trail_nothing_is_shown_that_it_does_not_hold(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, take: Callable[[Path], object]
) -> None:
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    running = veil(SECRET, ALICE, upstream=redis_once)
    kept = running.audit_path.with_name("kept")
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        running.audit_path.rename(kept)
        take(running.audit_path)

        start = len(alice.received)
        assert alice.pipeline(*[("GET", "secret:1")] * 50) == [MASK] * 50
        assert isinstance(alice.call("EVAL", "return 1", 0), Fault)
        assert "not writable" in running.page("/readyz")[1]
        canary.assert_not_in(bytes(alice.received[start:]), "what came while nothing could be recorded")

        kept.replace(running.audit_path) if not running.audit_path.is_dir() else running.audit_path.rmdir()
        wait_until(lambda: alice.call("GET", "secret:1") == value, "unmasked again", within_s=3)
    canary.assert_nowhere(running)
    parts = [part for part in (kept, running.audit_path) if part.exists()]  # the first was moved away: one chain over both
    assert list(broken_links(line for part in parts for line in part.read_bytes().splitlines())) == []


def read_for_ever(running: Veil, served: list[int], value: bytes) -> None:
    try:
        with running.client() as alice:
            alice.login("alice", PASSWORD)
            while True:
                for _ in range(3):
                    alice.send("GET", "secret:1")
                for _ in range(3):
                    served.append(alice.read() == value)  # noqa: PERF401  what was read before the end counts
    except (EOFError, OSError):
        return


@pytest.mark.slow
@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_at_any_moment_nothing_was_served_that_is_not_on_record(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, kills: int
) -> None:
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    running = veil(SECRET, ALICE, upstream=redis_once)
    moments = random.Random(7)
    for _ in range(kills):
        before = running.audit_bytes().count(UNMASKED.encode())
        served: list[int] = []
        readers = [threading.Thread(target=read_for_ever, args=(running, served, value)) for _ in range(3)]
        for reader in readers:
            reader.start()
        wait_until(lambda served=served: len(served) > 5, "reads are served")  # type: ignore[misc]
        time.sleep(moments.random() * 0.05)  # the moment is the point: any will do

        running.kill()

        for reader in readers:
            reader.join()
        whole = [line for line in running.audit_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        assert sum(served) <= sum(UNMASKED.encode() in line for line in whole) - before
        running.start()
        assert_sound(running)
    canary.assert_nowhere(running)
