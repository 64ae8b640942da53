"""Processes and containers that a test starts, and that it alone may end."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from .mode import CONTAINERS

START_S = 20.0
ENGINE = Path(__file__).parent / "containers" / "engine.sh"
ENGINE_S = 60.0  # a call to the engine takes 0.1 s; a hanging one must not hang the run
_numbers = itertools.count(1)


_given: set[int] = set()


def free_port() -> int:
    """A loopback port that nobody listens on at this moment, and that was not given before."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port


def free_ports(count: int) -> range:
    """So many loopback ports in a row that nobody listens on, below those that outgoing connections are given."""
    while True:
        ports = range(first := random.randrange(20_000, 32_000 - count), first + count)
        with contextlib.ExitStack() as probes:
            try:
                for port in ports:
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        if _given.isdisjoint(ports):
            _given.update(ports)
            return ports


def wait_until(condition: Callable[[], bool], what: str, within_s: float = START_S) -> None:
    """Returns when the condition holds.

    Raises:
        TimeoutError: it did not within `within_s`.
    """
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within_s} s: {what}")
        time.sleep(0.02)


def answers(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


class Running(Protocol):
    """Something that was started here."""

    def alive(self) -> bool: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...


class Process:
    """A child process; what it says goes to `log`."""

    def __init__(
        self, command: Sequence[str], log: Path, *, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=cwd)

    def alive(self) -> bool:
        return self.child.poll() is None

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def pause(self) -> None:
        self.child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.child.send_signal(signal.SIGCONT)

    def terminate(self, within_s: float = 15.0) -> int:
        """SIGTERM, and the exit code.

        Raises:
            TimeoutError: it did not end by itself; it is killed then.
        """
        self.resume()
        self.child.terminate()
        try:
            return self.child.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.child.args!r} did not end within {within_s} s of SIGTERM") from None

    def stop(self) -> None:
        if self.alive():
            self.kill()


def engine(*arguments: str, within_s: float = ENGINE_S) -> subprocess.CompletedProcess[bytes]:
    """One call to the container engine."""
    env = {**os.environ, "VEIL_CONTAINERS": str(CONTAINERS)}
    return subprocess.run([ENGINE, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=within_s, env=env)


@functools.cache
def has_image(image: str) -> bool:
    """Whether a container engine answers and holds the image."""
    try:
        return engine("image", "exists", image).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Container:
    """A container on the host's network; `options` are more flags of the engine's `run`."""

    def __init__(self, image: str, command: Sequence[str], options: Sequence[str] = ()) -> None:
        self.name = f"veil-test-{os.getpid()}-{next(_numbers)}"
        started = engine("run", "-d", "--rm", "--name", self.name, "--network=host", *options, image, *command)
        if started.returncode != 0:
            raise OSError(f"the container did not start: {started.stderr.decode(errors='replace')}")

    def alive(self) -> bool:
        return engine("container", "exists", self.name).returncode == 0

    def kill(self) -> None:
        engine("kill", "-s", "KILL", self.name)
        wait_until(lambda: not self.alive(), f"{self.name} is gone")

    def pause(self) -> None:
        self._must("kill", "-s", "STOP")

    def resume(self) -> None:
        self._must("kill", "-s", "CONT")

    def stop(self) -> None:
        engine("rm", "-f", "-t", "0", self.name)

    def _must(self, *arguments: str) -> None:
        done = engine(*arguments, self.name)
        if done.returncode != 0:
            raise OSError(done.stderr.decode(errors="replace"))
