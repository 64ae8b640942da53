"""Directories of rule files: all or nothing, never a mixture, and when a change is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rules.store import document, files
from rules.store.files import Settle, fingerprint, read_directory
from rules.store.reading import Reading

RULE = "rules: [{name: %s, platform: redis, resources: [a], mask_all: true}]\n"


def names(reading: Reading) -> list[str]:
    assert [str(each) for each in reading.problems] == []
    assert reading.book is not None
    return [rule.name for rule in reading.book.rules]


def told(reading: Reading) -> list[str]:
    assert reading.book is None
    return [str(each.place) for each in reading.problems]


def swap(directory: Path, version: str, texts: dict[str, str]) -> None:
    """What the kubelet does: a new directory, a new `..data` renamed over the old, links, the old one removed."""
    new = directory / f"..{version}"
    new.mkdir()
    for name, text in texts.items():
        (new / name).write_text(text)
    old = (directory / "..data").readlink() if (directory / "..data").is_symlink() else None
    (directory / "..data_tmp").symlink_to(new.name)
    (directory / "..data_tmp").rename(directory / "..data")
    for name in texts:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    for name in [path.name for path in directory.iterdir()]:
        if not name.startswith("..") and name not in texts:
            (directory / name).unlink()
    if old is not None:
        for path in (directory / old).iterdir():
            path.unlink()
        (directory / old).rmdir()


def test_every_rule_file_is_read_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(RULE % "b")
    (tmp_path / "a.yml").write_text(RULE % "a")
    (tmp_path / "B.yaml").write_text(RULE % "B")
    for skipped in ("a.test.yaml", "a.test.yml", ".hidden.yaml", "note.txt", "a.yaml~", "a.yaml.swp"):
        (tmp_path / skipped).write_text("not: [rules")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.yaml").write_text(RULE % "c")

    reading = read_directory(tmp_path)

    assert names(reading) == ["B", "a", "b"]
    assert reading.files == 3
    assert reading.settled


def test_places_are_spelled_with_the_path_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "a.yaml").write_text("rules: x\n")
    monkeypatch.chdir(tmp_path)

    assert told(read_directory("./rules.d")) == ["./rules.d/a.yaml:1:8"]


def test_one_broken_file_refuses_them_all_and_all_problems_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rules: [\n")
    (tmp_path / "b.yaml").write_text(RULE % "b")
    (tmp_path / "c.yaml").write_text("rules: x\nusers: y\n")

    assert told(read_directory(tmp_path)) == [f"{tmp_path}/a.yaml:2:1", f"{tmp_path}/c.yaml:1:8", f"{tmp_path}/c.yaml:2:8"]


@pytest.mark.parametrize("text", ["", "# later\n", "---\n"])
def test_an_empty_file_beside_a_good_one_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(RULE % "a")
    (tmp_path / "b.yaml").write_text(text)

    assert told(read_directory(tmp_path)) == [f"{tmp_path}/b.yaml:1:1"]


def test_no_rules_is_a_decision(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rules: []\n")

    assert names(read_directory(tmp_path)) == []


def test_a_directory_without_rule_files_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "a.test.yaml").write_text(RULE % "a")

    assert told(read_directory(tmp_path)) == [f"{tmp_path}:1:1"]


def test_a_lost_directory_is_no_state(tmp_path: Path) -> None:
    lost = read_directory(tmp_path / "gone")

    assert told(lost) == [f"{tmp_path}/gone:1:1"]
    assert not lost.settled
    assert fingerprint(tmp_path / "gone") == fingerprint(tmp_path / "gone")


def test_a_file_in_place_of_the_directory_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(RULE % "a")

    assert told(read_directory(tmp_path / "a.yaml")) == [f"{tmp_path}/a.yaml:1:1"]


def test_an_impossible_path_is_no_state() -> None:
    assert read_directory("a\0b").book is None
    assert fingerprint("a\0b") is not None


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(RULE % "a")
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "a.yaml":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    reading = read_directory(tmp_path)

    assert [str(each) for each in reading.problems] == [f"{tmp_path}/a.yaml:1:1: cannot be opened: permission denied"]
    assert not reading.settled


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_is_told_and_never_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "a.yaml").write_text(RULE % "a")
    make(tmp_path / "b.yaml")

    assert told(read_directory(tmp_path)) == [f"{tmp_path}/b.yaml:1:1"]


def test_a_file_name_cannot_forge_a_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb\udcff.yaml").write_text("rules: x\n")

    assert told(read_directory(tmp_path)) == [f"{tmp_path}/a?b?.yaml:1:8"]


def test_a_large_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"#" * (document.MAX_BYTES + 10))

    assert told(read_directory(tmp_path)) == [f"{tmp_path}/a.yaml:1:1"]


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 1), ("MAX_TOTAL_BYTES", 10)])
def test_a_directory_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    (tmp_path / "a.yaml").write_text(RULE % "a")
    (tmp_path / "b.yaml").write_text(RULE % "b")
    monkeypatch.setattr(files, limit, value)

    assert told(read_directory(tmp_path)) == [f"{tmp_path}:1:1"]


def test_a_linked_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text(RULE % "x")
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "a.yaml").symlink_to("../elsewhere/x")

    assert names(read_directory(tmp_path / "rules.d")) == ["x"]


def test_a_config_map_is_read(tmp_path: Path) -> None:
    swap(tmp_path, "1", {"a.yaml": RULE % "a", "b.yaml": RULE % "b", "c.test.yaml": "x"})
    before = fingerprint(tmp_path)

    assert names(read_directory(tmp_path)) == ["a", "b"]

    swap(tmp_path, "2", {"a.yaml": RULE % "a2", "c.yaml": RULE % "c"})

    assert names(read_directory(tmp_path)) == ["a2", "c"]
    assert fingerprint(tmp_path) != before


def test_a_swap_that_is_half_way_through_never_means_fewer_rules(tmp_path: Path) -> None:
    swap(tmp_path, "1", {"a.yaml": RULE % "a"})
    (tmp_path / "..2").mkdir()
    (tmp_path / "..2" / "a.yaml").write_text(RULE % "a")
    (tmp_path / "..2" / "b.yaml").write_text(RULE % "b")
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    assert names(read_directory(tmp_path)) == ["a", "b"]


def test_own_files_beside_a_config_map_count(tmp_path: Path) -> None:
    swap(tmp_path, "1", {"a.yaml": RULE % "a"})
    (tmp_path / "own.yaml").write_text(RULE % "own")

    assert names(read_directory(tmp_path)) == ["a", "own"]


def test_a_config_map_whose_data_is_lost_is_no_state(tmp_path: Path) -> None:
    swap(tmp_path, "1", {"a.yaml": RULE % "a"})
    (tmp_path / "own.yaml").write_text(RULE % "own")
    (tmp_path / "..1").rename(tmp_path / "..gone")

    assert told(read_directory(tmp_path)) == [f"{tmp_path}:1:1"]

    (tmp_path / "..data").unlink()
    (tmp_path / "..data").write_text("x")

    assert told(read_directory(tmp_path)) == [f"{tmp_path}:1:1"]


@pytest.mark.slow
def test_two_hundred_swaps_never_show_a_mixed_set(tmp_path: Path) -> None:
    count = 6
    swap(tmp_path, "0", {f"{n}.yaml": RULE % f"v0-{n}" for n in range(count)})
    stopped = threading.Event()

    def swaps() -> None:
        for version in range(1, 201):
            swap(tmp_path, str(version), {f"{n}.yaml": RULE % f"v{version}-{n}" for n in range(count)})
            stopped.wait(0.002)
        stopped.set()

    thread = threading.Thread(target=swaps)
    thread.start()
    good = 0
    try:
        while not stopped.is_set():
            reading = read_directory(tmp_path)
            if reading.book is None:
                assert not reading.settled
                continue
            good += 1
            versions = {rule.name.split("-")[0] for rule in reading.book.rules}
            assert len(versions) == 1
            assert len(reading.book.rules) == count
    finally:
        stopped.set()
        thread.join()

    assert good > 0


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(RULE % f"old-{name}")
    real, calls = files._read, []

    def reads(source: files._Source) -> bytes:
        data = real(source)
        calls.append(source.name)
        if len(calls) == 1:
            for name in ("a", "b"):
                (tmp_path / f"{name}.yaml").write_text(RULE % f"newer-{name}")
        return data

    monkeypatch.setattr(files, "_read", reads)

    assert names(read_directory(tmp_path)) == ["newer-a", "newer-b"]


def test_a_directory_that_keeps_changing_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("rules: []")
    real, calls = files._read, []

    def reads(source: files._Source) -> bytes:
        calls.append(source.name)
        (tmp_path / "a.yaml").write_text("rules: []" + " " * len(calls))
        return real(source)

    monkeypatch.setattr(files, "_read", reads)
    reading = read_directory(tmp_path)

    assert told(reading) == [f"{tmp_path}:1:1"]
    assert not reading.settled
    assert len(calls) == files.TRIES


def test_reading_leaves_no_descriptor_open(tmp_path: Path) -> None:
    swap(tmp_path, "1", {"a.yaml": RULE % "a"})
    (tmp_path / "b.yaml").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        read_directory(tmp_path)
        fingerprint(tmp_path)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (path / "a.yaml").write_text("rules: [ ]"),
        lambda path: (path / "b.yaml").write_text("rules: []"),
        lambda path: (path / "a.yaml").unlink(),
        lambda path: (path / "a.yaml").rename(path / "c.yaml"),
        lambda path: (path / "a.yaml").chmod(0o600),
        lambda path: path.rename(path.with_name("moved")),
    ],
)
def test_a_change_changes_the_fingerprint(tmp_path: Path, change: Callable[[Path], object]) -> None:
    directory = tmp_path / "rules.d"
    directory.mkdir()
    (directory / "a.yaml").write_text("rules: []")
    before = fingerprint(directory)
    assert before == fingerprint(directory)

    change(directory)

    assert fingerprint(directory) != before


def test_a_linked_directory_that_is_swapped_changes_the_fingerprint(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(RULE % name)
    (tmp_path / "rules.d").symlink_to("one")
    before = fingerprint(tmp_path / "rules.d")
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").rename(tmp_path / "rules.d")

    assert fingerprint(tmp_path / "rules.d") != before
    assert names(read_directory(tmp_path / "rules.d")) == ["two"]


def test_the_first_state_is_due_at_once_and_once() -> None:
    settle = Settle()

    assert settle.due("a", 0.0)
    assert not settle.due("a", 10.0)
    assert not settle.waiting


def test_a_change_is_due_after_quiet() -> None:
    settle = Settle()
    settle.due("a", 0.0)

    assert not settle.due("b", 10.0)
    assert settle.waiting
    assert not settle.due("b", 10.1875)
    assert settle.due("b", 10.25)
    assert not settle.due("b", 10.4)
    assert not settle.waiting


def test_a_further_change_starts_the_quiet_anew_but_not_for_ever() -> None:
    settle = Settle()
    settle.due(0, 0.0)
    due = [tenth for tenth in range(30) if settle.due(tenth + 1, 10 + tenth / 10)]

    assert due == [10, 21]


def test_a_change_that_is_undone_is_none() -> None:
    settle = Settle()
    settle.due("a", 0.0)
    settle.due("b", 1.0)
    settle.due("a", 1.1)

    assert not settle.due("a", 1.5)
    assert not settle.waiting


def test_a_reading_that_is_not_trusted_is_due_again() -> None:
    settle = Settle()
    settle.due("a", 0.0)
    settle.again()

    assert settle.due("a", 0.1)
    assert not settle.due("a", 0.2)


def test_an_error_while_listing_or_reading_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("rules: []")

    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", broken)
        assert told(read_directory(tmp_path)) == [f"{tmp_path}/a.yaml:1:1"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", broken)
        reading = read_directory(tmp_path)

    assert [str(each) for each in reading.problems] == [f"{tmp_path}:1:1: cannot be listed: input/output error"]


def test_a_directory_that_is_swapped_away_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "rules.d"
    for name in ("rules.d", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(RULE % name)
    real = files._read
    calls: list[str] = []

    def reads(source: files._Source) -> bytes:
        if not calls:
            directory.rename(tmp_path / "old")
            (tmp_path / "new").rename(directory)
        calls.append(source.name)
        return real(source)

    monkeypatch.setattr(files, "_read", reads)

    assert names(read_directory(directory)) == ["new"]


def test_a_directory_that_is_taken_away_while_it_is_read_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "rules.d"
    directory.mkdir()
    (directory / "a.yaml").write_text(RULE % "a")
    real = files._read

    def reads(source: files._Source) -> bytes:
        directory.rename(tmp_path / "old")
        return real(source)

    monkeypatch.setattr(files, "_read", reads)

    assert told(read_directory(directory)) == [f"{directory}:1:1"]
