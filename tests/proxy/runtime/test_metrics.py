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
from rules.model import Hit


def test_counts_are_told_by_connection_and_rule_and_by_nothing_a_reader_sends(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "audit.jsonl", Log(io.StringIO()))
    tally = Tally()
    tally.count([Hit("$.mail", "partial", 'say "hi"\n'), Hit("$.mail", "partial", 'say "hi"\n')], "not JSON")
    tally.refusals[""] += 1
    tally.unmasked_reads = 3
    page = Metrics(Counted("1.2", Census(5), Current(), journal, {"shop": tally}, {"shop": "redis"})).page().decode()
    journal.release()

    expected = [
        'veil_values_masked_total{connection="shop",method="partial",platform="redis",rule="say \\"hi\\"\\n"} 2.0',
        'veil_values_masked_whole_total{connection="shop",platform="redis",reason="not JSON"} 1.0',
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
    assert "$.mail" not in page
