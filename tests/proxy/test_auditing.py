"""`veil audit verify` and `search`: every way of tampering is told with its line, and what is asked for is found."""

from __future__ import annotations

import errno
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy import auditing, cli
from proxy.runtime.trail import FileTrail
from proxy.settings.model import AuditRedis
from rules.audit import READ_UNMASKED, REFUSED, Entry, RuleTag, chain
from rules.model import Connection, Kind, Platform, Resource

SHOP = Connection("shop", Platform.REDIS, "test")
TAG = RuleTag("Contact", ("GDPR",), "contact", "high")
CONFIG = (
    "store: {files: {directory: .}}\naudit: {file: {path: audit.jsonl}}\nconnections:\n"
    "  - {name: shop, platform: redis, listeners: [{protocol: redis, listen: 127.0.0.1:0, upstream: 127.0.0.1:1}]}\n"
)
Edit = Callable[[list[str]], object]


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    writer = FileTrail(path)
    for number in range(1, 7):
        name = f"customer:{number}".encode()
        entry = Entry(
            READ_UNMASKED if number % 2 else REFUSED,
            "alice" if number < 4 else "bob",
            "p",
            SHOP,
            "redis",
            Resource(SHOP, Kind.KEY, name),
            (TAG,),
        )
        writer.append([(entry, f"2026-11-30T1{number}:00:00.000Z")])
    writer.close()
    return path


def edit(path: Path, change: Edit) -> None:
    lines = path.read_text().splitlines(keepends=True)
    change(lines)
    path.with_name("audit.jsonl.head").unlink()
    path.write_text("".join(lines))


def verify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["audit", "verify", *map(str, arguments)])
    told = capsys.readouterr()
    return code, told.out, told.err


def search(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[int], str]:
    code = cli.main(["audit", "search", *map(str, arguments)])
    told = capsys.readouterr()
    return code, [json.loads(line)["seq"] for line in told.out.splitlines()], told.err


def test_a_sound_trail_is_told_in_one_line_with_its_last_hash(trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = json.loads(trail.read_text().splitlines()[-1])["hash"]

    assert verify(capsys, trail) == (0, f"6 entries, seq 1..6, chain intact; last hash {last}\n", "")
    assert verify(capsys, trail, "--expect-last", last)[0] == 0


def forge(lines: list[str]) -> None:
    """An entry put between two others with a hash of its own."""
    told = json.loads(lines[1])
    line, _ = chain(Entry("e", "mallory"), "2026-11-30T12:30:00.000Z", 3, told["hash"])
    lines.insert(2, line + "\n")


TAMPERED: list[tuple[str, Edit, str]] = [
    ("deleted", lambda lines: lines.pop(2), ":3: out of the chain: entry 4 follows entry 2, 3 missing before it"),
    ("first deleted", lambda lines: lines.pop(0), ":1: begins with entry 2: entry 1 is missing"),
    ("changed", lambda lines: lines.__setitem__(2, lines[2].replace("alice", "mally")), ":3: entry 3 was changed"),
    ("inserted", forge, ":4: out of order: entry 3 follows entry 3"),
    ("reordered", lambda lines: lines.insert(2, lines.pop(3)), ":4: out of order: entry 3 follows entry 4"),
    ("duplicated", lambda lines: lines.insert(2, lines[2]), ":4: duplicated: entry 3 stands there twice"),
    ("half a line", lambda lines: lines.__setitem__(5, lines[5][:40]), ":6: half a line at the end"),
    ("no entry", lambda lines: lines.insert(2, "\x1b[31mhello\n"), ":3: not an audit entry"),
    ("too long", lambda lines: lines.insert(2, "x" * 5_000_000 + "\n"), ":3: not an audit entry: the line is too long"),
]


@pytest.mark.parametrize(("change", "expected"), [each[1:] for each in TAMPERED], ids=[each[0] for each in TAMPERED])
def test_tampering_is_told_with_its_line(trail: Path, capsys: pytest.CaptureFixture[str], change: Edit, expected: str) -> None:
    edit(trail, change)

    code, out, err = verify(capsys, trail)

    assert (code, out) == (1, "")
    assert f"{trail}{expected}" in err
    assert "chain broken" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("number", range(6))
def test_any_line_that_is_deleted_is_missed_while_the_head_is_there(
    trail: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    lines = trail.read_text().splitlines(keepends=True)
    with trail.open("r+") as opened:
        opened.write("".join(lines[:number] + lines[number + 1 :]))
        opened.truncate()

    assert verify(capsys, trail)[0] == 1


def test_a_cut_end_is_found_by_a_hash_noted_before_or_by_the_head(trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = verify(capsys, trail)[1].split()[-1]
    kept = trail.read_text().splitlines(keepends=True)[:-2]
    with trail.open("r+") as opened:
        opened.write("".join(kept))
        opened.truncate()

    assert "entries are missing at the end" in verify(capsys, trail)[2]
    trail.with_name("audit.jsonl.head").unlink()
    assert verify(capsys, trail)[0] == 0
    assert verify(capsys, trail, "--expect-last", last)[0] == 1


def put_in_place(trail: Path, lines: list[str]) -> None:
    """As an editor does: a new file under the old name."""
    new = trail.with_name("new")
    new.write_text("".join(lines))
    new.replace(trail)


def forged(lines: list[str], more: int) -> list[str]:
    """The same entries by somebody else, hashed anew, and so many behind them."""
    made, previous = [], "0" * 64
    for number in range(1, len(lines) + more + 1):
        line, previous = chain(Entry("e", "mallory"), "2026-11-30T11:00:00.000Z", number, previous)
        made.append(line + "\n")
    return made


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: lines[:-1], "ends with entry 5, and entry 6 was written: entries are missing at the end"),
        (lambda lines: [], "ends with entry 0, and entry 6 was written: entries are missing at the end"),
        (lambda lines: forged(lines, 0), "holds another entry 6 than was written"),
        (lambda lines: forged(lines, 2), "holds another entry 6 than was written"),
    ],
)
@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_that_was_put_in_the_place_of_the_trail_or_written_anew_lacks_what_the_head_says(
    trail: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[list[str]], list[str]],
    expected: str,
    *,
    in_place: bool,
) -> None:
    changed = change(trail.read_text().splitlines(keepends=True))
    if in_place:
        trail.write_text("".join(changed))
    else:
        put_in_place(trail, changed)

    code, _, err = verify(capsys, trail)
    assert (code, err.splitlines()[0]) == (1, f"{trail}: {expected}")


@pytest.mark.parametrize("follow", [True, False])
def test_a_copy_of_the_whole_trail_is_as_sound_as_the_trail(
    trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, follow: bool
) -> None:
    put_in_place(trail, trail.read_text().splitlines(keepends=True))
    if follow:
        FileTrail(trail).append([(Entry("e", "x"), "2026-11-30T18:00:00.000Z")])

    assert verify(capsys, trail)[0] == 0


def test_rotated_parts_are_one_chain_in_any_order_and_compressed(trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = []
    for number in range(3):
        part = trail.with_name(f"audit.jsonl.{number}")
        trail.rename(part)
        parts.append(part)
        FileTrail(trail).append([(Entry("e", "x"), "2026-11-30T18:00:00.000Z")])
    packed = trail.with_name("audit.jsonl.0.gz")
    packed.write_bytes(gzip.compress(parts[0].read_bytes()))
    parts[0].unlink()

    code, out, _ = verify(capsys, parts[2], trail, packed, parts[1])
    assert (code, out.partition(";")[0]) == (0, "9 entries, seq 1..9, chain intact")
    assert "8 missing before it" in verify(capsys, trail, packed, parts[1])[2]
    before = json.loads(parts[1].read_text().splitlines()[-1])["previous"]
    assert verify(capsys, "--after", before, parts[1], parts[2], trail)[0] == 0
    assert verify(capsys, "--after", "0" * 64, parts[1], parts[2], trail)[0] == 1
    assert verify(capsys, parts[1])[0] == 1


def test_the_parts_of_a_config_are_found(trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trail.rename(trail.with_name("audit.jsonl-20261130"))
    FileTrail(trail).append([(Entry("e", "x"), "2026-11-30T18:00:00.000Z")])
    config = tmp_path / "veil.yaml"
    config.write_text(CONFIG)

    assert verify(capsys, "--config", config)[1].startswith("7 entries, seq 1..7, chain intact")


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("cut", [True, False])
def test_a_trail_that_was_moved_away_is_sound_before_the_next_entry_unless_its_end_is_gone(
    trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, create: bool, cut: bool
) -> None:
    moved = trail.with_name("audit.jsonl.1")
    trail.rename(moved)
    if create:
        trail.touch()
    if cut:
        moved.write_text("".join(moved.read_text().splitlines(keepends=True)[:-1]))
    config = tmp_path / "veil.yaml"
    config.write_text(CONFIG)

    code, out, err = verify(capsys, "--config", config)
    assert code == cut
    if cut:
        assert f"{trail}: ends with entry 5, and entry 6 was written" in err
    else:
        assert out.startswith("6 entries, seq 1..6, chain intact")


def rotate(trail: Path, *, pack: bool) -> None:
    first = trail.with_name("audit.jsonl.1")
    if first.exists():
        first.rename(trail.with_name("audit.jsonl.2"))
    trail.rename(first)
    if pack:
        packed = trail.with_name("audit.jsonl.1.gz")
        packed.write_bytes(gzip.compress(first.read_bytes()))
        first.unlink()
    FileTrail(trail).append([(Entry("e", "x"), "2026-11-30T18:00:00.000Z")])


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("when", ["_seen", "_rotated", "_file", "_split"])
def test_a_rotation_while_a_trail_is_looked_for_or_read_breaks_no_chain(
    trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, when: str, *, pack: bool
) -> None:
    rotate(trail, pack=False)
    config = tmp_path / "veil.yaml"
    config.write_text(CONFIG)
    real = getattr(auditing, when)
    left = [None]

    def then_rotated(*arguments: object) -> object:
        found = real(*arguments)
        if left:
            left.pop()
            rotate(trail, pack=pack)
        return found

    monkeypatch.setattr(auditing, when, then_rotated)

    code, out, err = verify(capsys, "--config", config)
    assert (code, err) == (0, "")
    assert out.startswith(("7 entries, seq 1..7, chain intact", "8 entries, seq 1..8, chain intact"))


def test_a_part_that_is_being_packed_is_read_as_it_is(trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rotate(trail, pack=False)
    trail.with_name("audit.jsonl.1.gz").write_bytes(gzip.compress(b"half")[:-4])
    config = tmp_path / "veil.yaml"
    config.write_text(CONFIG)

    assert verify(capsys, "--config", config)[1].startswith("7 entries, seq 1..7, chain intact")


def test_more_parts_than_may_be_open_are_read_one_by_one(
    trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rotate(trail, pack=False)
    config = tmp_path / "veil.yaml"
    config.write_text(CONFIG)
    real = Path.open
    calls: list[Path] = []

    def opened(path: Path, *arguments: Any, **named: Any) -> object:
        calls.append(path)
        if calls.count(path) == 1 and path.name.startswith("audit"):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", opened)

    assert verify(capsys, "--config", config)[1].startswith("7 entries, seq 1..7, chain intact")


def test_a_trail_that_is_gone_with_its_head_cannot_be_read(
    trail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trail.rename(trail.with_name("audit.jsonl.1"))
    FileTrail(trail).append([(Entry("e", "x"), "2026-11-30T18:00:00.000Z")])
    trail.unlink()
    config = tmp_path / "veil.yaml"
    config.write_text(CONFIG)

    assert "entry 7 was written" in verify(capsys, "--config", config)[2]
    trail.with_name("audit.jsonl.head").unlink()
    assert "cannot be read" in verify(capsys, "--config", config)[2]


def test_a_new_part_without_an_entry_follows_from_the_hash_that_is_given(
    trail: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = verify(capsys, trail)[1].split()[-1]
    trail.rename(trail.with_name("audit.jsonl.1"))
    trail.touch()

    assert verify(capsys, trail, "--after", last)[0] == 0
    assert verify(capsys, trail)[0] == 1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["--who", "alice"], [1, 2, 3]),
        (["--rule", "Contact", "--event", "masking.*"], [2, 4, 6]),
        (["--event", READ_UNMASKED], [1, 3, 5]),
        (["--tag", "GDPR", "--tag", "high"], [1, 2, 3, 4, 5, 6]),
        (["--tag", "PCI"], []),
        (["--resource", "key=customer:[12]"], []),
        (["--resource", "key=*:2"], [2]),
        (["--resource", "topic=*"], []),
        (["--connection", "shop", "--since", "2026-11-30T13:00:00Z", "--until", "2026-11-30T14:00:00"], [3, 4]),
        (["--since", "0", "--who", "x"], []),
        (["--until", "1s"], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_search_prints_the_lines_that_fit(
    trail: Path, capsys: pytest.CaptureFixture[str], asked: list[str], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.runtime.clock.utc_seconds", lambda: 4_000_000_000.0)

    assert search(capsys, *asked, trail) == (0 if expected else 1, expected, "")


def test_a_search_tells_broken_lines_and_goes_on(trail: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(trail, lambda lines: lines.__setitem__(slice(1, 3), ["[" * 9_000 + "\n", lines[2].replace("alice", "mally")]))

    code, found, err = search(capsys, trail)

    assert (code, found) == (1, [1, 3, 4, 5, 6])
    assert f"{trail}:2: not an audit entry\n" in err
    assert f"{trail}:3: entry 3 was changed" in err


@pytest.mark.parametrize(
    "asked",
    [
        ["f", "--redis", "redis://h", "--stream", "s"],
        ["--redis", "x", "--stream", "s"],
        [],
        ["f", "--stream", "s"],
        ["f", "--ca", "c"],
    ],
)
@pytest.mark.parametrize("which", ["verify", "search"])
def test_what_is_asked_for_wrongly_is_a_usage_error(capsys: pytest.CaptureFixture[str], which: str, asked: list[str]) -> None:
    assert cli.main(["audit", which, *asked]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("asked", [["--since", "soon"], ["--resource", "customer"], ["--until", "9999999999d"]])
def test_filters_that_are_none_are_usage_errors(trail: Path, asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "search", str(trail), *asked]) == 2
    assert cli.main(["audit", "verify", str(trail), "--after", "x"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_what_cannot_be_read_is_a_problem_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8bnot really")

    for path in (tmp_path / "none", tmp_path, tmp_path / "bad.gz"):
        code, _, err = verify(capsys, path)
        assert code == 1
        assert f"{path}: cannot be read" in err
        assert verify(capsys, path, tmp_path / "none")[0] == 1
    assert verify(capsys, "--config", tmp_path / "none.yaml")[0] == 1
    assert verify(capsys, "--redis", "redis://127.0.0.1:1", "--stream", "s")[0] == 1


def test_the_stream_that_is_looked_at_is_that_of_a_config_that_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    expected = AuditRedis.model_fields["stream"].default

    assert f"/{expected}: " in verify(capsys, "--redis", "redis://127.0.0.1:1")[2]


def test_an_empty_trail_is_intact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").touch()

    assert verify(capsys, tmp_path / "empty") == (0, "0 entries, chain intact\n", "")
