"""Masked records that are written back: refused in every client, and whatever else it writes is taken."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from tests.brokers.kafka_clients import Record, consume, login, produce
from tests.brokers.kafka_programs import PythonScript
from tests.brokers.kafka_server import SASL, USERS, KafkaServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import CARDS, REFUSED, Wire, card, entity, entries, log_end, new_topic, reader, whole_trail

pytestmark = pytest.mark.slow

PRODUCE = 0
POLICY_VIOLATION = 44
KAFKA_PYTHON = """
from kafka import KafkaProducer
made = lambda: KafkaProducer(
    bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="bob",
    sasl_plain_password=settings["password"], enable_idempotence=settings["idempotent"],
)
producer = made()
for value in (settings["masked"], settings["fine"]):
    try:
        if value == settings["fine"] and settings["idempotent"]:
            producer.close()  # with a sequence it takes no more after an error, whoever's it is
            producer = made()
        done = producer.send(settings["topic"], value.encode()).get(timeout=20)
        print("offset", done.offset)
    except Exception as error:
        print(type(error).__name__, error)
producer.close()
"""
AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaProducer

async def main():
    producer = AIOKafkaProducer(
        bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="bob",
        sasl_plain_password=settings["password"], enable_idempotence=settings["idempotent"],
    )
    await producer.start()
    for value in (settings["masked"], settings["fine"]):
        try:
            done = await producer.send_and_wait(settings["topic"], value.encode())
            print("offset", done.offset)
        except Exception as error:
            print(type(error).__name__, error)
    await producer.stop()

asyncio.run(main())
"""
FINE = card("4111", n=1)


@pytest.fixture
def topic(kafka_server: KafkaServer, canary: Canary) -> str:
    """One record, whose card is hidden."""
    name = new_topic(kafka_server, "cards")
    produce(kafka_server.address, name, [card(canary.text())])
    return name


def front(kafka_server: KafkaServer, veil: VeilFactory, **more: object) -> Veil:
    return veil(CARDS, platform="kafka", upstream=kafka_server.at(SASL), **more)


def refusal_of(address: str, topic: str, record: Record, **settings: str | int | bool) -> KafkaError:
    with pytest.raises(KafkaException) as refused:
        produce(address, topic, [record], settings=login("bob") | settings)
    error = refused.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def test_a_record_that_was_shown_masked_is_not_written_back_by_its_mark_or_by_its_text(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary
) -> None:
    one = front(kafka_server, veil)
    (shown,) = consume(one.address, topic, 1, settings=login("bob"))
    elsewhere = new_topic(kafka_server, "plain")

    for target, record in (
        (topic, shown),
        (topic, Record(shown.value)),
        (elsewhere, Record(b"anything", headers=shown.headers)),
    ):
        before = log_end(kafka_server, target)
        assert refusal_of(one.address, target, record).code() == POLICY_VIOLATION
        assert log_end(kafka_server, target) == before
    assert len(produce(one.address, topic, [FINE], settings=login("bob"))) == 1
    assert len(entries(one, REFUSED)) == 3
    whole_trail(one, canary)


def test_a_number_that_was_shown_as_zero_is_not_written_back(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic(kafka_server, "cards")
    produce(kafka_server.address, topic, [card(canary.number(), note="unique")])
    one = front(kafka_server, veil)
    (shown,) = consume(one.address, topic, 1, settings=login("bob"))
    assert json.loads(shown.value or b"") == {"card": 0, "note": "unique"}

    assert refusal_of(one.address, topic, Record(shown.value)).code() == POLICY_VIOLATION
    assert len(produce(one.address, topic, [card(0, note="of my own")], settings=login("bob"))) == 1
    assert log_end(kafka_server, topic) == 2
    whole_trail(one, canary)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_a_client_is_told_of_the_refusal_and_goes_on(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary, client: str, idempotent: bool
) -> None:
    one = front(kafka_server, veil)
    told: dict[str, Any] = {"password": USERS["bob"], "topic": topic, "masked": card("••••").decode(), "fine": FINE.decode()}
    script = KAFKA_PYTHON if client == "kafka-python" else AIOKAFKA
    said = PythonScript(one.address, **told, idempotent=idempotent).run(script)

    assert "PolicyViolation" in said, said
    assert log_end(kafka_server, topic) == 2, said
    assert "offset 1" in said, said
    canary.assert_not_in(said, client)
    whole_trail(one, canary)


def test_an_idempotent_producer_goes_on_after_a_refusal(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary
) -> None:
    one = front(kafka_server, veil)
    outcomes = _in_turn(one, topic, [FINE, card("••••"), FINE, FINE], {"enable.idempotence": True})

    assert outcomes == [0, POLICY_VIOLATION, 0, 0]
    assert log_end(kafka_server, topic) == 4
    whole_trail(one, canary)


def _in_turn(one: Veil, topic: str, values: list[bytes], settings: dict[str, Any]) -> list[int]:
    """The error code of each record, each sent when the one before it was answered."""
    base = {"bootstrap.servers": one.address, "broker.address.family": "v4", "linger.ms": 0}
    producer = Producer(base | login("bob") | settings)
    codes: list[int] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: codes.append(0 if error is None else error.code()))
        producer.flush(20)
    return codes


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_as_its_producer_wants_after_a_refusal(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary, commit: bool
) -> None:
    one = front(kafka_server, veil)
    base = {"bootstrap.servers": one.address, "broker.address.family": "v4", "linger.ms": 0}
    producer = Producer(base | login("bob") | {"transactional.id": f"{topic}-t"})
    producer.init_transactions(20)
    codes: list[int] = []
    producer.begin_transaction()
    for value in (FINE, card("••••")):
        producer.produce(topic, value, on_delivery=lambda error, _: codes.append(0 if error is None else error.code()))
        producer.flush(20)
    if commit:
        with pytest.raises(KafkaException):  # librdkafka: a record that failed makes the transaction abortable alone
            producer.commit_transaction(20)
    producer.abort_transaction(20)
    tries = 0
    while True:
        producer.begin_transaction()
        producer.produce(topic, FINE)
        tries += 1
        try:
            producer.commit_transaction(20)
            break
        except KafkaException as failed:
            # librdkafka counts on from the refused record, as it does when the broker refuses: it is told so, and bumps
            # its epoch when it aborts
            assert failed.args[0].txn_requires_abort()
            producer.abort_transaction(20)

    assert tries <= 2
    assert codes == [0, POLICY_VIOLATION]
    committed = consume(kafka_server.address, topic, 3, within_s=3)
    assert [json.loads(each.value or b"")["card"] for each in committed][1:] == ["4111"]
    whole_trail(one, canary)


def test_the_answer_says_which_record_was_refused_and_the_other_partition_is_written(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary
) -> None:
    topic = new_topic(kafka_server, "cards", partitions=2)
    plain = new_topic(kafka_server, "plain")
    produce(kafka_server.address, plain, [FINE])
    with Wire(kafka_server.host, kafka_server.port) as direct:
        fine = direct.partition(12, plain).records
        produce(kafka_server.address, plain, [FINE, FINE, card("••••", of=canary.text())])
        masked = direct.partition(12, plain, 1).records
    one = front(kafka_server, veil)
    written = 0
    with reader(one) as bob:
        own_id = bob.topic_id(topic)
        for version in range(3, 14):
            named: dict[str, Any] = {"topic_id": own_id} if version >= 13 else {"name": topic}
            parts = [{"index": 0, "records": masked}, {"index": 1, "records": fine}]
            answer = bob.ask(
                PRODUCE,
                version,
                acks=-1,
                timeout=dt.timedelta(seconds=5),
                topic_data=[{**named, "partition_data": parts}],
            )
            said = {int(each.index): each for topic_said in answer.responses for each in topic_said.partition_responses}
            assert said[0].error_code == ErrorCode.policy_violation, version
            assert (said[1].error_code, said[1].base_offset) == (ErrorCode.none, written), version
            written += 1
            if version >= 8:
                assert [int(each.batch_index) for each in said[0].record_errors] == [2]
                assert '"Cards"' in said[0].error_message
                assert "$.card" in said[0].error_message
        # nobody answers a refused write that wants no answer, and the next one has its own
        parts = [{"index": 0, "records": masked}]
        data = {"acks": 0, "timeout": dt.timedelta(seconds=5), "topic_data": [{"name": topic, "partition_data": parts}]}
        bob.send(entity(load_request_schema(PRODUCE, 12), data))
        assert bob.topic_id(topic) == own_id
        whole_trail(one, canary, bob)
    assert log_end(kafka_server, topic) == 0


def test_nothing_is_written_to_a_covered_topic_where_writes_are_strict(
    kafka_server: KafkaServer, veil: VeilFactory, topic: str, canary: Canary
) -> None:
    one = front(kafka_server, veil, listener={"writes": "strict"})
    plain = new_topic(kafka_server, "plain")

    assert refusal_of(one.address, topic, Record(FINE)).code() == POLICY_VIOLATION
    assert log_end(kafka_server, topic) == 1
    assert len(produce(one.address, plain, [FINE], settings=login("bob"))) == 1
    whole_trail(one, canary)
