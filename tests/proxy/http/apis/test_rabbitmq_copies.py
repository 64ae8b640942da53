"""What would carry messages elsewhere, judged without a broker: graphs, patterns, forms, and what is written back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.core.session import SessionSettings
from proxy.protocols.http.api import Forward, Refuse, Verdict
from proxy.protocols.http.apis.rabbitmq_management import API, surface
from proxy.protocols.http.apis.rabbitmq_management.copies import meets
from proxy.protocols.http.apis.rabbitmq_management.surface import Act, instead, row
from rules.model import AccessList, Field, FieldKind, Kind, Partial, RuleBook
from rules.paths import parse_path

from .bench import Judge
from .test_rabbitmq_contents import CARDS, FED, GRANTS, SHOP, graph, judge, rule

SHOVEL = "/api/parameters/shovel/%2F/s"
EVERYTHING = rule("All", queue="vault*", mask_all=True)


def refused(verdict: Verdict) -> str | None:
    """The rule that is named; None where the call goes up."""
    if isinstance(verdict, Forward):
        return None
    assert verdict.status == 403
    assert json.loads(verdict.content)["error"] == "not_authorised"
    return verdict.why.rule


@pytest.mark.parametrize(
    "body", [b'{"value":{"src-queue":"free","src-queue":"orders"}}', b"{} {}", b"[]", b'{"value":/**/1}', b"\xff"]
)
def test_a_body_that_can_be_read_in_two_ways_goes_nowhere(body: bytes) -> None:
    verdict = judge(CARDS).call("PUT", SHOVEL, body)

    assert isinstance(verdict, Refuse)
    assert verdict.status == 400
    assert json.loads(verdict.content)["error"] == "bad_request"


def test_what_goes_up_is_written_anew_with_numbers_as_they_were() -> None:
    one = judge(CARDS)
    graph(one, queues=("free",))
    verdict = one.call("PUT", SHOVEL, b'{ "value" : {"src-\\u0071ueue":"free", "n":1E400, "m":1.0 } }')

    assert isinstance(verdict, Forward)
    assert verdict.content == b'{"value":{"src-queue":"free","n":1E400,"m":1.0}}'


def test_a_queue_with_dead_letters_of_a_covered_one_is_no_free_source() -> None:
    one = judge(CARDS)
    graph(one, ("dlx", "graveyard"), queues=("graveyard", "orders", "free"))
    one.knows["/api/queues/%2F"][1][1]["arguments"] = {"x-dead-letter-exchange": "dlx"}

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "graveyard"}})) == "Cards"
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "free"}})) is None


def test_a_grant_on_the_queue_lets_it_be_copied_and_is_recorded_once() -> None:
    one = judge(CARDS, who="erin")
    graph(one, queues=("orders.eu", "orders.us"))

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "orders.eu"}})) is None
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "orders.us"}})) == "Cards"
    assert refused(one.call("PUT", SHOVEL, {"value": {"src-address": "orders.eu"}})) == "Cards"
    assert [each.resource.name for each in one.recorded if each.resource] == [b"orders.eu"]


def test_without_a_journal_a_permission_lets_nothing_pass() -> None:
    one = judge(CARDS, who="alice")
    one.journal_works = False

    assert refused(one.call("PUT", SHOVEL, {"value": {"src-queue": "orders"}})) == "Cards"
    assert refused(one.call("PUT", "/api/traces/%2F/t", {})) == "Cards"


@pytest.mark.parametrize(
    ("pattern", "glob", "expected"),
    [
        ("^orders$", "orders*", True),
        ("^free$", "orders*", False),
        ("^or", "orders*", True),
        ("^fr", "orders*", False),
        ("^orders.eu$", "orders*", True),
        ("^fr\\.ee$", "orders", False),
        ("^f", "*", True),
        ("^f", "?x", True),
        ("^fy", "?x", False),
        ("^orders-long", "orders", False),
        ("orders", "free", True),
        ("", "free", True),
        ("^(a|free)$", "free", True),
        ("^a|free$", "free", True),
        ("^", "free", True),
    ],
)
def test_a_pattern_that_may_meet_a_glob_is_said_to(pattern: str, glob: str, expected: bool) -> None:
    assert meets(pattern, [rule("R", queue=glob, mask_all=True)], Kind.QUEUE) is expected


def test_the_policy_that_goes_is_judged_like_the_one_that_comes() -> None:
    one = judge(CARDS)
    one.knows["/api/policies/%2F/old"] = (
        200,
        {"pattern": "^free", "apply-to": "all", "definition": {"dead-letter-exchange": "x"}},
    )
    harmless = {"pattern": "^free$", "definition": {"max-length": 5}}

    assert refused(one.call("DELETE", "/api/policies/%2F/old")) == "Cards"
    assert refused(one.call("PUT", "/api/policies/%2F/old", harmless)) == "Cards"
    assert refused(one.call("PUT", "/api/policies/%2F/new", harmless)) is None
    one.knows["/api/policies/%2F/new"] = (500, {})
    assert refused(one.call("PUT", "/api/policies/%2F/new", harmless)) == "Cards"


def test_a_binding_copies_unless_the_same_rules_cover_where_it_leads() -> None:
    one = judge(CARDS)
    graph(one, ("x1", "orders"), ("x1", "x.x2"), queues=("orders", "free", "orders.2"))

    def bind(source: str, to: str, kind: str = "q") -> str | None:
        return refused(one.call("POST", f"/api/bindings/%2F/e/{source}/{kind}/{to}", {"routing_key": "k"}))

    assert bind("x1", "free") == "Cards"
    assert bind("x2", "free") == "Cards"  # fed by x1
    assert bind("x1", "orders.2") is None
    assert bind("x1", "x3", "e") == "Cards"
    assert bind("x9", "free") is None
    assert bind("amq.rabbitmq.trace", "orders.2") == "Cards"
    one.knows.clear()
    assert bind("x9", "free") == "Cards"


@pytest.mark.parametrize(
    ("arguments", "named", "by_all"),
    [
        ({"X-IBAN": "1"}, True, True),
        ({"x-match": "any"}, False, False),
        ({"other": "1"}, False, True),
        ({"rjms_erlang_selector": "{'=',1,1}"}, True, True),
        ([], False, False),
        ("odd", True, True),
    ],
)
def test_a_binding_must_not_ask_what_a_masked_header_holds(arguments: Any, named: bool, by_all: bool) -> None:
    for rules, expected in (((CARDS,), named), ((EVERYTHING,), by_all)):
        one = judge(*rules)
        graph(one)
        verdict = one.call("POST", "/api/bindings/%2F/e/h/q/q", {"routing_key": "", "arguments": arguments})

        assert (refused(verdict) is not None) is expected


def publish(payload: str, **told: Any) -> dict[str, Any]:
    return {"properties": {}, "routing_key": "orders", "payload": payload, "payload_encoding": "string"} | told


@pytest.mark.parametrize(
    ("told", "rule_named"),
    [
        (publish('{"card":"••••"}'), "Cards"),
        (publish('{"card":"\\u2022\\u2022\\u2022\\u2022"}'), "Cards"),
        (publish("eyJjYXJkIjoi4oCi4oCi4oCi4oCiIn0=", payload_encoding="base64"), "Cards"),
        (publish("{}", properties={"headers": {"X-Iban": "••••"}}), "Cards"),
        (publish("{}", properties={"headers": {"veil-masked": "[]"}}, routing_key="free"), "Cards"),
        (publish('{"card":"••••"}', routing_key="free", properties={"headers": {"BCC": ["orders"]}}), "Cards"),
        (publish('{"other":"••••"}'), None),
        (publish('{"card":"••••"}', routing_key="free"), None),
        (publish('{"card":"4711"}'), None),
    ],
)
def test_what_was_masked_is_not_written_back(told: dict[str, Any], rule_named: str | None) -> None:
    one = judge(CARDS)
    graph(one, queues=("orders", "free"))

    assert refused(one.call("POST", "/api/exchanges/%2F/amq.default/publish", told)) == rule_named


def test_an_exchange_writes_to_whatever_it_feeds() -> None:
    one = judge(CARDS)
    graph(one, ("x1", "x.x2"), ("x2", "orders"), queues=("orders",))
    told = publish('{"card":"••••"}', routing_key="anything")

    assert refused(one.call("POST", "/api/exchanges/%2F/x1/publish", told)) == "Cards"
    assert refused(one.call("POST", "/api/exchanges/%2F/x9/publish", told)) is None
    one.knows.clear()
    assert refused(one.call("POST", "/api/exchanges/%2F/x9/publish", told)) == "Cards"


def test_what_was_shown_unmasked_goes_back_without_its_mark() -> None:
    told = publish("{}", properties={"headers": {"veil-unmasked": "[]", "a": 1}})
    verdict = judge(CARDS).call("POST", "/api/exchanges/%2F/amq.default/publish", told)

    assert isinstance(verdict, Forward)
    assert json.loads(verdict.content or b"")["properties"] == {"headers": {"a": 1}}


def test_strict_writes_refuse_whatever_goes_to_a_covered_queue() -> None:
    one = Judge(API, SHOP, RuleBook("1", (CARDS,), AccessList(grants=GRANTS)), settings=SessionSettings(writes="strict"))
    graph(one, queues=("orders", "free"))

    assert refused(one.call("POST", "/api/exchanges/%2F/amq.default/publish", publish("{}"))) == "Cards"
    assert refused(one.call("POST", "/api/exchanges/%2F/amq.default/publish", publish("{}", routing_key="free"))) is None


def test_the_trace_of_a_partial_is_a_mask_as_well() -> None:
    part = rule("Part", Field(FieldKind.JSON_PATH, Partial(1, 0), parse_path("$.card")), queue="orders")
    one = judge(part)
    graph(one, queues=("orders",))

    assert refused(one.call("POST", "/api/exchanges/%2F/amq.default/publish", publish('{"card":"4•••"}'))) == "Part"


@pytest.mark.parametrize("section", ["users", "permissions", "topic_permissions", "what-is-new"])
def test_definitions_with_what_no_call_may_do_are_refused_whole(section: str) -> None:
    told = {"rabbit_version": "3.10.8", "queues": [{"name": "q", "vhost": "/", "arguments": {}}], section: [{"name": "x"}]}

    assert refused(judge(CARDS).call("POST", "/api/definitions", told)) == "Cards"
    assert refused(judge(CARDS).call("POST", "/api/definitions", {"queues": told["queues"], section: []})) is (
        "Cards" if section == "what-is-new" else None
    )
    assert refused(judge().call("POST", "/api/definitions", told)) is None


def test_a_rule_on_exchanges_keeps_queues_from_being_taken_out() -> None:
    one = judge(FED)
    graph(one, ("customers", "x.inner"), ("inner", "q"), ("other", "q"))

    assert refused(one.call("DELETE", "/api/bindings/%2F/e/inner/q/q/k")) == "Fed"
    assert refused(one.call("DELETE", "/api/exchanges/%2F/customers")) == "Fed"
    assert refused(one.call("DELETE", "/api/bindings/%2F/e/other/q/q/k")) is None
    one.knows.clear()
    assert refused(one.call("DELETE", "/api/bindings/%2F/e/other/q/q/k")) == "Fed"


def test_a_route_without_a_row_is_refused_while_any_rule_masks() -> None:
    for method, path in (
        ("GET", "/api/new"),
        ("PATCH", "/api/queues"),
        ("POST", "/api/queues"),
        ("GET", "/other/x"),
        ("PUT", "/js/x"),
    ):
        assert refused(judge(CARDS).call(method, path)) == "Cards", path
        assert refused(judge(CARDS, who="alice").call(method, path)) is None
        assert refused(judge().call(method, path)) is None


def test_the_console_itself_passes() -> None:
    for path in (
        "/",
        "/js/main.js",
        "/js/tmpl/queue.ejs",
        "/css/main.css",
        "/img/x.png",
        "/favicon.ico",
        "/cli/rabbitmqadmin",
        "/api/whoami",
    ):
        assert judge(CARDS).call("GET", path) == Forward(), path


def test_head_is_judged_as_get() -> None:
    assert refused(judge(CARDS).call("HEAD", "/api/trace-files/x.log")) == "Cards"


@pytest.mark.parametrize(
    ("path", "told", "expected"),
    [
        ("/api/queues", [{"message_bytes_ram": 5, "messages": 3, "memory": 7, "head_message_timestamp": 9, "backing_queue_status": {"message_bytes": 5}}],
         [{"message_bytes_ram": 0, "messages": 3, "memory": 0, "head_message_timestamp": None, "backing_queue_status": {"message_bytes": 0}}]),
        ("/api/connections", {"items": [{"recv_oct": 5, "recv_oct_details": {"rate": 1.5, "samples": [{"sample": 7, "timestamp": 8}]}}]},
         {"items": [{"recv_oct": 0, "recv_oct_details": {"rate": 0, "samples": [{"sample": 0, "timestamp": 0}]}}]}),
        ("/api/overview", {"listeners": [{"port": 5672}], "contexts": [{"port": "1"}], "node": "n"}, {"listeners": [], "contexts": [], "node": "n"}),
        ("/api/users", [{"name": "a", "password_hash": "x"}], [{"name": "a", "password_hash": ""}]),
        ("/api/definitions", {"parameters": [{"value": {"src-uri": ["amqp://u:p@h", "amqp://"]}}]}, {"parameters": [{"value": {"src-uri": ["amqp://h", "amqp://"]}}]}),
    ],
)  # fmt: skip
def test_answers_without_messages_tell_neither_lengths_nor_passwords_nor_ways_round(
    path: str, told: Any, expected: Any
) -> None:
    one = judge(CARDS)

    assert json.loads(one.shows(one.call("GET", path), told).content) == expected
    assert json.loads(judge().shows(judge().call("GET", path), told).content) == told


def test_nothing_is_sorted_by_what_is_hidden() -> None:
    verdict = judge(CARDS).call("GET", "/api/queues?sort=message_bytes&page=1")
    nested = judge(CARDS).call("GET", "/api/queues?sort=backing_queue_status.message_bytes")
    plain = judge(CARDS).call("GET", "/api/queues?sort=name")

    assert [each.target.query for each in (verdict, nested, plain) if isinstance(each, Forward) and each.target] == [
        (("page", "1"),),
        (),
        (("sort", "name"),),
    ]


def test_the_table_prints_every_row_and_what_becomes_of_it() -> None:
    text = surface.surface_text()

    assert len(text.splitlines()) == len(surface.ROWS) + len(surface.FIELDS) + 2
    assert row("POST", ("api", "queues", "/", "q", "get"))[0].act is Act.GET
    assert instead("messages") is None


def test_the_reason_names_the_rule_and_no_line_end_of_a_name() -> None:
    verdict = judge(CARDS).call("PUT", SHOVEL, {"value": {"src-queue": 'orders"\r\n\u00e9'}})

    assert isinstance(verdict, Refuse)
    assert json.loads(verdict.content)["reason"] == (
        'veil: PUT /api/parameters/{component}/{vhost}/{name} on the queue "orders????" is refused: '
        'the masking rule "Cards" covers it ($.card)'
    )
