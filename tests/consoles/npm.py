"""Packages of npm, installed on first use into the cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.brokers import mode

INSTALL_S = 240.0
TRIES = 2  # a registry that hiccups holds the first one up


def package(name: str, version: str, *, required_as: str) -> Path:
    """The folder of the package; skips or fails the test where npm is missing or does not get it."""
    home = mode.CACHE / "consoles" / f"{name}-{version}"
    home.mkdir(parents=True, exist_ok=True)
    with (home.parent / f".{name}-{version}.lock").open("w") as lock:  # another run may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            _install(home, f"{name}@{version}", required_as)
    return home / "node_modules" / name


def _install(home: Path, package: str, required_as: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        mode.absent(required_as, "apt-get install npm, or make brokers")
    command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--prefix", str(home), package]
    reason = ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            reason = f"nothing came of it in {INSTALL_S:.0f} s"
            continue
        if done.returncode == 0:
            (home / "complete").touch()
            return
        reason = repr(done.stderr.decode(errors="replace")[-300:])
    mode.absent(required_as, f"npm install {package} failed: {reason}")


def node(*, required_as: str) -> str:
    """The interpreter; skips or fails the test where there is none."""
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        mode.absent(required_as, "apt-get install nodejs, or make brokers")
    return found
