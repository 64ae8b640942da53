"""redis-commander, a web console from npm, pointed at an address."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tests.brokers.processes import Process, free_port, wait_until

from .npm import node, package

VERSION = "0.9.0"
_STARTS_WITH_IT = "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"  # nothing else: it reads its settings from the environment too


def installed() -> Path:
    """Its start script; skips or fails the test where npm is missing."""
    return package("redis-commander", VERSION, required_as="console") / "bin" / "redis-commander.js"


class RedisCommander:
    """One running console on a port of its own. `seen` is every byte its HTTP API ever answered."""

    def __init__(self, folder: Path, host: str, port: int, *, user: str = "", password: str = "") -> None:
        script = installed()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.connection = f"R:{host}:{port}:0"
        self.seen = bytearray()
        self._token = ""
        login = ["--redis-username", user, "--redis-password", password] if user else []
        command = [
            node(required_as="console"),
            str(script),
            "--noload",
            "--nosave",
            "--address",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        command += ["--redis-host", host, "--redis-port", str(port), *login]
        env = {name: os.environ[name] for name in _STARTS_WITH_IT if name in os.environ}
        self._process = Process(command, folder / "redis-commander.log", env={**env, "HOME": str(folder)}, cwd=folder)
        try:
            wait_until(
                self._connected, f"redis-commander is connected: {self._process.log.read_text(errors='replace')[-1000:]}"
            )
        except OSError:
            self.close()
            raise

    def _connected(self) -> bool:
        if not self._process.alive():
            raise ConnectionRefusedError(f"redis-commander ended: {self._process.log.read_text(errors='replace')[-2000:]}")
        try:
            signed_in = json.loads(self._open("signin", data=b""))
            self._token = signed_in["bearerToken"]
            return bool(json.loads(self._open("apiv2/connection")))
        except (OSError, ValueError):
            return False

    def key(self, name: str) -> dict[str, object]:
        """What the console's API tells of one key: `type`, `value` or `items`, …"""
        answer: dict[str, object] = json.loads(self.get(f"apiv2/key/{self.connection}/{urllib.parse.quote(name, safe='')}"))
        return answer

    def get(self, path: str) -> str:
        """The body of any of its pages, errors included."""
        return self._open(path)

    def command(self, line: str) -> str:
        """What its terminal answers to a command that a person types."""
        body = urllib.parse.urlencode({"cmd": line}).encode()
        return self._open(f"apiv2/exec/{self.connection}", data=body)

    def _open(self, path: str, data: bytes | None = None) -> str:
        request = urllib.request.Request(self.url + path, data=data)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                body = error.read()
        self.seen += body
        return body.decode()

    def log(self) -> str:
        """What it printed: a console's log is a place where a value could end, too."""
        return self._process.log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        self._process.stop()
