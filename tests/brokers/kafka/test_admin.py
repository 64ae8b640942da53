"""What administrators do through Veil: topics, configs, groups; what is refused, and that the reason is read."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode

from proxy.protocols.kafka.surface import ROWS, Act, row
from tests.brokers.kafka_clients import admin, login, produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import CARDS, Wire, card, new_topic, reader, whole_trail

pytestmark = pytest.mark.slow

PRODUCE, SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS, DESCRIBE_LOG_DIRS = 0, 17, 36, 18, 35
ANY = 1
SAID: dict[int, dict[str, int]] = {
    PRODUCE: {"acks": 1},  # else nobody answers
    29: {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY},
}
"""What a request has to say lest the broker hang up."""
TOKENS = (38, 39, 40, 41)
WITHIN_S = 20.0
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@pytest.fixture
def topic(kafka_server: KafkaServer, canary: Canary) -> str:
    name = new_topic(kafka_server, "cards")
    produce(kafka_server.address, name, [card(canary.text())] * 3)
    return name


@pytest.fixture
def front(kafka_server: KafkaServer, veil: VeilFactory) -> Veil:
    return veil(CARDS, platform="kafka", upstream=kafka_server.at(SASL))


def test_every_api_that_the_broker_has_is_in_the_table_and_no_answer_tells_where_it_is(
    kafka_server: KafkaServer, front: Veil, topic: str, canary: Canary
) -> None:
    with Wire(kafka_server.host, kafka_server.port) as direct:
        offered = direct.versions()
    assert [key for key in offered if row(key) is None] == []
    silent = []
    with reader(front) as bob:
        told = bob.versions()
        assert bob.topic_id(topic).int
    assert set(told) == {each.key for each in ROWS if not each.hidden and each.key in offered}
    for key, each in told.items():
        if key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            continue
        with reader(front) as bob:
            try:
                bob.ask_raw(key, each.max_version, **SAID.get(key, {}))
            except (ConnectionError, TimeoutError):
                silent.append(key)
            seen = bytes(bob.received)
            assert not [word for word in kafka_server.secrets if word in seen], key
            assert not [port for port in kafka_server.ports.values() if struct.pack(">i", port) in seen], key
            canary.assert_not_in(seen, f"the answer to {key}")
    assert silent == []
    whole_trail(front, canary)


def test_topics_are_made_changed_and_deleted(kafka_server: KafkaServer, front: Veil, topic: str, canary: Canary) -> None:
    client = admin(front.address, login("bob"))
    name = f"{topic}-made"
    for done in client.create_topics([NewTopic(name, 1, 1)]).values():
        done.result(WITHIN_S)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    entry = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    for done in client.incremental_alter_configs([change]).values():
        done.result(WITHIN_S)
    (configs,) = client.describe_configs([resource]).values()
    assert configs.result(WITHIN_S)["retention.ms"].value == "12345"
    for done in client.delete_topics([name]).values():
        done.result(WITHIN_S)
    whole_trail(front, canary)


def reason(futures: Any) -> str:
    """Why the one thing that was asked for was refused, as the client has it."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as refused:
        future.result(WITHIN_S)
    return str(refused.value.args[0].str())


def test_permissions_passwords_and_a_brokers_configs_are_refused_with_the_reason(
    kafka_server: KafkaServer, front: Veil, topic: str, canary: Canary
) -> None:
    client = admin(front.address, login("admin"))
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    password = UserScramCredentialUpsertion("bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"new")
    entry = ConfigEntry("log.cleaner.threads", "1", incremental_operation=AlterConfigOpType.SET)
    node = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])

    assert 'the masking rule "Cards" applies to you' in reason(client.create_acls([binding]))
    assert 'the masking rule "Cards" applies to you' in reason(client.alter_user_scram_credentials([password]))
    assert "configs of brokers are not changed through Veil" in reason(client.incremental_alter_configs([node]))
    whole_trail(front, canary)


def test_tokens_that_log_in_are_neither_given_nor_shown(front: Veil, topic: str, canary: Canary) -> None:
    with reader(front, "admin") as client:
        for key in TOKENS:
            found = row(key)
            assert found is not None
            assert found.act is Act.GUARD
            for version in found.versions:
                answer = client.ask(key, version)
                assert answer.error_code == ErrorCode.cluster_authorization_failed, (key, version)
        assert client.topic_id(topic).int
        whole_trail(front, canary, client)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_listed_described_and_set_back(
    kafka_server: KafkaServer, front: Veil, topic: str, canary: Canary, protocol: str
) -> None:
    group = f"{topic}-{protocol}"
    base = {"bootstrap.servers": front.address, "broker.address.family": "v4", "auto.offset.reset": "earliest"}
    consumer = Consumer(base | login("bob") | {"group.id": group, "group.protocol": protocol, "enable.auto.commit": False})
    consumer.subscribe([topic])
    got: list[bytes | None] = []
    while len(got) < 3:
        message = consumer.poll(WITHIN_S)
        assert message is not None, "no record came"
        assert message.error() is None, message.error()
        got.append(message.value())
    consumer.commit(asynchronous=False)
    client = admin(front.address, login("bob"))
    listed = client.list_consumer_groups().result(WITHIN_S)
    (described,) = client.describe_consumer_groups([group]).values()
    members = described.result(WITHIN_S).members
    consumer.close()
    back = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    (altered,) = client.alter_consumer_group_offsets([back]).values()
    altered.result(WITHIN_S)
    (kept,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()

    assert group in {each.group_id for each in listed.valid}
    assert len(members) == 1
    assert [each.offset for each in kept.result(WITHIN_S).topic_partitions] == [1]
    canary.assert_not_in(repr(got), "the consumer")
    whole_trail(front, canary)


def test_the_room_that_a_covered_topic_takes_is_not_told(
    kafka_server: KafkaServer, front: Veil, topic: str, canary: Canary
) -> None:
    with reader(front) as bob:
        for version in range(1, bob.versions()[DESCRIBE_LOG_DIRS].max_version + 1):
            answer = bob.ask(DESCRIBE_LOG_DIRS, version, topics=None)
            sizes = [
                int(part.partition_size)
                for result in answer.results
                for each in result.topics
                if each.name == topic
                for part in each.partitions
            ]
            assert sizes == [0], version
            for result in answer.results:
                assert getattr(result, "total_bytes", -1) == -1
                assert getattr(result, "usable_bytes", -1) == -1
        whole_trail(front, canary, bob)


def test_the_clusters_own_topics_are_read_by_nobody(kafka_server: KafkaServer, front: Veil, topic: str, canary: Canary) -> None:
    with reader(front, "admin") as client:
        names = {each.name: each.topic_id for each in client.ask(3, 12, topics=None).topics}
        own = [name for name in INTERNAL if name in names] or ["__consumer_offsets"]
        for name in own:
            for version in range(4, 19):
                if version >= 13 and name not in names:
                    continue
                part = client.partition(version, name, topic_id=names.get(name))
                assert part.error_code == ErrorCode.topic_authorization_failed, (name, version)
                assert not part.records
        assert topic in names
        whole_trail(front, canary, client)
