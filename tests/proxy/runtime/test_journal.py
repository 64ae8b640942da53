"""The journal on a real file, with a disk that fails when a test says so."""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from proxy.core.errors import ConfigError
from proxy.runtime import journal as journal_module
from proxy.runtime.journal import Journal
from proxy.runtime.log import Log
from rules.audit import REFUSED, RULE_DELETED, Entry, broken_links
from rules.model import Connection, Kind, Platform, Resource


def entry(number: int = 0) -> Entry:
    return Entry("broker.message.read-unmasked", f"who-{number}")


@asynccontextmanager
async def running(path: Path, stream: io.StringIO | None = None) -> AsyncIterator[Journal]:
    journal = Journal(path, Log(stream or io.StringIO()))
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        try:
            yield journal
        finally:
            nursery.cancel_scope.cancel()
    journal.release()


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def sound(path: Path) -> bool:
    return not list(broken_links(lines_of(path)))


async def test_a_receipt_names_its_entry_and_its_number(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with running(path) as journal:
        receipts = await journal.record((entry(1), entry(2)))

    assert receipts is not None
    assert [(receipt.entry.who, receipt.seq) for receipt in receipts] == [("who-1", 1), ("who-2", 2)]
    assert len(lines_of(path)) == 2
    assert sound(path)


async def test_the_entry_is_synced_before_its_receipt_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    sync = os.fsync

    def watched(fd: int) -> None:
        sync(fd)
        seen.append("fsync")

    monkeypatch.setattr(os, "fsync", watched)
    async with running(tmp_path / "audit.jsonl") as journal:
        seen.clear()
        await journal.record((entry(),))
        seen.append("receipt")

    assert seen == ["fsync", "receipt"]


async def test_only_the_owner_may_read_a_new_trail(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with running(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(3):
        async with running(path) as journal:
            receipts = await journal.record((entry(number),))
            assert receipts is not None
            assert receipts[0].seq == number + 1

    assert sound(path)


async def test_a_half_written_last_line_is_cut_and_logged(tmp_path: Path) -> None:
    path, stream = tmp_path / "audit.jsonl", io.StringIO()
    async with running(path) as journal:
        await journal.record((entry(),))
    with path.open("ab") as file:
        file.write(b'{"time":"2026-01-01T00:0')
    async with running(path, stream) as journal:
        await journal.record((entry(),))

    assert len(lines_of(path)) == 2
    assert sound(path)
    assert "audit-half-line-cut" in stream.getvalue()


async def test_a_crash_in_the_very_first_line_is_healed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"ti')
    async with running(path) as journal:
        await journal.record((entry(),))

    assert sound(path)


@pytest.mark.parametrize(
    "content", [b"root:x:0:0\nno line end", b"text", b'{"seq":1}\n', b"\xff\n", b'{"time":"x","hash":"y"}\n']
)
async def test_a_file_that_is_no_trail_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="move it away"):
        Journal(path, Log(io.StringIO()))
    assert path.read_bytes() == content


async def test_a_changed_last_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with running(path) as journal:
        await journal.record((entry(1),))
    path.write_bytes(path.read_bytes().replace(b"who-1", b"who-2"))

    with pytest.raises(ConfigError, match="was changed"):
        Journal(path, Log(io.StringIO()))


async def test_a_fifo_is_refused_without_hanging(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    os.mkfifo(path)

    with pytest.raises(ConfigError, match="regular file"):
        Journal(path, Log(io.StringIO()))


async def test_a_full_disk_gives_no_receipt_and_leaves_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    write = os.write
    left = 10_000

    def fills(fd: int, data: bytes) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(fd, bytes(data)[:left])
        left -= done
        return done

    monkeypatch.setattr(os, "write", fills)
    async with running(path) as journal:
        assert await journal.record((entry(1),)) is not None
        left = 17
        assert await journal.record((entry(2),)) is None
        assert journal.failing
        left = 10_000
        receipts = await journal.record((entry(3),))

    assert receipts is not None
    assert receipts[0].seq == 2
    assert [b"who-3" in line for line in lines_of(path)] == [False, True]
    assert sound(path)


async def test_a_failed_fsync_gives_no_receipt_and_the_entry_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with running(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            assert await journal.record((entry(1),)) is None
        assert await journal.record((entry(2),)) is not None

    assert len(lines_of(path)) == 1
    assert sound(path)


async def test_nobody_waits_longer_than_the_limit_for_a_write_that_hangs_and_it_works_again_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    goes_on = threading.Event()
    sync = os.fsync

    def hangs(fd: int) -> None:
        goes_on.wait(10)
        sync(fd)

    monkeypatch.setattr(journal_module, "LIMIT_S", 0.1)
    async with running(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", hangs)
            began_s = trio.current_time()
            assert await journal.record((entry(1),)) is None
            assert trio.current_time() - began_s < 1
            assert journal.failing
            asked_s = trio.current_time()
            assert await journal.record((entry(2),)) is None
            assert trio.current_time() - asked_s < 0.05
            goes_on.set()
            with trio.fail_after(2):
                while journal.failing:
                    await trio.sleep(0)
        receipts = await journal.record((entry(3),))

    assert receipts is not None
    assert [b"who-1" in line for line in lines_of(path)] == [True, False]
    assert sound(path)


@pytest.mark.slow
async def test_many_records_at_a_time_share_their_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    syncs = 0
    sync = os.fsync

    def counted(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        sync(fd)

    async with running(path) as journal:
        monkeypatch.setattr(os, "fsync", counted)
        got: list[int] = []

        async def one(number: int) -> None:
            receipts = await journal.record((entry(number),))
            assert receipts is not None
            assert receipts[0].entry.who == f"who-{number}"
            got.append(receipts[0].seq)

        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(one, number)

    assert sorted(got) == list(range(1, 1001))
    assert syncs < 20
    assert sound(path)


async def test_a_note_outlives_a_disk_that_was_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    monkeypatch.setattr(journal_module, "RETRY_S", 0.01)

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with running(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            journal.note(entry(7))
            while not journal.failing:
                await trio.sleep(0.001)
        with trio.fail_after(2):
            while not journal.counts.written:
                await trio.sleep(0.001)

    assert b"who-7" in path.read_bytes()


async def test_notes_beyond_the_bound_are_lost_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "NOTES_WAITING", 3)
    async with running(tmp_path / "audit.jsonl") as journal:
        for _ in range(5):
            journal.note(refusal(b"k"))

        assert journal.counts.notes_lost == 2


async def test_a_trail_that_was_moved_away_goes_on_in_a_new_file(tmp_path: Path) -> None:
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    async with running(path) as journal:
        await journal.record((entry(1),))
        path.rename(moved)

        receipts = await journal.record((entry(2),))

    assert receipts is not None
    assert receipts[0].seq == 2
    assert not list(broken_links(lines_of(moved) + lines_of(path)))


async def test_a_trail_cut_by_somebody_else_gives_no_receipts(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with running(path) as journal:
        await journal.record((entry(1),))
        os.truncate(path, 0)

        assert await journal.record((entry(2),)) is None
        assert await journal.record((entry(3),)) is None


async def test_what_waits_is_written_before_the_journal_ends(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    journal = Journal(path, Log(io.StringIO()))
    for number in range(10):
        journal.note(entry(number))
    journal.close()
    with trio.fail_after(2):
        await journal.run()
    journal.release()

    assert len(lines_of(path)) == 10
    assert await journal.record((entry(),)) is None


def refusal(name: bytes) -> Entry:
    shop = Connection("shop", Platform.REDIS)
    return Entry(REFUSED, "who", connection=shop, resource=Resource(shop, Kind.KEY, name))


async def test_long_names_in_waiting_notes_are_bounded_and_the_bound_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "NOTES_WAITING_BYTES", 10_000)
    async with running(tmp_path / "audit.jsonl") as journal:
        for turn in (1, 2):
            for _ in range(5):
                journal.note(refusal(b"x" * 4_000))

            assert journal.counts.notes_lost == 2 * turn
            with trio.fail_after(2):
                while journal.counts.written < 3 * turn:
                    await trio.sleep(0.001)


async def test_a_change_of_rules_is_kept_however_many_refusals_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "NOTES_WAITING", 3)
    path = tmp_path / "audit.jsonl"
    async with running(path) as journal:
        for _ in range(5):
            journal.note(refusal(b"k"))
        journal.note(Entry(RULE_DELETED, "store"))

        assert journal.counts.notes_lost == 2
        with trio.fail_after(2):
            while journal.counts.written < 4:
                await trio.sleep(0.001)

    assert RULE_DELETED.encode() in lines_of(path)[-1]


async def test_without_a_thread_to_write_in_there_is_no_receipt_and_the_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("can't start new thread")

    async with running(tmp_path / "audit.jsonl") as journal:
        with monkeypatch.context() as patch:
            patch.setattr(trio.to_thread, "run_sync", no_thread)
            assert await journal.record((entry(1),)) is None
            assert journal.failing

        receipts = await journal.record((entry(2),))

    assert receipts is not None
    assert receipts[0].seq == 1
