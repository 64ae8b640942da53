"""What of a Fetch answer is shown."""

from __future__ import annotations

import json

import pytest

from proxy.core.session import SessionSettings
from proxy.protocols.kafka.records import Headers, read_headers, splice
from proxy.protocols.kafka.schema import Message
from rules.model import Partial
from tests.canary import assert_no_canary

from .desk import (
    ALL,
    CANARY,
    CARDS,
    FETCH,
    MASK,
    METADATA,
    Desk,
    batch,
    card,
    fetch_answer,
    fetch_request,
    path,
    record,
    records_of,
    rule,
)

VERSIONS = range(4, 19)
BY_NAME = range(4, 13)
ORDERS_ID = bytes(range(16))


def opened(section: bytes) -> list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]]:
    """Key, value and headers of all records."""
    found: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]] = []

    def note(key: bytes | None, value: bytes | None, headers: bytes) -> None:
        found.append((key, value, read_headers(headers)))

    splice(section, note)
    return found


@pytest.mark.parametrize("version", BY_NAME)
def test_a_covered_field_is_masked_and_its_record_says_so(version: int) -> None:
    desk = Desk()
    answer = desk.fetch(b"orders", batch(record(b"k", card())), version)

    [(key, value, headers)] = opened(records_of(answer))
    mark = json.loads(dict(headers)[b"veil-masked"] or b"")
    assert (key, value) == (b"k", card(MASK))
    assert mark == [{"field": "$.card", "method": "redact", "rule": "Cards"}]
    assert_no_canary(desk.play.to_reader, CANARY.decode())


@pytest.mark.parametrize("version", BY_NAME)
def test_records_of_a_topic_that_no_rule_covers_come_as_they_are(version: int) -> None:
    desk = Desk()
    section = batch(record(b"k", card()))
    desk.ask(FETCH, version, fetch_request(version, b"public"))
    before = fetch_answer(version, b"public", section)

    assert desk.answered(FETCH, version, before) == before


def test_markers_are_left_out_where_the_config_says_so() -> None:
    desk = Desk(settings=SessionSettings(markers=False))
    answer = desk.fetch(b"orders", batch(record(b"k", card())))

    assert opened(records_of(answer)) == [(b"k", card(MASK), [])]


def test_marks_of_others_on_a_covered_topic_are_dropped() -> None:
    desk = Desk()
    section = batch(record(b"k", b'{"note":"plain"}', [(b"a", b"1"), (b"veil-masked", b"[]"), (b"Veil-Unmasked", b"[]")]))

    assert opened(records_of(desk.fetch(b"orders", section))) == [(b"k", b'{"note":"plain"}', [(b"a", b"1")])]


def test_a_null_value_stays_null_and_a_key_is_masked_by_its_own_rule() -> None:
    desk = Desk()
    section = batch(record(CANARY, None, [(b"Authorization", CANARY), (b"other", b"1")]))
    [(key, value, headers)] = opened(records_of(desk.fetch(b"keyed", section)))

    assert (key, value) == (MASK, None)
    assert headers[:2] == [(b"Authorization", MASK), (b"other", b"1")]


def test_mask_all_takes_in_key_and_headers_but_not_the_id_of_a_schema() -> None:
    desk = Desk()
    ids: Headers = [
        (b"__value_schema_id", b"\x01" + bytes(16)),
        (b"__key_schema_id", b"\0\0\0\0\x07"),
        (b"__value_schema_id", CANARY),
    ]
    section = batch(record(CANARY, card(), ids))
    [(key, value, headers)] = opened(records_of(desk.fetch(b"vault", section)))

    assert (key, value) == (MASK, card(MASK, MASK))
    assert headers[:3] == [ids[0], ids[1], (b"__value_schema_id", MASK)]


def test_a_trailing_part_of_a_batch_is_dropped() -> None:
    desk = Desk()
    whole, cut = batch(record(b"k", card(b"1"))), batch(record(b"k", card()))
    for size in range(1, len(cut)):
        answer = desk.fetch(b"orders", whole + cut[:size])
        assert len(opened(records_of(answer))) == 1
    assert_no_canary(desk.play.to_reader, CANARY.decode())


def test_a_batch_with_a_wrong_checksum_is_withheld() -> None:
    desk = Desk()
    section = bytearray(batch(record(b"k", card())))
    section[-3] ^= 1
    answer = desk.fetch(b"orders", bytes(section))

    partition = answer["responses"][0]["partitions"][0]
    assert (partition["error_code"], bytes(partition["records"])) == (29, b"")
    assert_no_canary(desk.play.to_reader, CANARY.decode())


def test_before_the_first_read_of_the_rules_all_contents_are_masked_whole() -> None:
    desk = Desk()
    desk.policy = type(desk.policy).closed()
    desk.play.policy_changed()
    [(key, value, headers)] = opened(records_of(desk.fetch(b"public", batch(record(CANARY, card(), [(b"h", CANARY)])))))

    assert (key, value, headers[0]) == (MASK, MASK, (b"h", MASK))


def test_a_rule_that_comes_while_a_fetch_waits_masks_its_answer() -> None:
    desk = Desk()
    desk.replace()
    desk.ask(FETCH, 12, fetch_request(12, b"orders"))
    desk.replace(CARDS)
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"orders", batch(record(b"k", card()))))

    assert opened(records_of(answer))[0][1] == card(MASK)


def test_a_rule_that_goes_while_a_fetch_waits_still_masks_its_answer() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"orders"))
    desk.replace()
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"orders", batch(record(b"k", card()))))

    assert opened(records_of(answer))[0][1] == card(MASK)


def test_two_policies_at_once_mask_what_either_masks() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"orders"))
    desk.replace(rule("Notes", "orders", path("$.note", Partial(1, 0))))
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"orders", batch(record(b"k", card(note=b"abc")))))

    assert opened(records_of(answer))[0][1] == card(MASK, "a••".encode())


# Topics by id


def name_topic(desk: Desk, topic_id: bytes, name: bytes | None) -> list[tuple[int, int, object]]:
    """Answers the question for names; what goes up because of it."""
    topic: Message = {"error_code": 0 if name else 100, "name": name, "topic_id": topic_id, "is_internal": 0, "partitions": []}
    topic["topic_authorized_operations"] = 0
    answer = {"throttle_time": 0, "brokers": [], "cluster_id": b"c", "controller_id": 0, "topics": [topic]}
    desk.answer(answer)
    return list(desk.went_up())


@pytest.mark.parametrize("version", range(13, 19))
def test_an_unknown_topic_id_is_asked_for_before_its_fetch_goes_up(version: int) -> None:
    desk = Desk()
    asked = desk.ask(FETCH, version, fetch_request(version, ORDERS_ID))
    assert [(key, each) for key, each, _ in asked] == [(METADATA, 12)]
    assert asked[0][2]["topics"] == [{"topic_id": ORDERS_ID, "name": None}]
    assert [key for key, _, _ in name_topic(desk, ORDERS_ID, b"orders")] == [FETCH]

    answer = desk.answered(FETCH, version, fetch_answer(version, ORDERS_ID, batch(record(b"k", card()))))
    assert opened(records_of(answer))[0][1] == card(MASK)
    assert [key for key, _, _ in desk.ask(FETCH, version, fetch_request(version, ORDERS_ID))] == [FETCH]


def test_records_of_an_id_that_nobody_names_are_withheld() -> None:
    desk = Desk()
    desk.ask(FETCH, 17, fetch_request(17, ORDERS_ID))
    name_topic(desk, ORDERS_ID, None)
    answer = desk.answered(FETCH, 17, fetch_answer(17, ORDERS_ID, batch(record(b"k", card()))))

    partition = answer["responses"][0]["partitions"][0]
    assert (partition["error_code"], bytes(partition["records"])) == (29, b"")


def test_an_id_that_an_answer_bears_unasked_is_withheld_and_asked_for_with_the_next_fetch() -> None:
    desk = Desk()
    desk.ask(FETCH, 17, fetch_request(17))
    answer = desk.answered(FETCH, 17, fetch_answer(17, ORDERS_ID, batch(record(b"k", card()))))
    assert answer["responses"][0]["partitions"][0]["error_code"] == 29

    assert [key for key, _, _ in desk.ask(FETCH, 17, fetch_request(17))] == [METADATA]
    name_topic(desk, ORDERS_ID, b"orders")
    answer = desk.answered(FETCH, 17, fetch_answer(17, ORDERS_ID, batch(record(b"k", card()))))
    assert opened(records_of(answer))[0][1] == card(MASK)


def test_an_id_with_two_names_is_withheld() -> None:
    desk = Desk()
    desk.cluster.learn(ORDERS_ID, b"public")
    desk.cluster.learn(ORDERS_ID, b"orders")
    desk.ask(FETCH, 17, fetch_request(17, ORDERS_ID))
    name_topic(desk, ORDERS_ID, b"public")
    answer = desk.answered(FETCH, 17, fetch_answer(17, ORDERS_ID, batch(record(b"k", card()))))

    assert answer["responses"][0]["partitions"][0]["error_code"] == 29


def test_the_zero_id_is_never_learnt() -> None:
    desk = Desk()
    desk.cluster.learn(bytes(16), b"public")
    desk.ask(FETCH, 17, fetch_request(17, bytes(16)))
    answer = desk.answered(FETCH, 17, fetch_answer(17, bytes(16), batch(record(b"k", card()))))

    assert answer["responses"][0]["partitions"][0]["error_code"] == 29


# Sizes


def test_sizes_of_a_covered_topic_are_veils_own_and_of_another_topic_the_readers() -> None:
    desk = Desk()
    request = fetch_request(12, b"orders", b"public", partition_max_bytes=100, max_bytes=200, min_bytes=5000)
    [(_, _, sent)] = desk.ask(FETCH, 12, request)

    assert (sent["max_bytes"], sent["min_bytes"]) == (50 << 20, 1)
    assert [topic["partitions"][0]["partition_max_bytes"] for topic in sent["topics"]] == [1 << 20, 100]


def test_sizes_stay_where_nothing_that_is_asked_for_is_masked() -> None:
    desk = Desk()
    request = fetch_request(12, b"public", partition_max_bytes=100, max_bytes=200, min_bytes=5000)

    assert desk.ask(FETCH, 12, request) == [(FETCH, 12, request)]


def test_a_masked_answer_is_cut_to_the_readers_size_by_whole_batches_and_bears_one_at_least() -> None:
    section = b"".join(batch(record(b"k", card(CANARY * 20)), base=number) for number in range(10))
    for room in (1, 300, 500, 100_000):
        desk = Desk()
        desk.ask(FETCH, 12, fetch_request(12, b"orders", partition_max_bytes=room))
        answer = desk.answered(FETCH, 12, fetch_answer(12, b"orders", section))
        shown = records_of(answer)
        one = len(records_of(desk.fetch(b"orders", batch(record(b"k", card(CANARY))))))
        assert len(shown) == one * min(10, max(1, room // one))


def test_two_originals_of_different_length_give_the_reader_the_same_batches() -> None:
    def seen(secret: bytes) -> bytes:
        desk = Desk()
        section = b"".join(batch(record(b"k", card(secret)), base=number) for number in range(10))
        desk.ask(FETCH, 12, fetch_request(12, b"orders", partition_max_bytes=900))
        return desk.answer(fetch_answer(12, b"orders", section))

    assert seen(b"1") == seen(CANARY * 100)


# Who may fetch


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replica_fetches_nothing(version: int) -> None:
    desk = Desk()
    topic = ORDERS_ID if version >= 13 else b"public"
    request = fetch_request(version, topic)
    if version < 15:
        request["replica_id"] = 2
    else:
        request["replica_state"] = {"replica_id": 2, "replica_epoch": 1}
    assert desk.ask(FETCH, version, request) == []

    assert b"\0\x1d" in desk.play.to_reader
    assert [entry.operation for entry in desk.play.notes] == ["Fetch"]


@pytest.mark.parametrize(
    "topic", [b"__consumer_offsets", b"__transaction_state", b"__share_group_state", b"__cluster_metadata"]
)
def test_internal_topics_are_not_asked_for_and_others_beside_them_are(topic: bytes) -> None:
    desk = Desk()
    [(_, _, sent)] = desk.ask(FETCH, 12, fetch_request(12, topic, b"public"))
    assert [each["topic"] for each in sent["topics"]] == [b"public"]
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"public", batch(record(b"k", b"v"))))

    told = {each["topic"]: each["partitions"][0]["error_code"] for each in answer["responses"]}
    assert told == {topic: 29, b"public": 0}


def test_contents_of_an_internal_topic_that_come_all_the_same_are_withheld() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"public"))
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"__consumer_offsets", batch(record(b"k", card()))))

    assert answer["responses"][0]["partitions"][0]["error_code"] == 29
    assert_no_canary(desk.play.to_reader, CANARY.decode())


# Unmasked


def test_whoever_may_read_unmasked_sees_the_originals_once_that_is_recorded() -> None:
    desk = Desk(fixed="alice")
    for _ in range(3):
        [(_, value, headers)] = opened(records_of(desk.fetch(b"orders", batch(record(b"k", card())))))
        assert (value, headers) == (card(), [(b"veil-unmasked", b'["Cards"]')])

    assert [(entry.who, entry.resource and entry.resource.name) for entry in desk.play.recorded] == [("alice", b"orders")]


def test_an_answer_without_records_is_no_read() -> None:
    desk = Desk(fixed="alice")
    desk.fetch(b"orders", b"")

    assert desk.play.recorded == []


def test_what_cannot_be_recorded_is_masked() -> None:
    desk = Desk(fixed="alice")
    desk.play.journal_works = False

    assert opened(records_of(desk.fetch(b"orders", batch(record(b"k", card())))))[0][1] == card(MASK)


def test_an_unmasked_read_lapses_and_a_new_one_needs_a_new_connection() -> None:
    desk = Desk(fixed="alice")
    desk.fetch(b"orders", batch(record(b"k", card(b"1"))))
    desk.clock.now_s = 601.0
    for _ in range(3):
        assert opened(records_of(desk.fetch(b"orders", batch(record(b"k", card())))))[0][1] == card(MASK)

    assert len(desk.play.recorded) == 1


def test_a_rule_added_during_an_unmasked_read_is_recorded_before_it_is_lifted() -> None:
    desk = Desk(fixed="alice")
    desk.fetch(b"orders", batch(record(b"k", card())))
    desk.replace(CARDS, ALL, rule("Notes", "orders", path("$.note")))
    desk.fetch(b"orders", batch(record(b"k", card())))

    assert [[tag.name for tag in entry.rules] for entry in desk.play.recorded] == [["Cards"], ["Cards", "Notes"]]


def test_a_grant_on_some_topics_lifts_those_alone() -> None:
    desk = Desk(fixed="erin")
    assert opened(records_of(desk.fetch(b"orders.eu", batch(record(b"k", card())))))[0][1] == card()
    assert opened(records_of(desk.fetch(b"orders.us", batch(record(b"k", card())))))[0][1] == card(MASK)
