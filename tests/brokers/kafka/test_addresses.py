"""Where the nodes of a cluster are is told to nobody: whatever answer names one, Veil's own port stands there."""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import socket
import ssl
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.brokers.kafka_clients import Record, admin, consume, create_topics, login, produce
from tests.brokers.kafka_cluster import NODES, KafkaCluster
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.processes import free_port
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary
from tests.certificates import Authority

from .scenery import CARDS, METADATA, Wire, card, reader, whole_trail

pytestmark = pytest.mark.slow

PRODUCE, FIND_COORDINATOR, DESCRIBE_CONFIGS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 0, 10, 32, 55, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
GROUP, TRANSACTION, SHARE = 0, 1, 2
PARTITIONS = 3
WAIT = {"max_wait": dt.timedelta(milliseconds=100), "min_bytes": 1, "max_bytes": 1 << 20}


def assert_no_address(data: bytes, servers: list[KafkaServer]) -> None:
    """Neither a host nor a port of the brokers is in what a reader got, as text or as the number in a message."""
    for server in servers:
        for each in server.secrets:
            at = data.find(each)
            assert at < 0, (each, data[max(0, at - 200) : at + 200])
        for name, port in server.ports.items():
            assert struct.pack(">i", port) not in data, f"port of {name} as a number"


@pytest.fixture
def topic(kafka_cluster: KafkaCluster) -> str:
    """Led by each node in one of its partitions, with a record in each."""
    name = f"cards-{secrets.token_hex(4)}"
    create_topics(kafka_cluster.address(), name, partitions=PARTITIONS, replication=3)
    return name


@pytest.fixture
def lone(kafka_cluster: KafkaCluster) -> str:
    """On one node alone, so that the others say who it is: of a replica everybody may read (KIP-392)."""
    name = f"cards-{secrets.token_hex(4)}"
    create_topics(kafka_cluster.address(), name, replication=1)
    return name


@pytest.fixture
def front(kafka_cluster: KafkaCluster, veil: VeilFactory) -> Veil:
    return veil(CARDS, platform="kafka", upstream=kafka_cluster.address(SASL))


def ports(client: Wire) -> dict[int, int]:
    """Where each node is, as the reader is told."""
    return {int(each.node_id): int(each.port) for each in client.ask(METADATA, 12, topics=None).brokers}


def leaders(client: Wire, topic: str) -> dict[int, int]:
    """The node that leads each partition."""
    (found,) = client.ask(METADATA, 12, topics=[{"name": topic}]).topics
    return {int(each.partition_index): int(each.leader_id) for each in found.partitions}


@contextlib.contextmanager
def at_each_node(one: Veil, told: dict[int, int]) -> Iterator[dict[int, Wire]]:
    with contextlib.ExitStack() as clients:
        yield {node: clients.enter_context(reader(one, port=port)) for node, port in told.items()}


def test_no_answer_that_names_nodes_tells_where_they_are(
    kafka_cluster: KafkaCluster, front: Veil, topic: str, canary: Canary
) -> None:
    produce(kafka_cluster.address(), topic, [card(canary.text())])
    with reader(front) as bob:
        for version in range(14):
            wanted = None if version >= 1 else [{"name": topic}]
            answer = bob.ask(METADATA, version, topics=wanted)
            assert {int(each.node_id) for each in answer.brokers} == set(NODES), version
            assert {int(each.port) for each in answer.brokers} <= set(front.node_ports), version
            assert {each.host for each in answer.brokers} == {front.host}, version
        found = 0
        for version in range(7):
            for kind in (GROUP, TRANSACTION, SHARE):
                key = f"{uuid.uuid4()}" if kind != SHARE else f"g:{bob.topic_id(topic)}:0"
                if version < 1 and kind != GROUP:
                    continue
                told: dict[str, Any] = {"key": key} if version < 4 else {"coordinator_keys": [key]}
                if version >= 1:
                    told["key_type"] = kind
                answer = bob.ask(FIND_COORDINATOR, version, **told)
                for each in answer.coordinators if version >= 4 else [answer]:
                    if each.error_code == ErrorCode.none:
                        assert (each.host, each.port in front.node_ports) == (front.host, True), version
                        found += 1
        assert found
        for version in range(3):
            answer = bob.ask(DESCRIBE_CLUSTER, version)
            assert {int(each.port) for each in answer.brokers} <= set(front.node_ports)
            assert len(answer.brokers) == len(NODES)
        for version in range(3):
            quorum = bob.ask(DESCRIBE_QUORUM, version, topics=[{"topic_name": "__cluster_metadata", "partitions": [{}]}])
            assert quorum.error_code == ErrorCode.none
            assert not getattr(quorum, "nodes", ())
        for version in range(1, 5):
            for kind, name in ((4, "1"), (4, ""), (8, "1"), (2, topic)):
                what = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                more: dict[str, Any] = {}
                bob.ask(DESCRIBE_CONFIGS, version, resources=[what], include_synonyms=True, **more)
        assert_no_address(bytes(bob.received), list(kafka_cluster.nodes.values()))
        whole_trail(front, canary, bob)


def test_controllers_are_asked_about_in_vain(kafka_cluster: KafkaCluster, front: Veil) -> None:
    with reader(front) as bob:
        for version in (1, 2):
            answer = bob.ask(DESCRIBE_CLUSTER, version, endpoint_type=2)
            assert answer.error_code != ErrorCode.none
            assert not answer.brokers
        assert_no_address(bytes(bob.received), list(kafka_cluster.nodes.values()))


def test_a_hint_at_the_leader_names_veils_port(kafka_cluster: KafkaCluster, front: Veil, lone: str, canary: Canary) -> None:
    produce(kafka_cluster.address(), lone, [card(canary.text())])
    hints = 0
    with reader(front) as bob:
        told, own_id, leader = ports(bob), bob.topic_id(lone), leaders(bob, lone)[0]
    assert len(told) == len(NODES)
    with at_each_node(front, told) as nodes:
        for number, client in nodes.items():
            if number == leader:
                continue
            for version in range(4, 19):
                answer = client.fetch(version, lone, topic_id=own_id)
                (part,) = answer.responses[0].partitions
                assert part.error_code == ErrorCode.not_leader_or_follower
                hints += len(_places(answer, told))
            clean = _plain_batch(kafka_cluster)
            for version in range(3, 14):
                named: dict[str, Any] = {"topic_id": own_id} if version >= 13 else {"name": lone}
                data = [{**named, "partition_data": [{"index": 0, "records": clean}]}]
                answer = client.ask(PRODUCE, version, acks=1, timeout=dt.timedelta(seconds=5), topic_data=data)
                (said,) = answer.responses[0].partition_responses
                assert said.error_code == ErrorCode.not_leader_or_follower, version
                hints += len(_places(answer, told))
        for client in nodes.values():
            assert_no_address(bytes(client.received), list(kafka_cluster.nodes.values()))
        whole_trail(front, canary, *nodes.values())
    assert hints


def _places(answer: Any, told: dict[int, int]) -> list[int]:
    """The nodes that the answer hints at, each at the port that is known."""
    found = {int(each.node_id): int(each.port) for each in getattr(answer, "node_endpoints", ())}
    assert all(told[node] == port for node, port in found.items())
    return list(found)


def _plain_batch(cluster: KafkaCluster) -> Any:
    """A batch that the broker itself once took, with nothing in it that would be refused."""
    other = f"plain-{secrets.token_hex(4)}"
    create_topics(cluster.address(), other, replication=3)
    produce(cluster.address(), other, [b'{"card": null}'])
    leader = cluster.nodes[cluster.leader(other, ask=1)]
    with Wire(leader.host, leader.port) as direct:
        return direct.partition(12, other).records


def test_hints_of_share_groups_name_veils_port(kafka_cluster: KafkaCluster, front: Veil, lone: str, canary: Canary) -> None:
    produce(kafka_cluster.address(), lone, [card(canary.text())])
    group, member = f"share-{secrets.token_hex(4)}", str(uuid.uuid4())
    with reader(front) as bob:
        told, own_id, leader = ports(bob), bob.topic_id(lone), leaders(bob, lone)[0]
    with at_each_node(front, told) as nodes:
        for number, client in nodes.items():
            for version in (1, 2):
                part = {"partition_index": 0}
                wants: dict[str, Any] = {"max_records": 10, "batch_size": 10, **WAIT}
                topics = [{"topic_id": own_id, "partitions": [part]}]
                answer = client.ask(
                    SHARE_FETCH, version, group_id=group, member_id=member, share_session_epoch=0, topics=topics, **wants
                )
                _places(answer, told)
                acks = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
                topics = [{"topic_id": own_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": acks}]}]
                answer = client.ask(
                    SHARE_ACKNOWLEDGE, version, group_id=group, member_id=member, share_session_epoch=1, topics=topics
                )
                _places(answer, told)
            assert number in told
            assert_no_address(bytes(client.received), list(kafka_cluster.nodes.values()))
        assert leader in told
        whole_trail(front, canary, *nodes.values())


def test_a_leader_that_moved_is_found_through_veil(
    kafka_cluster: KafkaCluster, front: Veil, topic: str, canary: Canary
) -> None:
    secret = canary.text()
    produce(kafka_cluster.address(), topic, [card(secret)])
    with reader(front) as bob:
        told, before = ports(bob), leaders(bob, topic)[0]
    kafka_cluster.kill(before)
    try:
        found = consume(front.address, topic, 1, settings=login("bob"))
        assert len(found) == 1
        after = kafka_cluster.leader(topic, ask=next(each for each in NODES if each != before))
        assert after != before
    finally:
        kafka_cluster.start(before)
    canary.assert_not_in(repr(found), "the consumer")
    with reader(front) as bob:
        assert ports(bob).items() <= told.items()
        assert_no_address(bytes(bob.received), list(kafka_cluster.nodes.values()))
        whole_trail(front, canary, bob)


def test_every_partition_is_read_through_the_port_of_its_leader(
    kafka_cluster: KafkaCluster, front: Veil, topic: str, canary: Canary
) -> None:
    secret = canary.text()
    records = [Record(card(secret, n=part), partition=part) for part in range(PARTITIONS)]
    produce(kafka_cluster.address(), topic, records)

    found = consume(front.address, topic, PARTITIONS, partitions=range(PARTITIONS), settings=login("bob"))

    assert sorted(each.partition for each in found) == list(range(PARTITIONS))
    canary.assert_not_in(repr(found), "the consumer")
    client: AdminClient = admin(front.address, login("bob"))
    told = client.list_topics(timeout=10).brokers
    assert {each.port for each in told.values()} <= set(front.node_ports)
    whole_trail(front, canary)


def test_a_nodes_port_answers_before_it_is_told_and_is_the_same_after_a_restart(
    kafka_cluster: KafkaCluster, veil: VeilFactory
) -> None:
    one = veil(CARDS, platform="kafka", upstream=kafka_cluster.address(SASL))
    with reader(one) as bob:
        told = ports(bob)
        for port in told.values():
            socket.create_connection((one.host, port), timeout=2).close()
    one.stop()
    one.start()
    for port in told.values():
        with reader(one, port=port) as client:
            assert ports(client) == told


def test_nodes_are_told_apart_by_the_server_name_inside_tls(
    kafka_cluster: KafkaCluster, veil: VeilFactory, tmp_path: Path, lone: str, canary: Canary
) -> None:
    produce(kafka_cluster.address(), lone, [card(canary.text())])
    authority = Authority(tmp_path)
    made = authority.make("veil.test", "dns:veil.test", "dns:*.veil.test", "ip:127.0.0.1")
    listener = {"tls": made.as_config(), "brokers": {"sni": "b{id}.veil.test"}}
    one = veil(CARDS, platform="kafka", upstream=kafka_cluster.address(SASL), listener=listener)
    context = ssl.create_default_context(cafile=authority.path)

    with _inside(one, context, "veil.test") as bob:
        told = {int(each.node_id): (each.host, int(each.port)) for each in bob.ask(METADATA, 12, topics=None).brokers}
        own_id, leader = bob.topic_id(lone), leaders(bob, lone)[0]
        assert told == {node: (f"b{node}.veil.test", one.port) for node in NODES}
        assert_no_address(bytes(bob.received), list(kafka_cluster.nodes.values()))
    for node, (name, _) in told.items():
        with _inside(one, context, name) as client:
            (part,) = client.fetch(17, lone, topic_id=own_id).responses[0].partitions
            assert (part.error_code == ErrorCode.none) == (node == leader)
            assert_no_address(bytes(client.received), list(kafka_cluster.nodes.values()))
            whole_trail(one, canary, client)
    with pytest.raises(OSError), _inside(one, context, "b9.veil.test"):
        pass


class _TlsWire(Wire):
    def __init__(self, one: Veil, context: ssl.SSLContext, name: str) -> None:
        super().__init__(one.host, one.port)
        plain = self._socket
        try:
            self._socket = context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise


def _inside(one: Veil, context: ssl.SSLContext, name: str) -> _TlsWire:
    client = _TlsWire(one, context, name)
    try:
        client.enter("bob")
    except BaseException:
        client.close()
        raise
    return client


def test_a_node_that_no_port_is_left_for_is_told_to_nobody(kafka_cluster: KafkaCluster, veil: VeilFactory) -> None:
    first = free_port()
    brokers = {"listen": "127.0.0.1", "ports": f"{first}-{first}", "advertise": "127.0.0.1"}
    one = veil(CARDS, platform="kafka", upstream=kafka_cluster.address(SASL), listener={"brokers": brokers})
    with reader(one) as bob:
        for version in range(14):
            answer = bob.ask(METADATA, version, topics=[] if version else [{"name": "x"}])
            assert [int(each.port) for each in answer.brokers] == [first]
        assert_no_address(bytes(bob.received), list(kafka_cluster.nodes.values()))
