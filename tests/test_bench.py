"""The benchmark runs, and says what it says in the shape that others read. Nothing here is about speed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.parts import documents, fetches
from rules import scan
from tests.brokers.veil import TREE, environment


def run(*arguments: str, program: str = "engine") -> subprocess.CompletedProcess[bytes]:
    pytest.importorskip("orjson", reason="needs orjson: pip install 'veil[bench]'")
    return subprocess.run(
        [sys.executable, "-m", f"bench.{program}", *arguments], capture_output=True, env=environment(), cwd=TREE
    )


@pytest.mark.slow
def test_the_engine_tells_of_every_row_that_has_a_target_as_json() -> None:
    done = run("--json", "--quick")

    assert (done.returncode, done.stderr.decode()) == (0, "")
    rows = json.loads(done.stdout)
    assert {tuple(row) for row in rows} == {("name", "ratio", "target", "ok")}
    assert len({row["name"] for row in rows}) == len(rows) == 12 + 4 * (scan.ENGINE == "compiled")
    for row in rows:
        assert row["ratio"] > 0
        assert row["target"] > 0
        assert row["ok"] in (True, False)


@pytest.mark.slow
def test_the_engine_prints_a_table_for_people() -> None:
    done = run("--quick")

    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert f"scanner: {scan.ENGINE}" in done.stdout.decode()
    assert "parse, walk, write (orjson): ten paths" in done.stdout.decode()


@pytest.mark.slow
def test_kafka_tells_of_every_row_that_has_a_target_as_json() -> None:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'veil[bench]'")
    done = run("--json", "--quick", program="kafka")

    assert (done.returncode, done.stderr.decode()) == (0, "")
    rows = json.loads(done.stdout)
    assert {row["name"] for row in rows} == (
        {f"masked, {codec}, {how} marks" for codec in fetches.CODECS for how in ("with", "without")}
        if scan.ENGINE == "compiled"
        else set()
    )
    assert all(row["ratio"] > 0 and row["target"] > 0 for row in rows)


@pytest.mark.parametrize("codec", range(len(fetches.CODECS)))
def test_what_is_measured_is_masked_and_what_no_rule_covers_is_not(codec: int) -> None:
    section = fetches.section(codec, records=20, batches=3)
    masked, plain, bare = (
        fetches.Fetched(topic, section, markers=markers)
        for topic, markers in ((fetches.COVERED, True), (fetches.UNCOVERED, True), (fetches.COVERED, False))
    )

    assert masked.records_masked == bare.records_masked == 20
    assert plain.records_masked == 0
    assert masked.sent_bytes > bare.sent_bytes


def test_what_is_measured_as_not_compiled_calls_nothing_compiled() -> None:
    pytest.importorskip("orjson", reason="needs orjson: pip install 'veil[bench]'")
    from bench import engine

    def compiled() -> list[str]:
        return [name for name, each in vars(scan).items() if getattr(each, "__module__", "") == engine.COMPILED]

    before = compiled()
    with engine.pure():
        inside = compiled()

    assert inside == []
    assert compiled() == before
    assert (before != []) is (scan.ENGINE == "compiled")


@pytest.mark.parametrize("write", [documents.compact, documents.indented, documents.escaped])
@pytest.mark.parametrize("size", [1 << 10, 1 << 16])
def test_a_measured_value_has_its_size_to_the_byte_and_an_order_at_least(write: object, size: int) -> None:
    assert callable(write)
    value = write(size)

    assert len(value) == size
    assert len(json.loads(value)["orders"]) > 0
    assert value.isascii() is (write is documents.escaped)
    assert value == write(size)
