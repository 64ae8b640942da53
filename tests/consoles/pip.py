"""Programs of PyPI, each in an environment of its own, installed on first use into the cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from tests.brokers import mode

INSTALL_S = 600.0  # fifty packages: 40 s on two idle cores, 200 s on busy ones


def program(name: str, version: str, script: str, *, required_as: str) -> Path:
    """The program of a package; skips or fails the test where pip does not get it."""
    home = mode.CACHE / "consoles" / f"{name}-{version}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f".{name}-{version}.lock").open("w") as lock:  # another run may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            _install(home, f"{name}=={version}", required_as)
    return home / "bin" / script


def _install(home: Path, package: str, required_as: str) -> None:
    shutil.rmtree(home, ignore_errors=True)
    steps = (
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package],
    )
    for step in steps:
        done = subprocess.run(step, stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_S)
        if done.returncode != 0:
            mode.absent(required_as, f"pip install {package} failed: {done.stderr.decode(errors='replace')[-300:]!r}")
    (home / "complete").touch()
