"""Every config and rule file under deploy/ is accepted by Veil itself, and every command in there and in docs/operate.md exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.veil import TREE, environment

from .files import CONFIGS, DEPLOY, KUBERNETES, rules_of

TEXTS = [
    path
    for path in (*DEPLOY.rglob("*"), TREE / "docs" / "operate.md", TREE / "README.md")
    if path.is_file() and path.suffix in {".md", ".yaml", ".service", ""}
]


def veil(*arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "proxy", *arguments], capture_output=True, env=environment(extra), cwd=TREE)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_config_is_accepted_with_the_rules_that_are_mounted_beside_it(config: Path, tmp_path: Path) -> None:
    # The paths are those inside a container: here they are the tree's own.
    done = veil(
        "check",
        "--config",
        str(config),
        VEIL_STORE__FILES__DIRECTORY=str(rules_of(config)),
        VEIL_AUDIT__FILE__PATH=str(tmp_path / "audit.jsonl"),
    )

    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [path for path in CONFIGS if path.parent.name != "example"], ids=lambda path: path.parent.name
)
def test_what_it_names_is_where_the_image_has_it(config: Path) -> None:
    text = config.read_text()

    assert "directory: /etc/veil/rules.d" in text
    assert "path: /var/lib/veil/audit.jsonl" in text


def test_kustomize_is_given_every_rule_file() -> None:
    files = {f"rules.d/{path.name}" for path in (KUBERNETES / "rules" / "rules.d").iterdir()}
    named = re.search(r"files: \[(.*)\]", (KUBERNETES / "rules" / "kustomization.yaml").read_text())
    assert named is not None

    assert {each.strip() for each in named[1].split(",")} == files


@pytest.mark.slow
def test_a_command_that_a_text_names_is_one_of_veils() -> None:
    verbs = set(re.findall(r"^ {4}(\w+) ", veil("--help").stdout.decode(), re.MULTILINE))
    assert {"run", "check", "preview"} <= verbs

    named = {
        (path.name, verb)
        for path in TEXTS
        for verb in re.findall(r"(?:^|[\s`(/])veil (\w+)(?= --| [A-Z]|[`,)])", path.read_text(encoding="utf-8"))
    }
    assert ("operate.md", "check") in named
    assert sorted(each for each in named if each[1] not in verbs) == []


def test_a_file_that_a_text_names_is_there() -> None:
    named = {
        (path.name, name)
        for path in TEXTS
        for name in re.findall(r"(?<![\w./])((?:deploy|docs)/[\w./-]*\w)", path.read_text(encoding="utf-8"))
    }

    assert sorted(each for each in named if not (TREE / each[1]).exists()) == []
