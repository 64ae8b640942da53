"""proxy.protocols.kafka.surface: the table is closed, whole, readable, and as Kafka has it."""

from __future__ import annotations

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map

from proxy.protocols.kafka import schema, surface
from proxy.protocols.kafka.surface import ROWS, Act, Contents, Row, lets_through, row

GONE = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}
ADVERTISED = {
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup",
    "SyncGroup", "DescribeGroups", "ListGroups", "SaslHandshake", "ApiVersions", "CreateTopics", "DeleteTopics", "DeleteRecords",
    "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "DescribeAcls",
    "CreateAcls", "DeleteAcls", "DescribeConfigs", "AlterConfigs", "AlterReplicaLogDirs", "DescribeLogDirs", "SaslAuthenticate",
    "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken", "DeleteGroups",
    "ElectLeaders", "IncrementalAlterConfigs", "AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete",
    "DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials", "AlterUserScramCredentials", "DescribeQuorum",
    "UpdateFeatures", "DescribeCluster", "DescribeProducers", "DescribeTransactions", "ListTransactions", "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe", "ListConfigResources", "DescribeTopicPartitions", "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch",
    "ShareAcknowledge", "StreamsGroupHeartbeat", "StreamsGroupDescribe", "DescribeShareGroupOffsets", "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
}  # fmt: skip


def test_every_key_from_0_to_92_has_one_row_and_nothing_else_has() -> None:
    assert [each.key for each in ROWS] == list(range(93))


def test_every_api_that_kafka_4_2_knows_is_spelled_as_kafka_spells_it() -> None:
    expected = {key: load_request_schema(key, schema.versions(key)[0]).__name__.removesuffix("Request") for key in api_key_map}

    assert {each.key: each.name for each in ROWS} == expected | GONE


def test_what_is_advertised_is_written_down_here() -> None:
    assert {each.name for each in ROWS if not each.hidden} == ADVERTISED


@pytest.mark.parametrize("each", ROWS, ids=lambda each: each.name)
def test_a_row_lets_through_only_versions_whose_fields_are_known(each: Row) -> None:
    known = schema.versions(each.key)

    assert set(each.versions) <= set(known)
    assert each.hidden == (not each.versions)
    assert [version for version in range(-2, 40) if lets_through(each.key, version)] == list(each.versions)


@pytest.mark.parametrize("each", ROWS, ids=lambda each: each.name)
def test_a_row_lets_through_every_known_version_but_for_the_capped(each: Row) -> None:
    capped = {"SaslHandshake": range(1, 2), "InitProducerId": range(6), "AddPartitionsToTxn": range(4)}
    expected = range(0) if each.hidden else capped.get(each.name, schema.versions(each.key))

    assert each.versions == expected


@pytest.mark.parametrize("key", [-1, -32768, 93, 94, 1000, 10_000, 32767])
def test_what_has_no_row_is_not_let_through(key: int) -> None:
    assert row(key) is None
    assert not any(lets_through(key, version) for version in range(-1, 20))


@pytest.mark.parametrize(
    "name", ["Envelope", "FetchSnapshot", "WriteTxnMarkers", "UnregisterBroker", "PushTelemetry", "Vote", "UpdateMetadata"]
)
def test_what_is_between_brokers_is_always_refused(name: str) -> None:
    (found,) = (each for each in ROWS if each.name == name)

    assert found.act is Act.REFUSE


def test_whatever_carries_records_is_masked_judged_or_refused() -> None:
    carrying = set()
    for key in api_key_map:
        for version in schema.versions(key):
            for codec in (schema.request(key, version), schema.response(key, version)):
                if holds_records(codec):
                    carrying.add(key)

    # Envelope's record is a whole request, of type bytes.
    assert carrying | {58} == {each.key for each in ROWS if each.contents is Contents.YES}
    assert {row(key).act for key in carrying} == {Act.MASK, Act.JUDGE_WRITE, Act.REFUSE}  # type: ignore[union-attr]


def holds_records(codec: schema.Codec) -> bool:
    return any(
        field.read.__qualname__.startswith("records.") or (field.item is not None and holds_records(field.item))
        for field in codec._fields.values()
    )


def test_every_api_whose_answer_names_hosts_is_known_for_it() -> None:
    naming = set()
    for key in api_key_map:
        for version in schema.versions(key):
            if "host" in names(schema.response(key, version)):
                naming.add(key)
    # An application's own addresses, and the hosts that a permission is for.
    naming -= {88, 89, 29, 31}
    treated = {each.key for each in ROWS if each.act in {Act.ADDRESSES, Act.MASK, Act.JUDGE_WRITE, Act.REFUSE}}

    assert naming <= treated
    assert {3, 10, 60, 0, 1, 78, 79, 55} <= naming


def names(codec: schema.Codec) -> set[str]:
    found = set(codec._fields)
    for field in codec._fields.values():
        if field.item is not None:
            found |= names(field.item)
    return found


def test_the_table_is_printed_a_line_a_row() -> None:
    lines = surface.surface_text().splitlines()

    assert len(lines) == 1 + 93 + 1
    assert lines[0].split() == ["KEY", "OPERATION", "VERSIONS", "EXPOSES", "VEIL", "WHY"]
    assert "1    Fetch " in lines[2]
    assert "4-18" in lines[2]
    assert lines[-1].startswith("*")


@pytest.mark.parametrize(
    "broken", ["key\tname\n", "key\tname\tversions\tcontents\tact\tnote\n0\tProduce\t3-13\tyes\tnothing\tx\n"]
)
def test_a_table_that_is_not_as_described_is_not_read(broken: str) -> None:
    with pytest.raises(ValueError, match=r"surface|nothing"):
        surface._read(broken)


def test_every_act_and_kind_of_contents_has_its_words() -> None:
    assert set(surface._DOES) == set(Act)
    assert set(surface._EXPOSES) == set(Contents)
    assert {each.act for each in ROWS} == set(Act)
    assert all(each.note.endswith(".") for each in ROWS)
