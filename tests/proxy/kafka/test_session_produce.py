"""What may be written."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.session import SessionSettings
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.records import Headers
from proxy.protocols.kafka.schema import Message
from tests.canary import assert_no_canary

from .desk import (
    CANARY,
    CLIENT,
    MASK,
    METADATA,
    PRODUCE,
    Desk,
    batch,
    card,
    read_answer,
    record,
    records_of,
)
from .test_session_fetch import ORDERS_ID, name_topic, opened

BY_NAME = range(3, 13)
MARK: Headers = [(b"veil-masked", b'[{"field":"$.card","method":"redact","rule":"Cards"}]')]


def request(version: int, *parts: tuple[bytes, bytes], acks: int = -1) -> Message:
    """One partition of each topic."""
    named = "topic_id" if version >= 13 else "name"
    topics = [{named: topic, "partition_data": [{"index": 3, "records": section}]} for topic, section in parts]
    return schema.request(PRODUCE, version).blank() | {"acks": acks, "timeout": 1000, "topic_data": topics}


def written(version: int, *topics: bytes) -> Message:
    """The broker's answer to what it was sent."""
    codec = schema.response(PRODUCE, version)
    part = codec.item("responses").item("partition_responses").blank() | {"index": 3, "base_offset": 7}
    named = "topic_id" if version >= 13 else "name"
    return codec.blank() | {"responses": [{named: topic, "partition_responses": [dict(part)]} for topic in topics]}


def told(version: int, answer: bytes) -> dict[bytes, Message]:
    """topic -> what is said of its partition."""
    named = "topic_id" if version >= 13 else "name"
    return {each[named]: each["partition_responses"][0] for each in read_answer(PRODUCE, version, answer)["responses"]}


@pytest.mark.parametrize("version", BY_NAME)
def test_a_record_without_masks_is_written_as_it_came(version: int) -> None:
    desk = Desk()
    before = request(version, (b"orders", batch(record(b"k", card()))))
    desk.play.reader(wire.own_request(PRODUCE, version, 1, CLIENT, before))

    assert desk.play.sent_up() == wire.own_request(PRODUCE, version, 1, CLIENT, before)


MASKED_ITEMS = {
    "bears the mark": record(b"k", b"{}", MARK),
    "bears mask text": record(b"k", card(MASK)),
    "bears mask text in escapes": record(b"k", card(b"\\u2022\\u2022\\u2022\\u2022")),
    "is mask text": record(b"k", MASK),
}


@pytest.mark.parametrize("version", BY_NAME)
@pytest.mark.parametrize("masked", MASKED_ITEMS.values(), ids=MASKED_ITEMS.keys())
def test_a_masked_item_is_refused_with_its_rule_and_is_not_sent(version: int, masked: bytes) -> None:
    desk = Desk()
    section = batch(record(b"k", card()), masked)
    assert desk.ask(PRODUCE, version, request(version, (b"orders", section))) == []
    answer = told(version, desk.play.to_reader)[b"orders"]

    assert (answer["index"], answer["error_code"], answer["base_offset"]) == (3, 44, -1)
    if version >= 8:
        assert b"veil: Produce on" in answer["error_message"]
        assert [each["batch_index"] for each in answer["record_errors"]] == [1]
    assert [entry.operation for entry in desk.play.notes] == ["Produce"]
    assert_no_canary(desk.play.to_reader, CANARY.decode())


@pytest.mark.parametrize("version", BY_NAME)
def test_what_may_be_written_beside_it_is_and_the_answer_speaks_of_both(version: int) -> None:
    desk = Desk()
    parts = ((b"orders", batch(record(b"k", card(MASK)))), (b"public", batch(record(b"k", card(MASK)))))
    [(_, _, sent)] = desk.ask(PRODUCE, version, request(version, *parts))
    assert [each["name"] for each in sent["topic_data"]] == [b"public"]
    answer = told(version, desk.answer(written(version, b"public")))

    assert {topic: each["error_code"] for topic, each in answer.items()} == {b"orders": 44, b"public": 0}


def test_the_mark_of_a_masked_record_is_refused_on_any_topic_where_it_can_be_seen() -> None:
    desk = Desk()
    assert desk.ask(PRODUCE, 9, request(9, (b"public", batch(record(b"k", b"v", MARK))))) == []
    assert told(9, desk.play.to_reader)[b"public"]["error_code"] == 44

    [(_, _, sent)] = desk.ask(PRODUCE, 9, request(9, (b"public", batch(record(b"k", b"veil-masked")))))
    assert sent["topic_data"][0]["name"] == b"public"


def test_the_mark_of_a_lifted_record_is_taken_off_and_the_record_written() -> None:
    desk = Desk()
    section = batch(record(b"k", card(), [(b"a", b"1"), (b"veil-unmasked", b'["Cards"]')]))
    [(_, _, sent)] = desk.ask(PRODUCE, 9, request(9, (b"orders", section)))

    assert opened(bytes(sent["topic_data"][0]["partition_data"][0]["records"])) == [(b"k", card(), [(b"a", b"1")])]


def test_a_masked_number_that_comes_back_byte_for_byte_is_refused() -> None:
    desk = Desk()
    desk.fetch(b"orders", batch(record(b"k", b'{"card":4111,"id":7}')))
    desk.play.to_reader = b""
    assert desk.ask(PRODUCE, 9, request(9, (b"orders", batch(record(b"k", b'{"card":0,"id":7}'))))) == []
    assert told(9, desk.play.to_reader)[b"orders"]["error_code"] == 44

    assert len(desk.ask(PRODUCE, 9, request(9, (b"orders", batch(record(b"k", b'{"card":0,"id":8}')))))) == 1


def test_mask_text_in_a_covered_key_or_header_is_refused() -> None:
    for masked in (record(MASK, b"v"), record(b"k", b"v", [(b"Authorization", b"x" + MASK)])):
        desk = Desk()
        assert desk.ask(PRODUCE, 9, request(9, (b"keyed", batch(masked)))) == []
        assert told(9, desk.play.to_reader)[b"keyed"]["error_code"] == 44


def test_strict_writes_refuse_all_to_a_covered_topic_and_nothing_else() -> None:
    desk = Desk(settings=SessionSettings(writes="strict"))
    parts = ((b"orders", batch(record(b"k", card()))), (b"public", batch(record(b"k", b"v"))))
    [(_, _, sent)] = desk.ask(PRODUCE, 9, request(9, *parts))
    answer = told(9, desk.answer(written(9, b"public")))

    assert [each["name"] for each in sent["topic_data"]] == [b"public"]
    assert answer[b"orders"]["error_code"] == 44


def test_records_that_cannot_be_read_are_not_written_to_a_covered_topic() -> None:
    desk = Desk()
    damaged = bytearray(batch(record(b"k", card())))
    damaged[-1] ^= 1
    assert desk.ask(PRODUCE, 9, request(9, (b"orders", bytes(damaged)))) == []
    assert told(9, desk.play.to_reader)[b"orders"]["error_code"] == 44

    assert len(desk.ask(PRODUCE, 9, request(9, (b"public", bytes(damaged))))) == 1


def test_a_refused_write_without_acknowledgement_is_dropped_in_silence() -> None:
    desk = Desk()
    assert desk.ask(PRODUCE, 9, request(9, (b"orders", batch(record(b"k", card(MASK)))), acks=0)) == []
    assert (desk.play.to_reader, len(desk.play.notes)) == (b"", 1)

    [(_, _, sent)] = desk.ask(PRODUCE, 9, request(9, (b"orders", batch(record(b"k", card()))), acks=0))
    assert sent["acks"] == 0
    desk.in_flight.clear()
    assert opened(records_of(desk.fetch(b"orders", batch(record(b"k", card())))))[0][1] == card(MASK)


def test_a_topic_by_id_is_named_before_its_records_are_judged() -> None:
    desk = Desk()
    section = batch(record(b"k", card(MASK)))
    assert [key for key, _, _ in desk.ask(PRODUCE, 13, request(13, (ORDERS_ID, section)))] == [METADATA]
    topic: dict[str, Any] = {"error_code": 0, "name": b"orders", "topic_id": ORDERS_ID, "is_internal": 0, "partitions": []}
    topic["topic_authorized_operations"] = 0
    answer = desk.answer({"throttle_time": 0, "brokers": [], "cluster_id": b"c", "controller_id": 0, "topics": [topic]})
    assert told(13, answer)[ORDERS_ID]["error_code"] == 44
    assert desk.went_up() == []


def test_a_topic_that_nobody_names_is_not_written_to() -> None:
    desk = Desk()
    desk.ask(PRODUCE, 13, request(13, (ORDERS_ID, batch(record(b"k", b"v")))))
    name_topic(desk, ORDERS_ID, None)

    assert told(13, desk.play.to_reader)[ORDERS_ID]["error_code"] == 100


def test_whoever_may_read_unmasked_may_write_mask_text_once_that_is_recorded() -> None:
    desk = Desk(fixed="alice")
    assert len(desk.ask(PRODUCE, 9, request(9, (b"orders", batch(record(b"k", card(MASK))))))) == 1
    assert [entry.operation for entry in desk.play.recorded] == ["Produce"]

    assert desk.ask(PRODUCE, 9, request(9, (b"orders", batch(record(b"k", card(), MARK))))) == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_of_produce_before_the_third_end_the_connection(version: int) -> None:
    desk = Desk()
    desk.play.reader(b"\0\0\0\x10" + b"\0\0" + bytes([0, version]) + b"\0\0\0\x01\0\x04desk\0\0")

    assert (desk.play.sent_up(), bool(desk.play.closed)) == (b"", True)
