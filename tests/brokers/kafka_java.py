"""Java, Kafka's jars and how a class of them is run; its tools, as people type them.

Source: the scripts in Kafka 4.2's bin/, which name the class of each tool.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import mode

HERE = Path(__file__).parent / "kafka"
VERSION = re.findall(r"<kafka>(.+?)</kafka>", (HERE / "pom.xml").read_text())[0]
HOME = mode.CACHE / f"kafka-{VERSION}"
HOW = "make brokers: Java 17, and Kafka's jars by Maven"
TOOL_S = 60.0

CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
VERB_FIRST = frozenset({"kafka-cluster"})
"""Whose options belong to a verb in front of them."""
# One compiler and one collector thread: on two cores a start is what takes time, not what comes after it.
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable", "-Djava.awt.headless=true")


@functools.cache
def java() -> str | None:
    """The interpreter, or None where it or the jars are missing."""
    found = shutil.which("java")
    return found if found is not None and (HOME / "complete").exists() else None


def archive() -> Path:
    """Where classes lie that a JVM takes up as they were in memory: a start in 1.5 s instead of 3.5 s.

    It fits one JVM and one set of jars only, hence its name; a JVM ignores one that does not fit it.
    """
    jvm = Path(java() or "java").resolve().parents[1] / "lib" / "modules"
    of = jvm.stat().st_mtime_ns if jvm.exists() else 0
    return HOME / f"classes-{of:x}.jsa"


def command(
    name: str,
    *arguments: str,
    heap: str = "128m",
    log: str = "log4j2.properties",
    share: str = "",
    flags: Sequence[str] = (),
    beside: Sequence[Path] = (),
) -> list[str]:
    """The command line of a class of Kafka's; `share` in place of the flag that takes up the archive, `flags` are more of the
    JVM's, and `beside` more jars.

    Skips or fails the test where there is no Java or no Kafka.
    """
    interpreter = java()
    if interpreter is None:
        mode.absent("kafka", HOW)
    shared = f"-XX:SharedArchiveFile={archive()}" if archive().exists() else "-Xshare:auto"
    told = [share or shared, f"-Xmx{heap}", *JVM, f"-Dlog4j2.configurationFile={HERE / log}", *flags]
    return [interpreter, *told, "-cp", ":".join([f"{HOME / 'libs'}/*", *map(str, beside)]), name, *arguments]


class KafkaTool:
    """Kafka's own tools against one address; `properties` are what a person's client.properties would say."""

    def __init__(self, folder: Path, address: str, properties: Mapping[str, str] | None = None) -> None:
        self._address = address
        self._folder = folder
        self._flags: list[str] = []
        if properties:
            path = folder / "client.properties"
            path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            self._flags = ["--command-config", str(path)]
        self.seen = bytearray()
        """All that the tools ever printed."""
        self.code = 0
        """With which the last one ended."""

    def run(self, name: str, *arguments: str, stdin: bytes = b"", within_s: float = TOOL_S) -> str:
        """What a tool prints, to both outputs, errors included: `run("kafka-topics", "--list")`."""
        verb = arguments[:1] if name in VERB_FIRST else ()
        words = [*verb, "--bootstrap-server", self._address, *self._flags, *arguments[len(verb) :]]
        line = command(CLASSES[name], *words, log="tools-log4j2.properties")
        done = subprocess.run(
            line, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=within_s, env=_environment()
        )
        self.seen += done.stdout
        self.code = done.returncode
        return done.stdout.decode(errors="surrogateescape").rstrip("\n")


def _environment() -> dict[str, str]:
    # JAVA_TOOL_OPTIONS and the like would print themselves into what the tool says.
    return {name: value for name, value in os.environ.items() if not name.startswith(("JAVA_", "JDK_", "_JAVA", "KAFKA_"))}
