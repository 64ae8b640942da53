"""A real RabbitMQ of one node with its management API, as a process or in a container.

Everything of it listens on 127.0.0.1, on ports of its own, and beside a port mapper of its own. `admin` is for the
fixtures and for tests' own look.
Source: RabbitMQ 3.10, "Configuration", "Networking", "Management Plugin".
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from . import mode
from .http_client import HttpAnswer, HttpClient
from .processes import Container, Process, Running, answers, free_ports, has_image, wait_until

VERSION = "3.10.8"
IMAGE = f"localhost/veil-test/rabbitmq:{VERSION}"
PROCESS, CONTAINER = "rabbitmq-process", "rabbitmq-container"
HOW = "apt-get install rabbitmq-server (tests/brokers/install.sh), or tests/brokers/containers/build.sh"
START_S = 120.0  # 8 s alone on the machine; much longer beside other brokers
HOST = "127.0.0.1"
PLUGINS = (
    "rabbitmq_management",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    "rabbitmq_federation",
    "rabbitmq_federation_management",
    "rabbitmq_tracing",
    "rabbitmq_stream",
    "rabbitmq_stream_management",
    "rabbitmq_top",
)
ADMIN = "admin", "admin-password"
USERS = {"alice": "alice-password", "bob": "bob-password", "carol": "carol-password", "erin": "erin-password"}
"""Administrators too, each of whom the rules may treat in another way."""
HOMES = Path("/usr/lib/rabbitmq/lib")


def home() -> Path | None:
    """Where the broker's programs are; None where it is not installed."""
    found = sorted(HOMES.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return found[-1].parent if found and shutil.which("erl") else None


def offered() -> str | None:
    """How this run has its broker, or None."""
    process = PROCESS if home() is not None else None
    match mode.BROKERS:
        case "processes":
            return process
        case "containers":
            return CONTAINER if has_image(IMAGE) else None
        case _:
            return process or (CONTAINER if has_image(IMAGE) else None)


class RabbitServer:
    """One node. What tests left in it stays until `reset`."""

    def __init__(self, folder: Path, flavour: str = PROCESS) -> None:
        self.folder = folder
        self.flavour = flavour
        self.host = HOST
        ports = free_ports(5)
        self.amqp_port, self.port, self.stream_port, self._dist_port, self._mapper_port = ports
        self._running: Running | None = None
        self._mapper: Process | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What may be in no byte that a reader gets: the ports that lead round Veil."""
        return tuple(str(port).encode() for port in (self.amqp_port, self.port, self.stream_port))

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def _write(self) -> dict[str, str]:
        settings = {
            "listeners.tcp.1": f"{self.host}:{self.amqp_port}",
            "management.tcp.ip": self.host,
            "management.tcp.port": str(self.port),
            "stream.listeners.tcp.1": f"{self.host}:{self.stream_port}",
            "default_user": ADMIN[0],
            "default_pass": ADMIN[1],
            "log.console": "true",
            "log.console.level": "info",
            "log.file": "false",
            "collect_statistics_interval": "1000",
            "disk_free_limit.absolute": "1MB",
            "vm_memory_high_watermark.relative": "0.9",
        }
        (self.folder / "rabbitmq.conf").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        (self.folder / "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].\n")
        (self.folder / "home").mkdir(exist_ok=True)
        return {
            "RABBITMQ_NODENAME": "veil@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +A 4 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_ADDRESS": self.host,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
        }

    def start(self) -> None:
        """Starts it, the second time on the same ports and with what it had.

        Raises:
            TimeoutError: it does not answer.
            ConnectionRefusedError: it ended.
        """
        given = self._write()
        if self.flavour == CONTAINER:
            told = [part for name, value in given.items() for part in ("-e", f"{name}={value}")]
            mount = ["-v", f"{self.folder}:{self.folder}"]
            run = f"epmd -daemon -relaxed_command_check; exec rabbitmq-server >> {self.log} 2>&1"
            self._running = Container(IMAGE, ["sh", "-c", run], options=[*mount, *told])
        else:
            programs = home()
            assert programs is not None
            env = {**os.environ, **given}
            if self._mapper is None or not self._mapper.alive():
                # A port mapper that the node started by itself would outlive it.
                mapper = ["epmd", "-address", self.host, "-port", str(self._mapper_port)]
                self._mapper = Process(mapper, self.folder / "epmd.log", env=env)
                wait_until(lambda: answers(self.host, self._mapper_port), "the port mapper listens")
            self._running = Process([str(programs / "rabbitmq-server")], self.log, env=env, cwd=self.folder)
        wait_until(self._up, f"{self.flavour}: {self.log}", START_S)
        with self.client() as client:
            for name, password in USERS.items():
                client.ask("PUT", f"/api/users/{name}", {"password": password, "tags": "administrator"})
                client.ask("PUT", f"/api/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"})

    def _up(self) -> bool:
        assert self._running is not None
        if isinstance(self._running, Process) and not self._running.alive():
            raise ConnectionRefusedError(f"{self.flavour} ended: {self.log.read_text(errors='replace')[-2000:]}")
        if not answers(self.host, self.port) or not answers(self.host, self.amqp_port):
            return False
        with contextlib.suppress(OSError), self.client() as client:
            return client.ask("GET", "/api/whoami").status == 200 and client.ask("GET", "/api/queues").status == 200
        return False

    def client(self, login: tuple[str, str] | None = ADMIN) -> HttpClient:
        return HttpClient(self.host, self.port, login)

    def ask(self, method: str, path: str, body: object = None, *, status: int | None = None) -> HttpAnswer:
        """One call by `admin`, past Veil; its status is what is expected, or any below 300."""
        with self.client() as client:
            answer = client.ask(method, path, body)
        assert answer.status == status if status is not None else answer.status < 300, (method, path, answer)
        return answer

    def queue(self, name: str, arguments: dict[str, object] | None = None, vhost: str = "/") -> None:
        self.ask("PUT", f"/api/queues/{quote(vhost, safe='')}/{quote(name, safe='')}", {"arguments": arguments or {}})

    def exchange(self, name: str, kind: str = "fanout", arguments: dict[str, object] | None = None) -> None:
        self.ask("PUT", f"/api/exchanges/%2F/{quote(name, safe='')}", {"type": kind, "arguments": arguments or {}})

    def bind(self, source: str, destination: str, kind: str = "q", key: str = "#") -> None:
        self.ask("POST", f"/api/bindings/%2F/e/{source}/{kind}/{destination}", {"routing_key": key})

    def publish(
        self, queue: str, payload: str, *, exchange: str = "amq.default", encoding: str = "string", **properties: object
    ) -> None:
        told = {"properties": properties, "routing_key": queue, "payload": payload, "payload_encoding": encoding}
        self.ask("POST", f"/api/exchanges/%2F/{exchange}/publish", told)

    def alive(self) -> bool:
        return self._running is not None and self._running.alive()

    def kill(self) -> None:
        """SIGKILL of the node: it is gone until `start`."""
        assert self._running is not None
        self._running.kill()

    def reset(self) -> None:
        """As it was when it started: nothing of a test in the one virtual host there is."""
        if not self.alive():
            self.start()
        with self.client() as client:
            for vhost in client.ask("GET", "/api/vhosts").json():
                if vhost["name"] != "/":
                    client.ask("DELETE", f"/api/vhosts/{quote(vhost['name'], safe='')}")
            client.ask("PUT", "/api/vhosts/%2F", {"tracing": False})
            for kind in ("policies", "operator-policies", "traces"):
                for each in client.ask("GET", f"/api/{kind}/%2F").json():
                    client.ask("DELETE", f"/api/{kind}/%2F/{quote(each['name'], safe='')}")
            for each in client.ask("GET", "/api/trace-files").json():
                client.ask("DELETE", f"/api/trace-files/{quote(each['name'], safe='')}")
            for each in client.ask("GET", "/api/parameters").json():
                at = f"{each['component']}/{quote(each['vhost'], safe='')}/{quote(each['name'], safe='')}"
                client.ask("DELETE", f"/api/parameters/{at}")
            for each in client.ask("GET", "/api/exchanges/%2F").json():
                if each["name"] and not each["name"].startswith("amq."):
                    client.ask("DELETE", f"/api/exchanges/%2F/{quote(each['name'], safe='')}")
            for each in client.ask("GET", "/api/queues/%2F").json():
                client.ask("DELETE", f"/api/queues/%2F/{quote(each['name'], safe='')}")

    def stop(self) -> None:
        for running in (self._running, self._mapper):
            if isinstance(running, Process):
                with contextlib.suppress(TimeoutError):
                    if running.alive():
                        running.terminate(30)
            elif running is not None:
                running.stop()
        self._running = self._mapper = None


class RabbitFleet:
    """The one broker of a session, started when first wanted."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._server: RabbitServer | None = None

    def server(self) -> RabbitServer:
        flavour = offered()
        if flavour is None:
            mode.absent("rabbitmq", HOW)
        if self._server is None:
            self._server = RabbitServer(self._folder("rabbitmq"), flavour)
            self._server.start()
        return self._server

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
