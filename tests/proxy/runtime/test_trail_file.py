"""The audit file under several processes, rotation and kills: one chain, whatever happens to the file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from proxy.runtime.trail import FileTrail, RulesOf, TrailError
from proxy.runtime.trail.file import Head
from rules.audit import Entry, InForce, RuleTag, broken_links, read_link

TIME = "2026-11-30T10:00:00.000Z"
WRITER = """
import sys
from pathlib import Path
from proxy.runtime.trail import FileTrail
from rules.audit import Entry
trail = FileTrail(Path(sys.argv[1]))
trail.open()
for number in range(int(sys.argv[2])):
    (seq,) = trail.append([(Entry("e", f"{sys.argv[3]}-{number}"), "2026-11-30T10:00:00.000Z")])
    print(seq, flush=True)
"""


def put(trail: FileTrail, *who: str) -> list[int]:
    return trail.append([(Entry("e", each), TIME) for each in who])


def lines_of(*paths: Path) -> list[bytes]:
    return [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]


def start(path: Path, count: int, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(count), name], stdout=subprocess.PIPE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_two_writers_of_one_file_take_turns_on_one_chain(path: Path) -> None:
    first, second = FileTrail(path), FileTrail(path)
    first.open()
    second.open()

    numbers = [*put(first, "a"), *put(second, "b", "c"), *put(second, "d"), *put(first, "e")]

    assert numbers == [1, 2, 3, 4, 5]
    assert not list(broken_links(lines_of(path)))


@pytest.mark.slow
def test_processes_that_write_at_once_share_one_chain_over_rotations(path: Path) -> None:
    writers = [start(path, 60, name) for name in "abc"]
    parts: list[Path] = []
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for number in range(5):
        parts.append(path.with_name(f"part{number}"))
        path.rename(parts[-1])
        while not path.exists() and any(writer.poll() is None for writer in writers):
            os.sched_yield()
        if not path.exists():
            break
    for writer in writers:
        assert writer.communicate()[0] is not None
        assert writer.returncode == 0

    lines = lines_of(*parts, *([path] if path.exists() else []))
    assert len(lines) == 180
    assert not list(broken_links(lines))


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_chain_that_goes_on_and_holds_what_it_told(path: Path) -> None:
    stays = FileTrail(path)
    stays.open()
    for turn in range(5):
        writer = start(path, 10_000, f"turn{turn}")
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(3 + 5 * turn)]
        writer.send_signal(signal.SIGKILL)
        told += writer.communicate()[0].splitlines(keepends=True)
        put(stays, f"after{turn}")

        links = {link.seq for link in map(read_link, lines_of(path)) if link is not None}
        assert {int(line) for line in told if line.endswith(b"\n")} <= links
    assert not list(broken_links(lines_of(path)))


def test_a_half_line_of_a_killed_writer_is_cut_by_the_next(path: Path) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    with path.open("ab") as file:
        file.write(b'{"time":"2026')

    put(trail, "b")

    assert trail.cut_bytes == 13
    assert [b'"a"' in line for line in lines_of(path)] == [True, False]
    assert not list(broken_links(lines_of(path)))


def test_a_whole_line_that_its_writer_did_not_live_to_note_is_kept(path: Path) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    head = path.with_name("audit.jsonl.head").read_bytes()
    put(trail, "b")
    path.with_name("audit.jsonl.head").write_bytes(head)

    assert put(trail, "c") == [3]
    assert not list(broken_links(lines_of(path)))


def test_a_line_that_was_not_noted_before_the_file_was_moved_is_followed(path: Path) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    head = path.with_name("audit.jsonl.head").read_bytes()
    put(trail, "b")
    path.with_name("audit.jsonl.head").write_bytes(head)
    moved = path.with_name("audit.jsonl.1")
    path.rename(moved)

    assert put(FileTrail(path), "c") == [3]
    assert not list(broken_links(lines_of(moved, path)))


@pytest.mark.parametrize("create", [True, False], ids=["an empty one made by the rotation", "nothing there"])
@pytest.mark.parametrize("restart", [True, False])
def test_the_chain_goes_on_after_a_rotation(path: Path, *, create: bool, restart: bool) -> None:
    trail, moved = FileTrail(path), path.with_name("audit.jsonl.1")
    put(trail, "a", "b")
    path.rename(moved)
    if create:
        path.touch()
    if restart:
        trail.close()
        trail = FileTrail(path)
        trail.open()

    assert put(trail, "c") == [3]
    assert not list(broken_links(lines_of(moved, path)))
    assert list(broken_links(lines_of(path)))


@pytest.mark.parametrize("restart", [True, False])
def test_the_chain_goes_on_in_a_new_file_that_got_the_number_of_the_old_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, restart: bool
) -> None:
    trail = FileTrail(path)
    put(trail, "a", "b")
    before = path.read_bytes()
    path.unlink()  # moved away, compressed, and removed
    monkeypatch.setattr(Head, "is_in", lambda *_: True)
    if restart:
        trail.close()
        trail = FileTrail(path)
        trail.open()

    assert put(trail, "c") == [3]
    assert not list(broken_links([*before.splitlines(keepends=True), *lines_of(path)]))


def test_the_place_of_a_file_that_a_rotation_made_is_durable_before_its_first_entry(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    path.rename(path.with_name("audit.jsonl.1"))
    path.touch()
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append("folder" if os.path.samestat(os.fstat(fd), path.parent.stat()) else "file")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    put(trail, "b")

    assert synced == ["folder", "file"]


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("regrown", [True, False])
def test_a_file_cut_in_place_stops_the_trail_until_it_is_moved_away(path: Path, *, restart: bool, regrown: bool) -> None:
    trail = FileTrail(path)
    put(trail, "a", "b")
    size = path.stat().st_size
    os.truncate(path, 0)
    if regrown:
        path.write_bytes(b"x" * size * 2)
    if restart:
        trail.close()
        trail = FileTrail(path)
        with pytest.raises(TrailError, match="cut"):
            trail.open()

    with pytest.raises(TrailError, match="cut"):
        put(trail, "c")
    path.rename(path.with_name("cut"))

    assert put(trail, "d") == [3]


def test_an_older_copy_put_in_the_place_of_the_file_is_refused(path: Path) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    older = path.read_bytes()
    put(trail, "b")
    path.rename(path.with_name("moved"))
    path.write_bytes(older)

    with pytest.raises(TrailError, match="lacks entries"):
        put(trail, "c")


@pytest.mark.parametrize("head", [None, b"", b"{}", b"[]", b"nonsense", b'{"device":1,"inode":true,"end":-1,"seq":9,"hash":1}'])
def test_without_its_head_the_file_itself_tells_where_to_go_on(path: Path, head: bytes | None) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    place = path.with_name("audit.jsonl.head")
    place.unlink() if head is None else place.write_bytes(head)

    assert put(trail, "b") == [2]
    assert not list(broken_links(lines_of(path)))


def test_what_stands_in_the_way_of_the_head_is_an_error(path: Path) -> None:
    os.mkfifo(path.with_name("audit.jsonl.head"))

    with pytest.raises(TrailError, match="regular file"):
        FileTrail(path).open()


def test_a_fork_does_not_share_the_lock(path: Path) -> None:
    trail = FileTrail(path)
    put(trail, "a")
    before = trail._head_fd
    trail._process = -1
    put(trail, "b")

    assert trail._process == os.getpid()
    assert before >= 0
    assert not list(broken_links(lines_of(path)))


def rules(**digests: str) -> RulesOf:
    return RulesOf(InForce({name: (digest, RuleTag(name, ("GDPR",))) for name, digest in digests.items()}), "store")


def told(items: Sequence[bytes]) -> list[str]:
    return [line.split(b'"event":"')[1].split(b'"')[0].decode().removeprefix("configuration.masking-") for line in items]


def test_rules_are_told_once_whoever_reads_them_and_over_restarts(path: Path) -> None:
    first, second = FileTrail(path), FileTrail(path)
    first.append([(rules(r="1", s="1"), TIME)])
    second.append([(rules(r="1", s="1"), TIME)])
    assert told(lines_of(path)) == ["rule.create", "rule.create"]

    FileTrail(path).append([(rules(r="2"), TIME), (Entry("e", "x"), TIME), (rules(r="2"), TIME)])

    assert told(lines_of(path))[2:] == ["rule.update", "rule.delete", "e"]
    assert b"GDPR" in lines_of(path)[3]
    assert not list(broken_links(lines_of(path)))


def test_without_a_note_of_what_was_told_the_rules_are_told_again(path: Path) -> None:
    FileTrail(path).append([(rules(r="1"), TIME)])
    path.with_name("audit.jsonl.rules").write_text("{")
    FileTrail(path).append([(rules(r="1"), TIME)])

    assert told(lines_of(path)) == ["rule.create", "rule.create"]


def test_all_its_files_are_for_their_owner_alone(path: Path) -> None:
    FileTrail(path).append([(rules(r="1"), TIME)])

    assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
        "audit.jsonl": 0o600,
        "audit.jsonl.head": 0o600,
        "audit.jsonl.rules": 0o600,
    }
