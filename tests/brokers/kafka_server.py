"""A real Kafka broker of one node, controller included, as a process or in a container.

Its listeners listen on 127.0.0.1 and are advertised as `localhost`: neither that word nor a port of theirs may ever reach a
reader of Veil's. `PLAIN` is for the fixtures and for tests' own look, and whoever comes in by it may do everything.
Source: Kafka 4.2, "Broker Configs"; KIP-500 (KRaft), KIP-631, KIP-900 (SCRAM at format), KIP-932 (share groups).
"""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.certificates import Authority, Made

from . import mode
from .kafka_java import HERE, HOW, VERSION, archive, command, java
from .kafka_wire_client import KafkaWireClient
from .processes import Container, Process, Running, answers, free_port, has_image, wait_until

IMAGE = f"localhost/veil-test/kafka:{VERSION}"
PROCESS, CONTAINER = "kafka-process", "kafka-container"
START_S = 90.0  # 2 s with the class archive, 4 s without; two busy cores and three nodes make it 20
HOST, ADVERTISED = "127.0.0.1", "localhost"
REAUTH_MS = 3000
"""How long a login is good for on the listener `REAUTH`."""

PLAIN, SASL, REAUTH, TLS, SASL_TLS, CONTROLLER = "PLAIN", "SASL", "REAUTH", "TLS", "SASL_TLS", "CONTROLLER"
LISTENERS = {PLAIN: "PLAINTEXT", SASL: "SASL_PLAINTEXT", REAUTH: "SASL_PLAINTEXT", TLS: "SSL", SASL_TLS: "SASL_SSL"}
MECHANISMS = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
USERS = {"alice": "alice-password", "bob": "bob-password", "carol": "carol-password", "admin": "admin-password"}
"""Who can log in, by PLAIN and both SCRAMs; by OAUTHBEARER anybody who says so in an unsigned token. `admin` is a super user."""
_MODULES = "org.apache.kafka.common.security"
_CLUSTER = "VeilTestsVeilTestsVeil"  # 16 bytes in base64, as a cluster id has to be

# Small, quick to start and quick to rebalance. Every one of them is a broker setting of Kafka 4.2.
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": CONTROLLER,
    "inter.broker.listener.name": PLAIN,
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "controlled.shutdown.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "1",
    "num.replica.fetchers": "1",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "min.insync.replicas": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "300",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "delegation.token.secret.key": "a-secret-of-the-tests",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "allow.everyone.if.no.acl.found": "true",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
}


_given: set[int] = set()


def own_port() -> int:
    """A loopback port that nobody listens on and that the system gives to no outgoing connection.

    A node binds its ports seconds after they were chosen, and again after it was killed; meanwhile the other nodes and every
    other test open connections, and one of those would have the port. Hence below the range that connections are numbered from.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(max(1024, lowest // 2), lowest) if lowest > 2048 else free_port()
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            _given.add(port)
            return port


def offered() -> str | None:
    """How this run has its broker, or None."""
    process = PROCESS if java() is not None else None
    match mode.BROKERS:
        case "processes":
            return process
        case "containers":
            return CONTAINER if has_image(IMAGE) else None
        case _:
            return CONTAINER if has_image(IMAGE) else process


class KafkaServer:
    """One node and the means to disturb it. `settings` go over those above."""

    _leaves: ClassVar[KafkaServer | None] = None
    """The one of this run that leaves the archive of classes."""

    def __init__(
        self,
        folder: Path,
        flavour: str = PROCESS,
        *,
        listeners: Sequence[str] = tuple(LISTENERS),
        settings: Mapping[str, str] | None = None,
        heap: str = "384m",
    ) -> None:
        self.folder = folder
        self.flavour = flavour
        self.host = HOST
        self.node_id = 1
        self.heap = heap
        self.listeners = tuple(listeners)
        self.ports: dict[str, int] = {}
        """By listener."""
        self.voters: dict[int, int] = {}
        """The controllers' ports by node; left empty, this node alone."""
        self.replication = 1
        self.authority: Authority | None = None
        """Who signed the broker's certificate, and signs those of clients: `server.authority.make("alice")`."""
        self._settings = dict(settings or {})
        self._certificate: Made | None = None
        self._running: Running | None = None
        self._archive: Path | None = None
        self._paused = False

    @property
    def port(self) -> int:
        return self.ports[PLAIN]

    @property
    def address(self) -> str:
        return self.at(PLAIN)

    def at(self, listener: str) -> str:
        return f"{self.host}:{self.ports[listener]}"

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What may be in no byte that a reader gets: where the broker says that it is, ports as text and as the wire's int32."""
        ports = self.ports.values()
        return (ADVERTISED.encode(), *(str(port).encode() for port in ports), *(port.to_bytes(4) for port in ports))

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def choose_ports(self) -> None:
        self.ports = {name: own_port() for name in (*self.listeners, CONTROLLER)}

    def start(self) -> None:
        """Starts it, the second time on the same ports and with what it had.

        Raises:
            TimeoutError: it does not answer.
        """
        for attempt in range(3):
            again = bool(self.ports)
            if not again:
                self.choose_ports()
            self.launch()
            try:
                self.wait()
            except OSError:
                self.stop()
                if again or attempt == 2:
                    raise
                self.ports.clear()  # somebody took a port between the look and the start
            else:
                return

    def launch(self) -> None:
        """Starts it and does not wait."""
        self._paused = False
        self._write()
        config = str(self.folder / "server.properties")
        scram = [
            f"--add-scram={mechanism}=[name={user},password={password},iterations=4096]"
            for mechanism in MECHANISMS[1:3]
            for user, password in USERS.items()
        ]
        arguments = ["format", "-t", _CLUSTER, "-c", config, "--feature", "share.version=1", *scram]
        formatted = (self.folder / "data" / "meta.properties").exists()
        if self.flavour == CONTAINER:
            run = "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
            run += f" -Dlog4j2.configurationFile={self.folder / 'log4j2.properties'} -cp '/opt/kafka/libs/*'"
            steps = "" if formatted else f"{run} kafka.tools.StorageTool {shlex.join(arguments)} && "
            steps += f"exec {run} -Xmx{self.heap} kafka.Kafka {config}"
            mount = ["-v", f"{self.folder}:{self.folder}"]
            self._running = Container(IMAGE, ["sh", "-c", f"exec >> {self.log} 2>&1; {steps}"], options=mount)
            return
        if not formatted:
            with self.log.open("ab") as out:
                format_it = command("kafka.tools.StorageTool", *arguments)
                subprocess.run(format_it, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=True)
        self._running = Process(command("kafka.Kafka", config, heap=self.heap, share=self._first()), self.log)

    def _first(self) -> str:
        # The first node on a machine leaves the archive that the next ones start from, when it ends; one, as it takes 4 s.
        if archive().exists() or KafkaServer._leaves not in {None, self}:
            return ""
        KafkaServer._leaves = self
        self._archive = archive().with_suffix(f".{os.getpid()}.{self.node_id}")
        return f"-XX:ArchiveClassesAtExit={self._archive}"

    def _write(self) -> None:
        (self.folder / "log4j2.properties").write_text((HERE / "log4j2.properties").read_text())
        everywhere = {name: LISTENERS[name] for name in self.listeners}
        voters = self.voters or {self.node_id: self.ports[CONTROLLER]}
        told = SETTINGS | {
            "node.id": str(self.node_id),
            "log.dirs": str(self.folder / "data"),
            "controller.quorum.voters": ",".join(f"{node}@{self.host}:{port}" for node, port in voters.items()),
            "listeners": ",".join(f"{name}://{self.host}:{port}" for name, port in self.ports.items()),
            "advertised.listeners": ",".join(f"{name}://{ADVERTISED}:{self.ports[name]}" for name in everywhere),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in (everywhere | {CONTROLLER: "PLAINTEXT"}).items()
            ),
        }
        for topic in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            told[f"{topic}.replication.factor"] = str(self.replication)
        for name, protocol in everywhere.items():
            prefix = f"listener.name.{name.lower()}"
            if protocol.startswith("SASL"):
                told |= _logins(prefix)
            if protocol.endswith("SSL"):
                told |= self._tls(prefix)
            if name == REAUTH:
                told |= {f"{prefix}.{each.lower()}.connections.max.reauth.ms": str(REAUTH_MS) for each in MECHANISMS}
        told |= self._settings
        (self.folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in told.items()))

    def _tls(self, prefix: str) -> dict[str, str]:
        if self.authority is None or self._certificate is None:
            self.authority = Authority(self.folder)
            self._certificate = self.authority.server("kafka")
        both = self.folder / "kafka.pem"
        both.write_bytes(self._certificate.key.read_bytes() + self._certificate.certificate.read_bytes())
        return {
            f"{prefix}.ssl.client.auth": "requested",
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": str(both),
            f"{prefix}.ssl.truststore.type": "PEM",
            f"{prefix}.ssl.truststore.location": str(self.authority.path),
        }

    def wait(self) -> None:
        """Returns when it answers, as a node of its cluster.

        Raises:
            ConnectionRefusedError: it ended.
            TimeoutError: it does not.
        """
        wait_until(self._up, f"{self.flavour} {self.node_id}: {self.log}", START_S)

    def _up(self) -> bool:
        running = self._running
        assert running is not None
        if isinstance(running, Process) and not running.alive():
            raise ConnectionRefusedError(f"{self.flavour} ended at once: {self.log.read_text(errors='replace')[-2000:]}")
        if not all(answers(self.host, port) for port in self.ports.values()):
            if not running.alive():
                raise ConnectionRefusedError(f"{self.flavour} ended: {self.log.read_text(errors='replace')[-2000:]}")
            return False
        with contextlib.suppress(OSError), self.client() as client:
            return any(node.node_id == self.node_id for node in client.metadata().brokers)
        return False

    def client(self, listener: str = PLAIN) -> KafkaWireClient:
        """A client that has not logged in."""
        return KafkaWireClient(self.host, self.ports[listener])

    def alive(self) -> bool:
        return self._running is not None and self._running.alive()

    def kill(self) -> None:
        """SIGKILL: it is gone until `start`."""
        assert self._running is not None
        self._running.kill()
        self._paused = False

    def pause(self) -> None:
        """It holds its connections and answers nobody until `resume`."""
        assert self._running is not None
        self._running.pause()
        self._paused = True

    def resume(self) -> None:
        assert self._running is not None
        if self._paused:
            self._running.resume()
        self._paused = False

    def reset(self) -> None:
        """Running again, whatever a test did to it. Topics stay: each test names its own."""
        if self._paused:
            self.resume()
        # By its port, since to ask the engine about a container takes longer than most tests.
        if not answers(self.host, self.port):
            self.stop()
            self.start()

    def stop(self) -> None:
        running = self._running
        if running is None:
            return
        if self._paused:
            self.resume()
        if self._archive is not None and isinstance(running, Process) and running.alive():
            with contextlib.suppress(OSError):  # without an archive a start takes longer, and that is all
                running.terminate(60)
                self._archive.rename(archive())
            self._archive.unlink(missing_ok=True)
        running.stop()


def _logins(prefix: str) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    told = {
        "plain": f"plain.PlainLoginModule required {users};",
        "scram-sha-256": "scram.ScramLoginModule required;",
        "scram-sha-512": "scram.ScramLoginModule required;",
        "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    return {f"{prefix}.{name}.sasl.jaas.config": f"{_MODULES}.{each}" for name, each in told.items()}


class KafkaFleet:
    """The one broker of a session, started when first wanted."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._server: KafkaServer | None = None

    def server(self) -> KafkaServer:
        """It, running; skips or fails the test where there is none."""
        if self._server is None:
            flavour = offered()
            if flavour is None:
                mode.absent("kafka", "make brokers, as root, with podman" if mode.BROKERS == "containers" else HOW)
            server = KafkaServer(self._folder(flavour), flavour)
            server.start()
            self._server = server
        return self._server

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
