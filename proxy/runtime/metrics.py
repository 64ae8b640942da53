"""The metrics page: read from the process's own counts when it is asked for.

Labels are names out of the config and of rules, and fixed words; never a resource's name or a value.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.core.tally import BOUNDS_S, Tally
from rules.scan import ENGINE

from .current import Current
from .journal import Journal
from .listen import Census

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Counted:
    """Where the counts are. `platforms` gives the platform of each connection that has a tally."""

    version: str
    census: Census
    current: Current
    journal: Journal
    tallies: Mapping[str, Tally]
    platforms: Mapping[str, str]


class Metrics(Collector):
    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def page(self) -> bytes:
        """The whole page, Prometheus text format."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the registry need not collect when this is registered."""
        return ()

    def collect(self) -> Iterable[Metric]:
        counted = self._counted
        yield from self._process()
        yield from self._contents()
        written = CounterMetricFamily("veil_audit_entries", "Entries on stable storage.")
        written.add_metric([], counted.journal.counts.written)
        yield written
        failed = CounterMetricFamily("veil_audit_failures", "Reads that stayed masked because they could not be recorded.")
        failed.add_metric([], counted.journal.counts.failures)
        yield failed
        lost = CounterMetricFamily("veil_audit_notes_lost", "Entries that nobody waited for and that could not be kept.")
        lost.add_metric([], counted.journal.counts.notes_lost)
        yield lost

    def _process(self) -> Iterable[Metric]:
        counted = self._counted
        build = GaugeMetricFamily("veil_build_info", "Always 1.", labels=["version", "python", "scanner"])
        build.add_metric([counted.version, platform.python_version(), ENGINE], 1)
        yield build
        readers = GaugeMetricFamily("veil_connections", "Readers connected now.")
        readers.add_metric([], counted.census.open)
        yield readers
        total = CounterMetricFamily("veil_connections", "Readers accepted.")
        total.add_metric([], counted.census.total)
        yield total
        away = CounterMetricFamily("veil_connections_turned_away", "Readers closed at once because of max_connections.")
        away.add_metric([], counted.census.turned_away)
        yield away
        policy = counted.current.policy
        rules = GaugeMetricFamily("veil_rules", "Rules in force, enabled or not.")
        rules.add_metric([], len(policy.rules))
        yield rules
        read = GaugeMetricFamily("veil_rules_read_timestamp_seconds", "When the rules in force were read; 0 before the first.")
        read.add_metric([], counted.current.read_at_s or 0)
        yield read
        good = GaugeMetricFamily("veil_rules_last_reload_successful", "1 while the newest state of the rules is in force.")
        good.add_metric([], int(counted.current.is_read and not counted.current.problems))
        yield good

    def _contents(self) -> Iterable[Metric]:
        where = ["platform", "connection"]
        masked = CounterMetricFamily("veil_values_masked", "Fields masked.", labels=[*where, "rule", "method"])
        whole = CounterMetricFamily("veil_values_masked_whole", "Values masked whole.", labels=["reason"])
        refused = CounterMetricFamily("veil_refusals", "Operations refused.", labels=[*where, "rule"])
        unmasked = CounterMetricFamily("veil_unmasked_reads", "Reads shown unmasked, each recorded.", labels=where)
        reasons: Counter[str] = Counter()
        for connection, growing in self._counted.tallies.items():
            tally = growing.copied()
            here = [self._counted.platforms.get(connection, ""), connection]
            for (rule, method), count in tally.masked.items():
                masked.add_metric([*here, rule, method], count)
            reasons.update(tally.whole)
            for rule, count in {"": 0, **tally.refusals}.items():
                refused.add_metric([*here, rule], count)
            unmasked.add_metric(here, tally.unmasked_reads)
        for reason, count in reasons.items():
            whole.add_metric([reason], count)
        yield from (masked, whole, refused, unmasked, self._spans())

    def _spans(self) -> Metric:
        spans = HistogramMetricFamily("veil_masking_seconds", "Time that masking the answers of a server took.")
        tallies = [tally.copied() for tally in self._counted.tallies.values()]
        buckets, total = [], 0
        for position, bound in enumerate((*map(str, BOUNDS_S), "+Inf")):
            total += sum(tally.spans[position] for tally in tallies)
            buckets.append((bound, total))
        spans.add_metric([], buckets, sum(tally.span_s for tally in tallies))
        return spans
