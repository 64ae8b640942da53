"""The metrics page."""

from __future__ import annotations

import io
from pathlib import Path

from proxy.core.tally import Tally
from proxy.runtime.current import Current
from proxy.runtime.journal import Journal
from proxy.runtime.listen import Census
from proxy.runtime.log import Log
from proxy.runtime.metrics import Counted, Metrics


def test_counts_are_told_by_connection_and_rule_and_by_nothing_a_reader_sends(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "audit.jsonl", Log(io.StringIO()))
    tally = Tally()
    tally.count({('say "hi"\n', "partial"): 2}, {"not JSON": 1})
    tally.refusals[""] += 1
    tally.unmasked_reads = 3
    page = Metrics(Counted("1.2", Census(5), Current(), journal, {"shop": tally}, {"shop": "redis"})).page().decode()
    journal.release()

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
    ]
    lines = page.splitlines()
    assert [line for line in expected if line not in lines] == []


def _page(tmp_path: Path, *tallies: Tally) -> list[str]:
    journal = Journal(tmp_path / "audit.jsonl", Log(io.StringIO()))
    named = {f"c{number}": tally for number, tally in enumerate(tallies)}
    page = Metrics(Counted("1.2", Census(5), Current(), journal, named, dict.fromkeys(named, "redis"))).page().decode()
    journal.release()
    return page.splitlines()


def test_values_masked_whole_are_told_by_reason_alone_over_all_connections(tmp_path: Path) -> None:
    one, other = Tally(), Tally()
    one.count({}, {"not JSON": 1, "too large": 1})
    other.count({}, {"not JSON": 2})
    told = [line for line in _page(tmp_path, one, other) if line.startswith("veil_values_masked_whole_total")]

    expected = [
        'veil_values_masked_whole_total{reason="not JSON"} 3.0',
        'veil_values_masked_whole_total{reason="too large"} 1.0',
    ]
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
