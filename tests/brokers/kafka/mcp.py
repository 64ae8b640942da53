"""A server of the Model Context Protocol for Kafka, from PyPI, spoken to in lines of JSON-RPC over its pipes.

Source: Model Context Protocol 2025-06-18, "Transports" (stdio) and "Lifecycle".
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import IO, Any

from tests.brokers.kafka_server import USERS
from tests.consoles.pip import program

PACKAGE, VERSION = "atengk-mcp-server-kafka", "1.3.1"
PROTOCOL = "2025-06-18"
ANSWER_S = 45.0


class KafkaMcp:
    """One running server, logged in as bob. `seen` is every byte it ever answered, and `log` what it complained of."""

    def __init__(self, folder: Path, address: str) -> None:
        binary = program(PACKAGE, VERSION, "mcp-server-kafka", required_as="console")
        told = {
            "BOOTSTRAP_SERVERS": address,
            "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "SASL_MECHANISM": "SCRAM-SHA-256",
            "SASL_USERNAME": "bob",
            "SASL_PASSWORD": USERS["bob"],
        }
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), **{f"MCP_KAFKA_{name}": each for name, each in told.items()}}
        self._log = folder / "mcp.log"
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env, bufsize=0
            )
        self.seen = bytearray()
        self._lines = bytearray()
        self._number = 0
        info = {"name": "tests", "version": "1"}
        self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tools(self) -> set[str]:
        return {each["name"] for each in self._ask("tools/list", {})["tools"]}

    def call(self, tool: str, **arguments: object) -> Any:
        """What the tool gives, as JSON."""
        return json.loads(self._ask("tools/call", {"name": tool, "arguments": arguments})["content"][0]["text"])

    def read(self, uri: str) -> str:
        """The text of a resource."""
        return str(self._ask("resources/read", {"uri": uri})["contents"][0]["text"])

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        self._pipe(self._child.stdin).close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._pipe(self._child.stdout).close()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe

    def _send(self, message: dict[str, object]) -> None:
        self._pipe(self._child.stdin).write(json.dumps(message).encode() + b"\n")

    def _ask(self, method: str, parameters: dict[str, object]) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        end = time.monotonic() + ANSWER_S
        while (message := self._next(end)).get("id") != self._number:
            pass
        return message["result"]

    def _next(self, end: float) -> Any:
        out = self._pipe(self._child.stdout)
        while (stop := self._lines.find(b"\n")) < 0:
            ready, _, _ = select.select([out], [], [], max(0.0, end - time.monotonic()))
            data = os.read(out.fileno(), 65536) if ready else b""
            if not data:
                raise TimeoutError(f"the server does not answer: {self.log()[-2000:]}")
            self.seen += data
            self._lines += data
        line = bytes(self._lines[:stop])
        del self._lines[: stop + 1]
        return json.loads(line)
