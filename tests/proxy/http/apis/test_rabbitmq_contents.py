"""What is shown of messages, whatever they look like, and of where they have been."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from proxy.core.session import SessionSettings
from proxy.protocols.http.api import Forward, Refuse
from proxy.protocols.http.apis.rabbitmq_management import API
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Partial,
    Platform,
    Redact,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from tests.canary import assert_no_canary

from .bench import Judge

SHOP = Connection("shop", Platform.RABBITMQ, "production")
CANARY = "c4n4ry4111111111111111"
MASK = "••••"
GET = "/api/queues/%2F/{}/get"
ASKING = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
CARD = Field(FieldKind.JSON_PATH, Redact(), parse_path("$.card"))


def rule(name: str, *fields: Field, queue: str = "", exchange: str = "", mask_all: bool = False) -> Rule:
    patterns = tuple((kind, (glob,)) for kind, glob in ((Kind.QUEUE, queue), (Kind.EXCHANGE, exchange)) if glob)
    return Rule(name, Platform.RABBITMQ, patterns, mask_all=mask_all, fields=fields)


CARDS = rule("Cards", CARD, Field(FieldKind.HEADER, Redact(), name="x-iban"), queue="orders*")
FED = rule("Fed", CARD, exchange="customers")
GRANTS = (
    Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True)),
    Grant(True, "messages.read.unmasked", Whom.USER, "erin", Extent(resources=((Kind.QUEUE, ("orders.eu", "q")),))),
)


def judge(*rules: Rule, who: str | None = None, markers: bool = True) -> Judge:
    book = RuleBook("1", rules, AccessList(grants=GRANTS))
    return Judge(API, SHOP, book, who=who, settings=SessionSettings(markers=markers))


def message(payload: str = f'{{"card":"{CANARY}"}}', properties: Any = (), **told: Any) -> dict[str, Any]:
    return {
        "payload_bytes": len(payload),
        "redelivered": False,
        "exchange": "",
        "routing_key": "orders",
        "message_count": 0,
        "properties": list(properties) if properties == () else properties,
        "payload": payload,
        "payload_encoding": "string",
    } | told


def graph(one: Judge, *edges: tuple[str, str], queues: tuple[str, ...] = ("q",), **arguments: Any) -> None:
    """`edges` are (source, destination), an exchange where it begins with `x.`."""
    one.knows |= {
        "/api/bindings/%2F": (
            200,
            [
                {
                    "source": source,
                    "destination": to.removeprefix("x."),
                    "destination_type": "exchange" if to[:2] == "x." else "queue",
                }
                for source, to in edges
            ],
        ),
        "/api/exchanges/%2F": (200, [{"name": name, "arguments": told} for name, told in arguments.items()]),
        "/api/queues/%2F": (200, [{"name": name, "arguments": {}} for name in queues]),
        "/api/policies/%2F": (200, []),
    }


def shown(one: Judge, *messages: dict[str, Any], queue: str = "orders", **asking: Any) -> list[dict[str, Any]]:
    verdict = one.call("POST", GET.format(queue), ASKING | asking)
    answer = one.shows(verdict, list(messages))
    assert answer.status == 200
    told: list[dict[str, Any]] = json.loads(answer.content)
    return told


def test_a_request_goes_up_without_its_truncate_and_whatever_else_it_says() -> None:
    one = judge(CARDS)
    verdict = one.call("POST", GET.format("orders"), ASKING | {"truncate": "50", "vhost": "/", "name": "other"})

    assert isinstance(verdict, Forward)
    assert json.loads(verdict.content or b"") == ASKING
    assert verdict.accept == b"application/json"


def test_every_byte_that_no_rule_masks_stays() -> None:
    one = judge(CARDS)
    text = (
        b'[ {"payload_bytes":12,"exchange":"","routing_key":"\\u00e9","redelivered":false, "message_count":0,'
        b'"properties":{ "headers":{"n":1E400,"x-iban":"' + CANARY.encode() + b'" }, "timestamp":1.0},'
        b'"payload":"{\\"card\\": \\"' + CANARY.encode() + b'\\"}","payload_encoding":"string"} ]'
    )
    answer = one.shows(one.call("POST", GET.format("orders"), ASKING), text)
    start, marked, rest = answer.content.partition(b',"veil-masked":"')

    assert start.startswith(
        b'[ {"payload_bytes":%d,"exchange":"","routing_key":"\\u00e9","redelivered":false' % len('{"card": "••••"}'.encode())
    )
    assert b'{ "headers":{"n":1E400,"x-iban":"\xe2\x80\xa2' in start
    assert b'" }, "timestamp":1.0},"payload":"{\\"card\\": \\"\xe2\x80\xa2' in rest
    assert marked
    assert_no_canary(answer.content, CANARY)


@pytest.mark.parametrize(
    "properties", [(), {}, {"headers": {}}, {"headers": []}, {"delivery_mode": 1}, {"headers": {"veil-masked": "x"}}]
)
def test_the_mark_finds_a_place_in_whatever_properties_there_are(properties: Any) -> None:
    (told,) = shown(judge(CARDS), message(properties=properties))

    assert json.loads(told["properties"]["headers"]["veil-masked"]) == [
        {"field": "$.card", "method": "redact", "rule": "Cards"}
    ]


def test_without_markers_nothing_is_said_and_foreign_marks_are_dropped() -> None:
    headers = {"veil-masked": CANARY, "a": 1, "veil-unmasked": CANARY}
    (told,) = shown(judge(CARDS, markers=False), message(properties={"headers": headers}))

    assert told["properties"] == {"headers": {"a": 1}}


@pytest.mark.parametrize(
    ("value", "redacted", "partly"),
    [
        (CANARY, MASK, "c" + "•" * (len(CANARY) - 1)),
        (4711, 0, "4•••"),
        (1.25, 0, "1•••"),
        (True, False, False),
        (None, None, None),
        ({"k": [CANARY, 7, None]}, {"k": [MASK, 0, None]}, {"k": [MASK, 0, None]}),
        ([CANARY, {"k": True}], [MASK, {"k": False}], [MASK, {"k": False}]),
        ([], [], []),
    ],
)
def test_a_header_keeps_its_type(value: Any, redacted: Any, partly: Any) -> None:
    for method, expected in ((Redact(), redacted), (Partial(1, 0), partly)):
        one = judge(rule("H", Field(FieldKind.HEADER, method, name="X-Iban"), queue="orders"))
        (told,) = shown(one, message("{}", {"headers": {"x-iban": value}}))

        assert told["properties"]["headers"]["x-iban"] == expected


def test_a_property_that_routes_is_masked_where_a_rule_names_it() -> None:
    everything = rule("All", queue="orders", mask_all=True)
    named = rule("Time", Field(FieldKind.HEADER, Redact(), name="timestamp"), queue="orders")
    properties = {
        "timestamp": 17,
        "priority": 3,
        "content_type": "a/b",
        "delivery_mode": 2,
        "expiration": "99",
        "user_id": CANARY,
    }
    (by_all,) = shown(judge(everything), message("1", properties))
    (by_name,) = shown(judge(named), message("1", properties))

    assert by_all["properties"] | {"headers": None} == properties | {"expiration": MASK, "user_id": MASK, "headers": None}
    assert by_name["properties"]["timestamp"] == 0


@pytest.mark.parametrize("encoding", ["string", "base64", "new", None])
def test_a_payload_that_is_not_what_it_says_is_masked_whole(encoding: Any) -> None:
    told = message("\U0001f4a9" + CANARY, payload_encoding=encoding)
    (shown_one,) = shown(judge(CARDS), told)

    assert (shown_one["payload"], shown_one["payload_encoding"]) == (MASK, "string")
    assert_no_canary(json.dumps(shown_one), CANARY)


def test_a_payload_in_base64_is_opened() -> None:
    coded = base64.b64encode(f'{{"card":"{CANARY}","n":1}}'.encode()).decode()
    (told,) = shown(judge(CARDS), message(coded, payload_encoding="base64"))

    assert (told["payload"], told["payload_encoding"]) == ('{"card":"••••","n":1}', "string")


def test_truncation_counts_characters_of_what_is_shown() -> None:
    one = judge(CARDS)
    (masked,) = shown(one, message(), truncate=12)
    (free,) = shown(judge(rule("Other", CARD, queue="x")), message("öäü" * 9), truncate=4)
    (coded,) = shown(judge(), message(base64.b64encode(b"12345678").decode(), payload_encoding="base64"), truncate=4)

    assert masked["payload"] == '{"card":"•••'
    assert free["payload"] == "öäüö"
    assert coded["payload"] == base64.b64encode(b"1234").decode()


def test_members_that_are_not_known_are_redacted_of_a_covered_message() -> None:
    (told,) = shown(judge(CARDS), message(what_is_new={"a": CANARY}))

    assert told["what_is_new"] == {"a": MASK}


@pytest.mark.parametrize(
    "headers",
    [
        {"x-death": [{"queue": "orders.eu", "exchange": ""}]},
        {"x-death": [{"queue": "a"}, {"queue": "orders"}]},
        {"x-first-death-queue": "orders"},
        {"x-last-death-queue": "orders"},
        {"x-death": "odd"},
        {"x-death": [1]},
        {"x-death": [{"queue": 1}]},
        {"x-first-death-queue": 1},
        {"x-shovelled": [{"src-queue": "orders"}]},
    ],
)
def test_a_message_that_was_in_a_covered_queue_or_may_have_been_is_covered(headers: Any) -> None:
    one = judge(CARDS)
    (told,) = shown(one, message(properties={"headers": headers}), queue="graveyard")

    assert_no_canary(told["payload"], CANARY)


def test_a_copy_of_the_firehose_is_covered_by_every_rule_and_its_headers_whole() -> None:
    headers = {"properties": {"correlation_id": CANARY, "headers": {"x": CANARY}}, "routed_queues": ["orders"]}
    (told,) = shown(judge(CARDS), message(properties={"headers": headers}, exchange="amq.rabbitmq.trace"), queue="fire")

    assert_no_canary(json.dumps(told), CANARY)


@pytest.mark.parametrize(
    ("edges", "covered"),
    [
        ((("customers", "q"),), True),
        ((("customers", "x.inner"), ("inner", "x.inner2"), ("inner2", "q")), True),
        ((("customers", "x.inner"), ("inner", "x.customers"), ("inner", "other")), False),
        ((("other", "q"),), False),
    ],
)
def test_an_exchange_covers_what_it_feeds(edges: tuple[tuple[str, str], ...], covered: bool) -> None:
    one = judge(FED)
    graph(one, *edges)
    (told,) = shown(one, message(), queue="q")

    assert (CANARY not in told["payload"]) is covered


def test_alternate_exchanges_and_dead_letters_feed_as_well() -> None:
    by_alternate, by_dead_letter, by_policy = judge(FED), judge(FED), judge(FED)
    graph(by_alternate, ("spare", "q"), customers={"alternate-exchange": "spare"})
    graph(by_dead_letter, ("customers", "first"), ("dlx", "q"))
    queues = [
        {"name": "q", "arguments": []},
        {"name": "first", "arguments": {}, "effective_policy_definition": {"dead-letter-exchange": "dlx"}},
    ]
    by_dead_letter.knows["/api/queues/%2F"] = (200, queues)
    graph(by_policy, ("spare", "q"))
    by_policy.knows["/api/exchanges/%2F"] = (200, [{"name": "customers", "arguments": {}, "policy": "ae"}])
    by_policy.knows["/api/policies/%2F"] = (200, [{"name": "ae", "definition": {"alternate-exchange": "spare"}}])

    for one in (by_alternate, by_dead_letter, by_policy):
        assert_no_canary(shown(one, message(), queue="q")[0]["payload"], CANARY)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/bindings/%2F", (401, {})),
        ("/api/bindings/%2F", (200, {"items": []})),
        ("/api/exchanges/%2F", (200, [{"arguments": {}}])),
        ("/api/exchanges/%2F", (200, [{"name": "x", "policy": "gone"}])),
        ("/api/queues/%2F", (500, [])),
        ("/api/queues/%2F", (200, [])),
        ("/api/queues/%2F", (200, b"[")),
        ("/api/policies/%2F", (403, [])),
    ],
)
def test_where_bindings_cannot_be_read_every_rule_on_exchanges_covers(path: str, answer: Any) -> None:
    one = judge(FED)
    graph(one)
    assert CANARY in shown(one, message(), queue="q")[0]["payload"]

    one.knows[path] = answer

    assert_no_canary(shown(one, message(), queue="q")[0]["payload"], CANARY)


def test_who_may_read_the_queue_reads_it_once_for_all_its_messages() -> None:
    one = judge(CARDS, FED, who="erin")
    graph(one, ("customers", "orders.eu"), queues=("orders.eu",))
    told = shown(one, message(), message(exchange="customers"), queue="orders.eu")

    assert [CANARY in each["payload"] for each in told] == [True, True]
    assert json.loads(told[0]["properties"]["headers"]["veil-unmasked"]) == ["Cards", "Fed"]
    assert [(str(each.resource.kind), each.resource.name) for each in one.recorded if each.resource] == [
        ("queue", b"orders.eu")
    ]


def test_where_it_was_before_has_to_be_granted_as_well() -> None:
    one = judge(CARDS, who="erin")
    there = message(properties={"headers": {"x-first-death-queue": "orders.us"}})
    here = message(properties={"headers": {"x-first-death-queue": "orders.eu"}})
    told = shown(one, there, here, queue="q")

    assert [CANARY in each["payload"] for each in told] == [False, True]


def test_a_journal_that_is_down_lifts_nothing() -> None:
    one = judge(CARDS, who="alice")
    one.journal_works = False

    assert_no_canary(shown(one, message())[0]["payload"], CANARY)


def test_nothing_is_recorded_where_nothing_came() -> None:
    one = judge(CARDS, who="alice")

    assert (shown(one), one.recorded) == ([], [])


def test_rules_that_change_meanwhile_are_both_gone_through() -> None:
    one = judge(CARDS)
    verdict = one.call("POST", GET.format("orders"), ASKING)
    notes = rule("Notes", Field(FieldKind.JSON_PATH, Redact(), parse_path("$.note")), queue="orders")
    one.policy = Policy(RuleBook("2", (notes,), AccessList(grants=GRANTS)))
    one.viewer.look()
    answer = one.shows(verdict, [message(f'{{"card":"{CANARY}","note":"{CANARY}"}}')])

    assert_no_canary(answer.content, CANARY)


def test_before_the_rules_were_read_everything_is_masked_whole() -> None:
    one = judge()
    one.policy = Policy.closed()
    one.viewer.look()
    (told,) = shown(one, message(properties={"headers": {"a": CANARY}, "app_id": CANARY}))

    assert told["payload"] == MASK
    assert_no_canary(json.dumps(told), CANARY)


@pytest.mark.parametrize("body", [b"[", b'{"a":1}', b"[1]", b'[{"payload":"a","payload":"b"}]', "\ufeff[]".encode()])
def test_an_answer_that_cannot_be_read_is_not_shown(body: bytes) -> None:
    one = judge(CARDS)
    answer = one.shows(one.call("POST", GET.format("orders"), ASKING), body)

    assert answer.status == 502
    assert json.loads(answer.content)["reason"].startswith("veil: ")


def test_an_error_comes_as_it_is() -> None:
    one = judge(CARDS)
    answer = one.shows(one.call("POST", GET.format("orders"), ASKING), b'{"error":"not_found"}', 404)

    assert (answer.status, answer.content) == (404, b'{"error":"not_found"}')


@pytest.mark.parametrize("arguments", [{}, {"x-dead-letter-exchange": "dlx"}])
def test_rejecting_is_refused_where_it_moves(arguments: dict[str, str]) -> None:
    one = judge(CARDS)
    graph(one)
    one.knows["/api/queues/%2F"] = (200, [{"name": "orders", "arguments": arguments}])
    verdict = one.call("POST", GET.format("orders"), ASKING | {"ackmode": "reject_requeue_false"})

    assert isinstance(verdict, Refuse) is bool(arguments)


def test_rejecting_is_refused_where_it_is_not_known_what_it_does() -> None:
    verdict = judge(CARDS).call("POST", GET.format("orders"), ASKING | {"ackmode": "reject_requeue_false"})

    assert isinstance(verdict, Refuse)
    assert json.loads(verdict.content)["error"] == "not_authorised"
