"""proxy.protocols.kafka.schema: every message of every version as kio writes it, and nothing but a WireError for the rest."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from random import Random

import pytest
from kio.serial import entity_writer

from proxy.core.errors import LimitExceeded, WireError
from proxy.protocols.kafka import primitives, schema
from proxy.protocols.kafka.schema import Codec, Message

from .entities import codec_of, entity_of, every, made, plain, written

ROUNDS = 6
HUGE = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00", b"\x7f\xff", b"\xff\xfe", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x01", b"\x80\x00", b"\xfe\xff\xff\xff\x07", b"\xff\xff\xff\xff\x7f"]  # fmt: skip
EVERY = list(every())


def name_of(case: tuple[int, int, bool]) -> str:
    key, version, answer = case
    return f"{entity_of(key, version, answer=answer).__name__}-{version}"


def back(codec: Codec, message: Message) -> bytes:
    out: list[bytes | memoryview] = []
    codec.write(message, out)
    return b"".join(out)


@pytest.mark.parametrize("case", EVERY, ids=name_of)
class TestEveryMessage:
    def test_what_kio_writes_is_read_as_it_is_and_written_back(self, case: tuple[int, int, bool]) -> None:
        key, version, answer = case
        codec, kind = codec_of(key, version, answer=answer), entity_of(key, version, answer=answer)
        rng = Random(repr(case))
        for most in range(ROUNDS):
            entity, expected = made(kind, rng, most % 4)
            data = written(entity)

            message = codec.read(b"head" + data, 4)

            assert plain(message) == expected
            assert back(codec, message) == data
            assert back(codec, expected) == data

    def test_what_is_cut_anywhere_is_refused(self, case: tuple[int, int, bool]) -> None:
        key, version, answer = case
        codec = codec_of(key, version, answer=answer)
        data = written(made(entity_of(key, version, answer=answer), Random(repr(case)), 1)[0])

        for size in range(min(len(data), 600)):
            with pytest.raises(WireError):
                codec.read(data[:size], 0)
        with pytest.raises(WireError):
            codec.read(data + b"\x00", 0)

    def test_the_blank_message_is_written_and_read_as_it_was(self, case: tuple[int, int, bool]) -> None:
        key, version, answer = case
        codec = codec_of(key, version, answer=answer)
        blank = codec.blank()

        data = back(codec, blank)

        assert plain(codec.read(data, 0)) == blank
        assert len(data) >= codec.least_bytes
        assert codec.blank() is not blank

    def test_lengths_that_lie_are_refused_without_memory(self, case: tuple[int, int, bool]) -> None:
        key, version, answer = case
        codec = codec_of(key, version, answer=answer)
        data = written(made(entity_of(key, version, answer=answer), Random(repr(case)), 1)[0])
        tracemalloc.start()
        try:
            for at in range(min(len(data), 16)):
                for lie in HUGE:
                    for frame in (data[:at] + lie + data[at + len(lie) :], data[:at] + lie):
                        try:
                            message = codec.read(frame, 0)
                        except WireError:
                            continue
                        assert back(codec, message) == frame
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert peak < 1 << 20


@pytest.mark.parametrize("case", [case for case in EVERY if codec_of(*case[:2], answer=case[2]).flexible], ids=name_of)
def test_unknown_tags_are_kept(case: tuple[int, int, bool]) -> None:
    key, version, answer = case
    codec = codec_of(key, version, answer=answer)
    message = made(entity_of(key, version, answer=answer), Random(repr(case)), 1)[1]
    message["_tags"] = {99: b"", 10_000: b"x" * 200, 2**32 - 1: b"y"}

    data = back(codec, message)

    assert plain(codec.read(data, 0)) == message
    assert back(codec, codec.read(data, 0)) == data


def small() -> Codec:
    """Metadata request 9: an array of structs that hold a string, and three booleans."""
    return schema.request(3, 9)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x0f",  # an array of 2**32 - 2
        b"\xff\xff\xff\xff\x07" + bytes(10),
        b"\x03\x02a\x00",  # two announced, one there
        b"\x02\x00\x00\x00\x00\x00\x00",  # a name of null
        b"\x80\x00\x00\x00\x00\x00",  # a padded varint
        b"\x80\x80\x80\x80\x80\x00\x00\x00\x00\x00",  # one of six bytes
        b"\xff\xff\xff\xff\x1f\x00\x00\x00\x00",  # above 32 bits
        b"\x00\x00\x00\x00\x01",  # a tag announced
        b"\x00\x00\x00\x00\x02\x05\x00\x05\x00",  # one twice
        b"\x00\x00\x00\x00\x02\x06\x00\x05\x00",  # out of order
        b"\x00\x00\x00\x00\x01\x05\x02a",  # longer than what is left
        b"\x00\x00\x00\x00\xff\xff\xff\xff\x0f\x05\x00",
        b"\x00\x00\x00\x00\x00\x00",  # left over
    ],
)
def test_what_is_ill_formed_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        small().read(data, 0)


def test_a_null_array_and_a_byte_that_is_no_boolean_are_kept() -> None:
    message = small().read(b"\x00\x02\xff\x00\x00", 0)

    assert message == {
        "topics": None, "allow_auto_topic_creation": 2, "include_cluster_authorized_operations": -1, "include_topic_authorized_operations": 0,
    }  # fmt: skip
    assert back(small(), message) == b"\x00\x02\xff\x00\x00"


def test_no_more_tags_than_a_thousand_are_taken() -> None:
    def with_tags(count: int) -> bytes:
        tags = b"".join(primitives.uvarint_bytes(tag) + b"\x00" for tag in range(100, 100 + count))
        return bytes(4) + primitives.uvarint_bytes(count) + tags

    assert len(small().read(with_tags(primitives.MAX_TAGS), 0)["_tags"]) == primitives.MAX_TAGS
    with pytest.raises(WireError):
        small().read(with_tags(primitives.MAX_TAGS + 1), 0)


def test_small_elements_do_not_become_a_large_message(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = schema.request(44, 1)
    config = codec.item("resources").item("configs").blank()
    full = back(codec, codec.blank() | {"resources": [codec.item("resources").blank() | {"configs": [config] * 50}] * 20})
    monkeypatch.setattr(primitives, "MAX_ELEMENTS", 20 * 51)

    assert len(codec.read(full, 0)["resources"]) == 20
    monkeypatch.setattr(primitives, "MAX_ELEMENTS", 20 * 51 - 1)
    with pytest.raises(LimitExceeded):
        codec.read(full, 0)
    with pytest.raises(LimitExceeded):
        codec.read_until(full, 0, "resources")


def test_numbers_are_counted_by_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = schema.request(9, 1)
    data = back(codec, codec.blank() | {"topics": [{"name": b"t", "partition_indexes": list(range(80))}]})
    monkeypatch.setattr(primitives, "MAX_ELEMENTS", 11)

    assert codec.read(data, 0)["topics"][0]["partition_indexes"] == list(range(80))
    monkeypatch.setattr(primitives, "MAX_ELEMENTS", 10)
    with pytest.raises(LimitExceeded):
        codec.read(data, 0)


def test_a_tag_that_holds_less_than_its_size_is_refused() -> None:
    codec = schema.response(1, 17)
    message = codec.blank() | {"node_endpoints": []}
    data = back(codec, message)
    assert data.endswith(b"\x01\x00\x01\x01")

    assert codec.read(data, 0) == message
    with pytest.raises(WireError):
        codec.read(data[:-2] + b"\x02\x01\x00", 0)


@pytest.mark.parametrize("byte", [b"\x00", b"\x02", b"\x7f", b"\x80", b"\xfe"])
def test_a_struct_is_there_or_null_and_nothing_else(byte: bytes) -> None:
    codec = schema.response(75, 0)  # next_cursor stands last, before the tags
    data = back(codec, codec.blank())
    assert data.endswith(b"\xff\x00")

    with pytest.raises(WireError):
        codec.read(data[:-2] + byte + b"\x00", 0)


def test_errors_hold_no_contents() -> None:
    data = b"\x02\x08canary!" + b"\xff"

    with pytest.raises(WireError) as caught:
        small().read(data, 0)

    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_records_are_a_slice_of_the_frame_and_may_be_written_in_pieces() -> None:
    codec = schema.response(1, 12)
    partition = codec.item("responses").item("partitions")
    topic = codec.item("responses").blank() | {"topic": b"t", "partitions": [partition.blank() | {"records": b"abcdef"}]}
    frame = back(codec, codec.blank() | {"responses": [topic]})

    message = codec.read(frame, 0)
    records = message["responses"][0]["partitions"][0]["records"]
    assert isinstance(records, memoryview)
    assert records.obj is frame
    message["responses"][0]["partitions"][0]["records"] = [b"ab", records[2:4], b"ef"]

    assert back(codec, message) == frame


def test_writing_copies_no_records() -> None:
    codec = schema.response(1, 12)
    data = bytes(10_000)
    partition = codec.item("responses").item("partitions").blank() | {"records": data}
    out: list[bytes | memoryview] = []

    codec.write(codec.blank() | {"responses": [codec.item("responses").blank() | {"partitions": [partition]}]}, out)

    assert any(chunk is data for chunk in out)


class TestUntil:
    @pytest.mark.parametrize("version", range(14))
    def test_the_brokers_of_metadata_are_read_and_written_and_the_tail_is_left(self, version: int) -> None:
        codec = schema.response(3, version)
        message = made(entity_of(3, version, answer=True), Random(version))[1]
        frame = b"head" + back(codec, message)

        head, at = codec.read_until(frame, 4, "brokers")
        out: list[bytes | memoryview] = []
        codec.write_until(head, out, "brokers")

        assert head["brokers"] == message["brokers"]
        assert list(head) == list(message)[: len(head)]
        assert b"".join(out) + frame[at:] == frame[4:]

    def test_a_cut_head_is_refused(self) -> None:
        codec = schema.response(3, 9)

        with pytest.raises(WireError):
            codec.read_until(b"\x00\x00\x00\x00\x03\x00", 0, "brokers")

    @pytest.mark.parametrize("field", ["nothing", "node_endpoints"])
    def test_it_goes_to_untagged_fields_alone(self, field: str) -> None:
        with pytest.raises(LookupError):
            schema.response(1, 17).read_until(b"", 0, field)


def test_a_codec_tells_what_it_has() -> None:
    codec = schema.response(1, 17)

    assert codec.has("node_endpoints")
    assert codec.has("responses")
    assert not codec.has("brokers")
    assert codec.item("responses").item("partitions").has("records")
    with pytest.raises(LookupError):
        codec.item("session_id")
    with pytest.raises(LookupError):
        codec.item("nothing")


def test_defaults_are_the_definitions_own() -> None:
    blank = schema.response(1, 17).item("responses").item("partitions").blank()

    assert blank == {
        "partition_index": 0, "error_code": 0, "high_watermark": 0, "last_stable_offset": -1, "log_start_offset": -1,
        "aborted_transactions": [], "preferred_read_replica": -1, "records": b"",
    }  # fmt: skip
    assert schema.response(3, 12).blank()["cluster_id"] is None
    assert schema.request(0, 13).blank()["transactional_id"] is None


def test_null_is_not_written_where_it_is_not_allowed() -> None:
    for message in ({"topics": [{"name": None}]}, {"topics": [{"name": b"t", "partition_indexes": None}]}):
        codec = schema.request(9, 1).item("topics")
        with pytest.raises(TypeError):
            back(codec, message["topics"][0])


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (4, 0), (93, 0), (-1, 0), (0, 2), (10_000, 0), (1, 32767)])
def test_what_is_not_known_is_a_lookup_error(key: int, version: int) -> None:
    for ask in (schema.request, schema.response, schema.request_header_is_flexible, schema.response_header_is_flexible):
        with pytest.raises(LookupError):
            ask(key, version)


def test_versions_are_those_of_kio() -> None:
    assert schema.versions(1) == range(4, 19)
    assert schema.versions(18) == range(5)
    assert not schema.versions(4)
    assert not schema.versions(93)
    assert not schema.versions(-1)


def test_a_codec_is_made_once() -> None:
    assert schema.request(3, 12) is schema.request(3, 12)
    assert repr(schema.request(3, 12)) == "<Codec of 3 fields>"


def test_the_header_of_api_versions_answers_is_never_flexible() -> None:
    assert [schema.response_header_is_flexible(18, version) for version in range(5)] == [False] * 5
    assert [schema.request_header_is_flexible(18, version) for version in range(5)] == [False] * 3 + [True] * 2
    assert schema.response_header_is_flexible(1, 12)
    assert not schema.response_header_is_flexible(1, 11)


def test_kio_is_not_loaded_before_a_message_is_asked_for() -> None:
    code = "import sys, proxy.protocols.kafka.wire, proxy.protocols.kafka.surface as s; s.surface_text(); print('kio' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**31, 2**32 - 1])
def test_a_varint_is_read_as_it_is_written(value: int) -> None:
    data = primitives.uvarint_bytes(value)

    assert primitives.uvarint(data, 0, len(data)) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(WireError):
            primitives.uvarint(data, 0, size)


def test_a_type_that_a_newer_kio_may_bring_is_not_guessed_at() -> None:
    from dataclasses import field, make_dataclass

    kind = make_dataclass("Odd", [("odd", int, field(metadata={"kafka_type": "int128"}))], namespace={"__flexible__": True})

    with pytest.raises(TypeError, match="int128"):
        schema._compiled(kind)


def test_the_oracle_writes_as_it_is_used_here() -> None:
    entity, message = made(entity_of(3, 12, answer=False), Random(1))
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)

    assert buffer.getvalue() == written(entity) == back(schema.request(3, 12), message)


def test_the_definitions_are_loaded_before_the_first_reader_comes() -> None:
    look = "import sys; from proxy.protocols.kafka import PROTOCOL; {}; print('kio.static.primitive' in sys.modules)"

    def loaded(first: str) -> str:
        return subprocess.run([sys.executable, "-c", look.format(first)], capture_output=True, text=True, check=True).stdout

    assert loaded("pass") == "False\n", "whoever checks rules does not wait for them"
    assert loaded("PROTOCOL.shared()") == "True\n"
