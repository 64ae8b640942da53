"""Veil's image, built as deploy/container/Containerfile says, and a Veil that runs in a container of it.

Where no image registry is reached it stands on Debian's own Python (tests/brokers/containers/Containerfile.python), and pip
installs from a folder of wheels: the build itself needs no network.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.brokers import mode
from tests.brokers.processes import engine, has_image, wait_until
from tests.brokers.veil import TREE, Veil

BASE, BUILD_BASE = "localhost/veil-test/python:3.11", "localhost/veil-test/python-build:3.11"
IMAGE = "localhost/veil-test/veil"
BUILD_S = 300.0
NOBODY = 65532
# What redis asks for before Python 3.11.3, which the image may have: pip reads such conditions for the Python it runs on.
OLDER_NEEDS = ["async-timeout>=4.0.3"]
# What the manifests ask for; a temporary folder is mounted, so that nothing else can be written.
CONFINED = ["--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges"]


def wheelhouse() -> Path:
    """A folder with a wheel of everything that the build installs, for the image's Python; filled once for a set of needs.

    Raises:
        subprocess.CalledProcessError: pip found no such wheel, or no index.
    """
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"], *OLDER_NEEDS]
    folder = mode.CACHE / "wheelhouse" / hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    new = folder.with_name(f".{folder.name}.{os.getpid()}")
    new.mkdir(parents=True)
    python = sys.executable
    if importlib.util.find_spec("pip") is None:
        venv.create(new / "pip", with_pip=True)
        python = str(new / "pip" / "bin" / "python")
    machine = platform.machine()
    target = [
        "--implementation=cp",
        "--python-version=3.11",
        f"--platform=manylinux2014_{machine}",
        f"--platform=manylinux_2_28_{machine}",
    ]
    command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", *target]
    subprocess.run([*command, "--dest", str(new / "wheels"), *wanted], check=True, capture_output=True, timeout=BUILD_S)
    (new / "wheels").rename(folder)
    return folder


@functools.cache
def build() -> str:
    """The image's name, built from the tree as it is; skips or fails the test where it cannot be."""
    if mode.BROKERS == "processes" or not (has_image(BASE) and has_image(BUILD_BASE)):
        mode.absent("image", "make brokers, as root, with podman")
    try:
        wheels = wheelhouse()
    except subprocess.CalledProcessError as failed:
        mode.absent("image", f"no wheels for it: {failed.stderr.decode(errors='replace')[-300:]}")
    arguments = {"BASE": BASE, "BUILD_BASE": BUILD_BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheelhouse"}
    command = ["build", "--pull=never", "--network=none", f"--volume={wheels}:/wheelhouse:ro", "-t", IMAGE]
    command += [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    done = engine(*command, "-f", str(TREE / "deploy" / "container" / "Containerfile"), str(TREE), within_s=BUILD_S)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-4000:]
    return IMAGE


def inspected(image: str) -> dict[str, object]:
    """What the engine tells of an image."""
    told = json.loads(engine("image", "inspect", image).stdout)[0]
    assert isinstance(told, dict)
    return told


def run(image: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    """One container that ends by itself, confined as in the manifests."""
    return engine("run", "--rm", "--network=none", *CONFINED, *options, image, *arguments)


class VeilInContainer(Veil):
    """A Veil as the manifests run it: config and rules mounted to be read, a folder of its own for the trail."""

    image = IMAGE
    _name = ""

    def start(self, *, ready: bool = True, env: Mapping[str, str] | None = None) -> None:
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        os.chown(state, NOBODY, NOBODY)
        for folder in (self.rules_dir, self.config_path):
            folder.chmod(0o755)
        self.audit_path = state / "audit.jsonl"
        self._name = f"veil-test-{os.getpid()}-{self.port}"
        mounts = {self.config_path: "/etc/veil/veil.yaml:ro", self.rules_dir: "/etc/veil/rules.d:ro", state: "/var/lib/veil"}
        options = [f"--volume={path}:{where}" for path, where in mounts.items()]
        settings = {"VEIL_AUDIT__FILE__PATH": "/var/lib/veil/audit.jsonl", **(env or {})}
        options += [f"--env={name}={value}" for name, value in settings.items()]
        done = engine("run", "-d", "--name", self._name, "--network=host", *CONFINED, *options, self.image)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        page = "/readyz" if ready else "/livez"
        wait_until(lambda: self._up(page), f"{page} says 200")

    def _up(self, page: str) -> bool:
        if self.state()["Status"] != "running":
            raise ConnectionRefusedError(f"veil ended: {self.log()[-4000:]}")
        return self.page(page)[0] == 200

    def state(self) -> dict[str, object]:
        """The engine's word on the container: Status, Pid, ExitCode."""
        told = json.loads(engine("container", "inspect", self._name).stdout)[0]["State"]
        assert isinstance(told, dict)
        return told

    def log(self) -> str:
        done = engine("logs", self._name)
        return (done.stdout + done.stderr).decode(errors="replace")

    @property
    def pid(self) -> int:
        pid = self.state()["Pid"]
        assert isinstance(pid, int)
        return pid

    def stop(self) -> int:
        """The engine's stop: STOPSIGNAL, then time to drain."""
        began = time.monotonic()
        engine("stop", "-t", "20", self._name)
        assert time.monotonic() - began < 15, "it was killed, or nearly"
        code = self.state()["ExitCode"]
        assert isinstance(code, int)
        return code

    def end(self) -> None:
        if self._name:
            engine("rm", "-f", "-t", "0", self._name)
