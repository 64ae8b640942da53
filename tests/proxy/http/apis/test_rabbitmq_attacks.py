"""Ways round a rule that take more than one call, and answers of servers that are not quite what they should be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.protocols.http.api import Refuse
from proxy.protocols.http.apis.rabbitmq_management.copies import meets
from rules.model import Field, FieldKind, Kind, Partial
from rules.policy import Policy
from tests.canary import assert_no_canary

from .bench import Judge
from .test_rabbitmq_contents import CANARY, CARDS, FED, graph, judge, message, rule, shown
from .test_rabbitmq_copies import publish, refused

SHOVEL = "/api/parameters/shovel/%2F/s"
BIND = "/api/bindings/%2F/e/x1/q/free"
DLX = {"x-dead-letter-exchange": "dlx"}


def buried(one: Judge, vhost: str = "%2F") -> None:
    """Dead letters of `orders` lie in `graveyard`."""
    graph(one, ("dlx", "graveyard"), ("x1", "orders"), queues=("graveyard", "orders", "free"))
    one.knows["/api/queues/%2F"][1][1]["arguments"] = DLX
    one.knows |= {path.replace("%2F", vhost): told for path, told in one.knows.items()}
    if vhost != "%2F":
        graph(one, queues=("free",))


def test_before_the_rules_were_read_nothing_is_bound_and_no_policy_changes() -> None:
    one = judge()
    one.policy = Policy.closed("rules could not be read")
    one.viewer.look()
    graph(one, ("x1", "orders"), queues=("orders", "free"))

    for method, path, told in (
        ("POST", BIND, {"routing_key": "k"}),
        ("PUT", "/api/policies/%2F/p", {"pattern": "^a$", "apply-to": "exchanges", "definition": {"max-length": 1}}),
        ("PUT", SHOVEL, {"value": {"src-queue": "free"}}),
        ("POST", "/api/definitions", {"bindings": [
            {"vhost": "/", "source": "x1", "destination": "free", "destination_type": "queue", "arguments": {}}]}),
    ):  # fmt: skip
        assert isinstance(one.call(method, path, told), Refuse), path


@pytest.mark.parametrize("source", ["customers", "inner", "dlx"])
def test_an_exchange_that_a_covered_one_feeds_is_no_free_source(source: str) -> None:
    one = judge(FED)
    graph(one, ("customers", "x.inner"), ("inner", "q"), ("other", "free"), queues=("q", "free"))
    one.knows["/api/queues/%2F"][1][0]["arguments"] = DLX

    for path, value in (
        (SHOVEL, {"src-exchange": source}),
        ("/api/parameters/federation-upstream/%2F/u", {"exchange": source}),
    ):
        assert refused(one.call("PUT", path, {"value": value})) == "Fed"
        assert refused(one.call("PUT", path, {"value": dict.fromkeys(value, "other")})) is None


@pytest.mark.parametrize("address", ["amqp:///other", "amqp://u:p@h:5672/other?heartbeat=5", ["amqp://", "amqps://h/%6fther"]])
def test_dead_letters_of_another_virtual_host_are_no_free_source(address: Any) -> None:
    one = judge(CARDS)
    buried(one, "other")

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-uri": address, "src-queue": "graveyard"}})) == "Cards"
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-uri": address, "src-queue": "free"}})) is None


@pytest.mark.parametrize("address", ["amqp:///unknown", "other", 5, ["amqp:///", 5], {}, [f"amqp:///v{n}" for n in range(9)]])
def test_a_source_where_nobody_can_look_is_not_free(address: Any) -> None:
    one = judge(CARDS)
    buried(one)

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-uri": address, "src-queue": "free"}})) == "Cards"
    assert refused(judge(CARDS).call("PUT", SHOVEL, {"value": {"src-queue": "free"}})) == "Cards"


@pytest.mark.parametrize(
    "path",
    [
        "/api/bindings/%2F/e/dlx/q/graveyard/k",  # dead letters would be anybody's
        "/api/exchanges/%2F/dlx",
        "/api/bindings/%2F/e/x1/q/orders/k",  # free to be bound to another queue then
        "/api/exchanges/%2F/x1",
        "/api/queues/%2F/orders",
    ],
)
def test_what_tells_that_messages_are_covered_is_not_taken_away(path: str) -> None:
    one = judge(CARDS)
    buried(one)

    assert refused(one.call("DELETE", path)) == "Cards"
    assert refused(one.call("DELETE", "/api/bindings/%2F/e/x9/q/free/k")) is None
    assert refused(one.call("DELETE", "/api/exchanges/%2F/x9")) is None
    assert refused(one.call("DELETE", "/api/queues/%2F/free")) is None
    one.knows.clear()
    assert refused(one.call("DELETE", path)) == "Cards"


def test_definitions_do_not_put_another_policy_in_place_of_one_that_a_call_could_not() -> None:
    one = judge(CARDS)
    one.knows["/api/policies/%2F"] = (200, [{"name": "old", "pattern": "^orders", "definition": {"max-length": 5}}])
    harmless = {"vhost": "/", "pattern": "^free$", "definition": {"max-length": 5}}

    def take(**told: Any) -> str | None:
        return refused(one.call("POST", "/api/definitions", {"policies": [harmless | told]}))

    assert take(name="old") == "Cards"
    assert take() == "Cards"
    assert take(name="new") is None
    assert one.asked == ["/api/policies/%2F"] * 2, "once for each import"
    one.knows.clear()
    assert take(name="new") == "Cards"


@pytest.mark.parametrize("component", ["policy", "operator_policy", "what-is-new"])
def test_a_policy_is_not_taken_away_as_a_parameter(component: str) -> None:
    assert refused(judge(CARDS).call("DELETE", f"/api/parameters/{component}/%2F/p")) == "Cards"
    assert refused(judge().call("DELETE", f"/api/parameters/{component}/%2F/p")) is None


@pytest.mark.parametrize("component", ["shovel", "federation-upstream", "federation-upstream-set", "vhost-limits"])
def test_a_copy_may_always_be_ended(component: str) -> None:
    assert refused(judge(CARDS).call("DELETE", f"/api/parameters/{component}/%2F/p")) is None


@pytest.mark.parametrize("key", ["hash-header", "hash-property"])
def test_messages_are_not_told_apart_by_the_hash_of_what_is_masked(key: str) -> None:
    told = {"type": "x-consistent-hash", "arguments": {key: "x-iban"}}

    assert refused(judge(CARDS).call("PUT", "/api/exchanges/%2F/h", told)) == "Cards"
    assert refused(judge().call("PUT", "/api/exchanges/%2F/h", told)) is None


def test_a_pattern_meets_a_name_that_ends_with_a_line() -> None:
    assert meets("^a$", [rule("R", queue="a?", mask_all=True)], Kind.QUEUE)


def test_a_dead_letter_policy_counts_where_a_queue_does_not_tell_its_own() -> None:
    one = judge(CARDS)
    graph(one, ("dlx", "graveyard"), queues=("graveyard", "orders", "free"))
    one.knows["/api/policies/%2F"] = (200, [{"name": "p", "definition": {"dead-letter-exchange": "dlx"}}])

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "graveyard"}})) == "Cards"
    for each in one.knows["/api/queues/%2F"][1]:
        each["effective_policy_definition"] = []
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "graveyard"}})) is None


@pytest.mark.parametrize("headers", [None, False, 0, "", "x", [], {}, [1], {"a": None}])
@pytest.mark.parametrize("name", ["headers", "payload", "payload_encoding", "properties", "exchange"])
def test_whatever_a_message_has_in_place_of_a_member_its_contents_stay_hidden(name: str, headers: Any) -> None:
    one = judge(CARDS, FED)
    graph(one, queues=("orders",))
    told = message(properties={"headers": {"x-iban": CANARY}})
    if name == "headers":
        told["properties"]["headers"] = headers
    else:
        told[name] = headers
    shows = shown(one, told)

    assert_no_canary(json.dumps(shows).encode(), CANARY)


@pytest.mark.parametrize("value", [[CANARY], {"a": CANARY}, [[CANARY]], {"a": [{"b": CANARY}]}])
def test_a_partial_hides_whole_what_is_no_text(value: Any) -> None:
    one = judge(rule("Part", Field(FieldKind.HEADER, Partial(8, 8), name="x-iban"), queue="orders"))

    assert_no_canary(json.dumps(shown(one, message("{}", {"headers": {"x-iban": value}}))).encode(), CANARY)


@pytest.mark.parametrize("value", [["••••"], {"a": "••••"}, {"a": [{"b": "••••"}]}])
def test_a_mask_within_a_header_is_not_written_back(value: Any) -> None:
    one = judge(CARDS)
    graph(one, queues=("orders", "free"))
    told = publish("{}", properties={"headers": {"x-iban": value}})

    assert refused(one.call("POST", "/api/exchanges/%2F/amq.default/publish", told)) == "Cards"


def test_the_memory_that_holds_messages_is_not_told() -> None:
    told = {"binary": {"queue_procs": 51, "msg_index": 5}, "memory": {"queue_procs": 51}}
    answer = judge(CARDS).shows(judge(CARDS).call("GET", "/api/nodes/n?binary=true"), told)

    assert json.loads(answer.content) == {"binary": {"queue_procs": 0, "msg_index": 0}, "memory": {"queue_procs": 0}}


@pytest.mark.parametrize("key", ["publish-properties", "dest-publish-properties", "dest-properties"])
def test_no_shovel_takes_away_what_tells_where_a_message_has_been(key: str) -> None:
    one = judge(CARDS)
    graph(one, queues=("free",))

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "free", key: {"headers": []}}})) == "Cards"
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "free", key: "headers"}})) == "Cards"
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "free", key: {"delivery_mode": 2}}})) is None
