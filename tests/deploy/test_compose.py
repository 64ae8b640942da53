"""The compose file: of its form, confined, and the broker reached through Veil alone.

No compose engine runs it: its services' commands are run as processes, on ports of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxy.app import DRAIN_S
from tests.brokers import mode
from tests.brokers.processes import Process, answers, free_port, wait_until
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import TREE, environment

from .files import DEPLOY, read_yaml

HOST = "127.0.0.1"
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


@dataclass(frozen=True)
class Started:
    port: int
    log: Path
    audit: Path


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """What compose would start: the broker, the sample's command, and Veil with the files that are mounted."""
    if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
        mode.absent("redis", "apt-get install redis-server redis-tools, or make brokers")
    broker, port, admin = free_port(), free_port(), free_port()
    redis = Process(
        [*SERVICES["redis"]["command"], "--port", str(broker), "--bind", HOST], tmp_path / "redis.log", cwd=tmp_path
    )
    running = [redis]
    try:
        wait_until(lambda: answers(HOST, broker), f"the broker answers: {redis.log.read_text()}")
        sample = [HOST if word == "redis" else word for word in SERVICES["sample"]["command"]]
        subprocess.run([*sample[:1], "-p", str(broker), *sample[1:]], check=True, capture_output=True)
        settings = {
            "VEIL_STORE__FILES__DIRECTORY": "./rules.d",
            "VEIL_AUDIT__FILE__PATH": str(tmp_path / "audit.jsonl"),
            "VEIL_ADMIN__LISTEN": f"{HOST}:{admin}",
            "VEIL_CONNECTIONS__0__LISTENERS__0__LISTEN": f"{HOST}:{port}",
            "VEIL_CONNECTIONS__0__LISTENERS__0__UPSTREAM": f"{HOST}:{broker}",
        }
        command = [sys.executable, "-m", "proxy", "run", "--config", str(FILE.parent / "veil.yaml")]
        running.append(Process(command, tmp_path / "veil.log", env=environment(settings), cwd=TREE))

        def ready() -> bool:
            try:
                with urllib.request.urlopen(f"http://{HOST}:{admin}/readyz", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        wait_until(ready, "/readyz says 200")
        yield Started(port, tmp_path / "veil.log", tmp_path / "audit.jsonl")
    finally:
        for each in reversed(running):
            each.stop()


@pytest.mark.slow
@pytest.mark.broker
def test_what_it_starts_shows_the_two_readers_what_its_first_lines_say(started: Started) -> None:
    seen = {}
    for name in ("support", "auditor"):
        with RespClient(HOST, started.port) as client:
            assert client.call("AUTH", name, "demo") == b"OK"
            shown = client.call("GET", "customer:1")
            assert isinstance(shown, bytes)
            seen[name] = json.loads(shown)
    events = [entry["event"] for entry in map(json.loads, started.audit.read_text().splitlines())]

    assert seen["auditor"]["email"] == "ada@example.org"
    assert seen["support"] == {**seen["auditor"], "email": "a••••••••••••••", "iban": "••••"}
    assert "broker.message.read-unmasked" in events
    assert "ada@example.org" not in started.log.read_text() + started.audit.read_text()


@pytest.mark.slow
@pytest.mark.broker
def test_nobody_reads_without_a_login(started: Started) -> None:
    with RespClient(HOST, started.port) as client:
        reply = client.call("GET", "customer:1")

    assert "NOAUTH" in repr(reply)
