"""The metrics page: read from the process's own counts when it is asked for.

Labels are names out of the config and of rules, and fixed words; never a resource's name or a value.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from proxy.core.tally import BOUNDS_S, Tally
from rules.model import Connection
from rules.plan import NOT_A_HASH, NOT_JSON, NOT_TEXT, TOO_DEEP, TOO_LARGE, TOO_MANY_PATHS
from rules.policy import NOT_READ, applies_in
from rules.scan import ENGINE

from .certificates import Kept
from .current import Current
from .journal import Journal
from .listen import Census
from .log import Log
from .nodes import Nodes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REASONS = (NOT_JSON, NOT_TEXT, NOT_A_HASH, TOO_LARGE, TOO_DEEP, TOO_MANY_PATHS, NOT_READ)
"""Told from the start, as 0: a count that appears with its first value has no increase that an alert could see."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Where the counts are. `tallies` has one for a connection's name once a listener of it was made."""

    version: str
    census: Census
    current: Current
    journal: Journal
    log: Log
    tallies: Mapping[str, Tally]
    connections: tuple[Connection, ...]
    certificates: Sequence[Kept] = ()
    clusters: Sequence[Nodes] = ()


class Metrics(Collector):
    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def page(self) -> bytes:
        """The whole page, Prometheus text format."""
        return generate_latest(self._registry)

    def families(self) -> Iterable[Metric]:
        """What the page is made of, where it is one of several."""
        return self._registry.collect()

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the registry need not collect when this is registered."""
        return ()

    def collect(self) -> Iterable[Metric]:
        yield from self._process()
        yield from self._rules()
        yield from self._contents()
        yield from self._connections()
        yield from self._audit()
        yield self._expiries()

    def _process(self) -> Iterable[Metric]:
        counted = self._counted
        build = GaugeMetricFamily("veil_build_info", "Always 1.", labels=["version", "python", "scanner"])
        build.add_metric([counted.version, platform.python_version(), ENGINE], 1)
        yield build
        census = counted.census
        yield gauge("veil_connections", "Readers connected now.", census.open)
        yield counter("veil_connections", "Readers accepted.", census.total)
        yield counter("veil_connections_turned_away", "Readers closed at once because of max_connections.", census.turned_away)
        yield gauge("veil_connections_limit", "Readers there may be at a time.", census.most)
        yield lines_lost(counted.log)

    def _rules(self) -> Iterable[Metric]:
        current = self._counted.current
        yield gauge("veil_rules", "Rules in force, enabled or not.", len(current.policy.rules))
        text = "When the rules in force were read; 0 before the first."
        yield gauge("veil_rules_read_timestamp_seconds", text, current.read_at_s or 0)
        text = "1 while the newest state of the rules is in force."
        yield gauge("veil_rules_last_reload_successful", text, int(current.is_read and not current.problems))
        text = "Problems of the newest state of the rules, 0 while it is in force."
        yield gauge("veil_rules_problems", text, len(current.problems))

    def _expiries(self) -> Metric:
        labels = ["platform", "connection", "protocol", "listener"]
        expiry = GaugeMetricFamily(
            "veil_tls_certificate_expiry_timestamp_seconds", "When the first certificate of a listener runs out.", labels=labels
        )
        platforms = {each.name: str(each.platform) for each in self._counted.connections}
        for each in self._counted.certificates:
            if each.is_server and each.expiry_s is not None:
                expiry.add_metric([platforms[each.connection], each.connection, each.protocol, each.where], each.expiry_s)
        return expiry

    def _contents(self) -> Iterable[Metric]:
        where = ["platform", "connection"]
        masked = CounterMetricFamily("veil_values_masked", "Fields masked.", labels=[*where, "rule", "method"])
        whole = CounterMetricFamily("veil_values_masked_whole", "Values masked whole.", labels=["reason"])
        refused = CounterMetricFamily("veil_refusals", "Operations refused.", labels=[*where, "rule"])
        unmasked = CounterMetricFamily("veil_unmasked_reads", "Reads shown unmasked, each recorded.", labels=where)
        reasons: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        for connection in self._counted.connections:
            tally = (self._counted.tallies.get(connection.name) or Tally()).copied()
            here = [str(connection.platform), connection.name]
            for (rule, method), count in tally.masked.items():
                masked.add_metric([*here, rule, method], count)
            reasons.update(tally.whole)
            for rule, count in {"": 0, **tally.refusals}.items():
                refused.add_metric([*here, rule], count)
            unmasked.add_metric(here, tally.unmasked_reads)
        for reason, count in reasons.items():
            whole.add_metric([reason], count)
        yield from (masked, whole, refused, unmasked, self._spans())

    def _connections(self) -> Iterable[Metric]:
        """What tells of a connection whether its rules can have anything to do, and whether its broker is there."""
        where = ["platform", "connection"]
        rules = GaugeMetricFamily("veil_connection_rules", "Enabled rules in force that apply to the connection.", labels=where)
        readers = CounterMetricFamily("veil_connection_readers", "Readers accepted.", labels=where)
        failures = CounterMetricFamily(
            "veil_upstream_connect_failures", "Readers hung up on because the broker could not be reached.", labels=where
        )
        nodes = GaugeMetricFamily("veil_nodes", "Servers of the cluster that readers reach through Veil.", labels=where)
        known: dict[str, int] = {}
        for cluster in self._counted.clusters:
            known[cluster.connection] = max(cluster.count, known.get(cluster.connection, 0))
        census = self._counted.census
        in_force = [rule for rule in self._counted.current.policy.rules if rule.enabled]
        for connection in self._counted.connections:
            here = [str(connection.platform), connection.name]
            rules.add_metric(here, sum(applies_in(rule, connection) for rule in in_force))
            readers.add_metric(here, census.of_connection[connection.name])
            failures.add_metric(here, census.unreached[connection.name])
            if connection.name in known:
                nodes.add_metric(here, known[connection.name])
        yield from (rules, readers, failures, nodes)

    def _audit(self) -> Iterable[Metric]:
        journal = self._counted.journal
        text = "1 while the audit trail cannot be written: nothing is shown unmasked."
        yield gauge("veil_audit_failing", text, int(journal.failing))
        counts = journal.counts
        yield counter("veil_audit_entries", "Entries on stable storage.", counts.written)
        yield counter("veil_audit_failures", "Reads that stayed masked because they could not be recorded.", counts.failures)
        yield counter("veil_audit_notes_lost", "Entries that nobody waited for and that could not be kept.", counts.notes_lost)

    def _spans(self) -> Metric:
        spans = HistogramMetricFamily("veil_masking_seconds", "Time that masking the answers of a server took.")
        tallies = [tally.copied() for tally in self._counted.tallies.values()]
        buckets, total = [], 0
        for position, bound in enumerate((*map(str, BOUNDS_S), "+Inf")):
            total += sum(tally.spans[position] for tally in tallies)
            buckets.append((bound, total))
        spans.add_metric([], buckets, sum(tally.span_s for tally in tallies))
        return spans


def gauge(name: str, text: str, value: float) -> Metric:
    """A family of one figure without labels."""
    return GaugeMetricFamily(name, text, value)


def counter(name: str, text: str, value: float) -> Metric:
    """The same, of what only grows."""
    return CounterMetricFamily(name, text, value)


def lines_lost(log: Log) -> Metric:
    return counter("veil_log_lines_lost", "Lines of the log that nobody took: its reader stands still or is gone.", log.lost)
