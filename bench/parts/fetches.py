"""Fetch answers as a broker gives them, and the session that masks them: no socket, no relay."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import crc32c
import orjson

from bench.parts import documents
from proxy.core.session import SessionSettings
from proxy.core.steps import Steps, ToReader
from proxy.core.viewer import Viewer
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.cluster import Cluster
from proxy.protocols.kafka.primitives import Chunk
from proxy.protocols.kafka.records import write_headers
from proxy.protocols.kafka.records.compression import compress
from proxy.protocols.kafka.records.varint import write_length
from proxy.protocols.kafka.session import KafkaSession
from rules.model import Connection, Platform
from rules.policy import Policy

CODECS = "none", "gzip", "snappy", "lz4", "zstd"
RECORDS, BATCHES, RECORD_BYTES = 500, 32, 1024
COVERED, UNCOVERED = b"orders", b"carts"
FETCH, VERSION = 1, 12  # the last version that names topics by name
CONNECTION = Connection("bench", Platform.KAFKA)
READS = 64 * 1024, 64 * 1024, 1024 * 1024  # the relay reads so much at a time, the last size again and again
_VALUES = [documents.compact(RECORD_BYTES, each) for each in range(RECORDS)]
POLICY = Policy(documents.book(documents.MIXED, "orders*", Platform.KAFKA))


def record(number: int, value: bytes, offset: int) -> bytes:
    """One record of format v2 with a key and two headers."""
    key, headers = b"order-%d" % number, write_headers([(b"source", b"shop"), (b"trace", b"%016x" % number)])
    body = b"".join((b"\0\0", write_length(offset), write_length(len(key)), key, write_length(len(value)), value, headers))
    return write_length(len(body)) + body


def section(codec: int, records: int = RECORDS, batches: int = BATCHES) -> bytes:
    """So many different orders in so many batches, as they stand in a partition."""
    parts = []
    for number in range(batches):
        first, behind = records * number // batches, records * (number + 1) // batches
        count = behind - first
        inside = b"".join(record(each, documents.compact(RECORD_BYTES, each), each - first) for each in range(first, behind))
        if codec:
            inside = compress(codec, inside, b"")
        tail = struct.pack(">hiqqqhii", codec, count - 1, 1, 1, -1, -1, -1, count) + inside
        parts.append(struct.pack(">qiibI", first, 9 + len(tail), 0, 2, crc32c.crc32c(tail)) + tail)
    return b"".join(parts)


class Fetched:
    """A session in front of one answer; `take` has it masked as often as wanted.

    The answer comes in the pieces that the relay reads, and what is sent is thrown away.
    """

    def __init__(self, topic: bytes, records: bytes, *, markers: bool) -> None:
        viewer = Viewer(CONNECTION, "kafka", "127.0.0.1:5", lambda: POLICY, lambda: 0.0)
        self._session = KafkaSession(viewer, SessionSettings(markers=markers, shared=Cluster()))
        self._asked = _request(topic)
        self._answer = _answer(topic, records)
        self.sent_bytes = self._take(self._answer)[1]
        self.records_masked = max(viewer.tally.masked.values(), default=0)

    def take(self) -> float:
        """The CPU seconds that one answer took."""
        return self._take(self._answer)[0]

    def _take(self, answer: bytes) -> tuple[float, int]:
        _carry(self._session.from_reader(self._asked))
        chunks = list(_pieces(answer))
        began = time.process_time()
        sent = sum(_carry(self._session.from_server(each)) for each in chunks)
        return time.process_time() - began, sent


def round_trip() -> float:
    """The CPU seconds that it takes to parse and write the values of one answer."""
    began = time.process_time()
    for each in _VALUES:
        orjson.dumps(orjson.loads(each))
    return time.process_time() - began


def _carry(steps: Steps[None]) -> int:
    """Bytes to the reader. A session in front of a topic that nobody may read unmasked wants nothing else done."""
    return sum(len(step.data) for step in steps if isinstance(step, ToReader))


def _pieces(data: bytes) -> Iterator[bytes]:
    sizes, at = iter(READS), 0
    size = 0
    while at < len(data):
        size = next(sizes, size)
        yield data[at : at + size]
        at += size


def _request(topic: bytes) -> bytes:
    codec = schema.request(FETCH, VERSION)
    partition = codec.item("topics").item("partitions").blank() | {"partition_max_bytes": 1 << 24}
    told = codec.blank() | {"replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 50 << 20}
    return wire.own_request(FETCH, VERSION, 1, b"bench", told | {"topics": [{"topic": topic, "partitions": [partition]}]})


def _answer(topic: bytes, records: bytes) -> bytes:
    codec = schema.response(FETCH, VERSION)
    partition = codec.item("responses").item("partitions").blank() | {"records": records}
    body: list[Chunk] = []
    codec.write(codec.blank() | {"responses": [{"topic": topic, "partitions": [partition]}]}, body)
    return wire.response_frame(1, FETCH, VERSION, body)
