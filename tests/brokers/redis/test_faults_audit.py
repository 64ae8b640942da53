"""A disk under the trail that fails or hangs, and a clock that jumps: masked at once, never shown without its entry."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy import cli
from tests.brokers.faults import Faults
from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault, RespClient
from tests.brokers.veil import TREE, Veil, VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, entries

pytestmark = pytest.mark.slow

LIMIT_S = 2.0  # that a read may be kept waiting for its entry
YEAR_S = 365 * 24 * 3600
LAPSE_S = 3.0
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


@pytest.fixture
def value(redis_once: RedisServer, canary: Canary) -> bytes:
    """A secret that alice may see."""
    redis_once.add_user("alice", PASSWORD)
    text = canary.text()
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", text)
    return text.encode()


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    folder = tmp_path / "faults"
    folder.mkdir()
    return Faults(folder, TREE)


def begun(veil: VeilFactory, server: RedisServer, faults: Faults, **settings: object) -> Veil:
    running = veil(SECRET, ALICE, upstream=server, start=False, **settings)
    running.start(env=faults.environment)
    return running


@pytest.mark.parametrize("fault", ["fsync-fails", "fsync-hangs"])
def test_while_the_disk_cannot_sync_nothing_is_shown_and_nobody_waits_longer_than_the_limit(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes, faults: Faults, fault: str
) -> None:
    running = begun(veil, redis_once, faults)
    with running.client() as alice, running.client() as bob:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        faults.begin(fault)
        start, began_s = len(alice.received), time.monotonic()

        assert alice.call("GET", "secret:1") == MASK
        assert time.monotonic() - began_s < LIMIT_S + 1
        began_s = time.monotonic()
        assert alice.pipeline(*[("GET", "secret:1")] * 50) == [MASK] * 50
        assert isinstance(alice.call("EVAL", "return 1", 0), Fault)
        assert bob.call("GET", "secret:1") == MASK
        assert time.monotonic() - began_s < LIMIT_S + 1
        assert "not writable" in running.page("/readyz")[1]
        assert running.metric("veil_audit_failing") == 1
        canary.assert_not_in(bytes(alice.received[start:]), "what came while nothing could be recorded")

        faults.end()
        wait_until(lambda: alice.call("GET", "secret:1") == value, "unmasked again", within_s=5)
        shown = bytes(alice.received).count(value)
        canary.assert_nowhere(running, [bob])
    assert len(entries(running, UNMASKED)) >= shown
    assert_sound(running)
    assert cli.main(["audit", "verify", "--config", str(running.config_path)]) == 0


def test_a_disk_that_hangs_does_not_hold_up_the_stop(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes, faults: Faults
) -> None:
    running = begun(veil, redis_once, faults)
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        faults.begin("fsync-hangs")
        assert alice.call("GET", "secret:1") == MASK
        began_s = time.monotonic()

        assert running.stop() == 0
        assert time.monotonic() - began_s < 15
        canary.assert_nowhere(running, [alice])
    assert_sound(running)


Jump = Callable[[float], None]


def clocks(faults: Faults, folder: Path, how: str) -> tuple[dict[str, str], Jump]:
    """The environment of a Veil whose wall clock can be moved, and what moves it."""
    if how == "in the process":
        return faults.environment, lambda seconds: faults.begin(f"clock {seconds}")
    if not FAKETIME.exists():
        pytest.skip("apt-get install faketime")
    told = folder / "offset"
    told.write_text("+0")

    def jump(seconds: float) -> None:
        told.with_name("offset.new").write_text(f"{seconds:+.0f}")
        told.with_name("offset.new").replace(told)

    more = {"FAKETIME_TIMESTAMP_FILE": str(told), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {"LD_PRELOAD": str(FAKETIME), "DONT_FAKE_MONOTONIC": "1", **more}, jump


@pytest.mark.parametrize("how", ["in the process", "of the system"])
@pytest.mark.parametrize("seconds", [-YEAR_S, 400 * 24 * 3600], ids=["a year back", "400 days ahead"])
def test_a_clock_that_jumps_neither_prolongs_nor_ends_an_unmasked_read(
    redis_once: RedisServer,
    veil: VeilFactory,
    canary: Canary,
    value: bytes,
    faults: Faults,
    tmp_path: Path,
    how: str,
    seconds: float,
) -> None:
    environment, jump = clocks(faults, tmp_path, how)
    running = veil(SECRET, ALICE, upstream=redis_once, start=False, unmasked_lapse=f"{LAPSE_S:.0f}s")
    running.start(env=environment)
    with running.client() as alice, running.client() as bob, redis_once.admin() as direct:
        alice.login("alice", PASSWORD)
        bob.call("SUBSCRIBE", "secret:news")
        alice.call("SUBSCRIBE", "secret:news")

        def told(client: RespClient) -> object:
            direct.call("PUBLISH", "secret:news", value)
            message = client.read()
            assert isinstance(message, list)
            return message[-1]

        assert told(alice) == value
        began_s = time.monotonic()
        jump(seconds)
        while told(alice) == value:
            assert time.monotonic() - began_s < LAPSE_S + 1, "the read lapses by the time that passed"
            time.sleep(0.05)
        assert time.monotonic() - began_s > LAPSE_S - 1, "and not by what the clock says"
        start = len(alice.received)
        assert [told(alice) for _ in range(5)] == [MASK] * 5
        canary.assert_not_in(bytes(alice.received[start:]), "what came after the lapse")
        canary.assert_nowhere(running, [bob])
    with running.client() as anew:
        anew.login("alice", PASSWORD)
        assert anew.call("GET", "secret:1") == value
    years = [str(entry["time"])[:4] for entry in entries(running, UNMASKED)]
    assert len(years) == 2
    assert years[0] != years[1], "the clock did jump"
    assert_sound(running)
