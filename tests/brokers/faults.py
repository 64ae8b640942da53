"""What befalls the network between two processes, the disk and the clock under one, and what a process uses meanwhile."""

from __future__ import annotations

import os
import resource
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self


class _Forward(socketserver.BaseRequestHandler):
    """Carries bytes both ways until one side ends."""

    to: tuple[str, int]

    def handle(self) -> None:
        with socket.create_connection(self.to) as there:
            while ready := select.select([self.request, there], [], [], 20)[0]:
                for each in ready:
                    try:
                        data = each.recv(65536)
                        if not data:
                            return
                        (there if each is self.request else self.request).sendall(data)
                    except OSError:
                        return


class _Forwarder(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


@contextmanager
def forwarded(to: tuple[str, int], port: int = 0) -> Iterator[int]:
    """A port that leads to a server, as an address of another network would."""
    handler = type("_To", (_Forward,), {"to": to})
    with _Forwarder(("127.0.0.1", port), handler) as forward:
        threading.Thread(target=forward.serve_forever, args=(0.05,), daemon=True).start()
        yield forward.server_address[1]
        forward.shutdown()


class Line:
    """A way to a server that can fall silent, or be cut after so many bytes of its answers.

    Silent is half-open: connections are taken and stay, and nothing that is sent arrives, either way.
    """

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._flows = threading.Event()
        self._flows.set()
        self._ended = threading.Event()
        self.cut_after: int | None = None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def fall_silent(self) -> None:
        self._flows.clear()

    def go_on(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self._ended.set()
        self._flows.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._to)
            except OSError:
                continue
            self._open += [near, far]
            for source, target, counted in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=(source, target, counted), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(65536):
                self._flows.wait()
                if counted and self.cut_after is not None and len(data) >= self.cut_after:
                    target.sendall(data[: self.cut_after])
                    break
                if counted and self.cut_after is not None:
                    self.cut_after -= len(data)
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


# what a process uses


def rss(pid: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def cpu_s(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid: int) -> int:
    """Open files."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


# faults inside Veil's own process


FAULTS = '''
"""Loaded by the interpreter at its start: what the operating system would do wrong, as a file says."""
import datetime, errno, os, time

_told, _fsync, _datetime = os.environ["FAULTS_OF_A_TEST"], os.fsync, datetime.datetime

def _fault(name):
    try:
        with open(_told) as opened:
            kind, _, more = opened.read().partition(" ")
        return (more or "yes") if kind == name else None
    except OSError:
        return None

def fsync(fd):
    if _fault("fsync-fails"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    while _fault("fsync-hangs"):
        time.sleep(0.01)
    return _fsync(fd)

class Moved(_datetime):
    @classmethod
    def now(cls, zone=None):
        return _datetime.now(zone) + datetime.timedelta(seconds=float(_fault("clock") or 0))

os.fsync, datetime.datetime = fsync, Moved

if "POLL_OF_A_TEST" in os.environ:
    import rules.store.redis as _store
    _store.POLL_S = _store.SLOWEST_POLL_S = float(os.environ["POLL_OF_A_TEST"])
'''


class Faults:
    """Faults of the disk and of the clock inside a Veil that is started with `environment`.

    With `POLL_OF_A_TEST` in it as well the store in Redis is looked at so seldom, in seconds.
    """

    def __init__(self, folder: Path, pythonpath: Path) -> None:
        self._told = folder / "fault"
        (folder / "sitecustomize.py").write_text(FAULTS)
        self.environment = {"PYTHONPATH": f"{folder}{os.pathsep}{pythonpath}", "FAULTS_OF_A_TEST": str(self._told)}

    def begin(self, fault: str) -> None:
        """`fsync-fails`, `fsync-hangs` or `clock SECONDS`, which is how far the wall clock is moved."""
        hidden = self._told.with_name("fault.new")
        hidden.write_text(fault)
        hidden.replace(self._told)

    def end(self) -> None:
        self._told.unlink(missing_ok=True)
