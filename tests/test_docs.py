"""Every YAML example of the pages is read by Veil itself, so that no page can drift from what is carried out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.veil import TREE, environment
from tests.certificates import Authority

PAGES = (
    TREE / "README.md",
    *(TREE / "docs" / name for name in ("rules.md", "config.md", "kafka.md", "rabbitmq.md", "kafka-connect.md")),
)
EXAMPLES = [
    pytest.param(example, id=f"{page.name}-{number}")
    for page in PAGES
    for number, example in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_pages_is_accepted(example: str, tmp_path: Path) -> None:
    if "connections:" in example:
        (tmp_path / "rules.d").mkdir()
        (tmp_path / "rules.d" / "none.yaml").write_text("rules: []\n")
        authority = Authority(tmp_path, "broker-ca")
        Authority(tmp_path, "clients-ca")
        authority.server("tls")
        authority.make("other", password="hunter2")
        (tmp_path / "other.password").write_text("hunter2\n")
        (tmp_path / "rabbit.password").write_text("hunter2\n")
        target = tmp_path / "veil.yaml"
        arguments = ["--config", str(target)]
    else:
        target = tmp_path / "example.yaml"
        arguments = ["--rules", str(tmp_path)]
    target.write_text(example, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "proxy", "check", *arguments], capture_output=True, env=environment(), cwd=tmp_path
    )

    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.slow
def test_the_example_to_start_from_is_accepted() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "check", "--config", "veil.yaml"],
        capture_output=True,
        env=environment(),
        cwd=TREE / "deploy" / "example",
    )

    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("page", [TREE / "README.md", *sorted((TREE / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_a_link_to_another_page_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]*)(?:#([^):]+))?\)", page.read_text(encoding="utf-8"))
    files = [page.parent / path if path else page for path, _ in targets]

    assert [str(path) for path in files if not path.exists()] == []
    assert [
        (str(path), part) for path, (_, part) in zip(files, targets, strict=True) if part and part not in headings(path)
    ] == []


def headings(page: Path) -> set[str]:
    """What a link may name of a page."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}
