"""What lies under deploy/, read for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.brokers.veil import TREE

DEPLOY = TREE / "deploy"
CONFIGS = sorted([*DEPLOY.rglob("veil.yaml"), DEPLOY / "example" / "kafka.yaml"])
KUBERNETES = DEPLOY / "kubernetes"


def read_yaml(path: Path) -> list[dict[str, Any]]:
    """The documents of a file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each is not None]


def dashboard() -> dict[str, Any]:
    told = json.loads((DEPLOY / "grafana" / "veil.json").read_text(encoding="utf-8"))
    assert isinstance(told, dict)
    return told


def rules_of(config: Path) -> Path:
    """The rule folder that a deployment mounts beside this config."""
    own = config.parent / "rules.d"
    return own if own.is_dir() else KUBERNETES / "rules" / "rules.d"
