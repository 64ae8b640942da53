"""Clients of others, unmodified, through Veil: what they read is masked, what they write arrives, groups come to be."""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, KafkaException

from tests.brokers.kafka_clients import CODECS, Record, admin, consume, create_topics, login, produce
from tests.brokers.kafka_mock import KafkaMock
from tests.brokers.kafka_programs import KafkaJs, Kcat, PythonScript
from tests.brokers.kafka_server import SASL, USERS, KafkaServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary, CanaryFound

from .cards import RULES, assert_no_address

pytestmark = pytest.mark.slow

RECORDS = 3
MASKED = [{"card": "••••", "n": each} for each in range(RECORDS)]
MARK = '[{"field":"$.card","method":"redact","rule":"Cards"}]'
BOB = login("bob")


@dataclass
class Scene:
    """Veil in front of a broker with a covered topic and another."""

    server: KafkaServer
    veil: Veil
    canary: Canary
    name: str

    @property
    def covered(self) -> str:
        return f"orders-{self.name}"

    @property
    def plain(self) -> str:
        return f"plain-{self.name}"

    def documents(self) -> list[bytes]:
        """New ones, each with a value that no reader may see."""
        return [json.dumps({"card": self.canary.text(), "n": each}).encode() for each in range(RECORDS)]

    def end(self, *told: bytes | bytearray | str) -> None:
        """What every test ends with; `told` is all that the client printed or gave."""
        for each in told:
            self.canary.assert_not_in(bytes(each) if isinstance(each, bytearray) else each, "what the client told")
            assert_no_address(bytes(each) if isinstance(each, bytearray) else each, self.server)
        self.canary.assert_nowhere(self.veil)


@pytest.fixture
def scene(kafka_server: KafkaServer, veil: VeilFactory, canary: Canary) -> Scene:
    made = Scene(kafka_server, veil(RULES, platform="kafka", upstream=kafka_server.at(SASL)), canary, secrets.token_hex(4))
    create_topics(kafka_server.address, made.covered, made.plain)
    produce(kafka_server.address, made.covered, [Record(each, b"key", [("h", b"1")]) for each in made.documents()])
    produce(kafka_server.address, made.plain, [b"seen"])
    return made


# confluent-kafka


def test_confluent_kafka_reads_masks_in_every_codec(scene: Scene) -> None:
    for codec in CODECS[1:]:
        own = [Record(each, b"key", [("h", b"1"), ("h", None)]) for each in scene.documents()]
        produce(scene.server.address, scene.covered, own, codec=codec)

    stored = consume(scene.server.address, scene.covered, RECORDS * len(CODECS))
    got = consume(scene.veil.address, scene.covered, RECORDS * len(CODECS), settings=BOB)

    assert [json.loads(each.value or b"") for each in got] == MASKED * len(CODECS)
    assert [_without_mark(each) for each in got] == [dataclasses.replace(each, value=None) for each in stored]
    assert {each.header("veil-masked")[0] for each in got} == {MARK.encode()}
    scene.end(repr(got))


def _without_mark(record: Record) -> Record:
    return dataclasses.replace(record, value=None, headers=tuple(each for each in record.headers if each[0] != "veil-masked"))


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_writes_what_is_stored_as_it_was(scene: Scene, codec: str) -> None:
    sent = [Record(each, b"key", [("h", b"1"), ("h", None), ("é", b"\xff")]) for each in scene.documents()]
    for topic in (scene.covered, scene.plain):
        produce(scene.veil.address, topic, sent, codec=codec, settings=BOB)

    stored = consume(scene.server.address, scene.covered, 2 * RECORDS)[RECORDS:]
    beside = consume(scene.server.address, scene.plain, 1 + RECORDS)[1:]
    for got in (stored, beside):
        assert [(each.value, each.key, list(each.headers)) for each in got] == [
            (each.value, each.key, list(each.headers)) for each in sent
        ]
    scene.end()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_shares_a_topic_out_in_a_group_and_commits(scene: Scene, protocol: str) -> None:
    topic = f"orders-two-{scene.name}"
    create_topics(scene.server.address, topic, partitions=2)
    for partition in (0, 1):
        produce(scene.server.address, topic, [Record(each, partition=partition) for each in scene.documents()])
    told: dict[str, str | int | float | bool] = {
        "bootstrap.servers": scene.veil.address,
        "broker.address.family": "v4",
        "group.id": f"{topic}-{protocol}",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **BOB,
    }
    got: list[bytes] = []
    members = [Consumer(told), Consumer(told)]
    for each in members:
        each.subscribe(["^orders-two-.*" if protocol == "classic" else topic])
    polls = 0
    while (len(got) < 2 * RECORDS or not all(each.assignment() for each in members)) and (polls := polls + 1) < 300:
        message = members[polls % 2].poll(0.1)
        if message is not None and message.error() is None and message.topic() == topic:
            got.append(message.value() or b"")
            members[polls % 2].commit(message=message, asynchronous=False)
    assigned = [[each.partition for each in one.assignment() if each.topic == topic] for one in members]
    for each in members:
        each.close()

    # A record may come to both while partitions change hands.
    assert {each.decode() for each in got} == {json.dumps(each, ensure_ascii=False) for each in MASKED}
    assert sorted(assigned) == [[0], [1]]
    scene.end(repr(got))


def test_confluent_kafka_writes_in_a_transaction_and_reads_what_is_committed(scene: Scene) -> None:
    aborted, committed = scene.documents(), scene.documents()
    produce(scene.veil.address, scene.covered, aborted, transaction=scene.name, abort=True, settings=BOB)
    produce(scene.veil.address, scene.covered, committed, transaction=scene.name, settings=BOB)

    got = consume(scene.veil.address, scene.covered, 2 * RECORDS, settings=BOB)
    uncommitted = consume(
        scene.veil.address, scene.covered, 3 * RECORDS, settings={**BOB, "isolation.level": "read_uncommitted"}
    )

    assert [json.loads(each.value or b"") for each in got] == MASKED * 2
    assert [json.loads(each.value or b"") for each in uncommitted] == MASKED * 3
    assert [each.value for each in consume(scene.server.address, scene.covered, 2 * RECORDS)][RECORDS:] == committed
    scene.end(repr(got), repr(uncommitted))


def test_confluent_kafka_is_told_why_a_masked_record_is_not_taken(scene: Scene) -> None:
    masked = consume(scene.veil.address, scene.covered, 1, settings=BOB)[0]

    with pytest.raises(KafkaException) as refused:
        produce(scene.veil.address, scene.covered, [masked], settings=BOB)

    assert refused.value.args[0].name() == "POLICY_VIOLATION"
    assert len(consume(scene.server.address, scene.covered, RECORDS + 1, within_s=2)) == RECORDS
    scene.end(str(refused.value))


def test_confluent_kafkas_admin_sees_veil_as_the_cluster(scene: Scene) -> None:
    client = admin(scene.veil.address, BOB)
    cluster = client.describe_cluster().result(10)
    topics = client.list_topics(timeout=10)

    assert [(each.id, each.host) for each in cluster.nodes] == [(1, scene.veil.host)]
    assert {each.port for each in cluster.nodes} <= set(scene.veil.node_ports)
    assert {scene.covered, scene.plain} <= topics.topics.keys()
    scene.end(repr([(each.host, each.port) for each in (*cluster.nodes, *topics.brokers.values())]))


@pytest.mark.parametrize("codec", CODECS)
def test_the_mock_of_librdkafka_is_read_through_veil(
    kafka_mock: KafkaMock, veil: VeilFactory, canary: Canary, codec: str
) -> None:
    one = veil(RULES, upstream=kafka_mock)
    produce(one.address, "orders-1", [Record(json.dumps({"card": canary.text(), "n": 0}).encode(), b"k")], codec=codec)

    got = consume(one.address, "orders-1", 1)

    assert [(json.loads(each.value or b""), each.key) for each in got] == [(MASKED[0], b"k")]
    with pytest.raises(CanaryFound):
        canary.assert_not_in(repr(consume(kafka_mock.address, "orders-1", 1)))
    canary.assert_not_in(repr(got))
    canary.assert_nowhere(one)


# kafka-python and aiokafka

IN_PYTHON = """
import asyncio, json
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

topic, codecs, count = settings["topic"], settings["codecs"], settings["count"]
login = {"bootstrap_servers": address, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": settings["mechanism"],
         "sasl_plain_username": "bob", "sasl_plain_password": settings["password"]}
first = {"auto_offset_reset": "earliest", "group_id": settings["group"], **login}

def show(kind, record):
    print(kind, record.key, json.loads(record.value), sorted(name for name, _ in record.headers))

def kafka_python():
    for codec in codecs:
        with KafkaProducer(compression_type=codec, **login) as producer:
            producer.send(topic, settings["document"].encode(), key=b"key", headers=[("h", b"1")]).get(10)
    consumer = KafkaConsumer(topic, **first)
    for _ in range(count):
        show("kafka-python", next(consumer))
    consumer.commit()
    consumer.close()

async def aiokafka():
    for codec in codecs:
        async with AIOKafkaProducer(compression_type=codec, **login) as producer:
            await producer.send_and_wait(topic, settings["document"].encode(), key=b"key", headers=[("h", b"1")])
    async with AIOKafkaConsumer(topic, **first) as consumer:
        for _ in range(count):
            show("aiokafka", await asyncio.wait_for(consumer.getone(), 15))
        await consumer.commit()

if settings["client"] == "aiokafka":
    asyncio.run(aiokafka())
else:
    kafka_python()
"""


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_the_clients_in_python_write_in_every_codec_and_read_masks(scene: Scene, client: str, mechanism: str) -> None:
    topic = f"orders-python-{scene.name}"
    create_topics(scene.server.address, topic)
    document = json.dumps({"card": scene.canary.text(), "n": 0})
    script = PythonScript(
        scene.veil.address,
        client=client,
        topic=topic,
        group=f"{client}-{scene.name}",
        codecs=[None, *CODECS[1:]],
        count=len(CODECS),
        document=document,
        mechanism=mechanism,
        password=USERS["bob"],
    )

    printed = script.run(IN_PYTHON)
    told = [line for line in printed.splitlines() if line.startswith(client)]  # aiokafka warns of PLAIN without TLS

    assert told == [f"{client} b'key' {MASKED[0]} ['h', 'veil-masked']"] * len(CODECS)
    assert [each.value for each in consume(scene.server.address, topic, len(CODECS))] == [document.encode()] * len(CODECS)
    scene.end(script.seen)


# kcat


def test_kcat_lists_reads_and_asks_for_offsets(scene: Scene) -> None:
    kcat, direct = Kcat(scene.veil.address, BOB), Kcat(scene.server.at(SASL), BOB)
    read = "-C", "-q", "-e", "-t", scene.covered, "-o", "beginning"

    seen = direct.run(*read, "-f", "%p %o %k %h %s\\n")
    told = kcat.run(*read, "-f", "%p %o %k %h %s\\n")
    as_json = [json.loads(line) for line in kcat.run(*read, "-J").splitlines()]
    listed = json.loads(kcat.run("-L", "-J", "-t", scene.covered))
    asked = "-Q", "-t", f"{scene.covered}:0:1"

    with pytest.raises(CanaryFound):
        scene.canary.assert_not_in(seen)
    assert told.splitlines() == [f'0 {n} key h=1,veil-masked={MARK} {{"card": "••••", "n": {n}}}' for n in range(RECORDS)]
    assert [json.loads(each["payload"]) for each in as_json] == MASKED
    assert [each["name"].split(":")[0] for each in listed["brokers"]] == [scene.veil.host]
    assert kcat.run(*asked) == direct.run(*asked)
    scene.end(kcat.seen)


def test_kcat_reads_in_a_group(scene: Scene) -> None:
    kcat = Kcat(scene.veil.address, {**BOB, "auto.offset.reset": "earliest"})

    told = kcat.run("-q", "-e", "-G", f"kcat-{scene.name}", scene.covered)

    assert [json.loads(line) for line in told.splitlines()] == MASKED
    scene.end(kcat.seen)


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_writes_and_cannot_write_a_mask_back(scene: Scene, codec: str) -> None:
    kcat = Kcat(scene.veil.address, BOB)
    document = scene.documents()[0]
    write = "-P", "-t", scene.covered, "-z", codec, "-H", "h=2"

    kcat.run(*write, stdin=document)
    refused = kcat.run(*write, stdin=json.dumps(MASKED[0], ensure_ascii=False).encode())

    assert "Policy violation" in refused
    stored = consume(scene.server.address, scene.covered, RECORDS + 2, within_s=2)[RECORDS:]
    assert [(each.value, each.header("h")) for each in stored] == [(document, [b"2"])]
    scene.end(kcat.seen)


# kafkajs

IN_JAVASCRIPT = """
    const topic = 'TOPIC'
    const admin = kafka.admin()
    await admin.connect()
    const cluster = await admin.describeCluster()
    const topics = await admin.listTopics()
    const offsets = await admin.fetchTopicOffsets(topic)
    await admin.disconnect()
    const consumer = kafka.consumer({ groupId: topic })
    const records = []
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await new Promise(done => consumer.run({
        eachMessage: async ({ message }) => {
            const headers = Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, `${value}`]))
            records.push({ key: `${message.key}`, value: JSON.parse(message.value), headers })
            if (records.length === 3) done()
        } }))
    await consumer.disconnect()
    const producer = kafka.producer({ retry: { retries: 0 } })
    await producer.connect()
    let refused = ''
    const send = (value, compression) => producer.send({ topic, compression, messages: [{ value, headers: { h: '2' } }] })
    await send('WRITTEN', CompressionTypes.None)
    await send('WRITTEN', CompressionTypes.GZIP)
    try { await send(JSON.stringify(records[0].value), CompressionTypes.None) } catch (e) { refused = `${e.type} ${e.message}` }
    await producer.disconnect()
    console.log(JSON.stringify({ cluster, topics, offsets, records, refused }))
"""


def test_kafkajs_administers_reads_in_a_group_and_writes(scene: Scene) -> None:
    document = scene.documents()[0]
    js = KafkaJs(
        scene.veil.address, sasl={"mechanism": "scram-sha-256", "username": "bob", "password": USERS["bob"]}, ssl=False
    )

    printed = js.run(IN_JAVASCRIPT.replace("TOPIC", scene.covered).replace("WRITTEN", document.decode()))
    told = json.loads(printed.splitlines()[-1])

    assert [(each["nodeId"], each["host"]) for each in told["cluster"]["brokers"]] == [(1, scene.veil.host)]
    assert {scene.covered, scene.plain} <= set(told["topics"])
    assert told["offsets"][0]["high"] == str(RECORDS)
    assert told["records"] == [{"key": "key", "value": each, "headers": {"h": "1", "veil-masked": MARK}} for each in MASKED]
    assert told["refused"].startswith("POLICY_VIOLATION")
    stored = consume(scene.server.address, scene.covered, RECORDS + 3, within_s=2)[RECORDS:]
    assert [each.value for each in stored] == [document, document]
    scene.end(js.seen)
