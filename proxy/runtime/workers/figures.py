"""The figures of several processes as one page of metrics.

Counters and histograms are summed, those of dead workers as they were last heard, so that none ever goes backwards.
What a gauge of the whole is depends on the gauge: `GAUGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

Key = tuple[str, str]  # name and kind: a gauge and a counter may share their name
Sample = tuple[str, tuple[tuple[str, str], ...]]
Joined = Callable[[Iterable[float]], float]

GAUGES: Mapping[str, Joined] = {
    "process_max_fds": sum,
    "process_open_fds": sum,
    "process_resident_memory_bytes": sum,
    "process_start_time_seconds": min,  # the supervisor's: a restarted worker is told by veil_worker_restarts_total
    "process_virtual_memory_bytes": sum,
    "veil_audit_failing": max,
    "veil_build_info": max,
    "veil_connection_rules": min,  # what an alert looks for is a worker where none applies
    "veil_connections": sum,
    "veil_connections_limit": sum,
    "veil_nodes": max,
    "veil_rules": max,
    "veil_rules_last_reload_successful": min,
    "veil_rules_problems": max,
    "veil_rules_read_timestamp_seconds": min,
    "veil_tls_certificate_expiry_timestamp_seconds": min,
}


@dataclass(slots=True)
class Family:
    """All samples of one metric."""

    text: str
    samples: dict[Sample, float] = field(default_factory=dict)


Figures = dict[Key, Family]


def figures_of(metrics: Iterable[Metric]) -> Figures:
    """The figures of this process."""
    found: Figures = {}
    for metric in metrics:
        family = found.setdefault((metric.name, metric.type), Family(metric.documentation))
        for sample in metric.samples:
            family.samples[sample.name, tuple(sample.labels.items())] = sample.value
    return found


def as_json(figures: Figures) -> list[Any]:
    return [
        [name, kind, family.text, [[sample, labels, value] for (sample, labels), value in family.samples.items()]]
        for (name, kind), family in figures.items()
    ]


def from_json(told: Any) -> Figures:
    """
    Raises:
        KeyError, TypeError, ValueError: it is not what `as_json` makes.
    """
    found: Figures = {}
    for name, kind, text, samples in told:
        family = found.setdefault((str(name), str(kind)), Family(str(text)))
        for sample, labels, value in samples:
            family.samples[str(sample), tuple((str(label), str(of)) for label, of in labels)] = float(value)
    return found


def joined(parts: Sequence[Figures]) -> Figures:
    """The figures of the whole."""
    kept: dict[Key, dict[Sample, list[float]]] = {}
    texts: dict[Key, str] = {}
    for part in parts:
        for key, family in part.items():
            texts.setdefault(key, family.text)
            samples = kept.setdefault(key, {})
            for sample, value in family.samples.items():
                samples.setdefault(sample, []).append(value)
    return {
        key: Family(texts[key], {sample: float(_joins(key)(values)) for sample, values in samples.items()})
        for key, samples in kept.items()
    }


def _joins(key: Key) -> Joined:
    name, kind = key
    return GAUGES.get(name, max) if kind == "gauge" else sum


def without_gauges(figures: Figures) -> Figures:
    """What stays of a process that is gone."""
    return {key: family for key, family in figures.items() if key[1] != "gauge"}


def page(figures: Figures) -> bytes:
    """Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(_Page(figures))
    return generate_latest(registry)


class _Page(Collector):
    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        for (name, kind), family in self._figures.items():
            metric = Metric(name, family.text, kind)
            for (sample, labels), value in family.samples.items():
                metric.add_sample(sample, dict(labels), value)
            yield metric
