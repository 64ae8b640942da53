"""TLS files that change while they are watched."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from proxy.core.tally import Tally
from proxy.runtime import certificates as module
from proxy.runtime.certificates import Certificates, Kept, keep
from proxy.runtime.current import Current
from proxy.runtime.journal import Journal
from proxy.runtime.listen import Census
from proxy.runtime.log import Log
from proxy.runtime.metrics import Counted, Metrics
from proxy.runtime.tls import ClientFiles, Pair, ServerFiles
from rules.model import Connection, Platform
from tests.certificates import Authority


class Desk:
    def __init__(self, folder: Path, days: float = 90, *, verify: bool = True) -> None:
        self.authority = Authority(folder)
        self.made = self.authority.server(days=days)
        files = ServerFiles((Pair(self.made.certificate, self.made.key),), self.authority.path)
        self.kept = keep("127.0.0.1:1", "shop", "redis", files)
        self.client = keep("upstream of 127.0.0.1:1", "shop", "redis", ClientFiles(self.authority.path, verify=verify))
        self.stream = io.StringIO()
        self.log = Log(self.stream)
        self.watch = Certificates([self.kept, self.client], self.log)

    def logged(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.02)


@asynccontextmanager
async def watched(desk: Desk) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.watch.run)
        yield
        nursery.cancel_scope.cancel()
    assert desk.log.unknown_keys == 0


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not holds():
            await trio.sleep(0.01)


async def test_a_new_pair_is_taken_and_the_other_side_is_left_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    before, other = desk.kept.now, desk.client.now
    async with watched(desk):
        desk.authority.server(days=30)
        await until(lambda: desk.kept.now is not before and not desk.kept.trouble)

    assert desk.kept.expiry_s is not None
    assert before.expiries[0][1] > desk.kept.expiry_s
    assert desk.client.now is other


async def test_a_bad_pair_keeps_the_old_and_is_told_once_by_file_and_reason(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    before = desk.kept.now
    good = desk.made.key.read_bytes()
    async with watched(desk):
        desk.made.key.write_text("half a k")
        await until(lambda: bool(desk.kept.trouble))
        desk.watch.reread()
        await until(lambda: not desk.watch._again.is_set())
        told = list(desk.watch.warnings)
        assert desk.kept.now is before
        desk.made.key.write_bytes(good)
        await until(lambda: not desk.kept.trouble)

    assert len(told) == 1
    assert 'server.key" holds no private key in PEM' in told[0]
    assert [(line["file"], line["reason"]) for line in desk.logged("tls-files-refused")] == [
        (str(desk.made.key), "holds no private key in PEM")
    ]
    assert list(desk.watch.warnings) == []


async def test_a_file_that_is_gone_keeps_the_old(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    before = desk.client.now
    async with watched(desk):
        desk.authority.path.unlink()
        await until(lambda: bool(desk.client.trouble) and bool(desk.kept.trouble))

    assert desk.client.now is before


async def test_a_mount_that_is_swapped_is_a_change(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    old = Authority(tmp_path / "one").server()
    Authority(tmp_path / "two").server()
    (tmp_path / "..data").symlink_to("one")
    folder = tmp_path / "..data"
    kept = keep("l", "shop", "redis", ServerFiles((Pair(folder / old.certificate.name, folder / old.key.name),)))
    before = kept.now
    watch = Certificates([kept], Log(io.StringIO()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(folder)
        await until(lambda: kept.now is not before)
        nursery.cancel_scope.cancel()


async def test_asked_for_everything_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    before = desk.kept.now
    monkeypatch.setattr(module, "POLL_S", 60.0)
    async with watched(desk):
        await trio.testing.wait_all_tasks_blocked()
        desk.watch.reread()
        await until(lambda: desk.kept.now is not before)


@pytest.mark.parametrize(("days", "word"), [(13, "expires on 2"), (-2, "expired on 2"), (15, None)])
async def test_a_certificate_that_runs_out_soon_is_told_once(tmp_path: Path, days: int, word: str | None) -> None:
    desk = Desk(tmp_path, days)
    async with watched(desk):
        for _ in range(3):
            desk.watch.reread()
            await until(lambda: not desk.watch._again.is_set())
        if word is not None:
            await until(lambda: bool(desk.logged("tls-certificate-expires")))

    told = [str(line["reason"]) for line in desk.logged("tls-certificate-expires")]
    warned = list(desk.watch.warnings)
    assert bool(told) is bool(warned) is (word is not None)
    if word is not None:
        assert told[0].startswith(word)
        assert word in warned[0]


async def test_an_upstream_that_is_not_verified_is_told_loudly(tmp_path: Path) -> None:
    desk = Desk(tmp_path, verify=False)
    async with watched(desk):
        await until(lambda: bool(desk.logged("upstream-not-verified")))

    assert ["not verified" in warning for warning in desk.watch.warnings] == [True]


async def test_a_disk_that_hangs_leaves_the_old_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    before = desk.kept.now

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
    async with watched(desk):
        desk.watch.reread()
        await until(lambda: not desk.watch._again.is_set())

    assert desk.kept.now is before


def test_the_metric_tells_when_a_listener_s_certificate_runs_out(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    journal = Journal(tmp_path / "audit.jsonl", desk.log)
    kept: tuple[Kept, ...] = desk.watch.kept
    shop = (Connection("shop", Platform.REDIS),)
    page = Metrics(Counted("1", Census(1), Current(), journal, desk.log, {"shop": Tally()}, shop, kept)).page().decode()
    journal.release()

    (line,) = [line for line in page.splitlines() if line.startswith("veil_tls_certificate_expiry_timestamp_seconds{")]
    labels, _, value = line.rpartition(" ")
    assert labels.endswith('{connection="shop",listener="127.0.0.1:1",platform="redis",protocol="redis"}')
    assert float(value) == desk.kept.expiry_s
