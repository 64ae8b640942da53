"""Packages of npm, installed on first use into the cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.brokers import mode

INSTALL_S = 240.0


def package(name: str, version: str, *, required_as: str) -> Path:
    """The folder of the package; skips or fails the test where npm is missing or does not get it."""
    home = mode.CACHE / "consoles" / f"{name}-{version}"
    folder = home / "node_modules" / name
    if (home / "complete").exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        mode.absent(required_as, "apt-get install npm, or make brokers")
    home.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--prefix", str(home)]
    done = subprocess.run([*command, f"{name}@{version}"], stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_S)
    if done.returncode != 0:
        mode.absent(required_as, f"npm install {name} failed: {done.stderr.decode(errors='replace')[-300:]!r}")
    (home / "complete").touch()
    return folder


def node(*, required_as: str) -> str:
    """The interpreter; skips or fails the test where there is none."""
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        mode.absent(required_as, "apt-get install nodejs, or make brokers")
    return found
