"""The image: what it holds, and that it masks, confined as the manifests confine it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import TREE
from tests.canary import Canary, assert_no_canary

from .image import NOBODY, VeilInContainer, build, inspected, run

pytestmark = [pytest.mark.slow, pytest.mark.broker]

RULES = """
rules:
  - name: Customer contact
    platform: redis
    resources: ["customer:*"]
    fields: [{kind: json_path, path: $.email, method: redact}]
"""
ALL_OF_IT = """
rules:
  - {name: All of it, platform: redis, resources: ["customer:*"], mask_all: true}
"""
Begin = Callable[..., VeilInContainer]


@pytest.fixture(scope="module")
def image() -> str:
    return build()


@pytest.fixture
def contained(image: str, tmp_path: Path) -> Iterator[Begin]:
    """Starts Veil in a container: `contained(rules, upstream=server)`."""
    started: list[VeilInContainer] = []

    def begin(rules: str, *, upstream: RedisServer) -> VeilInContainer:
        started.append(VeilInContainer(tmp_path, rules, "", upstream.address, {}))
        started[-1].start()
        return started[-1]

    yield begin
    for one in started:
        one.end()


def test_confined_as_nobody_it_masks_what_a_broker_holds_and_stops_as_it_is_told(
    redis_once: RedisServer, contained: Begin, canary: Canary
) -> None:
    secret = canary.text()
    with redis_once.client() as direct:
        direct.call("SET", "customer:1", json.dumps({"email": secret, "orders": 2}))
    running = contained(RULES, upstream=redis_once)

    with running.client() as reader:
        assert reader.call("GET", "customer:1") == '{"email": "••••", "orders": 2}'.encode()
        refused = reader.call("GETRANGE", "customer:1", "0", "99")
        reader.call("STRLEN", "customer:1")
        status = Path(f"/proc/{running.pid}/status").read_text()
        metrics = running.page("/metrics")[1]
        code = running.stop()

        assert code == 0, running.log()
        assert re.findall(r"^(?:Uid|Gid):\s+(\d+)\s+(\d+)", status, re.MULTILINE) == [(str(NOBODY), str(NOBODY))] * 2
        assert set(re.findall(r"^Cap(?:Inh|Prm|Eff|Bnd|Amb):\s+(\S+)", status, re.MULTILINE)) == {"0" * 16}
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
        assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
        events = [entry["event"] for entry in running.audit()]
        assert "configuration.masking-rule.create" in events
        assert "masking.refused" in events, refused
        assert oct(running.audit_path.stat().st_mode & 0o777) == "0o600"
    told = (("answers", bytes(reader.received)), ("metrics", metrics.encode()), ("log", running.log().encode()))
    for where, blob in (*told, ("audit", running.audit_bytes())):
        assert_no_canary(blob, *canary.values, where=where)


def test_a_rule_that_is_changed_in_the_mounted_folder_is_in_force_without_a_restart(
    redis_once: RedisServer, contained: Begin
) -> None:
    with redis_once.client() as direct:
        direct.call("SET", "customer:1", '{"orders": 2}')
    running = contained(RULES, upstream=redis_once)
    pid = running.pid

    with running.client() as reader:
        assert reader.call("GET", "customer:1") == b'{"orders": 2}'
        running.write_rules(ALL_OF_IT)
        (running.rules_dir / "rules.yaml").chmod(0o644)
        running.wait_rules()

        assert reader.call("GET", "customer:1") == b'{"orders": 0}'
    assert running.pid == pid
    assert running.stop() == 0


def test_nothing_but_the_state_and_tmp_can_be_written(image: str) -> None:
    look = """
import os
for path in ("/var/lib/veil", "/tmp", "/opt/veil", "/opt/veil/rules", "/etc/veil", "/etc/veil/rules.d", "/usr", "/root", "/"):
    try:
        os.close(os.open(path + "/x", os.O_CREAT | os.O_WRONLY))
        print(path)
    except OSError:
        pass
"""
    done = run(image, "-c", look, options=("--entrypoint=python3",))

    assert done.stdout.decode().split() == ["/var/lib/veil", "/tmp"], done.stderr.decode()


def test_it_runs_the_compiled_scanner_and_holds_no_module_but_its_own_and_what_it_needs(image: str) -> None:
    look = "import sys, os, rules.scan; print(rules.scan.ENGINE); print(*sorted(os.listdir('/opt/veil')))"
    done = run(image, "-c", look, options=("--entrypoint=python3",))
    engine_used, held = done.stdout.decode().splitlines()

    assert engine_used == "compiled"
    assert {"rules", "proxy", "trio"} <= set(held.split())
    assert not {"tests", "deploy", "docs", "bin", "pip", "setuptools", "Cython"} & set(held.split())


def test_a_file_in_the_working_directory_does_not_stand_in_for_a_module(image: str, tmp_path: Path) -> None:
    (tmp_path / "proxy.py").write_text("print('shadowed')\n")
    (tmp_path / "proxy.py").chmod(0o644)
    os.chown(tmp_path, NOBODY, NOBODY)
    done = run(image, "--version", options=(f"--volume={tmp_path}:/var/lib/veil",))

    assert done.stdout.decode().startswith("veil "), done.stderr.decode()


def test_without_a_config_it_says_so_in_a_line_and_ends_with_2(image: str) -> None:
    done = run(image)

    assert done.returncode == 2
    assert len(done.stderr.decode().splitlines()) == 1
    assert "/etc/veil/veil.yaml" in done.stderr.decode()


def test_the_image_says_who_runs_what_and_how_it_is_stopped(image: str) -> None:
    config = inspected(image)["Config"]
    assert isinstance(config, dict)

    assert config["User"] == f"{NOBODY}:{NOBODY}"
    assert config["Entrypoint"] == ["python3", "-P", "-m", "proxy"]
    assert config["Cmd"] == ["run", "--config", "/etc/veil/veil.yaml"]
    assert config["StopSignal"] == "SIGTERM"
    assert list(config["Volumes"]) == ["/var/lib/veil"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert not [each for each in config["Env"] if each.startswith(("VEIL_", "PIP_"))]


def test_docker_and_podman_send_the_same_files_to_the_build() -> None:
    ours = (TREE / ".containerignore").read_text()

    assert (TREE / "deploy" / "container" / "Containerfile.dockerignore").read_text() == ours
    assert ours.splitlines()[1] == "*"
