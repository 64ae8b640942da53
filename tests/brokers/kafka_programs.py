"""Clients that run as programs of their own: kcat, kafkajs in node, kafka-python and aiokafka. All that they print is kept.

The last two have loops, threads and warnings of their own, which do not belong into the process of the tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tests.consoles.npm import node, package

from . import mode

KAFKAJS = "2.2.4"
RUN_S = 60.0


class Kcat:
    """`kcat -b ADDRESS`; `settings` are librdkafka's, each by -X.

    Debian 12's is of librdkafka 2.0.2, which Kafka since 3.9.1 refuses by SCRAM: it sends its nonce twice (CVE-2024-56128).
    """

    def __init__(self, address: str, settings: Mapping[str, object] | None = None) -> None:
        binary = shutil.which("kcat")
        if binary is None:
            mode.absent("kafka", "apt-get install kcat, or make brokers")
        told: dict[str, object] = {"broker.address.family": "v4", **(settings or {})}
        self._command = [binary, "-b", address]
        self._command += [
            f"-X{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in told.items()
        ]
        self.seen = bytearray()

    def run(self, *words: str, stdin: bytes = b"", within_s: float = RUN_S) -> str:
        """What it prints, to both outputs."""
        done = subprocess.run(
            [*self._command, *words], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=within_s
        )
        self.seen += done.stdout
        return done.stdout.decode(errors="surrogateescape").rstrip("\n")


_BEFORE = """
const { Kafka, logLevel, CompressionTypes, ConfigResourceTypes } = require(process.argv[1])
const kafka = new Kafka({ ...JSON.parse(process.argv[2]), clientId: 'kafkajs', logLevel: logLevel.ERROR })
const main = async () => {
"""
_AFTER = """
}
main().then(() => process.exit(0), e => { console.error(e); process.exit(1) })
"""


class KafkaJs:
    """A few lines of JavaScript with `kafka` in them, connected to an address; `sasl` and `ssl` as kafkajs takes them."""

    def __init__(self, address: str, **settings: object) -> None:
        self._folder = str(package("kafkajs", KAFKAJS, required_as="kafka"))
        self._node = node(required_as="kafka")
        self._told = json.dumps({"brokers": address.split(","), **settings})
        self.seen = bytearray()

    def run(self, script: str, within_s: float = RUN_S) -> str:
        """What the body of an async function prints, to both outputs."""
        command = [self._node, "-e", _BEFORE + script + _AFTER, self._folder, self._told]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=within_s
        )
        self.seen += done.stdout
        return done.stdout.decode(errors="surrogateescape").rstrip("\n")


class PythonScript:
    """A script in this Python: `address` and `settings` are there by name."""

    def __init__(self, address: str, **settings: object) -> None:
        self._told = json.dumps({"address": address, "settings": settings})
        self.seen = bytearray()

    def run(self, script: str, within_s: float = RUN_S) -> str:
        """What it prints, to both outputs."""
        start = "import json, sys; globals().update(json.loads(sys.argv[1]))\n"
        done = subprocess.run(
            [sys.executable, "-c", start + script, self._told],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
        )
        self.seen += done.stdout
        return done.stdout.decode(errors="surrogateescape").rstrip("\n")
