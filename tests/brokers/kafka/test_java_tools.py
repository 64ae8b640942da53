"""The tools that come with Kafka, run straight at the broker and through Veil: the same but for masks and addresses."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from proxy.protocols.kafka.surface import ROWS
from tests.brokers.kafka_clients import Record, admin, consume, create_topics, produce
from tests.brokers.kafka_java import KafkaTool
from tests.brokers.kafka_server import SASL, USERS, KafkaFleet, KafkaServer
from tests.brokers.veil import Veil
from tests.canary import Canary, CanaryFound

from .cards import RULES, assert_no_address

pytestmark = [pytest.mark.slow, pytest.mark.broker]

RECORDS = 3
MARK = 'veil-masked:[{"field":"$.card","method":"redact","rule":"Cards"}]'
AS_BOB = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="bob" password="{USERS["bob"]}";',
}


@dataclass
class Scene:
    """A covered topic, another one, a group and a transaction; a tool on either side of Veil, both as bob."""

    server: KafkaServer
    veil: Veil
    canary: Canary
    name: str
    direct: KafkaTool
    veiled: KafkaTool

    @property
    def covered(self) -> str:
        return f"orders-{self.name}"

    @property
    def plain(self) -> str:
        return f"plain-{self.name}"

    def end(self) -> None:
        """What every test ends with: nothing that bob got through Veil holds a value or an address."""
        told = bytes(self.veiled.seen)
        self.canary.assert_not_in(told, "what the tools printed")
        assert_no_address(told, self.server)
        self.canary.assert_nowhere(self.veil)


@pytest.fixture(scope="module")
def scene(kafka_fleet: KafkaFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One for the file: a JVM takes a second, and so does a Veil."""
    server = kafka_fleet.server()
    folder = tmp_path_factory.mktemp("java-tools")
    (folder / "veil").mkdir()
    veil = Veil(folder / "veil", RULES, "", server.at(SASL), {}, "kafka")
    veil.start()
    try:
        direct, veiled = (_tool(folder / name, at) for name, at in (("d", server.at(SASL)), ("v", veil.address)))
        made = Scene(server, veil, Canary("java-tools"), secrets.token_hex(4), direct, veiled)
        _fill(made)
        yield made
    finally:
        veil.end()


def _tool(folder: Path, address: str) -> KafkaTool:
    folder.mkdir()
    return KafkaTool(folder, address, AS_BOB)


def _fill(scene: Scene) -> None:
    create_topics(scene.server.address, scene.covered, scene.plain)
    documents = [json.dumps({"card": scene.canary.text(), "n": each}).encode() for each in range(RECORDS)]
    produce(scene.server.address, scene.covered, [Record(each, b"key", [("h", b"1")]) for each in documents], codec="lz4")
    produce(scene.server.address, scene.plain, [b"seen"], transaction=f"tx-{scene.name}")
    at = {"bootstrap.servers": scene.server.address, "broker.address.family": "v4", "group.id": f"group-{scene.name}"}
    consumer = Consumer(at)
    consumer.commit(offsets=[TopicPartition(scene.covered, 0, 1)], asynchronous=False)
    consumer.close()


def _told(text: str, moving: str) -> list[str]:
    """Lines without what differs from one call to the next; columns as wide as they are does not count."""
    if moving:
        text = re.sub(moving, "~", text)
    return sorted(re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines())


CLOCK = r"\b\d{13}\b"
SAME = {
    "topics-list": ("kafka-topics --list", ""),
    "topics-describe": ("kafka-topics --describe --topic {covered}", ""),
    "get-offsets": ("kafka-get-offsets --topic {covered}", ""),
    "configs-topic": ("kafka-configs --describe --entity-type topics --entity-name {covered} --all", ""),
    "acls-list": ("kafka-acls --list", ""),
    "groups": ("kafka-groups --list --group-type classic", ""),
    "consumer-groups-list": ("kafka-consumer-groups --list --state", ""),
    "consumer-groups-describe": ("kafka-consumer-groups --describe --group group-{name}", ""),
    "consumer-groups-reset": (
        "kafka-consumer-groups --reset-offsets --group group-{name} --topic {covered} --to-earliest --dry-run",
        "",
    ),
    "share-groups-list": ("kafka-share-groups --list", ""),
    "transactions-list": ("kafka-transactions list", ""),
    "transactions-describe": ("kafka-transactions describe --transactional-id tx-{name}", r"(?<=CompleteCommit).*"),
    "transactions-find-hanging": ("kafka-transactions find-hanging --broker-id 1", ""),
    "describe-producers": ("kafka-transactions describe-producers --topic {plain} --partition 0", ""),
    "leader-election": ("kafka-leader-election --election-type preferred --topic {covered} --partition 0", ""),
    "reassign-list": ("kafka-reassign-partitions --list", ""),
    "cluster-id": ("kafka-cluster cluster-id", ""),
    "features": ("kafka-features describe", r"Epoch: \d+"),
    "quorum-replication": ("kafka-metadata-quorum describe --replication", rf"{CLOCK}|(?<=\t)\d+\s"),
    "quorum-status": (
        "kafka-metadata-quorum describe --status",
        r'(?<=HighWatermark:)\s+\d+|, "endpoints": \[[^]]*\]|(?<="id": 1)(?=\})',
    ),
}


@pytest.mark.parametrize("row", SAME)
def test_a_tool_says_through_veil_what_it_says_without(scene: Scene, kafka_server: KafkaServer, row: str) -> None:
    line, moving = SAME[row]
    words = line.format(covered=scene.covered, plain=scene.plain, name=scene.name).split()
    expected = scene.direct.run(*words)
    told = scene.veiled.run(*words)

    assert scene.direct.code == 0, expected
    assert scene.veiled.code == 0, told
    assert _told(told, moving) == _told(expected, moving)
    scene.end()


def test_the_console_consumer_prints_masks_and_marks(scene: Scene, kafka_server: KafkaServer) -> None:
    words = f"--topic {scene.covered} --from-beginning --max-messages {RECORDS} --formatter-property print.headers=true"
    read = "kafka-console-consumer", *words.split(), "--formatter-property", "print.key=true"
    seen = scene.direct.run(*read, "--group", f"direct-{scene.name}")
    told = scene.veiled.run(*read, "--group", f"veiled-{scene.name}")

    with pytest.raises(CanaryFound):
        scene.canary.assert_not_in(seen)
    assert scene.direct.code == scene.veiled.code == 0
    assert told.splitlines()[:RECORDS] == [f'h:1,{MARK}\tkey\t{{"card": "••••", "n": {each}}}' for each in range(RECORDS)]
    assert told.splitlines()[RECORDS:] == seen.splitlines()[RECORDS:]
    scene.end()


def test_the_console_share_consumer_prints_masks_and_marks(scene: Scene, kafka_server: KafkaServer) -> None:
    words = f"--topic {scene.covered} --max-messages {RECORDS} --timeout-ms 30000 --formatter-property print.headers=true"
    told = {}
    for side, tool in (("direct", scene.direct), ("veiled", scene.veiled)):
        group = f"share-{side}-{scene.name}"
        start = f"--alter --entity-type groups --entity-name {group} --add-config share.auto.offset.reset=earliest"
        tool.run("kafka-configs", *start.split())
        told[side] = tool.run("kafka-console-share-consumer", *words.split(), "--group", group)
        assert tool.code == 0, told[side]

    with pytest.raises(CanaryFound):
        scene.canary.assert_not_in(told["direct"])
    assert told["veiled"].splitlines()[:RECORDS] == [f'h:1,{MARK}\t{{"card": "••••", "n": {each}}}' for each in range(RECORDS)]
    scene.end()


def test_the_console_producer_writes_and_is_told_why_a_masked_record_is_not_taken(
    scene: Scene, kafka_server: KafkaServer
) -> None:
    written, topic = scene.canary.text(), f"orders-written-{scene.name}"
    create_topics(scene.server.address, topic)
    scene.veiled.run("kafka-console-producer", "--topic", topic, stdin=json.dumps({"card": written}).encode() + b"\n")
    assert scene.veiled.code == 0
    refused = scene.veiled.run("kafka-console-producer", "--topic", topic, stdin='{"card": "••••"}\n'.encode())

    assert f'veil: Produce on "{topic}" is refused: the masking rule "Cards" covers it' in refused
    stored = consume(scene.server.address, topic, 2, within_s=2)
    assert [json.loads(each.value or b"") for each in stored] == [{"card": written}]
    scene.end()


REFUSED = {
    "acls-add": (
        "kafka-acls --add --allow-principal User:x --operation Read --topic acl-{name}",
        'CreateAcls is refused while the masking rule "Cards" applies to you',
    ),
    "acls-remove": (
        "kafka-acls --remove --force --allow-principal User:x --operation Read --topic acl-{name}",
        'DeleteAcls is refused while the masking rule "Cards" applies to you',
    ),
    "users-describe": (
        "kafka-configs --describe --entity-type users",
        'DescribeUserScramCredentials is refused while the masking rule "Cards" applies to you',
    ),
    "users-alter": (
        "kafka-configs --alter --entity-type users --entity-name u{name} --add-config SCRAM-SHA-256=[password=x]",
        'AlterUserScramCredentials is refused while the masking rule "Cards" applies to you',
    ),
    "broker-alter": (
        "kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=1",
        "IncrementalAlterConfigs is refused: configs of brokers are not changed through Veil",
    ),
    "logger-alter": (
        "kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config kafka.request.logger=INFO",
        "IncrementalAlterConfigs is refused: configs of brokers are not changed through Veil",
    ),
    "tokens-create": ("kafka-delegation-tokens --create --max-life-time-period -1", "Cluster authorization failed"),
    "tokens-describe": ("kafka-delegation-tokens --describe", "Cluster authorization failed"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_touches_permissions_secrets_or_brokers_is_refused_with_a_reason(
    scene: Scene, kafka_server: KafkaServer, row: str
) -> None:
    line, reason = REFUSED[row]
    words = line.format(name=scene.name).split()
    told = scene.veiled.run(*words)
    refused = scene.veiled.code
    done = scene.direct.run(*words)

    assert reason in told
    assert refused != 0
    assert scene.direct.code == 0, done
    scene.end()


def test_log_dirs_tell_no_size_of_what_is_covered(scene: Scene, kafka_server: KafkaServer) -> None:
    expected = _sizes(scene.direct.run("kafka-log-dirs", "--describe"))
    told = _sizes(scene.veiled.run("kafka-log-dirs", "--describe"))

    assert scene.veiled.code == 0
    assert expected[f"{scene.covered}-0"] > 0
    assert told[f"{scene.covered}-0"] == 0
    assert told[f"{scene.plain}-0"] == expected[f"{scene.plain}-0"] > 0
    assert told.keys() == expected.keys()
    scene.end()


def _sizes(text: str) -> dict[str, int]:
    folders = json.loads(text.splitlines()[-1])["brokers"][0]["logDirs"]
    return {each["partition"]: each["size"] for folder in folders for each in folder["partitions"]}


def test_a_brokers_configs_are_told_without_its_addresses(scene: Scene, kafka_server: KafkaServer) -> None:
    words = ["--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"]
    expected = _configs(scene.direct.run("kafka-configs", *words))
    told = _configs(scene.veiled.run("kafka-configs", *words))

    hidden = {name for name, value in expected.items() if told.get(name) != value}
    assert told.keys() == expected.keys()
    assert {"advertised.listeners", "listeners", "controller.quorum.voters"} <= hidden
    assert {told[name] for name in hidden} == {"null"}
    scene.end()


def _configs(text: str) -> dict[str, str]:
    return dict(re.findall(r"^  ([^=\s]+)=(.*?) sensitive=", text, re.MULTILINE))


def test_the_apis_that_veil_does_not_carry_are_not_offered(scene: Scene, kafka_server: KafkaServer) -> None:
    expected = _usable(scene.direct.run("kafka-broker-api-versions"))
    told = _usable(scene.veiled.run("kafka-broker-api-versions"))

    assert scene.veiled.code == 0
    assert expected - told == expected & {row.name for row in ROWS if row.hidden} != set()
    assert told <= expected
    scene.end()


def _usable(text: str) -> set[str]:
    return {
        name for name, versions in re.findall(r"^\s(\w+)\(\d+\): (.*)", text, re.MULTILINE) if "UNSUPPORTED" not in versions
    }


def test_the_endpoints_of_a_cluster_are_veils(scene: Scene, kafka_server: KafkaServer) -> None:
    told = scene.veiled.run("kafka-cluster", "list-endpoints").split()

    assert told[6:8] == ["1", scene.veil.host]
    assert int(told[8]) in scene.veil.node_ports
    assert scene.veiled.code == 0
    scene.end()


def test_a_topic_is_made_altered_and_deleted(scene: Scene, kafka_server: KafkaServer) -> None:
    topic = f"made-{scene.name}"
    steps = (
        f"kafka-topics --create --topic {topic} --partitions 2",
        f"kafka-topics --alter --topic {topic} --partitions 3",
        f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config retention.ms=60000",
        f"kafka-topics --delete --topic {topic}",
    )
    for step in steps:
        told = scene.veiled.run(*step.split())
        assert scene.veiled.code == 0, told
    assert topic not in admin(scene.server.address).list_topics(timeout=10).topics
    scene.end()
