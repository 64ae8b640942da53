"""What the table says, carried out: versions, addresses, guards, and the order of answers."""

from __future__ import annotations

import pytest

from proxy.core.addresses import Endpoint, Node
from proxy.core.errors import LimitExceeded, WireError
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.schema import Message
from proxy.protocols.kafka.surface import ROWS, Act, Row

from .desk import BOOK, CLIENT, FETCH, METADATA, Desk, fetch_answer, fetch_request, framed, frames, read_answer

HOST = b"broker-7.internal"
VERSIONS, DESCRIBE_CLUSTER = 18, 60
ALL_VERSIONS = [
    {"api_key": key, "min_version": schema.versions(key)[0], "max_version": schema.versions(key)[-1]}
    for key in range(93)
    if schema.versions(key)
]


def broker(node: int, **more: object) -> Message:
    return {"node_id": node, "broker_id": node, "host": HOST, "port": 9092, "rack": b"r", "is_fenced": 0} | more


def versions_answer(version: int, told: list[Message]) -> Message:
    return schema.response(VERSIONS, version).blank() | {"api_keys": told}


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (each.key, each.versions[-1])
        for each in ROWS
        if each.act in {Act.ADDRESSES, Act.PASS, Act.SIZES} and each.key != DESCRIBE_CLUSTER
    ],
)
def test_bytes_behind_a_request_that_is_not_judged_go_up_as_they_came(key: int, version: int) -> None:
    """librdkafka writes three bytes too many where it asks for all topics, and brokers do not mind."""
    desk = Desk()
    raw = wire.own_request(key, version, 1, CLIENT, schema.request(key, version).blank())
    longer = (len(raw) - 4 + 3).to_bytes(4, "big") + raw[4:] + b"\1\0\0"
    desk.play.reader(longer)

    assert desk.play.sent_up() == longer


@pytest.mark.parametrize("row", [each for each in ROWS if each.act is Act.GUARD], ids=lambda each: each.name)
def test_bytes_behind_a_request_that_is_refused_make_it_no_other_request(row: Row) -> None:
    """librdkafka leaves some behind AlterUserScramCredentials, and the client is told why it may not do that."""
    for version in row.versions:
        blank = schema.request(row.key, version).blank()
        told = []
        for behind in (b"", b"\1\0\0"):
            desk = Desk()
            raw = wire.own_request(row.key, version, 1, CLIENT, blank)
            desk.play.reader((len(raw) - 4 + len(behind)).to_bytes(4, "big") + raw[4:] + behind)
            assert desk.play.sent_up() == b""
            told.append(bytes(desk.play.to_reader))

        assert told[0] == told[1] != b""


@pytest.mark.parametrize(("key", "version"), [(33, 0), (33, 2), (44, 0), (44, 1)])
@pytest.mark.parametrize("behind", [b"", b"\1\0\0"])
def test_a_brokers_config_is_not_changed_whatever_stands_behind_the_request(key: int, version: int, behind: bytes) -> None:
    resource = {"resource_type": 4, "resource_name": b"1", "configs": []}
    desk = Desk()
    raw = wire.own_request(key, version, 1, CLIENT, schema.request(key, version).blank() | {"resources": [resource]})
    desk.play.reader((len(raw) - 4 + len(behind)).to_bytes(4, "big") + raw[4:] + behind)

    assert desk.play.sent_up() == b""
    [said] = read_answer(key, version, bytes(desk.play.to_reader))["responses"]
    assert said["error_code"] == 31


# ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_what_is_advertised_is_what_broker_and_table_both_speak(version: int) -> None:
    desk = Desk()
    desk.ask(VERSIONS, version, schema.request(VERSIONS, version).blank())
    answer = desk.answered(
        VERSIONS, version, versions_answer(version, [*ALL_VERSIONS, {"api_key": 10002, "min_version": 0, "max_version": 1}])
    )
    told = {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}

    assert set(told) == {each.key for each in ROWS if not each.hidden}
    assert (told[0], told[1], told[17], told[22][1], told[24][1]) == ((0, 13), (4, 18), (0, 1), 5, 3)


def test_no_api_is_advertised_from_a_later_version_than_the_broker_does() -> None:
    """Clients look for the first versions of an API to tell what a broker can do, and then speak a later one."""
    desk = Desk()
    desk.ask(VERSIONS, 3, schema.request(VERSIONS, 3).blank())
    kafka = {0: 0, 17: 0}  # below what there are schemas for
    told = [each | {"min_version": kafka.get(each["api_key"], each["min_version"])} for each in ALL_VERSIONS]
    lowest = {each["api_key"]: each["min_version"] for each in desk.answered(VERSIONS, 3, versions_answer(3, told))["api_keys"]}

    assert lowest == {each["api_key"]: each["min_version"] for each in told if each["api_key"] in lowest}


def test_a_login_that_bytes_without_frames_would_follow_ends_the_connection() -> None:
    desk = Desk()
    desk.play.reader(wire.own_request(17, 0, 1, CLIENT, {"mechanism": b"PLAIN"}))

    assert (desk.play.sent_up(), bool(desk.play.closed)) == (b"", True)


def test_topic_ids_are_left_out_where_the_broker_cannot_name_them() -> None:
    desk = Desk()
    desk.ask(VERSIONS, 3, schema.request(VERSIONS, 3).blank())
    told = [each | ({"max_version": 11} if each["api_key"] == METADATA else {}) for each in ALL_VERSIONS]
    answer = desk.answered(VERSIONS, 3, versions_answer(3, told))
    highest = {each["api_key"]: each["max_version"] for each in answer["api_keys"]}

    assert (highest[0], highest[1], 78 in highest) == (12, 12, False)


def test_a_client_newer_than_the_table_is_told_which_versions_of_this_api_there_are() -> None:
    desk = Desk()
    desk.play.reader(b"\0\0\0\x12" + b"\0\x12\0\x09\0\0\0\x07" + b"\0\x04desk\0" + b"\x02x\x02")
    [frame] = frames(desk.play.to_reader)

    assert wire.response_correlation(frame) == 7
    assert schema.response(VERSIONS, 0).read(frame, 4) == {
        "error_code": 35,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}],
    }
    assert desk.play.sent_up() == b""


def test_a_client_newer_than_the_broker_is_told_to_ask_in_the_oldest_version() -> None:
    for body in (b"\0\x23\0\0\0\0", b"\0\x23\x02\0\x12\0\0\0\x02\0\0", b"\0\x23"):
        desk = Desk()
        desk.ask(VERSIONS, 4, schema.request(VERSIONS, 4).blank())
        said = desk.play.server(wire.sized(desk.correlation_id.to_bytes(4, "big"), body))
        [told] = schema.response(VERSIONS, 0).read(frames(said)[0], 4)["api_keys"]
        assert told == {"api_key": 18, "min_version": 0, "max_version": 0}


# What nobody may


def test_an_api_without_a_row_ends_the_connection() -> None:
    for key in (93, 999, 10000, -1):
        desk = Desk()
        desk.play.reader(wire.sized(key.to_bytes(2, "big", signed=True) + b"\0\0\0\0\0\x01\xff\xff"))
        assert (desk.play.sent_up(), bool(desk.play.closed)) == (b"", True)


@pytest.mark.parametrize("row", [each for each in ROWS if each.act is Act.REFUSE], ids=lambda each: each.name)
def test_a_refused_api_goes_nowhere(row: object) -> None:
    for version in schema.versions(row.key):  # type: ignore[attr-defined]
        desk = Desk()
        desk.play.reader(wire.own_request(row.key, version, 1, CLIENT, schema.request(row.key, version).blank()))  # type: ignore[attr-defined]
        assert desk.play.sent_up() == b""
        assert bool(desk.play.closed) != bool(desk.play.to_reader)
        assert len(desk.play.notes) == 1


@pytest.mark.parametrize("row", [each for each in ROWS if not each.hidden], ids=lambda each: each.name)
def test_versions_that_the_table_does_not_let_through_go_nowhere(row: object) -> None:
    known = set(schema.versions(row.key)) | {row.versions[-1] + 1}  # type: ignore[attr-defined]
    for version in known - set(row.versions):  # type: ignore[attr-defined]
        desk = Desk()
        desk.play.reader(wire.sized(row.key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\x01\xff\xff\0"))  # type: ignore[attr-defined]
        assert desk.play.sent_up() == b""


PASSING = [(each.key, version) for each in ROWS if each.act is Act.PASS for version in each.versions]


@pytest.mark.parametrize(("key", "version"), PASSING)
def test_what_passes_goes_up_and_comes_back_as_it_is(key: int, version: int) -> None:
    desk = Desk()
    request = wire.own_request(key, version, 1, CLIENT, schema.request(key, version).blank())
    desk.play.reader(request)
    answer = framed(key, version, 1, schema.response(key, version).blank())

    assert desk.play.sent_up() == request
    assert desk.play.server(answer) == answer


# Guards

GUARDED = [(each.key, version) for each in ROWS if each.act is Act.GUARD for version in each.versions]


def guarded_request(key: int, version: int) -> Message:
    codec = schema.request(key, version)
    request = codec.blank()
    for array in ("creations", "filters", "deletions", "upsertions", "entries"):
        if array in request:
            request[array] = [codec.item(array).blank()]
    return request


@pytest.mark.parametrize(("key", "version"), GUARDED)
def test_credentials_and_permissions_are_refused_while_any_rule_masks(key: int, version: int) -> None:
    desk = Desk()
    assert desk.ask(key, version, guarded_request(key, version)) == []
    assert b"\0\x1f" in desk.play.to_reader
    read_answer(key, version, desk.play.to_reader)

    desk.replace()
    assert len(desk.ask(key, version, guarded_request(key, version))) == 1


def test_a_reader_who_may_lift_all_may_pass_a_guard_once_that_is_recorded() -> None:
    desk = Desk(fixed="alice")
    assert len(desk.ask(30, 3, guarded_request(30, 3))) == 1

    assert [(entry.operation, entry.resource and entry.resource.name) for entry in desk.play.recorded] == [("CreateAcls", b"*")]


@pytest.mark.parametrize(("key", "versions"), [(33, range(3)), (44, range(2))])
@pytest.mark.parametrize(("kind", "goes_up"), [(2, 1), (4, 0), (8, 0)])
def test_configs_of_brokers_are_not_changed(key: int, versions: range, kind: int, goes_up: int) -> None:
    for version in versions:
        desk = Desk()
        desk.replace()
        resource = schema.request(key, version).item("resources").blank() | {"resource_type": kind, "resource_name": b"1"}
        went = desk.ask(key, version, schema.request(key, version).blank() | {"resources": [resource]})
        assert len(went) == goes_up
        if not goes_up:
            answer = read_answer(key, version, desk.play.to_reader)
            assert [each["error_code"] for each in answer["responses"]] == [31]


@pytest.mark.parametrize(("version", "replica", "goes_up"), [(3, 1, 0), (4, 1, 0), (3, -1, 1), (4, -2, 1)])
def test_epochs_are_not_told_to_a_replica(version: int, replica: int, goes_up: int) -> None:
    desk = Desk()
    partition = schema.request(23, version).item("topics").item("partitions").blank()
    topics = [{"topic": b"orders", "partitions": [partition]}]

    assert len(desk.ask(23, version, {"replica_id": replica, "topics": topics})) == goes_up


def test_controllers_are_not_described() -> None:
    desk = Desk()
    assert desk.ask(60, 1, schema.request(60, 1).blank() | {"endpoint_type": 2}) == []

    assert read_answer(60, 1, desk.play.to_reader)["error_code"] == 31


# Addresses


@pytest.mark.parametrize("version", range(14))
def test_metadata_tells_where_veil_is_and_is_else_as_it_was(version: int) -> None:
    desk = Desk()
    codec = schema.response(METADATA, version)
    topic = codec.item("topics").blank() | {"name": b"orders"}
    before = codec.blank() | {"brokers": [broker(1), broker(2)], "topics": [topic]}
    desk.ask(METADATA, version, schema.request(METADATA, version).blank())
    after = desk.answered(METADATA, version, before)

    told = [(each["node_id"], each["host"], each["port"]) for each in after["brokers"]]
    assert told == [(1, b"veil.example", 19101), (2, b"veil.example", 19102)]
    assert {**after, "brokers": 0} == {**codec.blank(), "topics": [topic], "brokers": 0}
    assert desk.play.advertised == [Node(1, HOST.decode(), 9092), Node(2, HOST.decode(), 9092)]


def test_a_node_without_a_place_is_left_out() -> None:
    desk = Desk()
    desk.play.places = {2: Endpoint("veil.example", 19102)}
    codec = schema.response(METADATA, 12)
    desk.ask(METADATA, 12, schema.request(METADATA, 12).blank())
    after = desk.answered(METADATA, 12, codec.blank() | {"brokers": [broker(1), broker(2)]})

    assert [each["node_id"] for each in after["brokers"]] == [2]
    assert HOST not in desk.play.to_reader


@pytest.mark.parametrize("version", range(7))
def test_coordinators_are_reached_through_veil(version: int) -> None:
    for places, expected in ((None, (b"veil.example", 19105)), ({}, (b"", -1))):
        desk = Desk()
        desk.play.places = places
        codec = schema.response(10, version)
        one = codec.blank() if version < 4 else codec.item("coordinators").blank()
        one |= {"node_id": 5, "host": HOST, "port": 9092}
        desk.ask(10, version, schema.request(10, version).blank())
        after = desk.answered(10, version, one if version < 4 else codec.blank() | {"coordinators": [one]})
        told = after if version < 4 else after["coordinators"][0]
        assert (told["host"], told["port"]) == expected
        assert told["error_code"] == (0 if places is None else 15)
        assert HOST not in desk.play.to_reader


@pytest.mark.parametrize("version", range(3))
def test_brokers_of_a_described_cluster_are_reached_through_veil(version: int) -> None:
    desk = Desk()
    codec = schema.response(60, version)
    desk.ask(60, version, schema.request(60, version).blank())
    after = desk.answered(60, version, codec.blank() | {"brokers": [broker(1)]})

    assert [(each["host"], each["port"]) for each in after["brokers"]] == [(b"veil.example", 19101)]
    assert HOST not in desk.play.to_reader


HINTS = [(0, 10), (0, 11), (0, 12), (0, 13), (1, 16), (1, 17), (1, 18), (78, 1), (78, 2), (79, 1), (79, 2)]


@pytest.mark.parametrize(("key", "version"), HINTS)
def test_hints_of_new_leaders_are_reached_through_veil(key: int, version: int) -> None:
    desk = Desk()
    codec = schema.response(key, version)
    desk.ask(key, version, schema.request(key, version).blank() | ({"acks": 1} if key == 0 else {}))
    after = desk.answered(key, version, codec.blank() | {"node_endpoints": [broker(1), broker(2)]})

    assert [each["host"] for each in after["node_endpoints"]] == [b"veil.example"] * 2
    assert HOST not in desk.play.to_reader


def test_a_described_quorum_names_no_controller() -> None:
    desk = Desk()
    codec = schema.response(55, 2)
    listener = {"name": b"CONTROLLER", "host": HOST, "port": 9093}
    desk.ask(55, 2, schema.request(55, 2).blank())
    after = desk.answered(55, 2, codec.blank() | {"nodes": [{"node_id": 1, "listeners": [listener]}]})

    assert after["nodes"] == []
    assert HOST not in desk.play.to_reader


@pytest.mark.parametrize("version", range(1, 5))
def test_addresses_among_a_brokers_configs_read_null(version: int) -> None:
    desk = Desk()
    codec = schema.response(32, version)

    def config(name: bytes, value: bytes) -> Message:
        one = codec.item("results").item("configs").blank() | {"name": name, "value": value}
        return one | {"synonyms": [{"name": name, "value": value, "source": 1}]}

    told = [config(b"advertised.listeners", b"PLAIN://%b:9092" % HOST), config(b"log.retention.ms", b"7")]
    told.append(config(b"controller.quorum.voters", b"1@%b:9093" % HOST))
    result = codec.item("results").blank() | {"resource_type": 4, "resource_name": b"1", "configs": told}
    desk.ask(32, version, schema.request(32, version).blank())
    after = desk.answered(32, version, codec.blank() | {"results": [result]})

    assert [each["value"] for each in after["results"][0]["configs"]] == [None, b"7", None]
    assert HOST not in desk.play.to_reader


# Sizes


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_of_logs_are_not_told_of_what_is_masked(version: int) -> None:
    desk = Desk()
    codec = schema.response(35, version)
    part = codec.item("results").item("topics").item("partitions").blank() | {"partition_size": 77}
    topics = [{"name": name, "partitions": [dict(part)]} for name in (b"orders", b"public")]
    result = codec.item("results").blank() | {"topics": topics, "total_bytes": 99, "usable_bytes": 98}
    answer = codec.blank() | {"results": [result]}
    desk.ask(35, version, schema.request(35, version).blank())
    [after] = desk.answered(35, version, answer)["results"]

    assert [each["partitions"][0]["partition_size"] for each in after["topics"]] == [0, 77]
    assert (after.get("total_bytes", -1), after.get("usable_bytes", -1)) == (-1, -1)


# Order


def test_a_local_answer_waits_for_its_turn() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"public"))
    desk.ask(38, 3, schema.request(38, 3).blank())
    assert desk.play.to_reader == b""
    said = desk.answer(fetch_answer(12, b"public", b""))

    assert [wire.response_correlation(each) for each in frames(said)] == [1, 2]


def test_an_answer_without_its_request_ends_the_connection() -> None:
    desk = Desk()
    desk.ask(FETCH, 12, fetch_request(12, b"public"))
    with pytest.raises(WireError):
        desk.play.server(framed(FETCH, 12, 99, fetch_answer(12, b"public", b"")))
    with pytest.raises(WireError):
        Desk().play.server(framed(FETCH, 12, 1, fetch_answer(12, b"public", b"")))


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n", b"\xff\xff\xff\xff"])
def test_bytes_that_are_no_frame_end_the_connection(first: bytes) -> None:
    with pytest.raises(WireError):
        Desk().play.reader(first)


def test_a_stranger_may_not_send_a_large_frame() -> None:
    desk = Desk()
    with pytest.raises(LimitExceeded):
        desk.play.reader((2 << 20).to_bytes(4, "big"))

    desk = Desk()
    desk.fetch(b"public", b"")
    desk.play.reader((2 << 20).to_bytes(4, "big"))


def test_a_flood_of_requests_is_taken_in_and_answered_in_order() -> None:
    desk = Desk()
    many = 2000
    request = [wire.own_request(12, 0, each, CLIENT, schema.request(12, 0).blank()) for each in range(many)]
    desk.play.reader(b"".join(request))
    answered = 0
    while answered < many:
        sent = [wire.peek(each)[2] for each in frames(desk.play.sent_up())]
        assert sent
        desk.play.server(b"".join(framed(12, 0, each, schema.response(12, 0).blank()) for each in sent))
        answered += len(sent)

    assert [wire.response_correlation(each) for each in frames(desk.play.to_reader)] == list(range(many))


def test_a_session_shows_nothing_of_what_it_holds() -> None:
    desk = Desk(BOOK)

    assert repr(desk.play.session) == "<KafkaSession with 0 requests in flight>"
