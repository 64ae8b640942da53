"""A Kafka session at hand: its policy, its clock, and both its sides as requests and answers."""

from __future__ import annotations

from typing import Any

import crc32c

from proxy.core.buffer import Buffer
from proxy.core.session import SessionSettings
from proxy.core.viewer import Viewer
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.cluster import Cluster
from proxy.protocols.kafka.records import Headers, write_headers
from proxy.protocols.kafka.records.varint import NULL, write_length
from proxy.protocols.kafka.schema import Message
from proxy.protocols.kafka.session import KafkaSession
from rules.access import Reader
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Method,
    Platform,
    Redact,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from tests.playbook import Play

ORDERS = Connection("orders", Platform.KAFKA, "production")
MASK = "••••".encode()
CANARY = b"c4n4ry-4111111111111111"
CLIENT = b"desk"
PRODUCE, FETCH, METADATA, SHARE_FETCH = 0, 1, 3, 78


def rule(name: str, topics: str, *fields: Field, mask_all: bool = False) -> Rule:
    return Rule(name, Platform.KAFKA, ((Kind.TOPIC, (topics,)),), mask_all=mask_all, fields=fields)


def path(text: str, method: Method = Redact()) -> Field:
    return Field(FieldKind.JSON_PATH, method, parse_path(text))


KEY = Field(FieldKind.RECORD_KEY, Redact())
WHOLE = Field(FieldKind.WHOLE_VALUE, Redact())


def header(name: str, method: Method = Redact()) -> Field:
    return Field(FieldKind.HEADER, method, name=name)


CARDS = rule("Cards", "orders*", path("$.card"))
KEYS = rule("Keys", "keyed*", KEY, header("authorization"))
ALL = rule("All", "vault*", mask_all=True)
EVERYTHING = Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True))
EU_ONLY = Grant(True, "messages.read.unmasked", Whom.USER, "erin", Extent(resources=((Kind.TOPIC, ("orders.eu*",)),)))
BOOK = RuleBook("1", (CARDS, KEYS, ALL), AccessList(grants=(EVERYTHING, EU_ONLY)))


def record(key: bytes | None, value: bytes | None, headers: Headers | None = None, offset: int = 0) -> bytes:
    """One record of format v2."""

    def blob(data: bytes | None) -> bytes:
        return NULL if data is None else write_length(len(data)) + data

    body = b"\0\0" + write_length(offset) + blob(key) + blob(value) + write_headers(headers or [])
    return write_length(len(body)) + body


def batch(*records: bytes, base: int = 0, attributes: int = 0) -> bytes:
    """An uncompressed batch of format v2 around the records."""
    import struct

    tail = struct.pack(">hiqqqhii", attributes, len(records) - 1, 1, 1, -1, -1, -1, len(records)) + b"".join(records)
    crc = crc32c.crc32c(tail)
    return struct.pack(">qiibI", base, 9 + len(tail), 0, 2, crc) + tail


def card(number: bytes = CANARY, note: bytes = b"x") -> bytes:
    return b'{"card":"%b","note":"%b"}' % (number, note)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Desk:
    """A session with its policy and clock at hand. `ask` and `answer` speak in messages."""

    def __init__(self, book: RuleBook = BOOK, *, settings: SessionSettings | None = None, fixed: str | None = None) -> None:
        self.policy = Policy(book)
        self.clock = Clock()
        self.viewer = Viewer(
            ORDERS, "kafka", "127.0.0.1:5", lambda: self.policy, self.clock, fixed=None if fixed is None else Reader(fixed)
        )
        self.cluster = Cluster()
        given = settings or SessionSettings()
        self.play = Play(
            KafkaSession(
                self.viewer,
                SessionSettings(given.limits, given.writes, given.markers, given.token_claim, given.shared or self.cluster),
            )
        )
        self.correlation_id = 0
        self.in_flight: list[tuple[int, int, int]] = []

    def ask(self, key: int, version: int, request: Message) -> list[tuple[int, int, Message]]:
        """Sends a request; what goes up because of it."""
        self.correlation_id += 1
        self.play.reader(wire.own_request(key, version, self.correlation_id, CLIENT, request))
        return self.went_up()

    def went_up(self) -> list[tuple[int, int, Message]]:
        """(key, version, request) of all that went up since the last look."""
        found = []
        for frame in frames(self.play.sent_up()):
            header = wire.request_header(frame)
            self.in_flight.append((header.key, header.version, header.correlation_id))
            found.append((header.key, header.version, schema.request(header.key, header.version).read(frame, header.body_at)))
        return found

    def answer(self, message: Message) -> bytes:
        """Answers the oldest request that went up; the bytes that reach the reader because of it."""
        key, version, correlation_id = self.in_flight.pop(0)
        return self.play.server(framed(key, version, correlation_id, message))

    def replace(self, *rules: Rule) -> None:
        self.policy = Policy(RuleBook("2", rules, BOOK.access))
        self.play.policy_changed()

    def log_in(self, name: bytes, mechanism: bytes = b"PLAIN") -> None:
        self.ask(17, 1, {"mechanism": mechanism})
        self.answer({"error_code": 0, "mechanisms": [mechanism]})
        self.ask(36, 1, {"auth_bytes": b"\0%b\0pw" % name})
        self.answer({"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime": 0})

    def fetch(self, topic: bytes, records: bytes, version: int = 12) -> Message:
        """What the reader sees of one partition's records."""
        self.ask(FETCH, version, fetch_request(version, topic))
        return self.answered(FETCH, version, fetch_answer(version, topic, records))

    def read(self, key: int, version: int) -> Message:
        """The one answer that has reached the reader."""
        return read_answer(key, version, self.play.to_reader)

    def answered(self, key: int, version: int, message: Message) -> Message:
        return read_answer(key, version, self.answer(message))


def frames(data: bytes) -> list[bytes]:
    buffer, found = Buffer(), []
    buffer.feed(data)
    while len(buffer):
        walk = wire.frame(buffer, 1 << 30)
        try:
            next(walk)
        except StopIteration as done:
            found.append(bytes(done.value))
        else:
            raise AssertionError("a frame that is not whole")
    return found


def framed(key: int, version: int, correlation_id: int, message: Message) -> bytes:
    body: list[Any] = []
    schema.response(key, version).write(message, body)
    return wire.response_frame(correlation_id, key, version, body)


def read_answer(key: int, version: int, data: bytes) -> Message:
    (frame,) = frames(data)
    return schema.response(key, version).read(frame, wire.response_body_at(frame, key, version))


def fetch_request(version: int, *topics: bytes, partition_max_bytes: int = 1 << 20, **other: Any) -> Message:
    named = "topic_id" if version >= 13 else "topic"
    request = schema.request(FETCH, version).blank() | {"max_wait": 500, "min_bytes": 1, "max_bytes": 50 << 20}
    partition = schema.request(FETCH, version).item("topics").item("partitions").blank()
    partition |= {"partition": 0, "fetch_offset": 0, "partition_max_bytes": partition_max_bytes}
    request["topics"] = [{named: topic, "partitions": [dict(partition)]} for topic in topics]
    return request | other


def fetch_answer(version: int, topic: bytes, *records: bytes) -> Message:
    """Partitions 0, 1, … of one topic."""
    codec = schema.response(FETCH, version)
    partitions = [
        codec.item("responses").item("partitions").blank() | {"partition_index": number, "records": each}
        for number, each in enumerate(records)
    ]
    named = "topic_id" if version >= 13 else "topic"
    return codec.blank() | {"responses": [{named: topic, "partitions": partitions}]}


def records_of(answer: Message, partition: int = 0, topic: int = 0) -> bytes:
    return bytes(answer["responses"][topic]["partitions"][partition]["records"] or b"")
