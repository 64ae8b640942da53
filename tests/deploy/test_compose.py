"""The compose file: of its form, confined, and the broker reached through Veil alone. No compose engine runs it here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.app import DRAIN_S

from .files import DEPLOY, read_yaml

FILE = DEPLOY / "compose" / "compose.yaml"
(TOLD,) = read_yaml(FILE)
SERVICES = TOLD["services"]
VEIL = SERVICES["veil"]


def validated(path: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True)


@pytest.mark.slow
def test_it_is_of_the_form_that_compose_takes(tmp_path: Path) -> None:
    done = validated(FILE)
    (tmp_path / "compose.yaml").write_text(FILE.read_text().replace("cap_drop:", "cap_drops:"))

    assert done.returncode == 0, done.stdout.decode()
    assert validated(tmp_path / "compose.yaml").returncode != 0


def test_the_broker_publishes_nothing_and_its_network_leads_nowhere() -> None:
    for name, service in SERVICES.items():
        if name != "veil":
            assert "ports" not in service, name
            assert service["networks"] == ["inside"], name
            assert "network_mode" not in service, name
    assert TOLD["networks"]["inside"] == {"internal": True}


def test_veil_is_published_on_loopback_alone() -> None:
    assert [each.rpartition(":")[0] for each in VEIL["ports"]] == ["127.0.0.1:6390", "127.0.0.1:9480"]


def test_veil_is_confined() -> None:
    assert VEIL["user"] == "65532:65532"
    assert VEIL["read_only"] is True
    assert VEIL["cap_drop"] == ["ALL"]
    assert VEIL["security_opt"] == ["no-new-privileges:true"]


def test_what_is_mounted_is_there_and_only_the_state_can_be_written() -> None:
    mounts = [each.split(":") for each in VEIL["volumes"]]

    assert [source for source, *_ in mounts if source.startswith(".") and not (FILE.parent / source).exists()] == []
    assert [where for _, where, *how in mounts if how != ["ro"]] == ["/var/lib/veil"]
    assert [where for source, where, *_ in mounts if (FILE.parent / source).is_dir()] == ["/etc/veil/rules.d"]


def test_veil_is_given_the_time_to_drain() -> None:
    assert float(VEIL["stop_grace_period"].removesuffix("s")) >= DRAIN_S + 5


def test_it_builds_the_image_from_the_top_of_the_tree() -> None:
    top = (FILE.parent / VEIL["build"]["context"]).resolve()

    assert (top / VEIL["build"]["dockerfile"]).samefile(DEPLOY / "container" / "Containerfile")
