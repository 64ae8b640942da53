"""A judge of Kafka Connect at hand, on a worker with these classes of connectors."""

from __future__ import annotations

from typing import Any

from proxy.protocols.http.apis.kafka_connect import KafkaConnect
from rules.model import AccessList, Extent, Grant, Rule, RuleBook, Whom
from tests.proxy.kafka.desk import ORDERS

from .bench import Judge

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CHECKPOINTS = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
HEARTBEATS = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
REPLICATOR = "io.confluent.connect.replicator.ReplicatorSourceConnector"
TABLES = "com.example.TablesSourceConnector"
PLUGINS = [
    {"class": SINK, "type": "sink", "version": "4"},
    *(
        {"class": name, "type": "source", "version": "4"}
        for name in (SOURCE, MIRROR, CHECKPOINTS, HEARTBEATS, REPLICATOR, TABLES)
    ),
    {"class": "com.one.TwinConnector", "type": "sink"},
    {"class": "com.two.TwinConnector", "type": "source"},
]
ALICE = Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True))


def judge(*rules: Rule, who: str | None = None) -> Judge:
    told = Judge(KafkaConnect(), ORDERS, RuleBook("1", rules, AccessList(grants=(ALICE,))), who=who)
    told.knows["/connector-plugins"] = (200, PLUGINS)
    return told


def config(**keys: Any) -> dict[str, Any]:
    return {"connector.class": SINK, "tasks.max": "1", "file": "/tmp/x"} | {
        key.replace("__", "."): value for key, value in keys.items()
    }
