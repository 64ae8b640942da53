"""The metrics page."""

from __future__ import annotations

import io
from pathlib import Path

from proxy.core.tally import Tally
from proxy.runtime.current import Current
from proxy.runtime.journal import Journal
from proxy.runtime.listen import Census
from proxy.runtime.log import Log
from proxy.runtime.metrics import REASONS, Counted, Metrics
from rules.model import Connection, Platform, RuleBook
from rules.policy import Policy
from rules.store.files import read_directory


def _page(
    tmp_path: Path,
    *tallies: Tally,
    names: tuple[str, ...] = (),
    current: Current | None = None,
    log: Log | None = None,
    census: Census | None = None,
) -> list[str]:
    log = log or Log(io.StringIO())
    journal = Journal(tmp_path / "audit.jsonl", log)
    connections = tuple(
        Connection(name, Platform.REDIS) for name in names or tuple(f"c{number}" for number, _ in enumerate(tallies))
    )
    named = {connection.name: tally for connection, tally in zip(connections, tallies, strict=True)}
    page = Metrics(Counted("1.2", census or Census(5), current or Current(), journal, log, named, connections)).page().decode()
    journal.release()
    return page.splitlines()


def _book(tmp_path: Path, text: str) -> RuleBook:
    folder = tmp_path / "rules.d"
    folder.mkdir()
    (folder / "rules.yaml").write_text(text, encoding="utf-8")
    book = read_directory(folder).book
    assert book is not None
    return book


def test_counts_are_told_by_connection_and_rule_and_by_nothing_a_reader_sends(tmp_path: Path) -> None:
    tally = Tally()
    tally.count({('say "hi"\n', "partial"): 2}, {"not JSON": 1})
    tally.refusals[""] += 1
    tally.unmasked_reads = 3
    lines = _page(tmp_path, tally, names=("shop",))

    expected = [
        'veil_values_masked_total{connection="shop",method="partial",platform="redis",rule="say \\"hi\\"\\n"} 2.0',
        'veil_values_masked_whole_total{reason="not JSON"} 1.0',
        'veil_refusals_total{connection="shop",platform="redis",rule=""} 1.0',
        'veil_unmasked_reads_total{connection="shop",platform="redis"} 3.0',
        "veil_connections 0.0",
        "veil_connections_total 0.0",
        "veil_rules 0.0",
        "veil_rules_read_timestamp_seconds 0.0",
        "veil_rules_last_reload_successful 0.0",
        "veil_audit_entries_total 0.0",
        "veil_audit_failures_total 0.0",
        "veil_audit_failing 0.0",
        "veil_audit_notes_lost_total 0.0",
        "veil_connections_limit 5.0",
        "veil_log_lines_lost_total 0.0",
        "veil_rules_problems 0.0",
    ]
    assert [line for line in expected if line not in lines] == []


def test_values_masked_whole_are_told_by_reason_alone_over_all_connections(tmp_path: Path) -> None:
    one, other = Tally(), Tally()
    one.count({}, {"not JSON": 1, "too large": 1})
    other.count({}, {"not JSON": 2})
    told = [line for line in _page(tmp_path, one, other) if line.startswith("veil_values_masked_whole_total")]

    counts = {**dict.fromkeys(REASONS, 0.0), "not JSON": 3.0, "too large": 1.0}
    expected = [f'veil_values_masked_whole_total{{reason="{reason}"}} {count}' for reason, count in counts.items()]
    assert told == expected


def test_refusals_read_0_before_the_first(tmp_path: Path) -> None:
    assert 'veil_refusals_total{connection="c0",platform="redis",rule=""} 0.0' in _page(tmp_path, Tally())


def test_masking_seconds_are_a_histogram_over_all_connections(tmp_path: Path) -> None:
    one, other = Tally(), Tally()
    for tally, seconds in ((one, 0.0001), (one, 0.004), (other, 9.0)):
        tally.count({("R", "redact"): 1}, {})
        tally.worked(seconds)
    told = [line for line in _page(tmp_path, one, other) if "veil_masking_seconds" in line]

    assert told[1] == "# TYPE veil_masking_seconds histogram"
    assert told[2] == 'veil_masking_seconds_bucket{le="0.0001"} 1.0'
    assert 'veil_masking_seconds_bucket{le="0.0025"} 1.0' in told
    assert 'veil_masking_seconds_bucket{le="0.005"} 2.0' in told
    assert 'veil_masking_seconds_bucket{le="1.0"} 2.0' in told
    assert told[-3:] == [
        'veil_masking_seconds_bucket{le="+Inf"} 3.0',
        "veil_masking_seconds_count 3.0",
        "veil_masking_seconds_sum 9.0041",
    ]


RULES = """
rules:
  - {name: Here, platform: redis, resources: ["a:*"], mask_all: true}
  - {name: Also here, platform: redis, scope: {connection: shop}, resources: ["b:*"], mask_all: true}
  - {name: Elsewhere, platform: redis, scope: {connection: other}, resources: ["c:*"], mask_all: true}
  - {name: Switched off, platform: redis, resources: ["d:*"], mask_all: true, enabled: false}
  - {name: Of another platform, platform: memcached, resources: ["e:*"], mask_all: true}
"""


def test_the_rules_of_a_connection_are_those_that_are_enabled_and_apply_to_it(tmp_path: Path) -> None:
    current = Current()
    current.publish(Policy(_book(tmp_path, RULES)), 1.0)
    lines = _page(tmp_path, Tally(), Tally(), names=("shop", "third"), current=current)

    assert 'veil_connection_rules{connection="shop",platform="redis"} 2.0' in lines
    assert 'veil_connection_rules{connection="third",platform="redis"} 1.0' in lines


def test_readers_and_brokers_that_were_not_reached_are_told_by_connection(tmp_path: Path) -> None:
    census = Census(5)
    census.of_connection["c0"], census.unreached["c0"] = 7, 2
    lines = _page(tmp_path, Tally(), census=census)

    assert 'veil_connection_readers_total{connection="c0",platform="redis"} 7.0' in lines
    assert 'veil_upstream_connect_failures_total{connection="c0",platform="redis"} 2.0' in lines


def test_lines_of_the_log_that_nobody_took_are_counted(tmp_path: Path) -> None:
    stream = io.StringIO()
    log = Log(stream)
    stream.close()
    log.info("serving")

    assert "veil_log_lines_lost_total 1.0" in _page(tmp_path, log=log)


def test_the_process_tells_what_it_takes_of_the_machine(tmp_path: Path) -> None:
    told = {line.split(" ")[0] for line in _page(tmp_path)}

    assert {"process_start_time_seconds", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"} <= told
