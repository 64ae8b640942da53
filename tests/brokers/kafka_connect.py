"""A real Kafka Connect worker, distributed, as a process on the tests' broker: FileStream and MirrorMaker are its plugins.

It listens on 127.0.0.1 and says of itself that it is `localhost`: neither that nor its port may ever reach a reader of Veil's.
With `logins` it knows `USERS` of the broker's by Basic; without, it answers everybody and looks at no login.
Source: Kafka 4.2, "Kafka Connect", "Running Kafka Connect", "REST API"; KIP-285 (REST extensions), KIP-297 (config providers).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import mode
from .http_client import HttpAnswer, HttpClient
from .kafka_java import HOME, HOW, command, java
from .kafka_server import USERS, KafkaFleet, KafkaServer, own_port
from .processes import Process, answers, wait_until

PLUGINS = HOME / "plugins"
START_S = 120.0  # 8 s alone on the machine; much longer beside other brokers
HOST, ADVERTISED = "127.0.0.1", "localhost"
ADMIN = "admin", USERS["admin"]
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_BASIC = "org.apache.kafka.connect.rest.basic.auth.extension"


class ConnectServer:
    """One worker. What tests left in it stays until `reset`. `settings` go over those of the tests."""

    def __init__(
        self, folder: Path, kafka: KafkaServer, *, logins: bool = True, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.host = HOST
        self.port = own_port()
        self.logins = logins
        self.kafka = kafka
        self._settings = dict(settings or {})
        self._process: Process | None = None
        self._group = f"connect-{secrets.token_hex(4)}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What may be in no byte that a reader gets: the way round Veil."""
        return ADVERTISED.encode(), str(self.port).encode()

    @property
    def log(self) -> Path:
        return self.folder / "connect.log"

    def start(self) -> None:
        """Starts it.

        Raises:
            TimeoutError: it does not answer.
            ConnectionRefusedError: it ended.
        """
        told = {
            "bootstrap.servers": self.kafka.address,
            "group.id": self._group,
            "listeners": f"http://{self.host}:{self.port}",
            "rest.advertised.host.name": ADVERTISED,
            "key.converter": _STRING,
            "value.converter": _STRING,
            "plugin.path": str(PLUGINS),
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "500",
            "scheduled.rebalance.max.delay.ms": "0",
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        }
        for name in ("config", "offset", "status"):
            told |= {f"{name}.storage.topic": f"{self._group}-{name}", f"{name}.storage.replication.factor": "1"}
        told |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
        told |= self._settings
        flags, beside = [], []
        if self.logins:
            told["rest.extension.classes"] = f"{_BASIC}.BasicAuthSecurityRestExtension"
            users, jaas = self.folder / "users.properties", self.folder / "jaas.conf"
            users.write_text("".join(f"{name}: {password}\n" for name, password in USERS.items()))
            jaas.write_text(f'KafkaConnect {{ {_BASIC}.PropertyFileLoginModule required file="{users}"; }};\n')
            flags.append(f"-Djava.security.auth.login.config={jaas}")
            beside += sorted((PLUGINS / "connect").glob("connect-basic-auth-extension-*.jar"))
        config = self.folder / "connect.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        line = command("org.apache.kafka.connect.cli.ConnectDistributed", str(config), heap="256m", flags=flags, beside=beside)
        self._process = Process(line, self.log)
        wait_until(self._up, f"a worker of Connect: {self.log}", START_S)

    def _up(self) -> bool:
        if not self.alive():
            raise ConnectionRefusedError(f"the worker ended: {self.log.read_text(errors='replace')[-2000:]}")
        if not answers(self.host, self.port):
            return False
        with contextlib.suppress(OSError), self.client() as client:
            return client.ask("GET", "/connectors").status == 200
        return False

    def client(self, login: tuple[str, str] | None = ADMIN) -> HttpClient:
        return HttpClient(self.host, self.port, login)

    def ask(self, method: str, path: str, body: object = None) -> HttpAnswer:
        """One call by `admin`, past Veil, and again while the worker deals out its work."""
        with self.client() as client:
            found: list[HttpAnswer] = []

            def is_settled() -> bool:
                found.append(client.ask(method, path, body))
                return found[-1].status != 409

            wait_until(is_settled, f"{method} {path}")
            return found[-1]

    def create(self, name: str, **config: str) -> None:
        """A connector, past Veil; `__` stands for a dot."""
        told = {key.replace("__", "."): value for key, value in config.items()}
        answer = self.ask("PUT", f"/connectors/{name}/config", told)
        assert answer.status in (200, 201), answer

    def names(self) -> set[str]:
        """The connectors that there are."""
        return set(self.ask("GET", "/connectors").json())

    def status(self, name: str) -> dict[str, Any]:
        told: dict[str, Any] = self.ask("GET", f"/connectors/{name}/status").json()
        return told

    def wait_state(self, name: str, state: str, *, tasks: bool = True) -> None:
        """Returns when the connector, and its first task where `tasks` says so, are in this state."""

        def is_there() -> bool:
            told = self.status(name)
            states = [told.get("connector", {}).get("state")] if not tasks else []
            states += [each["state"] for each in told.get("tasks", [])] if tasks else []
            return bool(states) and set(states) == {state}

        wait_until(is_there, f"{name} is {state}", START_S)

    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    def reset(self) -> None:
        """Without any connector."""
        if not self.alive():
            self.start()
        for name in self.names():
            self.ask("DELETE", f"/connectors/{name}")
        wait_until(lambda: not self.names(), "no connector is left")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


class ConnectFleet:
    """The workers of a session, each started when first wanted."""

    def __init__(self, kafka: KafkaFleet, folder: Callable[[str], Path]) -> None:
        self._kafka = kafka
        self._folder = folder
        self._servers: dict[bool, ConnectServer] = {}

    def server(self, *, logins: bool) -> ConnectServer:
        if java() is None or not (PLUGINS / "complete").exists():
            mode.absent("kafka", HOW)
        if logins not in self._servers:
            server = ConnectServer(self._folder("connect"), self._kafka.server(), logins=logins)
            self._servers[logins] = server
            server.start()
        return self._servers[logins]

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()
