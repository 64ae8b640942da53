"""The watch on a real directory."""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from proxy.runtime.current import Current
from proxy.runtime.journal import Journal
from proxy.runtime.log import Log
from proxy.runtime.watch import Watch
from rules.model import Limits
from rules.store.files import FileStore
from rules.store.reading import Reading

pytestmark = pytest.mark.slow  # a change is seen at the next look, and settles first

LIVE_S = 2.0

RULES = """\
rules:
  - name: {name}
    platform: redis
    resources: ["customer:*"]
    mask_all: true
    compliance: [GDPR]
"""


@dataclass
class Watched:
    directory: Path
    current: Current
    watch: Watch
    log: io.StringIO
    audit: Path

    def write(self, text: str, name: str = "rules.yaml") -> None:
        new = self.directory / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        new.rename(self.directory / name)

    def events(self) -> list[tuple[str, str]]:
        entries = [json.loads(line) for line in self.audit.read_text(encoding="ascii").splitlines()]
        return [(entry["event"], "".join(rule["name"] for rule in entry["rules"])) for entry in entries]

    def logged(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


async def until(holds: Callable[[], bool]) -> None:
    """Waits for a condition, at most for as long as a change may take to be live."""
    with trio.fail_after(LIVE_S):
        while not holds():
            await trio.sleep(0.01)


@asynccontextmanager
async def watching(tmp_path: Path, first: str | None = None) -> AsyncIterator[Watched]:
    directory = tmp_path / "rules.d"
    directory.mkdir()
    stream = io.StringIO()
    log = Log(stream)
    current = Current()
    journal = Journal(tmp_path / "audit.jsonl", log)
    watched = Watched(
        directory, current, Watch(FileStore(directory), current, journal, Limits(), log), stream, tmp_path / "audit.jsonl"
    )
    if first is not None:
        watched.write(first)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        nursery.start_soon(watched.watch.run)
        await watched.watch.first_read.wait()
        yield watched
        nursery.cancel_scope.cancel()
    journal.release()
    assert log.unknown_keys == 0


def names(watched: Watched) -> list[str]:
    return [rule.name for rule in watched.current.policy.rules]


async def test_before_the_first_good_read_the_policy_is_closed(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        assert watched.current.policy.is_closed
        assert [str(problem.place.file) for problem in watched.current.problems] == [str(watched.directory)]

        watched.write(RULES.format(name="first"))
        await until(lambda: names(watched) == ["first"])

    assert not watched.current.problems


async def test_a_change_is_live_in_two_seconds_and_everybody_is_told(tmp_path: Path) -> None:
    async with watching(tmp_path, RULES.format(name="first")) as watched:
        told: list[str] = []
        watched.current.subscribe(lambda: told.append("changed"))
        watched.write(RULES.format(name="second"))
        await until(lambda: names(watched) == ["second"])

    assert told == ["changed"]


async def test_a_broken_state_keeps_the_old_one_and_is_logged_once_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[Reading] = []

    def counted(store: FileStore) -> Reading:
        readings.append(read(store))
        return readings[-1]

    read = FileStore.read
    monkeypatch.setattr(FileStore, "read", counted)
    async with watching(tmp_path, RULES.format(name="first")) as watched:
        watched.write("rules:\n  - name: x\n    platfrom: redis\n", "broken.yaml")
        await until(lambda: bool(watched.current.problems))

        assert names(watched) == ["first"]

        count = len(readings)
        watched.watch.reread()
        await until(lambda: len(readings) > count)

        logged = [(line["place"], line["message"]) for line in watched.logged("rules-refused")]
        assert len(logged) == len(set(logged))
        assert f"{watched.directory}/broken.yaml:3:5" in [place for place, _ in logged]

        (watched.directory / "broken.yaml").unlink()
        await until(lambda: not watched.current.problems)


async def test_a_lost_directory_keeps_the_old_rules_and_heals(tmp_path: Path) -> None:
    async with watching(tmp_path, RULES.format(name="first")) as watched:
        shutil.move(watched.directory, tmp_path / "elsewhere")
        await until(lambda: bool(watched.current.problems))

        assert names(watched) == ["first"]

        shutil.move(tmp_path / "elsewhere", watched.directory)
        await until(lambda: not watched.current.problems)


async def test_a_disk_that_hangs_keeps_the_old_rules_and_heals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def hangs(store: FileStore) -> Reading:
        goes_on.wait(10)
        return read(store)

    read = FileStore.read
    monkeypatch.setattr(FileStore, "limit_s", 0.1)
    async with watching(tmp_path, RULES.format(name="first")) as watched:
        monkeypatch.setattr(FileStore, "read", hangs)
        watched.watch.reread()
        await until(lambda: bool(watched.current.problems))

        assert names(watched) == ["first"]

        goes_on.set()
        await until(lambda: not watched.current.problems)


async def test_rules_and_access_are_audited_as_they_change(tmp_path: Path) -> None:
    async with watching(tmp_path, RULES.format(name="first")) as watched:
        watched.write(RULES.format(name="first").replace("GDPR", "PCI"))
        await until(lambda: watched.current.policy.rules[0].compliance == ("PCI",))
        watched.write(RULES.format(name="second") + "users:\n  carol: {disabled: true}\n")
        await until(lambda: names(watched) == ["second"])
        await until(lambda: len(watched.events()) == 5)

    create, update, delete, access = (
        "configuration.masking-rule.create",
        "configuration.masking-rule.update",
        "configuration.masking-rule.delete",
        "configuration.masking-access.update",
    )
    assert watched.events() == [(create, "first"), (update, "first"), (create, "second"), (delete, "first"), (access, "")]


async def test_a_hearer_that_left_is_not_told(tmp_path: Path) -> None:
    async with watching(tmp_path, RULES.format(name="first")) as watched:
        told: list[str] = []

        def hear() -> None:
            told.append("changed")

        watched.current.subscribe(hear)
        watched.current.unsubscribe(hear)
        watched.write(RULES.format(name="second"))
        await until(lambda: names(watched) == ["second"])

    assert not told


async def test_without_a_thread_to_read_in_the_old_rules_stay_and_it_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("can't start new thread")

    async with watching(tmp_path, RULES.format(name="first")) as watched:
        with monkeypatch.context() as patch:
            patch.setattr(trio.to_thread, "run_sync", no_thread)
            watched.watch.reread()
            await until(lambda: bool(watched.current.problems))

            assert names(watched) == ["first"]

        await until(lambda: not watched.current.problems)
