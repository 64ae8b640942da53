"""The fixtures against real brokers: what a test asks of them they do, and nothing of Veil's is in between."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse

from .kafka_clients import CODECS, Record, Value, admin, consume, create_topics, login, produce
from .kafka_cluster import KafkaCluster
from .kafka_java import HOW, KafkaTool, java
from .kafka_mock import KafkaMock
from .kafka_programs import KafkaJs, Kcat, PythonScript
from .kafka_server import (
    ADVERTISED,
    CONTAINER,
    IMAGE,
    MECHANISMS,
    PLAIN,
    PROCESS,
    REAUTH,
    REAUTH_MS,
    SASL,
    SASL_TLS,
    TLS,
    USERS,
    KafkaServer,
)
from .mode import BROKERS, absent
from .processes import has_image, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def topic() -> str:
    """A name that no test had."""
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[KafkaServer]:
    """A broker of the test's own, as a process, not started."""
    if java() is None:
        absent("kafka", HOW)
    server = KafkaServer(tmp_path, PROCESS, listeners=(PLAIN, SASL))
    yield server
    server.stop()


# the broker of the session


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_comes_back_as_it_was_in_every_codec(kafka_server: KafkaServer, topic: str, codec: str) -> None:
    create_topics(kafka_server.address, topic)
    sent = [
        Record(
            f"value {n}".encode() * 50, b"key", [("h", b"1"), ("h", None), ("é", b"\xff")], timestamp_ms=1_700_000_000_123 + n
        )
        for n in range(20)
    ]
    produce(kafka_server.address, topic, sent, codec=codec)
    got = consume(kafka_server.address, topic, 20)

    assert [dataclasses.replace(each, offset=-1, headers=list(each.headers)) for each in got] == sent
    assert [each.offset for each in got] == list(range(20))


def test_a_batch_is_on_the_disk_in_its_codec(kafka_server: KafkaServer, topic: str) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"secret " * 40], codec="zstd")
    segment = next((kafka_server.folder / "data").glob(f"{topic}-0/*.log")).read_bytes()

    assert int.from_bytes(segment[21:23]) & 7 == CODECS.index("zstd")
    assert b"secret secret" not in segment


def test_an_aborted_transaction_is_there_for_those_who_read_uncommitted_only(kafka_server: KafkaServer, topic: str) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"aborted"], transaction=f"{topic}-1", abort=True)
    produce(kafka_server.address, topic, [b"committed"], transaction=f"{topic}-1")

    assert [each.value for each in consume(kafka_server.address, topic, 1)] == [b"committed"]
    uncommitted = consume(kafka_server.address, topic, 2, settings={"isolation.level": "read_uncommitted"})
    assert [each.value for each in uncommitted] == [b"aborted", b"committed"]


@pytest.mark.parametrize("listener", [SASL, REAUTH, SASL_TLS])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_by_every_mechanism(kafka_server: KafkaServer, topic: str, listener: str, mechanism: str) -> None:
    create_topics(kafka_server.address, topic)
    settings = login("bob", mechanism, tls=listener == SASL_TLS)
    if listener == SASL_TLS:
        assert kafka_server.authority is not None
        settings["ssl.ca.location"] = str(kafka_server.authority.path)

    assert len(produce(kafka_server.at(listener), topic, [b"v"], settings=settings)) == 1


@pytest.mark.parametrize("user", USERS)
def test_a_wrong_password_is_refused_and_the_right_one_is_not(kafka_server: KafkaServer, user: str) -> None:
    with kafka_server.client(SASL) as wire:
        assert wire.login(user, "wrong") == 58
    with kafka_server.client(SASL) as wire:
        assert wire.login(user, USERS[user]) == 0


def test_rights_count_on_every_listener_but_the_fixtures_own(kafka_server: KafkaServer, topic: str) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"v"])
    tool = KafkaTool(kafka_server.folder, kafka_server.address)
    tool.run("kafka-acls", "--add", "--allow-principal", "User:carol", "--operation", "Read", "--topic", topic)

    def reads(user: str) -> bool:
        try:
            return len(consume(kafka_server.at(SASL), topic, 1, within_s=5, settings=login(user))) == 1
        except KafkaException:
            return False

    wait_until(lambda: not reads("bob"), "bob has no right")
    assert reads("carol")
    assert reads("admin")
    assert len(consume(kafka_server.address, topic, 1)) == 1


def test_a_login_is_good_for_three_seconds_where_it_has_to_be_renewed(kafka_server: KafkaServer) -> None:
    with kafka_server.client(REAUTH) as wire:
        assert wire.login("alice", USERS["alice"]) == 0
        assert REAUTH_MS.to_bytes(8) in wire.received
        wire.metadata()

        assert gone(wire.metadata)


def gone(call: object) -> bool:
    """Whether the broker hangs up on this sooner or later."""
    assert callable(call)

    def closed() -> bool:
        try:
            call()
        except ConnectionError:
            return True
        return False

    wait_until(closed, "the broker hangs up")
    return True


def test_a_certificate_names_a_client_and_none_is_needed(kafka_server: KafkaServer, topic: str) -> None:
    authority = kafka_server.authority
    assert authority is not None
    create_topics(kafka_server.address, topic)
    settings: dict[str, Value] = {"security.protocol": "SSL", "ssl.ca.location": str(authority.path)}
    produce(kafka_server.at(TLS), topic, [b"nobody"], settings=settings)
    own = authority.make("alice")
    settings |= {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
    produce(kafka_server.at(TLS), topic, [b"alice"], settings=settings)

    assert len(consume(kafka_server.address, topic, 2)) == 2


def test_the_broker_says_localhost_and_its_port_and_both_can_be_searched_for(kafka_server: KafkaServer) -> None:
    with kafka_server.client() as wire:
        nodes = wire.metadata().brokers

        assert [(each.host, each.port) for each in nodes] == [(ADVERTISED, kafka_server.port)]
        assert {each for each in kafka_server.secrets if each in wire.received} >= {
            ADVERTISED.encode(),
            kafka_server.port.to_bytes(4),
        }


def test_every_api_of_this_kafka_is_offered_share_groups_too(kafka_server: KafkaServer) -> None:
    with kafka_server.client() as wire:
        answer = wire.call(ApiVersionsRequest(client_software_name="tests", client_software_version="1"))

    assert isinstance(answer, ApiVersionsResponse)
    assert {0, 1, 3, 18, 68, 76, 77, 78, 79, 88} <= {int(each.api_key) for each in answer.api_keys}


def test_a_paused_broker_is_silent_and_a_resumed_one_answers(kafka_server: KafkaServer) -> None:
    with kafka_server.client() as wire:
        wire.metadata()
        kafka_server.pause()
        wire._socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wire.metadata()
        kafka_server.resume()
        wire._socket.settimeout(10)

        assert len(wire.read()) > 4


# clients and tools of others, straight at the broker


def test_the_consoles_of_kafka_show_what_is_there(kafka_server: KafkaServer, topic: str, tmp_path: Path) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"one", b"two"])
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="admin" password="{USERS["admin"]}";',
    }
    tool = KafkaTool(tmp_path, kafka_server.at(SASL), properties)

    assert topic in tool.run("kafka-topics", "--list").split()
    shown = tool.run("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2").splitlines()
    assert shown[:2] == ["one", "two"]
    assert b"two" in tool.seen


def test_a_share_group_gets_a_record(kafka_server: KafkaServer, topic: str, tmp_path: Path) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"shared"])
    tool = KafkaTool(tmp_path, kafka_server.address)
    start = "--alter", "--entity-type", "groups", "--entity-name", topic, "--add-config", "share.auto.offset.reset=earliest"
    tool.run("kafka-configs", *start)

    shown = tool.run("kafka-console-share-consumer", "--topic", topic, "--group", topic, "--max-messages", "1")
    assert shown.splitlines()[0] == "shared"


def test_kcat_and_kafkajs_show_what_is_there(kafka_server: KafkaServer, topic: str) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"seen"], codec="gzip")
    kcat = Kcat(kafka_server.at(SASL), login("admin"))
    js = KafkaJs(
        kafka_server.at(SASL), sasl={"mechanism": "scram-sha-256", "username": "admin", "password": USERS["admin"]}, ssl=False
    )
    script = f"""
        const consumer = kafka.consumer({{ groupId: '{topic}' }})
        await consumer.connect()
        await consumer.subscribe({{ topics: ['{topic}'], fromBeginning: true }})
        await new Promise(done => consumer.run({{
            eachMessage: async ({{ message }}) => {{ console.log(message.value.toString()); done() }} }}))
    """

    assert kcat.run("-C", "-q", "-t", topic, "-o", "beginning", "-e") == "seen"
    assert js.run(script) == "seen"


IN_PYTHON = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

topic, codec = settings["topic"], settings["codec"]
first = {"bootstrap_servers": address, "auto_offset_reset": "earliest"}
with KafkaProducer(bootstrap_servers=address, compression_type=codec) as producer:
    producer.send(topic, b"kafka-python" * 20).get(10)

async def both():
    async with AIOKafkaProducer(bootstrap_servers=address, compression_type=codec) as producer:
        await producer.send_and_wait(topic, b"aiokafka" * 20)
    async with AIOKafkaConsumer(topic, **first) as consumer:
        return [(await asyncio.wait_for(consumer.getone(), 10)).value for _ in range(2)]

print(asyncio.run(both()) == [b"kafka-python" * 20, b"aiokafka" * 20])
consumer = KafkaConsumer(topic, **first)
print([next(consumer).value, next(consumer).value] == [b"kafka-python" * 20, b"aiokafka" * 20])
consumer.close()
"""


@pytest.mark.parametrize("codec", [None, *CODECS[1:]])
def test_the_clients_in_python_know_every_codec(kafka_server: KafkaServer, topic: str, codec: str | None) -> None:
    create_topics(kafka_server.address, topic)

    assert PythonScript(kafka_server.address, topic=topic, codec=codec).run(IN_PYTHON) == "True\nTrue"


def test_a_group_of_each_protocol_gets_its_partition_at_once(kafka_server: KafkaServer, topic: str) -> None:
    create_topics(kafka_server.address, topic)
    produce(kafka_server.address, topic, [b"v"])
    for protocol in "classic", "consumer":
        consumer = Consumer(
            {
                "bootstrap.servers": kafka_server.address,
                "broker.address.family": "v4",
                "group.id": f"{topic}-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        message = consumer.poll(15)
        consumer.close()

        assert message is not None
        assert message.value() == b"v"


# brokers of a test's own


def test_a_killed_broker_starts_again_with_what_it_had(own_server: KafkaServer) -> None:
    own_server.start()
    ports = dict(own_server.ports)
    create_topics(own_server.address, "kept")
    produce(own_server.address, "kept", [b"v"])
    with own_server.client() as wire:
        own_server.kill()
        assert wire.at_end()
    with pytest.raises(ConnectionRefusedError):
        own_server.client()
    own_server.start()

    assert own_server.ports == ports
    assert [each.value for each in consume(own_server.address, "kept", 1)] == [b"v"]


def test_a_setting_of_a_test_goes_over_the_fixtures(own_server: KafkaServer) -> None:
    own_server._settings["auto.create.topics.enable"] = "true"
    own_server.start()

    assert len(produce(own_server.address, "made", [b"v"])) == 1


def test_a_container_serves_as_a_process_does(tmp_path: Path) -> None:
    if BROKERS == "processes" or not has_image(IMAGE):
        pytest.skip("no container engine, or no image of Kafka: make brokers, as root")
    server = KafkaServer(tmp_path, CONTAINER)
    try:
        server.start()
        create_topics(server.address, "kept")
        produce(server.address, "kept", [b"v"], codec="snappy")
        server.kill()
        server.start()

        assert len(consume(server.at(SASL), "kept", 1, settings=login("alice"))) == 1
    finally:
        server.stop()


# three nodes


def test_three_nodes_know_each_other_and_say_localhost(kafka_cluster: KafkaCluster) -> None:
    with kafka_cluster.nodes[2].client() as wire:
        nodes = {int(each.node_id): (each.host, each.port) for each in wire.metadata().brokers}

    assert nodes == {node: (ADVERTISED, server.port) for node, server in kafka_cluster.nodes.items()}


def test_another_node_leads_when_the_leader_is_killed(kafka_cluster: KafkaCluster, topic: str) -> None:
    create_topics(kafka_cluster.address(), topic, replication=3)
    produce(kafka_cluster.address(), topic, [b"before"])
    before = kafka_cluster.leader(topic, ask=1)
    kafka_cluster.kill(before)
    ask = min(kafka_cluster.nodes.keys() - {before})
    wait_until(lambda: kafka_cluster.leader(topic, ask=ask) not in {before, -1}, "the leader moved")
    produce(kafka_cluster.address(), topic, [b"after"])

    assert [each.value for each in consume(kafka_cluster.address(), topic, 2)] == [b"before", b"after"]
    kafka_cluster.start(before)
    wait_until(lambda: before in kafka_cluster.seen_by(ask), "the node is back")


# the mock


def test_the_mock_takes_and_gives_records(kafka_mock: KafkaMock) -> None:
    produce(kafka_mock.address, "t", [Record(b"v", b"k", [("h", b"1")])], codec="lz4")

    assert [(each.value, each.key) for each in consume(kafka_mock.address, "t", 1)] == [(b"v", b"k")]


def test_a_mock_of_three_nodes_tells_of_three(topic: str) -> None:
    with KafkaMock(3) as mock:
        assert len(mock.nodes) == len(set(mock.address.split(","))) == 3
        assert set(admin(mock.address).list_topics(timeout=10).brokers) == set(mock.nodes)
