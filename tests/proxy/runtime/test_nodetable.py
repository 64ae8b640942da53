"""The file that keeps which node has which port."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.addresses import Node
from proxy.runtime import nodetable
from proxy.runtime.nodetable import FILE_BYTES, NodeSettings, Seat, Table, TableError, is_served, seated


def node(number: int, host: str = "b", port: int = 9092) -> Node:
    return Node(number, host, port)


def slots(seats: dict[int, Seat]) -> dict[int, int]:
    return {number: seat.slot for number, seat in seats.items()}


def test_a_node_takes_the_slot_of_its_number_or_the_next_that_is_free() -> None:
    assert slots(seated({}, {}, [node(12), node(2), node(1)], 10)) == {1: 1, 2: 2, 12: 3}
    assert slots(seated({}, {}, [node(9), node(19)], 10)) == {9: 9, 19: 0}


def test_whoever_comes_first_leaves_the_others_their_own_slots() -> None:
    assert slots(seated({}, {}, [node(1), node(11), node(2)], 10)) == {1: 1, 2: 2, 11: 3}


def test_a_node_without_a_slot_is_missing() -> None:
    assert slots(seated({}, {}, [node(0), node(1), node(2)], 2)) == {0: 0, 1: 1}


def test_the_file_wins_over_memory_and_the_newest_address_over_both() -> None:
    found = {1: Seat(node(1, "file"), 5)}
    held = {1: Seat(node(1, "memory"), 1), 15: Seat(node(15), 5)}

    assert seated(found, held, [], 10) == {1: Seat(node(1, "file"), 5), 15: Seat(node(15), 6)}
    assert seated(found, held, [node(1, "new")], 10)[1] == Seat(node(1, "new"), 5)


def test_a_slot_behind_a_range_that_has_shrunk_is_given_anew() -> None:
    assert slots(seated({7: Seat(node(7), 7), 1: Seat(node(1), 1)}, {}, [], 2)) == {1: 1, 7: 0}


@given(st.lists(st.integers(0, 60)), st.lists(st.integers(0, 60)), st.integers(1, 20))
def test_no_slot_is_given_twice_and_none_is_taken_back(first: list[int], then: list[int], count: int) -> None:
    before = seated({}, {}, map(node, first), count)
    after = seated(before, {}, map(node, then), count)

    assert len(set(slots(after).values())) == len(after) == min(count, len({*first, *then}))
    assert {number: after[number] for number in before} == before


@pytest.mark.parametrize(
    "bad",
    [
        node(-1),
        node(2**31),
        node(1, ""),
        node(1, "x" * 256),
        node(1, "é"),
        node(1, "a\n"),
        node(1, "b", 0),
        node(1, "b", 65536),
    ],
)
def test_what_is_no_address_is_not_served(bad: Node) -> None:
    assert not is_served(bad)


def test_seats_are_the_same_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    assert Table(path, 10).open().seats == {}
    seats = Table(path, 10).take({}, [node(3), node(13)]).seats

    assert Table(path, 10).open().seats == seats == {3: Seat(node(3), 3), 13: Seat(node(13), 4)}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["nodes.json", "nodes.json.lock"]
    assert json.loads(path.read_text())["nodes"][0] == {"id": 3, "slot": 3, "host": "b", "port": 9092}


def test_a_table_put_there_by_another_looks_different(tmp_path: Path) -> None:
    one, two = Table(tmp_path / "t", 10), Table(tmp_path / "t", 10)
    seen = one.open().seen
    assert two.take({}, []).seen == seen == one.look(), "what is the same is not written again"
    assert two.take({}, [node(1)]).seen == one.look() != seen


ENTRY = '{"id": 1, "slot": 1, "host": "b", "port": 1}'
OTHER = '{"id": 2, "slot": 1, "host": "b", "port": 1}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        "\xff",
        '{"version": 2, "nodes": []}',
        '{"version": 1, "nodes": {}}',
        '{"version": 1, "nodes": [1]}',
        f'{{"version": 1, "nodes": [{ENTRY}, {ENTRY}]}}',
        f'{{"version": 1, "nodes": [{ENTRY}, {OTHER}]}}',
        f'{{"version": 1, "nodes": [{ENTRY.replace("1,", "true,", 1)}]}}',
        f'{{"version": 1, "nodes": [{ENTRY.replace(": 1}", ": 0}")}]}}',
        f'{{"version": 1, "nodes": [{ENTRY[:-1]}, "more": 1}}]}}',
        "[" * 100_000,
        " " * (FILE_BYTES + 1),
    ],
)
def test_a_damaged_table_is_told_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(TableError, match=r"nodes\.json is damaged"):
        Table(path, 10).open()
    with pytest.raises(TableError, match=r"nodes\.json is damaged"):
        Table(path, 10).take({}, [node(1)])
    assert path.read_bytes() == text.encode("latin-1")


def test_a_table_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="cannot be locked: No such file"):
        Table(tmp_path / "nowhere" / "t", 10).open()
    (tmp_path / "folder").mkdir()
    with pytest.raises(TableError, match="is not a file"):
        Table(tmp_path / "folder", 10).open()
    path = tmp_path / "t"
    Table(path, 10).open()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TableError, match="cannot be written: No space left"):
        Table(path, 10).open()
    with pytest.raises(TableError, match="cannot be written: No space left"):
        Table(path, 10).take({}, [node(1)])
    monkeypatch.undo()
    assert Table(path, 10).open().seats == {}
    assert not (tmp_path / "t.new").exists()


def test_two_who_name_nodes_at_once_give_no_slot_twice(tmp_path: Path) -> None:
    path = tmp_path / "t"

    def work(first: int) -> None:
        for number in range(first, 100, 2):
            Table(path, 10_000).take({}, [node(number * 10_000)])

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(Table(path, 10_000).open().seats) == 100


def test_whoever_reads_waits_for_whoever_writes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    Table(path, 10).open()
    done = threading.Event()
    with Path(f"{path}.lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def work() -> None:
            Table(path, 10).take({}, [node(1)])
            done.set()

        waiting = threading.Thread(target=work)
        waiting.start()
        assert not done.wait(0.1)
    assert done.wait(5)
    waiting.join()


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", 3), ("::1", 3), ("localhost", 6)])
def test_descriptors_are_counted_for_every_port(tmp_path: Path, host: str, expected: int) -> None:
    assert NodeSettings(tmp_path / "t", host, range(1, 4)).descriptors == expected
    assert NodeSettings(tmp_path / "t", sni="b{id}").slots == nodetable.MOST_NODES
