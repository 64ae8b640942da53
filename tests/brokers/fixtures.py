"""Fixtures: real servers, Veil in front of them, and nothing left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.canary import Canary

from .kafka_cluster import KafkaCluster
from .kafka_connect import ConnectFleet, ConnectServer
from .kafka_mock import KafkaMock
from .kafka_server import KafkaFleet, KafkaServer
from .rabbitmq_server import RabbitFleet, RabbitServer
from .redis_server import RedisFleet, RedisServer, offered
from .veil import Config, Veil, VeilFactory

Server = RedisServer | KafkaServer | KafkaMock | RabbitServer | ConnectServer
KAFKAS = (KafkaServer, KafkaMock)
REAL = {
    "redis_server",
    "redis_once",
    "store_server",
    "kafka_server",
    "kafka_cluster",
    "rabbitmq_server",
    "connect_server",
    "connect_open",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`redis_server` runs a test once for each flavour that the machine offers."""
    if "redis_server" in metafunc.fixturenames:
        metafunc.parametrize("redis_server", offered() or ("redis",), indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for a real server is marked `broker`, so that `make unit` can leave it out."""
    for item in items:
        if REAL & set(getattr(item, "fixturenames", ())):
            item.add_marker("broker")


@pytest.fixture(scope="session")
def redis_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisFleet]:
    """The servers of the session."""
    fleet = RedisFleet(tmp_path_factory.mktemp)
    yield fleet
    fleet.stop()


@pytest.fixture
def redis_server(redis_fleet: RedisFleet, request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A real server, empty; started once a session and reset after each test."""
    server = redis_fleet.server(request.param)
    yield server
    server.reset()


@pytest.fixture
def redis_once(redis_fleet: RedisFleet) -> Iterator[RedisServer]:
    """A real server of one flavour, for tests that the flavour makes no difference to."""
    server = redis_fleet.server((offered() or ("redis",))[0])
    yield server
    server.reset()


@pytest.fixture
def store_server(redis_fleet: RedisFleet) -> Iterator[RedisServer]:
    """A server for rules, empty, that no reader is connected to: a process where there is one, since it is killed often."""
    flavours = offered()
    server = redis_fleet.server(
        next((each for each in flavours if each.endswith("-process")), *flavours[:1] or ("redis",)), "store"
    )
    yield server
    server.reset()


@pytest.fixture(scope="session")
def kafka_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaFleet]:
    """The one broker of the session."""
    fleet = KafkaFleet(tmp_path_factory.mktemp)
    yield fleet
    fleet.stop()


@pytest.fixture
def kafka_server(kafka_fleet: KafkaFleet) -> Iterator[KafkaServer]:
    """A real broker, started once a session; what tests left in it stays, so each names its own topics."""
    server = kafka_fleet.server()
    yield server
    server.reset()


@pytest.fixture(scope="session")
def connect_fleet(kafka_fleet: KafkaFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectFleet]:
    """The Connect workers of the session, on its one broker."""
    fleet = ConnectFleet(kafka_fleet, tmp_path_factory.mktemp)
    yield fleet
    fleet.stop()


@pytest.fixture
def connect_server(connect_fleet: ConnectFleet) -> Iterator[ConnectServer]:
    """A real Connect worker that asks for logins, without any connector; started once a session."""
    server = connect_fleet.server(logins=True)
    yield server
    server.reset()


@pytest.fixture
def connect_open(connect_fleet: ConnectFleet) -> Iterator[ConnectServer]:
    """A real Connect worker that answers everybody."""
    server = connect_fleet.server(logins=False)
    yield server
    server.reset()


@pytest.fixture(scope="module")
def kafka_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three nodes for the tests of one file."""
    cluster = KafkaCluster(tmp_path_factory.mktemp("kafka-cluster"))
    try:
        cluster.first()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def kafka_cluster(kafka_nodes: KafkaCluster) -> KafkaCluster:
    """Three nodes of one cluster, all there; started once a file."""
    kafka_nodes.begin()
    return kafka_nodes


@pytest.fixture(scope="session")
def rabbitmq_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitFleet]:
    """The one broker of the session."""
    fleet = RabbitFleet(tmp_path_factory.mktemp)
    yield fleet
    fleet.stop()


@pytest.fixture
def rabbitmq_server(rabbitmq_fleet: RabbitFleet) -> Iterator[RabbitServer]:
    """A real broker, empty; started once a session and reset after each test."""
    server = rabbitmq_fleet.server()
    yield server
    server.reset()


@pytest.fixture
def kafka_mock() -> Iterator[KafkaMock]:
    """librdkafka's mock cluster of one node, in this process."""
    with KafkaMock() as mock:
        yield mock


@pytest.fixture
def veil(tmp_path: Path) -> Iterator[VeilFactory]:
    """Starts Veil: `veil(rules, access="", upstream=server, start=True, **config)`.

    In front of RabbitMQ it speaks its management API, in front of a Connect worker its REST API. In front of a broker of Kafka, or with `platform="kafka"`, it speaks Kafka and has ports for the nodes.
    Keys of veil.yaml are given as arguments; `listener={…}` and `connection={…}` change the one there is.
    After the test each is stopped by SIGTERM and must exit with 0.
    """
    started: list[Veil] = []

    def begin(
        rules: str, access: str = "", *, upstream: Server | str, start: bool = True, platform: str = "", **settings: object
    ) -> Veil:
        folder = tmp_path / f"veil{len(started)}"
        folder.mkdir()
        config: Config = dict(settings)
        address = upstream if isinstance(upstream, str) else upstream.address
        one = Veil(folder, rules, access, address, config, platform or _platform(upstream))
        started.append(one)
        if start:
            one.start()
        return one

    yield begin
    for one in started:
        one.end()


def _platform(upstream: Server | str) -> str:
    if isinstance(upstream, RabbitServer):
        return "rabbitmq"
    if isinstance(upstream, ConnectServer):
        return "kafka-connect"
    return "kafka" if isinstance(upstream, KAFKAS) else "redis"


@pytest.fixture
def canary(request: pytest.FixtureRequest) -> Canary:
    """Values of this test that no reader may see, and the search for them."""
    return Canary(re.sub(r"\W", "", request.node.name)[:24])
