"""A trail under a running Veil when the disk is full, the file is moved, or another Veil writes it too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy import cli
from rules.audit import broken_links
from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, put_secret


@pytest.fixture
def value(redis_once: RedisServer, canary: Canary) -> bytes:
    """A secret that alice may see."""
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    return value


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def reads(running: Veil) -> int:
    return running.audit_bytes().count(UNMASKED.encode())


@pytest.mark.slow
def test_a_disk_that_is_full_masks_until_there_is_room(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes, small_disk: Path
) -> None:
    running = veil(SECRET, ALICE, upstream=redis_once, audit={"file": {"path": str(small_disk / "audit.jsonl")}})
    running.audit_path = small_disk / "audit.jsonl"
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
            while True:
                opened.write(b"x" * 512)
        shown = [alice.call("GET", "secret:1") for _ in range(60)]

        assert shown[-1] == MASK
        assert shown == [value] * shown.count(value) + [MASK] * shown.count(MASK)
        assert "not writable" in running.page("/readyz")[1]
        filler.unlink()
        wait_until(lambda: alice.call("GET", "secret:1") == value, "unmasked again", within_s=2)
        assert reads(running) == 2 + shown.count(value)
    assert_sound(running)
    canary.assert_nowhere(running)
    running.stop()


@pytest.mark.slow
def test_ten_thousand_reads_are_ten_thousand_entries(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes
) -> None:
    running = veil(SECRET, ALICE, upstream=redis_once)
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        for _ in range(10):
            assert alice.pipeline(*[("GET", "secret:1")] * 1000) == [value] * 1000

    assert reads(running) == 10_000
    assert_sound(running)
    canary.assert_nowhere(running)


@pytest.mark.slow
def test_two_processes_and_a_rotation_leave_one_chain_and_tell_the_rules_once(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes, tmp_path: Path
) -> None:
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    both = [veil(SECRET, ALICE, upstream=redis_once, audit={"file": {"path": str(path)}}) for _ in range(2)]
    readers = [running.client() for running in both]
    for reader in readers:
        reader.login("alice", PASSWORD)
    for turn in range(6):
        if turn == 3:
            path.rename(moved)
        for reader in readers:
            assert reader.call("GET", "secret:1") == value
    both[0].kill()
    assert readers[1].call("GET", "secret:1") == value
    both[0].start()
    for reader in readers:
        reader.close()

    wait_until(lambda: both[0].page("/readyz")[0] == 200, "the rules are read")
    both[0].stop()
    lines = [line for part in (moved, path) for line in part.read_bytes().splitlines(keepends=True)]
    assert not list(broken_links(lines))
    events = [json.loads(line)["event"] for line in lines]
    assert events.count(UNMASKED) == 13
    assert events.count("configuration.masking-rule.create") == 1
    assert events.count("configuration.masking-access.update") == 1
    assert cli.main(["audit", "verify", str(path), str(moved)]) == 0
    canary.assert_not_in(b"".join(lines), "the trail")
    for running in both:
        canary.assert_not_in(running.log(), "the log")


@pytest.mark.slow
def test_a_process_that_stops_while_it_holds_the_lock_delays_the_others_no_longer_than_the_limit(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "audit.jsonl"
    running = veil(SECRET, ALICE, upstream=redis_once, audit={"file": {"path": str(path)}})
    running.audit_path = path
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        holder = subprocess.Popen(
            ["flock", str(path.with_name("audit.jsonl.head")), "sh", "-c", "echo held; exec sleep 60"],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            start = len(alice.received)
            assert alice.pipeline(*[("GET", "secret:1")] * 20) == [MASK] * 20
            assert "not writable" in running.page("/readyz")[1]
            canary.assert_not_in(bytes(alice.received[start:]), "what came meanwhile")
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
            holder.communicate()
        wait_until(lambda: alice.call("GET", "secret:1") == value, "unmasked again", within_s=2)
    assert_sound(running)
    canary.assert_nowhere(running)
