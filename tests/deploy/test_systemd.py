"""The unit: systemd understands it, finds it confined, and Veil runs without memory that can be written and executed.

No systemd runs it here: what its filters let through is not seen.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.app import DRAIN_S
from tests.brokers import mode
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory

from .files import DEPLOY

UNIT = DEPLOY / "systemd" / "veil.service"
REFUSE_EXEC_GAIN = "import ctypes; assert ctypes.CDLL(None, use_errno=True).prctl(65, 1, 0, 0, 0) == 0, ctypes.get_errno()"


def analyze(*arguments: str) -> str:
    if shutil.which("systemd-analyze") is None:
        mode.absent("systemd", "apt-get install systemd, or make brokers")
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True)
    return (done.stdout + done.stderr).decode()


def value(name: str) -> str:
    found = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert found, name
    return str(found[0])


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    unit = tmp_path / "veil.service"
    unit.write_text(UNIT.read_text().replace("/opt/veil/bin/veil", shutil.which("true") or "/bin/true"))

    assert analyze("verify", str(unit)).strip() == ""
    unit.write_text(unit.read_text().replace("ProtectClock", "ProtectClocks"))
    assert "ProtectClocks" in analyze("verify", str(unit))


def test_systemd_finds_it_exposed_to_little() -> None:
    told = re.search(r"Overall exposure level for veil.service: ([0-9.]+)", analyze("security", "--offline=true", str(UNIT)))
    assert told is not None

    assert float(told[1]) <= 1.5


def test_it_is_given_the_time_to_drain() -> None:
    assert float(value("TimeoutStopSec")) >= DRAIN_S + 5


def test_a_wrong_config_is_not_tried_again_and_a_reload_is_a_hangup() -> None:
    assert value("RestartPreventExitStatus") == "2"
    assert value("ExecReload") == "/bin/kill -HUP $MAINPID"


def test_the_start_of_the_process_can_be_told_since_proc_is_whole() -> None:
    assert "ProcSubset" not in re.findall(r"^(\w+)=", UNIT.read_text(), re.MULTILINE)


def test_each_directive_stands_once_but_for_the_list_of_calls() -> None:
    names = re.findall(r"^(\w+)=", UNIT.read_text(), re.MULTILINE)

    assert {name for name in names if names.count(name) > 1} == {"SystemCallFilter"}


def _can_refuse() -> bool:
    return subprocess.run([sys.executable, "-c", REFUSE_EXEC_GAIN], capture_output=True).returncode == 0


@pytest.mark.slow
def test_veil_masks_without_memory_that_can_be_written_and_executed(
    redis_once: RedisServer, veil: VeilFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _can_refuse():
        pytest.skip("the kernel cannot refuse it to a process: Linux 6.3 or newer")
    running = veil(
        "rules: [{name: R, platform: redis, resources: ['s:*'], mask_all: true}]\n", upstream=redis_once, start=False
    )
    launcher = running.folder / "python"
    launcher.write_text(
        f"#!{sys.executable}\n{REFUSE_EXEC_GAIN}\nimport os, sys\nos.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
    )
    launcher.chmod(0o755)
    monkeypatch.setattr("tests.brokers.veil.sys.executable", str(launcher))
    running.start()

    with redis_once.client() as direct:
        direct.call("SET", "s:1", '{"a": "b"}')
    with running.client() as client:
        assert client.call("GET", "s:1") == '{"a": "••••"}'.encode()
