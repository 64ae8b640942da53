"""Every way to read a topic, in every codec, under every kind of rule: nothing hidden comes out."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers.kafka_clients import CODECS, Record, consume, create_topics, login, produce
from tests.brokers.kafka_programs import PythonScript
from tests.brokers.kafka_server import SASL, USERS, KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import (
    FETCH,
    FETCH_VERSIONS,
    KINDS,
    WALK,
    Wire,
    batches,
    card,
    hidden_by,
    new_topic,
    opened,
    read_all,
    reader,
    records_of,
    whole_trail,
)

pytestmark = pytest.mark.slow

EVERY_KIND = (*KINDS, "mask_all")

KAFKA_PYTHON = """
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(
    bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="bob",
    sasl_plain_password=settings["password"], check_crcs=True, auto_offset_reset="earliest", group_id=None,
)
for topic, end in settings["ends"].items():
    part = TopicPartition(topic, 0)
    consumer.assign([part])
    consumer.seek_to_beginning(part)
    found = []
    while consumer.position(part) < end:
        for records in consumer.poll(timeout_ms=500).values():
            found += [(each.offset, repr((each.key, each.value, each.headers))) for each in records]
    print(json.dumps([topic, found]), flush=True)
consumer.close()
"""
AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition

async def main():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="bob",
        sasl_plain_password=settings["password"], check_crcs=True, auto_offset_reset="earliest", group_id=None,
    )
    await consumer.start()
    for topic, end in settings["ends"].items():
        part = TopicPartition(topic, 0)
        consumer.assign([part])
        await consumer.seek_to_beginning(part)
        found = []
        while await consumer.position(part) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [(each.offset, repr((each.key, each.value, each.headers))) for each in records]
        print(json.dumps([topic, found]), flush=True)
    await consumer.stop()

asyncio.run(main())
"""


def _topics(server: KafkaServer, codec: str, secret: str) -> dict[str, list[Record]]:
    """A topic a kind of rule, in one codec, and what was written to it; transactions behind it, one of them aborted."""
    suffix = f"{codec}-{secrets.token_hex(4)}"
    topics = {f"walk-{kind}-{suffix}": hidden_by(kind, secret) for kind in EVERY_KIND}
    create_topics(server.address, *topics, config={"retention.ms": "-1"})
    for topic, records in topics.items():
        kind = topic.split("-")[1]
        produce(server.address, topic, records, codec=codec)
        if kind in ("json_path", "mask_all"):
            for abort in (True, False):
                produce(server.address, topic, records, codec=codec, transaction=f"{topic}-t", abort=abort)
    return topics


@pytest.mark.parametrize("codec", CODECS)
def test_no_version_of_fetch_brings_anything_hidden(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, codec: str
) -> None:
    secret = canary.text()
    topics = _topics(kafka_server, codec, secret)
    one = veil(WALK, platform="kafka", upstream=kafka_server.at(SASL))

    with reader(one) as bob, Wire(kafka_server.host, kafka_server.port) as direct:
        versions = bob.versions()
        assert (versions[FETCH].min_version, versions[FETCH].max_version) == (FETCH_VERSIONS[0], FETCH_VERSIONS[-1])
        seen = set()
        for topic in topics:
            own_id = bob.topic_id(topic)
            for isolation in (0, 1):
                expected = _shape(direct, topic, isolation)
                for version in FETCH_VERSIONS:
                    shown = list(read_all(bob, version, topic, isolation=isolation, topic_id=own_id))
                    seen |= {opened(each) for each in shown}
                    offsets = [each.offset for part in shown for each in records_of(part)]
                    assert offsets == expected, f"{topic} in version {version}"

        canary.assert_not_in(b"\n".join(seen), "what was compressed")
        assert any("••••".encode() in each for each in seen)
        whole_trail(one, canary, bob)


def _shape(direct: Wire, topic: str, isolation: int) -> list[int]:
    return [each.offset for part in read_all(direct, 12, topic, isolation=isolation) for each in records_of(part)]


def test_no_client_is_shown_anything_hidden(kafka_server: KafkaServer, veil: VeilFactory, canary: Canary) -> None:
    secret = canary.text()
    topics = {
        name: records
        for codec in ("none", "lz4", "zstd", "snappy", "gzip")
        for name, records in _topics(kafka_server, codec, secret).items()
    }
    one = veil(WALK, platform="kafka", upstream=kafka_server.at(SASL))
    with Wire(kafka_server.host, kafka_server.port) as direct:
        ends = {topic: direct.partition(12, topic).high_watermark for topic in topics}
    told = {"password": USERS["bob"], "ends": ends}

    programs = {name: PythonScript(one.address, **told) for name in ("kafka-python", "aiokafka")}
    said = {
        "kafka-python": programs["kafka-python"].run(KAFKA_PYTHON),
        "aiokafka": programs["aiokafka"].run(AIOKAFKA),
    }
    confluent = {
        topic: consume(one.address, topic, len(records), settings=login("bob") | {"check.crcs": True})
        for topic, records in topics.items()
    }

    for name, program in programs.items():
        canary.assert_not_in(bytes(program.seen), name)
        found = dict(json.loads(line) for line in said[name].splitlines() if line.startswith("["))
        assert {topic: len(each) >= len(topics[topic]) for topic, each in found.items()} == dict.fromkeys(topics, True), said[
            name
        ][-2000:]
    canary.assert_not_in(repr(confluent), "confluent-kafka")
    assert {topic: len(each) for topic, each in confluent.items()} == {topic: len(each) for topic, each in topics.items()}
    whole_trail(one, canary)


def test_whoever_reads_uncommitted_is_shown_no_more_of_an_aborted_transaction(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    secret = canary.text()
    topic = new_topic(kafka_server, "walk-json_path-aborted")
    produce(kafka_server.address, topic, hidden_by("json_path", secret), codec="zstd", transaction=f"{topic}-t", abort=True)
    one = veil(WALK, platform="kafka", upstream=kafka_server.at(SASL))

    with reader(one) as bob:
        for version in FETCH_VERSIONS:
            part = bob.partition(version, topic, isolation=1)
            assert part.error_code == ErrorCode.none
            assert [each.first_offset for each in part.aborted_transactions] == [0]
            canary.assert_not_in(opened(part), "what was compressed")
        whole_trail(one, canary, bob)


def test_what_compaction_leaves_of_a_batch_comes_through_and_hides_what_it_holds(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    secret = canary.text()
    compacted = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = new_topic(kafka_server, "walk-json_path", config=compacted)
    backoff = {"name": "log.cleaner.backoff.ms", "config_operation": 0, "value": "200"}
    with Wire(kafka_server.host, kafka_server.port) as direct:
        direct.ask(44, 1, resources=[{"resource_type": 4, "resource_name": "", "configs": [backoff]}])

        def is_compacted() -> bool:
            # Each producer's last batch stays for its sequence number, without its records once another wrote the key.
            produce(kafka_server.address, topic, [Record(card(secret), b"one key")], settings={"enable.idempotence": True})
            return any(_is_empty(batch) for part in read_all(direct, 12, topic) for batch in batches(part.records))

        wait_until(is_compacted, "compaction leaves a batch without records", 60)
        one = veil(WALK, platform="kafka", upstream=kafka_server.at(SASL))
        with reader(one) as bob:
            for version in FETCH_VERSIONS:
                shown = list(read_all(bob, version, topic))
                assert any(_is_empty(batch) for part in shown for batch in batches(part.records))
                canary.assert_not_in(b"".join(map(opened, shown)), "what was compressed")
            whole_trail(one, canary, bob)


def _is_empty(batch: Any) -> bool:
    return not batch.is_control_batch and not list(batch)
