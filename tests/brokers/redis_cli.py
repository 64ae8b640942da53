"""redis-cli by subprocess: what people type, and what they see."""

from __future__ import annotations

import shutil
import subprocess

from . import mode


class RedisCli:
    """One address, one login, one version of the protocol."""

    def __init__(self, host: str, port: int, *, user: str = "", password: str = "", resp3: bool = False) -> None:
        binary = shutil.which("redis-cli")
        if binary is None:
            mode.absent("redis", "apt-get install redis-tools, or make brokers")
        self._command = [binary, "-h", host, "-p", str(port)]
        if user:
            self._command += ["--user", user, "--pass", password, "--no-auth-warning"]
        if resp3:
            self._command.append("-3")
        self.seen = bytearray()
        """All that redis-cli ever printed, for `assert_no_canary`."""

    def run(self, *words: str, stdin: bytes = b"", raw: bool = True) -> str:
        """What it prints for one command, or with none for the lines of `stdin`; `raw` False: as on a terminal."""
        command = [*self._command, "--raw" if raw else "--no-raw", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=30)
        self.seen += done.stdout + done.stderr
        return (done.stdout + done.stderr).decode(errors="surrogateescape").rstrip("\n")
