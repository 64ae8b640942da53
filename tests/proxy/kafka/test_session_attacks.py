"""What was tried against a session by whoever may send any frame, and by whoever writes records; each must stay without
effect."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from crc32c import crc32c

from proxy.core.errors import WireError
from proxy.core.session import SessionSettings
from proxy.core.steps import Ask
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.records.compression import compress
from proxy.protocols.kafka.schema import Message
from proxy.protocols.kafka.session import pending
from proxy.protocols.kafka.surface import ROWS, Contents, Row
from tests.canary import assert_no_canary

from .desk import (
    ALL,
    CANARY,
    CARDS,
    FETCH,
    MASK,
    METADATA,
    PRODUCE,
    SHARE_FETCH,
    Desk,
    batch,
    card,
    fetch_answer,
    fetch_request,
    framed,
    frames,
    read_answer,
    record,
    records_of,
)
from .test_session_fetch import ORDERS_ID, opened
from .test_session_login import reads_unmasked, say, shake

# Names


def jwt(**claims: object) -> bytes:
    return b"e30.%b.c2ln" % base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")


ALICE, BOB = jwt(sub="alice"), jwt(sub="bob")


@pytest.mark.parametrize(
    "said",
    [
        b"n,,\x01auth=Bearer %b\x01auth=Bearer %b\x01\x01" % (ALICE, BOB),
        b"n,,\x01auth=Bearer %b\x01x=%b\x01auth=Bearer %b\x01\x01" % (ALICE, b"y" * 70_000, BOB),
        b"n,,\x01auth=Bearer %b\x01AUTH=Bearer %b\x01\x01" % (ALICE, BOB),
        b"n,a=\x01auth=Bearer %b,\x01auth=Bearer %b\x01\x01" % (ALICE, BOB),
        b"n,,\x01auth=Bearer %b\x01auth=Basic x\x01\x01" % ALICE,
    ],
)
def test_two_bearer_tokens_in_one_login_name_nobody(said: bytes) -> None:
    desk = Desk(settings=SessionSettings(token_claim="sub"))
    shake(desk, b"OAUTHBEARER")
    say(desk, said)

    assert (desk.viewer.who, reads_unmasked(desk)) == ("", False)


def test_a_name_in_a_token_that_is_no_text_names_nobody() -> None:
    desk = Desk(settings=SessionSettings(token_claim="sub"))
    shake(desk, b"OAUTHBEARER")
    say(desk, b"n,,\x01auth=Bearer %b\x01\x01" % jwt(sub="\ud800"))

    assert desk.viewer.who == ""


# Sizes


def session(epoch: int, number: int = 0, *topics: bytes, version: int = 12, size: int = 1 << 20) -> Message:
    return fetch_request(version, *topics, session_id=number, session_epoch=epoch, max_bytes=size, min_bytes=size)


def test_a_fetch_session_of_another_connection_is_not_gone_on_with() -> None:
    desk = Desk()

    assert desk.ask(FETCH, 12, session(1, 7)) == []
    assert read_answer(FETCH, 12, desk.play.to_reader)["error_code"] == 70


@pytest.mark.parametrize("epoch", [-2, 1, 2, 2**31 - 1, -(2**31)])
def test_no_epoch_but_the_two_that_begin_afresh_goes_on_with_a_session_that_is_not_known(epoch: int) -> None:
    for version in range(7, 19):
        desk = Desk()
        assert desk.ask(FETCH, version, session(epoch, 7, version=version)) == []


def test_an_own_fetch_session_goes_on_until_the_rules_change() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, session(0, 0, b"orders"))
    desk.answer(fetch_answer(12, b"orders", b"") | {"session_id": 7})
    assert len(desk.ask(FETCH, 12, session(1, 7))) == 1
    desk.answer(fetch_answer(12, b"orders", b"") | {"session_id": 7})
    desk.replace(CARDS, ALL)
    desk.play.to_reader = b""

    assert desk.ask(FETCH, 12, session(2, 7)) == []
    assert read_answer(FETCH, 12, desk.play.to_reader)["error_code"] == 70


def test_a_session_that_was_opened_under_other_rules_is_not_gone_on_with() -> None:
    desk = Desk()
    desk.replace()
    desk.ask(FETCH, 12, session(0, 0, b"orders", size=99))
    desk.replace(CARDS)
    desk.answer(fetch_answer(12, b"orders", b"") | {"session_id": 7})

    assert desk.ask(FETCH, 12, session(1, 7)) == []


def test_a_foreign_session_goes_on_where_no_rule_masks() -> None:
    desk = Desk()
    desk.replace()

    assert len(desk.ask(FETCH, 12, session(1, 7))) == 1


def test_a_share_fetch_is_asked_with_veils_own_sizes_whatever_it_names() -> None:
    for version in (1, 2):
        desk = Desk()
        request = schema.request(SHARE_FETCH, version).blank() | {"share_session_epoch": 3, "max_bytes": 99, "min_bytes": 99}
        [(_, _, sent)] = desk.ask(SHARE_FETCH, version, request)
        assert (sent["max_bytes"], sent["min_bytes"]) == (50 << 20, 1)


@pytest.mark.parametrize("section", [b"", batch(record(b"k", card()))])
def test_how_long_an_answer_is_throttled_does_not_tell_its_size(section: bytes) -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"orders"))
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"orders", section) | {"throttle_time": 1234})
    assert answer["throttle_time"] == 0

    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"public"))
    answer = desk.answered(FETCH, 12, fetch_answer(12, b"public", section) | {"throttle_time": 1234})
    assert answer["throttle_time"] == 1234


# What nobody knows

STRANGE = {77: CANARY}


@pytest.mark.parametrize("version", range(12, 19))
@pytest.mark.parametrize("topic", [b"orders", b"public"])
@pytest.mark.parametrize("place", ["answer", "topic", "partition", "header"])
def test_a_tagged_field_that_the_version_does_not_know_never_reaches_the_reader(version: int, topic: bytes, place: str) -> None:
    desk = Desk()
    named = topic if version < 13 else ORDERS_ID
    desk.cluster.learn(ORDERS_ID, topic)
    desk.ask(FETCH, version, fetch_request(version, named))
    answer = fetch_answer(version, named, batch(record(b"k", b"{}")))
    spot = {"answer": answer, "topic": answer["responses"][0], "partition": answer["responses"][0]["partitions"][0]}
    if place != "header":
        spot[place]["_tags"] = STRANGE
    frame = framed(FETCH, version, desk.correlation_id, answer)
    if place == "header":
        frame = wire.sized(frame[4:8], b"\x01\x4d" + bytes((len(CANARY),)) + CANARY, frame[9:])
    said = desk.play.server(frame)

    assert records_of(read_answer(FETCH, version, said))
    assert_no_canary(desk.play.to_reader, CANARY.decode())


TAGGED_ANSWERS = [(0, 9), (0, 13), (3, 9), (3, 13), (10, 4), (18, 3), (32, 4), (35, 2), (55, 2), (60, 1), (78, 2), (79, 2)]


@pytest.mark.parametrize(("key", "version"), TAGGED_ANSWERS)
def test_tagged_fields_of_answers_that_are_looked_at_are_dropped(key: int, version: int) -> None:
    desk = Desk()
    codec = schema.response(key, version)
    desk.ask(key, version, schema.request(key, version).blank() | ({"acks": 1} if key == 0 else {}))
    answer = codec.blank()
    for array in ("brokers", "coordinators", "responses", "results", "nodes"):
        if array in answer:
            answer[array] = [codec.item(array).blank() | {"_tags": STRANGE}]
    if key != METADATA:  # what stands behind its brokers is copied
        answer["_tags"] = STRANGE
    desk.answer(answer)

    assert desk.play.to_reader
    assert_no_canary(desk.play.to_reader, CANARY.decode())


@pytest.mark.parametrize(("key", "version"), [(0, 9), (1, 12), (78, 2)])
def test_tagged_fields_of_requests_for_contents_go_no_further(key: int, version: int) -> None:
    desk = Desk()
    request = schema.request(key, version).blank() | {"_tags": STRANGE, "acks": 1}
    [(_, _, sent)] = desk.ask(key, version, request)

    assert "_tags" not in sent


# Floods


def refused_produce(parts: int) -> Message:
    section = batch(record(b"k", card(MASK)))
    each = [{"index": number, "records": section} for number in range(parts)]
    return schema.request(PRODUCE, 9).blank() | {"acks": 1, "topic_data": [{"name": b"orders", "partition_data": each}]}


def test_large_refusals_that_wait_for_their_turn_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_BYTES", 100_000)
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"public"))
    big = fetch_request(12, b"public") | {"replica_id": 5}
    big["topics"][0]["partitions"] *= 1000
    for _ in range(20):
        desk.ask(FETCH, 12, big)
    waiting = desk.play.session._state.pending  # type: ignore[attr-defined]
    assert sum(each.weight for each in waiting._items) < 200_000
    desk.answer(fetch_answer(12, b"public", b""))

    assert len(frames(desk.play.to_reader)) == 21


def test_requests_of_which_much_has_to_be_remembered_stop_the_reading() -> None:
    desk = Desk()
    big = fetch_request(12, b"__consumer_offsets", b"public")
    big["topics"][0]["partitions"] *= 5_000
    went = [len(desk.ask(FETCH, 12, big)) for _ in range(6)]

    assert went == [1, 1, 0, 0, 0, 0]


def test_names_that_no_topic_has_are_not_kept() -> None:
    desk = Desk(fixed="alice")
    for number in range(5):
        name = b"orders-%d" % number + b"x" * 249
        desk.ask(FETCH, 12, fetch_request(12, name))
        desk.answer(fetch_answer(12, name, batch(record(b"k", card()))))
    state = desk.play.session._state  # type: ignore[attr-defined]

    assert (state.rooms._bytes, state._reads) == ({}, {})
    assert_no_canary(desk.play.to_reader, CANARY.decode())


def test_a_record_for_a_name_that_no_topic_has_is_refused_and_leaves_no_trail() -> None:
    desk = Desk()
    request = refused_produce(1)
    request["topic_data"][0]["name"] = b"orders" + b"x" * 100_000
    assert desk.ask(PRODUCE, 9, request) == []

    [topic] = read_answer(PRODUCE, 9, desk.play.to_reader)["responses"]
    assert topic["partition_responses"][0]["error_code"] == 17
    assert desk.play.notes == []


def test_many_refused_topics_take_no_longer_each_than_few() -> None:
    desk = Desk()
    request = refused_produce(1)
    part = request["topic_data"][0]["partition_data"]
    request["topic_data"] = [{"name": b"orders-%d" % number, "partition_data": part} for number in range(5000)]
    desk.ask(PRODUCE, 9, request)

    assert len(read_answer(PRODUCE, 9, desk.play.to_reader)["responses"]) == 5000


# Writing


@pytest.mark.parametrize("tail", [b"x", batch(record(b"k", card()))[:-1], b"\0" * 12, b"\0" * 61])
def test_bytes_behind_the_last_whole_batch_are_not_left_out_silently(tail: bytes) -> None:
    desk = Desk()
    request = refused_produce(1)
    request["topic_data"][0]["partition_data"][0]["records"] = batch(record(b"k", card())) + tail
    assert desk.ask(PRODUCE, 9, request) == []

    [topic] = read_answer(PRODUCE, 9, desk.play.to_reader)["responses"]
    assert topic["partition_responses"][0]["error_code"] == 44


# Logins


def test_nothing_is_judged_while_a_name_is_proven() -> None:
    desk = Desk()
    shake(desk, b"PLAIN")
    desk.ask(36, 2, {"auth_bytes": b"\0alice\0pw"})
    desk.play.stop_at = Ask
    desk.answer({"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime": 0})
    assert desk.ask(FETCH, 12, fetch_request(12, b"orders")) == []
    [waiting] = desk.play.waiting
    desk.play.stop_at = None
    waiting.resume(True)
    desk.play._wake()

    assert [key for key, _, _ in desk.went_up()] == [FETCH]


def test_a_name_in_the_second_message_of_a_login_counts_for_nothing() -> None:
    desk = Desk()
    shake(desk, b"SCRAM-SHA-256")
    say(desk, b"n,,n=bob,r=x", b"r=x,s=eA==,i=4096")
    say(desk, b"n,,n=alice,r=x", b"v=x")

    assert desk.viewer.who == "bob"


def test_a_second_handshake_forgets_what_the_first_one_began() -> None:
    desk = Desk()
    shake(desk, b"SCRAM-SHA-256")
    say(desk, b"n,,n=alice,r=x", b"r=x,s=eA==,i=4096")
    shake(desk, b"SCRAM-SHA-256")
    say(desk, b"c=biws,r=x,p=x", b"v=x")

    assert (desk.viewer.who, reads_unmasked(desk)) == ("", False)


def test_a_login_renewed_by_another_mechanism_under_another_name_ends_the_connection() -> None:
    desk = Desk()
    desk.log_in(b"alice")
    shake(desk, b"SCRAM-SHA-256")
    say(desk, b"n,,n=bob,r=x", b"r=x,s=eA==,i=4096")
    say(desk, b"c=biws,r=x,p=x", b"v=x")

    assert desk.play.closed == "the login changed"


# The ends of a connection


@pytest.mark.parametrize("waits", ["a name", "a login"])
def test_the_end_of_the_server_ends_a_reader_that_waits(waits: str) -> None:
    desk = Desk()
    if waits == "a name":
        desk.ask(FETCH, 17, fetch_request(17, ORDERS_ID))
    else:
        desk.ask(17, 1, {"mechanism": b"PLAIN"})
        desk.ask(FETCH, 12, fetch_request(12, b"orders"))
    assert desk.play.held
    desk.play.server(b"")

    assert desk.play.closed


# Answers that lie


def test_two_entries_of_one_topic_are_each_masked() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"orders", b"public"))
    answer = fetch_answer(12, b"orders", batch(record(b"k", card())))
    more = fetch_answer(12, b"orders", b"", batch(record(b"k", card())))
    public = fetch_answer(12, b"public", batch(record(b"k", b"v")))
    answer["responses"] += public["responses"] + more["responses"]
    told = desk.answered(FETCH, 12, answer)

    assert opened(records_of(told, 0, 0))[0][1] == card(MASK)
    assert opened(records_of(told, 1, 2))[0][1] == card(MASK)
    assert_no_canary(desk.play.to_reader, CANARY.decode())


@pytest.mark.parametrize("code", [1, 3, 29, 100, -1])
def test_records_beside_an_error_are_masked_as_any(code: int) -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"orders"))
    answer = fetch_answer(12, b"orders", batch(record(b"k", card())))
    answer["responses"][0]["partitions"][0]["error_code"] = code
    desk.answer(answer | {"error_code": code})

    assert_no_canary(desk.play.to_reader, CANARY.decode())


def test_an_answer_of_another_kind_than_its_request_is_nonsense_or_bears_no_contents() -> None:
    for key, version in ((FETCH, 12), (SHARE_FETCH, 2), (PRODUCE, 9)):
        desk = Desk()
        desk.ask(key, version, schema.request(key, version).blank() | {"acks": 1})
        with contextlib.suppress(WireError):
            desk.play.server(wire.sized(desk.correlation_id.to_bytes(4, "big"), b"\0", card() * 10))
        assert_no_canary(desk.play.to_reader, CANARY.decode())


# Two worlds that differ in what is masked alone

SHORT, LONG = b"7", CANARY * 40
"""The same card, as far as a masked reader is to know."""
CODECS = range(5)


def section_of(secret: bytes, codec: int) -> bytes:
    """Three batches around the secret, with a filler that no rule covers."""
    made = []
    for number in range(3):
        plain = batch(record(b"k", card(secret), [(b"h", b"1")]), record(b"k", None, offset=1), base=2 * number)
        if codec:
            body = compress(codec, plain[61:], plain[61:])
            plain = plain[:21] + codec.to_bytes(2, "big") + plain[23:61] + body
            plain = (
                plain[:8]
                + (len(plain) - 12).to_bytes(4, "big")
                + plain[12:17]
                + crc32c(plain[21:]).to_bytes(4, "big")
                + plain[21:]
            )
        made.append(plain)
    return b"".join(made)


def brokers_answer(key: int, version: int, secret: bytes, codec: int, most: int = 1 << 20) -> Message:
    """What a broker tells of a topic with that secret; whatever is computed from its records depends on them."""
    answer = schema.response(key, version).blank()
    section = section_of(secret, codec)
    if key == FETCH:
        cut = section[: max(most, len(section) // 3)]
        answer = fetch_answer(version, b"orders" if version < 13 else ORDERS_ID, cut)
    elif key == SHARE_FETCH:
        topics = schema.response(key, version).item("responses")
        part = topics.item("partitions").blank() | {"records": section}
        part["acquired_records"] = [{"first_offset": 0, "last_offset": 5, "delivery_count": 1}]
        answer["responses"] = [{"topic_id": ORDERS_ID, "partitions": [part]}]
    elif key == 35:
        results = schema.response(key, version).item("results")
        part = results.item("topics").item("partitions").blank() | {"partition_size": len(section)}
        more = {"total_bytes": 1 << 30, "usable_bytes": (1 << 30) - len(section)} if version >= 4 else {}
        answer["results"] = [results.blank() | {"topics": [{"name": b"orders", "partitions": [part]}]} | more]
    if key in {FETCH, SHARE_FETCH}:
        answer["throttle_time"] = len(section)  # of a reader with a quota of a byte a millisecond
    return answer


@pytest.mark.parametrize("row", [each for each in ROWS if not each.hidden], ids=lambda each: each.name)
def test_what_is_masked_and_how_long_it_is_changes_no_answer(row: Row) -> None:
    for version in row.versions:
        if not schema.versions(row.key) or version not in schema.versions(row.key):
            continue
        for codec in CODECS if row.key in {FETCH, SHARE_FETCH} else (0,):
            told = []
            answers = [brokers_answer(row.key, version, secret, codec) for secret in (SHORT, LONG)]
            for answer in answers:
                desk = Desk()
                desk.cluster.learn(ORDERS_ID, b"orders")
                request = schema.request(row.key, version).blank() | ({"acks": 1} if row.key == PRODUCE else {})
                if row.key == FETCH:
                    request = fetch_request(version, b"orders" if version < 13 else ORDERS_ID)
                went_up = desk.ask(row.key, version, request)
                told.append((went_up, desk.answer(answer) if went_up else b"", desk.play.to_reader))
            assert told[0] == told[1]
            assert (answers[0] != answers[1]) == (row.contents is not Contents.NO and row.key != PRODUCE)


@pytest.mark.parametrize("size", [1, 200, 240, 300, 600, 1000, 5000, 1 << 20])
@pytest.mark.parametrize("codec", CODECS)
def test_no_size_that_a_reader_asks_for_tells_the_size_of_what_is_masked(size: int, codec: int) -> None:
    told = []
    for secret in (SHORT, LONG):
        desk = Desk()
        request = fetch_request(12, b"orders", partition_max_bytes=size, max_bytes=size, min_bytes=size)
        [(_, _, sent)] = desk.ask(FETCH, 12, request)
        most = min(sent["max_bytes"], sent["topics"][0]["partitions"][0]["partition_max_bytes"])
        told.append((sent, desk.answer(brokers_answer(FETCH, 12, secret, codec, most))))

    assert told[0] == told[1]
