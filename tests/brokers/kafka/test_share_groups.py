"""Share groups: records come masked, are acknowledged, and are given to nobody twice."""

from __future__ import annotations

import datetime as dt
import secrets
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers.kafka_clients import CODECS, produce
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import KINDS, SHARE_FETCH, SHARE_HEARTBEAT, WALK, Wire, hidden_by, new_topic, opened, reader, whole_trail

pytestmark = pytest.mark.slow

ACCEPT = 1  # a kind of acknowledgement
FIND_COORDINATOR = 10
NOT_YET = ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available
ALTER_CONFIGS, GROUP, SET = 44, 32, 0


def _from_the_start(server: KafkaServer, group: str) -> None:
    """A share group begins at the end unless its own config says otherwise."""
    config = {"name": "share.auto.offset.reset", "config_operation": SET, "value": "earliest"}
    with Wire(server.host, server.port) as direct:
        what = {"resource_type": GROUP, "resource_name": group, "configs": [config]}
        answer = direct.ask(ALTER_CONFIGS, 1, resources=[what])
    assert [each.error_code for each in answer.responses] == [ErrorCode.none]


class _Member:
    """Of a share group, on one connection."""

    def __init__(self, client: Wire, group: str, topic: str) -> None:
        self._client = client
        self._group = group
        self._topic = topic
        self._member = str(uuid.uuid4())
        self._member_epoch = 0
        self._epoch = 0
        client.ask(FIND_COORDINATOR, 4, coordinator_keys=[group])  # so that there is one
        self.own_id = client.topic_id(topic)

    def beat(self) -> bool:
        """Whether the partition is this member's."""
        names = [self._topic] if self._member_epoch == 0 else None
        answer = self._client.ask(
            SHARE_HEARTBEAT,
            1,
            group_id=self._group,
            member_id=self._member,
            member_epoch=self._member_epoch,
            subscribed_topic_names=names,
        )
        if answer.error_code in NOT_YET:
            return False
        assert answer.error_code == ErrorCode.none, answer
        self._member_epoch = answer.member_epoch
        return bool(answer.assignment and answer.assignment.topic_partitions)

    def fetch(self, version: int, acknowledged: tuple[tuple[int, int], ...] = ()) -> Any:
        """What the partition brings, with these ranges of offsets accepted."""
        acks = [{"first_offset": first, "last_offset": last, "acknowledge_types": [ACCEPT]} for first, last in acknowledged]
        part = {"partition_index": 0, "acknowledgement_batches": acks}
        answer = self._client.ask(
            SHARE_FETCH,
            version,
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait=dt.timedelta(milliseconds=200),
            min_bytes=1,
            max_bytes=1 << 24,
            max_records=500,
            batch_size=500,
            topics=[{"topic_id": self.own_id, "partitions": [part]}],
        )
        assert answer.error_code == ErrorCode.none, answer
        self._epoch += 1
        parts = [each for topic in answer.responses for each in topic.partitions if each.error_code not in NOT_YET]
        assert all(each.error_code == ErrorCode.none for each in parts), parts
        return parts[0] if parts else None


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", [*KINDS, "mask_all"])
def test_a_share_group_is_shown_nothing_hidden_and_acknowledges_what_it_was_shown(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, kind: str, version: int
) -> None:
    secret = canary.text()
    topic, group = new_topic(kafka_server, f"walk-{kind}"), f"share-{secrets.token_hex(4)}"
    records = hidden_by(kind, secret)
    for codec in CODECS:
        produce(kafka_server.address, topic, records, codec=codec)
    _from_the_start(kafka_server, group)
    one = veil(WALK, platform="kafka", upstream=kafka_server.at(SASL))

    with reader(one) as bob:
        member = _Member(bob, group, topic)
        wait_until(member.beat, "the partition is assigned")
        shown: set[int] = set()
        taken: list[tuple[int, int]] = []

        def more() -> bool:
            part = member.fetch(version, tuple(taken))
            taken.clear()
            if part is not None:
                canary.assert_not_in(opened(part), "what was compressed")
                for each in part.acquired_records:
                    assert each.delivery_count == 1
                    taken.append((int(each.first_offset), int(each.last_offset)))
                    shown.update(range(each.first_offset, each.last_offset + 1))
            return len(shown) == len(records) * len(CODECS) and not taken

        wait_until(more, "all records were acquired and accepted")
        assert shown == set(range(len(records) * len(CODECS)))
        whole_trail(one, canary, bob)
