"""Veil itself as a process: `python -m proxy run`, its files in a folder of its own, stopped by SIGTERM."""

from __future__ import annotations

import copy
import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from .processes import Process, free_port, free_ports, wait_until
from .resp_client import RespClient

TREE = Path(__file__).parents[2]
Config = dict[str, object]
PROTOCOLS = {"rabbitmq": "rabbitmq-management", "kafka-connect": "kafka-connect"}
"""What is spoken over HTTP, by what a test calls its platform."""
PLATFORMS = {"kafka-connect": "kafka"}
"""Of those that have another name."""
NODE_PORTS = 8  # of a Veil in front of a cluster


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without anything that Veil would take for configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VEIL_")}
    return {**kept, "PYTHONPATH": str(TREE), **(extra or {})}


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that a reader sees all of it or nothing: to a temporary name, then renamed."""
    hidden = path.with_name(f".{path.name}.new")
    hidden.write_text(text, encoding="utf-8")
    hidden.replace(path)


class Veil:
    """One running Veil in front of one upstream."""

    host = "127.0.0.1"
    workers = 1

    def __init__(self, folder: Path, rules: str, access: str, upstream: str, settings: Config, platform: str = "redis") -> None:
        self.folder = folder
        self.rules_dir = folder / "rules.d"
        self.audit_path = folder / "audit.jsonl"
        self.log_path = folder / "veil.log"
        self.config_path = folder / "veil.yaml"
        self.port, self.admin_port = free_port(), free_port()
        self.platform = platform
        self.node_ports = free_ports(NODE_PORTS) if platform == "kafka" else range(0)
        self._read_at: float | None = None
        self._process: Process | None = None
        self.rules_dir.mkdir()
        (self.rules_dir / "rules.yaml").write_text(rules, encoding="utf-8")
        if access:
            (self.rules_dir / "access.yaml").write_text(access, encoding="utf-8")
        # JSON is YAML: nothing here depends on how a YAML writer quotes.
        self.config_path.write_text(json.dumps(self._config(upstream, settings), indent=1), encoding="utf-8")

    def _config(self, upstream: str, settings: Config) -> Config:
        changed = copy.deepcopy(settings)
        protocol = PROTOCOLS.get(self.platform, self.platform)
        if self.platform in PROTOCOLS:
            upstream = f"http://{upstream}"
        listener: Config = {"protocol": protocol, "listen": f"{self.host}:{self.port}", "upstream": upstream}
        if self.node_ports:
            ports = f"{self.node_ports[0]}-{self.node_ports[-1]}"
            listener["brokers"] = {"listen": self.host, "ports": ports, "advertise": self.host}
        listener.update(_mapping(changed.pop("listener", {})))
        platform = PLATFORMS.get(self.platform, self.platform)
        connection: Config = {"name": "shop", "platform": platform, "environment": "test", "listeners": [listener]}
        connection.update(_mapping(changed.pop("connection", {})))
        config: Config = {
            "store": {"files": {"directory": "./rules.d"}},
            "audit": {"file": {"path": "./audit.jsonl"}},
            "admin": {"listen": f"{self.host}:{self.admin_port}"},
            "connections": [connection],
        }
        config.update(changed)
        return config

    def start(self, *, ready: bool = True, env: Mapping[str, str] | None = None) -> None:
        """Starts it and waits until /readyz says yes (`ready` False: until /livez does).

        Raises:
            TimeoutError: it does not.
            ConnectionRefusedError: it ended instead; the message holds its log.
        """
        command = [sys.executable, "-bb", "-m", "proxy", "run", "--config", str(self.config_path)]
        if self.workers > 1:
            command += ["--workers", str(self.workers)]
        self._process = Process(command, self.log_path, env=environment(env), cwd=self.folder)
        page = "/readyz" if ready else "/livez"
        wait_until(lambda: self._up(page), f"{page} says 200")

    def _up(self, page: str) -> bool:
        assert self._process is not None
        if not self._process.alive():
            code = self._process.child.returncode
            raise ConnectionRefusedError(f"veil ended with {code}: {self.log()[-4000:]}")
        return self.page(page)[0] == 200

    def page(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the admin port; status 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.admin_port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float | None:
        """The sum of a metric's samples that bear these labels; None where there is none."""
        found: list[float] = []
        for line in self.page("/metrics")[1].splitlines():
            match = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line)
            if match and all(f'{label}="{value}"' in (match[1] or "") for label, value in labels.items()):
                found.append(float(match[2]))
        return sum(found) if found else None

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def audit_bytes(self) -> bytes:
        return self.audit_path.read_bytes() if self.audit_path.exists() else b""

    def audit(self) -> list[dict[str, object]]:
        """The entries written so far."""
        return [json.loads(line) for line in self.audit_bytes().splitlines()]

    def write_rules(self, text: str, name: str = "rules.yaml") -> None:
        """Replaces a rule file (or `access.yaml`) as an operator should: written whole, then renamed."""
        self._read_at = self.metric("veil_rules_read_timestamp_seconds")
        write_whole(self.rules_dir / name, text)

    def wait_rules(self, *, broken: bool = False, within_s: float = 10.0) -> None:
        """Waits until what `write_rules` wrote is in force, or (`broken`) was read and refused.

        Raises:
            TimeoutError: it is not.
        """
        if broken:
            wait_until(lambda: self.metric("veil_rules_last_reload_successful") == 0.0, "the new rules are refused", within_s)
            return
        before = self._read_at

        def read_again() -> bool:
            now = self.metric("veil_rules_read_timestamp_seconds")
            return now is not None and now != before and self.metric("veil_rules_last_reload_successful") == 1.0

        wait_until(read_again, "the new rules are in force", within_s)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def client(self) -> RespClient:
        """A reader that has not logged in."""
        return RespClient(self.host, self.port)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.child.pid

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.child.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, as a test of what is on disk wants it; `start` may follow."""
        assert self._process is not None
        self._process.kill()
        self._process = None

    def stop(self) -> int:
        """SIGTERM, and the exit code.

        Raises:
            TimeoutError: it did not end by itself.
        """
        assert self._process is not None
        process, self._process = self._process, None
        return process.terminate()

    def end(self) -> None:
        """What the fixture does after the test: stops it, and a clean stop exits with 0."""
        if self._process is not None:
            code = self.stop()
            assert code == 0, f"veil ended with {code} after SIGTERM: {self.log()[-4000:]}"


VeilFactory = Callable[..., Veil]


def _mapping(value: object) -> Config:
    assert isinstance(value, dict)
    return value
