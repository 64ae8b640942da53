"""What the tests of Kafka through Veil share: rules of every kind, what they hide, and a reader that keeps every byte.

Records are opened by aiokafka's decoder, and messages are written and read by kio: nothing of Veil's looks at what Veil sent.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import secrets
import typing
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from rules.audit import broken_links
from tests.brokers.kafka_clients import Headers, Record, create_topics
from tests.brokers.kafka_server import USERS, KafkaServer
from tests.brokers.kafka_wire_client import KafkaWireClient, decode
from tests.brokers.veil import Veil
from tests.canary import Canary

FETCH, METADATA, API_VERSIONS, SHARE_FETCH, SHARE_HEARTBEAT = 1, 3, 18, 78, 76
FETCH_VERSIONS = range(4, 19)
BY_ID = 13  # the first Fetch that names topics by their ids
MASK = "••••"
UNMASKED = "broker.message.read-unmasked"
REFUSED = "masking.refused"
KINDS = {
    "json_path": "{kind: json_path, path: $.card, method: redact}",
    "partial": "{kind: json_path, path: $.card, method: partial, keep_first: 2, keep_last: 3}",
    "header": "{kind: header, name: authorization, method: redact}",
    "record_key": "{kind: record_key, method: redact}",
    "whole_value": "{kind: whole_value, method: redact}",
}
Parts = tuple[bytes | None, bytes | None, Headers]
"""Value, key and headers."""
ALICE = "grants: [{allow: messages.read.unmasked, to: {user: alice}, on: installation}]\n"


def rule(name: str, topics: str, field: str = "", more: str = "") -> str:
    """One rule; without a field it masks all."""
    what = f"fields: [{field}]" if field else "mask_all: true"
    return f'  - {{name: "{name}", platform: kafka, resources: {{topic: ["{topics}"]}}, {what}{more}}}\n'


WALK = "rules:\n" + "".join(rule(kind, f"walk-{kind}-*", field) for kind, field in KINDS.items())
WALK += rule("mask_all", "walk-mask_all-*")
CARDS = "rules:\n" + rule("Cards", "cards-*", "{kind: json_path, path: $.card, method: redact}")


def card(value: object, **more: object) -> bytes:
    return json.dumps({"card": value, **more}).encode()


def hidden_by(kind: str, secret: str) -> list[Record]:
    """Records of which a rule of this kind hides the secret, wherever it is, and nothing but it."""
    times = 1_700_000_000_123
    shapes: dict[str, list[Parts]] = {
        "header": [(b"v", b"k", [("authorization", secret.encode()), ("other", b"1")])] * 2,
        "record_key": [(b"v", secret.encode(), []), (None, secret.encode(), [])],
        "whole_value": [(secret.encode(), b"k", []), (card(secret), None, []), (b"\xff" + secret.encode(), None, [])],
        "mask_all": [
            (card(secret), secret.encode(), [("h", secret.encode()), ("h", None), ("g", card(secret))]),
            (secret.encode(), None, []),
            (None, secret.encode(), []),
        ],
    }
    inside: list[Parts] = [
        (card(secret, n=1), b"k", [("h", b"1"), ("h", None)]),
        (json.dumps([{"card": secret}, {"card": {"deep": [secret]}}]).encode(), None, []),
        (f'{{"card":"{secret}","card":"{secret}", "n": 1E400}}'.encode(), None, []),
        (card(secret)[:-1], None, []),
        (secret.encode(), None, []),
        (b"\xef\xbb\xbf" + card(secret), None, []),
        (card(secret * (30_000 if kind == "json_path" else 300)), None, []),
    ]
    found = [*shapes.get(kind, inside), (None, b"tombstone" if kind in ("json_path", "partial", "whole_value") else None, [])]
    return [Record(value, key, headers, timestamp_ms=times + number) for number, (value, key, headers) in enumerate(found)]


# messages


def entity(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """kio's dataclass with these values, and whatever is nothing in its type where none is given."""
    hints = typing.get_type_hints(kind)
    told: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        optional, hint = _plain(hints[field.name])
        if field.name in values:
            told[field.name] = _given(hint, values[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            told[field.name] = _blank(field.metadata.get("kafka_type", "struct"), hint, optional=optional)
    unknown = set(values) - {field.name for field in dataclasses.fields(kind)}
    assert not unknown, f"{kind.__module__} has no {unknown}"
    return kind(**told)


def _plain(hint: Any) -> tuple[bool, Any]:
    kinds = typing.get_args(hint)
    if type(None) in kinds:
        return True, next(each for each in kinds if each is not type(None))
    return False, hint


def _given(hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) is tuple and value is not None:
        inner = _plain(typing.get_args(hint)[0])[1]
        return tuple(_given(inner, each) for each in value)
    if isinstance(value, Mapping):
        return entity(hint, value)
    return value


def _blank(name: str, hint: Any, *, optional: bool) -> Any:
    if typing.get_origin(hint) is tuple:
        return ()
    if optional:
        return None
    match name:
        case "struct":
            return entity(hint, {})
        case "string":
            return ""
        case "bytes" | "records":
            return b""
        case "uuid":
            return None
        case "bool":
            return False
        case "error_code":
            return ErrorCode.none
        case "timedelta_i32" | "timedelta_i64":
            return dt.timedelta(0)
        case "datetime_i64":
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        case "float64":
            return hint(0.0)
    return hint(0)


def has(key: int, version: int, *path: str) -> bool:
    """Whether the request of this version has the field, down a path of arrays."""
    kind: Any = load_request_schema(key, version)
    for name in path:
        found = typing.get_type_hints(kind)
        if name not in found:
            return False
        hint = _plain(found[name])[1]
        kind = _plain(typing.get_args(hint)[0])[1] if typing.get_origin(hint) is tuple else hint
    return True


class Wire(KafkaWireClient):
    """A reader of the tests': `ask(1, 17, max_bytes=…)` in kio's names, blank where nothing is said."""

    def ask(self, key: int, version: int, /, **values: Any) -> Any:
        """The decoded answer."""
        return decode(self.ask_raw(key, version, **values), key, version)[1]

    def ask_raw(self, key: int, version: int, /, **values: Any) -> bytes:
        """The frame that answers."""
        return self.exchange(entity(load_request_schema(key, version), values))

    def versions(self) -> dict[int, Any]:
        """What ApiVersions tells, by API."""
        answer = self.ask(API_VERSIONS, 3, client_software_name="wire", client_software_version="1")
        return {int(each.api_key): each for each in answer.api_keys}

    def topic_id(self, topic: str) -> uuid.UUID:
        answer = self.ask(METADATA, 12, topics=[{"name": topic}])
        found = answer.topics[0].topic_id
        assert isinstance(found, uuid.UUID), f"{topic}: {answer.topics[0].error_code}"
        return found

    def fetch(self, version: int, topic: str, offset: int = 0, *, isolation: int = 0, topic_id: uuid.UUID | None = None) -> Any:
        """The answer for partition 0 of a topic, which is there."""
        named: dict[str, Any] = {"topic": topic}
        if version >= BY_ID:
            named = {"topic_id": topic_id or self.topic_id(topic)}
        one = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        wants: dict[str, Any] = {"max_wait": dt.timedelta(milliseconds=100), "min_bytes": 1, "max_bytes": 50 << 20}
        wants["isolation_level"] = isolation
        return self.ask(FETCH, version, topics=[{**named, "partitions": [one]}], **wants)

    def partition(self, version: int, topic: str, offset: int = 0, **more: Any) -> Any:
        """As `fetch`: what is said of the one partition."""
        answer = self.fetch(version, topic, offset, **more)
        assert len(answer.responses) == 1, answer
        return answer.responses[0].partitions[0]

    def enter(self, user: str) -> None:
        assert self.login(user, USERS[user]) == 0


def reader(veil: Veil, user: str = "bob", port: int | None = None) -> Wire:
    """One who has logged in by PLAIN."""
    client = Wire(veil.host, veil.port if port is None else port)
    try:
        client.enter(user)
    except BaseException:
        client.close()
        raise
    return client


def batches(records: bytes | None) -> Iterator[Any]:
    """aiokafka's batches of what a fetch brought, each with a right CRC."""
    opened = MemoryRecords(bytes(records or b""))
    while opened.has_next():
        batch = opened.next_batch()
        assert batch.validate_crc()
        yield batch


def records_of(partition: Any) -> list[Any]:
    """aiokafka's records, those of control batches left out."""
    return [each for batch in batches(partition.records) if not batch.is_control_batch for each in batch]


def opened(partition: Any) -> bytes:
    """All keys, values and headers, behind each other: what the bytes on the wire hold once they are decompressed."""
    found = bytearray()
    for batch in batches(partition.records):
        for each in batch:
            found += (each.key or b"") + b"\0" + (each.value or b"") + b"\0"
            for name, value in each.headers:
                found += name.encode() + b"\0" + (value or b"") + b"\0"
    return bytes(found)


def read_all(client: Wire, version: int, topic: str, **more: Any) -> Iterator[Any]:
    """The partition's answers one after the other, from its start to its end."""
    offset, end = 0, 1
    while offset < end:
        one = client.partition(version, topic, offset, **more)
        assert one.error_code == ErrorCode.none, f"{topic} in version {version} at {offset}: {one.error_code}"
        yield one
        end = one.last_stable_offset if more.get("isolation") else one.high_watermark
        found = [batch.next_offset for batch in batches(one.records)]
        assert found or offset >= end, f"{topic} in version {version}: nothing at {offset} of {end}"
        offset = max(found, default=end)


def new_topic(server: KafkaServer, prefix: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """A topic that no test had, and that keeps records of any age."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    create_topics(server.address, name, partitions=partitions, config={"retention.ms": "-1", **(config or {})})
    return name


def log_end(server: KafkaServer, topic: str) -> int:
    """Where the partition ends, as the broker itself says."""
    with Wire(server.host, server.port) as direct:
        return int(direct.partition(12, topic).high_watermark)


# what Veil wrote down


def entries(veil: Veil, event: str) -> list[dict[str, Any]]:
    return [dict(entry) for entry in veil.audit() if entry["event"] == event]


def whole_trail(veil: Veil, canary: Canary, *clients: KafkaWireClient) -> None:
    """The end of a test: no canary anywhere, and the chain of the trail holds."""
    canary.assert_nowhere(veil, clients)
    assert list(broken_links(veil.audit_bytes().splitlines())) == []


def in_force(veil: Veil, rules: str, name: str = "rules.yaml") -> None:
    veil.write_rules(rules, name)
    veil.wait_rules()
