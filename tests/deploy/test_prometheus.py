"""Alerts and dashboard ask for metrics that a running Veil has, by labels that they bear; alerts fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import mode
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory

from .files import DEPLOY, dashboard, read_yaml

FOLDER = DEPLOY / "prometheus"
RULES = """
rules:
  - {name: R, platform: redis, resources: ["s:*"], mask_all: true}
"""
# Prometheus's own, and what it adds to whatever it scrapes.
ADDED_METRICS = {"up"}
ADDED_LABELS = {"job", "instance", "le", "alertname"}
# Only where a listener has TLS.
OF_TLS = {"veil_tls_certificate_expiry_timestamp_seconds": {"listener"}}


def alerts() -> list[dict[str, str]]:
    (told,) = read_yaml(FOLDER / "alerts.yaml")
    return [rule for group in told["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    for rule in alerts():
        yield rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(r"label_values\((.*), (\w+)\)", r"count by (\2) (\1)", variable["query"]["query"])


def names(expression: str) -> set[str]:
    """The metrics of an expression."""
    return set(re.findall(r"\b(?:veil|process)_\w+|\bup\b", re.sub(r'"[^"]*"', "", expression)))


def labels(expression: str) -> set[str]:
    """The labels it selects or groups by."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    selected = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"\"", bare)
    grouped = re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", bare)
    return {*selected, *(name.strip() for group in grouped for name in group.split(","))}


def promtool() -> str:
    kept = mode.CACHE / "promtool"
    found = shutil.which("promtool") or (str(kept) if kept.exists() else None)
    if found is None:
        mode.absent("promtool", "apt-get install prometheus, or make brokers")
    return found


@pytest.mark.slow
def test_alerts_and_dashboard_ask_for_what_a_running_veil_tells(redis_once: RedisServer, veil: VeilFactory) -> None:
    running = veil(RULES, upstream=redis_once)
    with redis_once.client() as direct:
        direct.call("SET", "s:1", '{"a": "b"}')
    with running.client() as client:
        client.call("GET", "s:1")
        client.call("GETBIT", "s:1", "0")
    page = running.page("/metrics")[1]
    told: dict[str, set[str]] = {}
    for name, inside in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        told.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
    for name, own in OF_TLS.items():
        told.setdefault(name, set()).update(own)

    for expression in expressions():
        asked = names(expression)
        assert asked, expression
        assert asked - told.keys() <= ADDED_METRICS, expression
        known = ADDED_LABELS.union(*(told.get(name, set()) for name in asked))
        assert labels(expression) <= known, expression


@pytest.mark.slow
def test_no_metric_bears_the_name_of_a_resource_or_of_a_reader(redis_once: RedisServer, veil: VeilFactory) -> None:
    redis_once.add_user("somebody", "x")
    running = veil(RULES, upstream=redis_once)
    with running.client() as client:
        client.call("AUTH", "somebody", "x")
        client.call("GET", "s:name-of-a-key")
        client.call("GETBIT", "s:name-of-a-key", "0")
        page = running.page("/metrics")[1]

    assert "name-of-a-key" not in page
    assert "somebody" not in page


@pytest.mark.slow
def test_a_metric_that_an_alert_needs_is_there_before_anything_has_happened(redis_once: RedisServer, veil: VeilFactory) -> None:
    page = veil(RULES, upstream=redis_once).page("/metrics")[1]
    told = set(re.findall(r"^(\w+)", page, re.MULTILINE))
    wanted = set().union(*(names(rule["expr"]) for rule in alerts())) - ADDED_METRICS - OF_TLS.keys()

    assert wanted - told == {"veil_values_masked_total"}  # by rule and method: its alert takes none for 0


@pytest.mark.slow
def test_promtool_understands_the_alerts_and_each_fires_when_it_should() -> None:
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run([promtool(), *command], capture_output=True, cwd=FOLDER)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.slow
def test_promtool_understands_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    lines = ["groups:", "- name: all", "  rules:"]
    for number, expression in enumerate(expressions()):
        plain = expression.replace("$__rate_interval", "5m").replace("\n", " ").replace("'", "''")
        lines += [f"  - record: r:{number}", f"    expr: '{plain}'"]
    (tmp_path / "all.yaml").write_text("\n".join(lines) + "\n")
    done = subprocess.run([promtool(), "check", "rules", str(tmp_path / "all.yaml")], capture_output=True)

    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_every_alert_is_tried() -> None:
    text = (FOLDER / "alerts.test.yaml").read_text()

    assert [rule["alert"] for rule in alerts() if f'"{rule["alert"]}"' not in text] == []
    assert {rule["labels"]["severity"] for rule in read_yaml(FOLDER / "alerts.yaml")[0]["groups"][0]["rules"]} == {
        "page",
        "ticket",
    }


def test_the_panels_of_the_dashboard_do_not_lie_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_ids_of_panels_are_unique() -> None:
    ids = [panel["id"] for panel in dashboard()["panels"]]

    assert len(ids) == len(set(ids))
