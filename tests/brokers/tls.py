"""A Redis that speaks TLS, and clients that do."""

from __future__ import annotations

import functools
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from tests.certificates import Authority, Made

from .mode import absent
from .processes import Process, answers, free_port, wait_until
from .redis_server import REDIS, RedisServer
from .resp_client import RespClient


@functools.cache
def redis_speaks_tls() -> bool:
    """Whether the machine's redis-server was built with TLS."""
    binary = shutil.which("redis-server")
    if binary is None:
        return False
    said = subprocess.run([binary, "--port", "0", "--tls-port", "x"], capture_output=True, timeout=10)
    return b"Bad directive" not in said.stdout + said.stderr


class TlsRedis(RedisServer):
    """The machine's Redis with a TLS port beside the plain one, which is for the fixtures alone."""

    def __init__(self, folder: Path, authority: Authority, made: Made, *, ask_clients: bool = False) -> None:
        super().__init__(REDIS, folder)
        if not redis_speaks_tls():
            absent("redis", "a redis-server with TLS: apt-get install redis-server")
        self.tls_port = free_port()
        self._tls = ["--tls-port", str(self.tls_port), "--tls-ca-cert-file", str(authority.path)]
        self._tls += ["--tls-cert-file", str(made.certificate), "--tls-key-file", str(made.key)]
        self._tls += ["--tls-auth-clients", "yes" if ask_clients else "no"]

    def _launch(self) -> Process:
        arguments = ["--port", str(self.port), "--bind", self.host, "--save", "", "--appendonly", "no", *self._tls]
        arguments += ["--user", "veil-tests", "on", f">{self.password}", "~*", "&*", "+@all"]
        return Process(["redis-server", "--dir", str(self.folder), *arguments], self.folder / "server.log")

    def start(self) -> None:
        super().start()
        wait_until(lambda: answers(self.host, self.tls_port), "the TLS port")


def client_context(authority: Authority, own: Made | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.path)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


class TlsClient(RespClient):
    """As RespClient, inside TLS."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, name: str = "localhost") -> None:
        super().__init__(host, port)
        self._plain = self._socket
        try:
            self._socket: socket.socket = context.wrap_socket(self._plain, server_hostname=name)
        except BaseException:
            self._plain.close()
            raise

    @property
    def shown(self) -> str:
        """The serial number of the certificate that the server showed."""
        assert isinstance(self._socket, ssl.SSLSocket)
        certificate = self._socket.getpeercert() or {}
        return str(certificate["serialNumber"])


def s_client(port: int, authority: Authority, *more: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """`openssl s_client`: what it sent comes from `stdin`, what it saw is its output."""
    binary = shutil.which("openssl")
    if binary is None:
        absent("openssl", "apt-get install openssl")
    command = [binary, "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", str(authority.path), *more]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=20)
