"""Views of contents that stand under the rules of several resources: a queue, what feeds it, what a message went through."""

from __future__ import annotations

import pytest

from rules.access import UNMASKED, Reader
from rules.audit import READ_UNMASKED, Entry, Receipt
from rules.explain import explain
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Limits,
    Platform,
    Redact,
    Resource,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from rules.preview import preview
from rules.view import View

SHOP = Connection("shop", Platform.RABBITMQ)
ERIN = Reader("erin")


def rule(name: str, path: str, *patterns: tuple[Kind, str], excepted: tuple[tuple[Kind, str], ...] = ()) -> Rule:
    return Rule(
        name,
        Platform.RABBITMQ,
        tuple((kind, (glob,)) for kind, glob in patterns),
        tuple((kind, (glob,)) for kind, glob in excepted),
        fields=(Field(FieldKind.JSON_PATH, Redact(), parse_path(path)),),
    )


QUEUES = rule("Queues", "$.a", (Kind.QUEUE, "orders*"))
FED = rule("Fed", "$.b", (Kind.EXCHANGE, "customers"), excepted=((Kind.EXCHANGE, "customers.free"),))
BOTH = rule("Both", "$.c", (Kind.QUEUE, "b"), (Kind.EXCHANGE, "b"))


def resource(kind: Kind, name: str) -> Resource:
    return Resource(SHOP, kind, name.encode())


def queue(name: str) -> Resource:
    return resource(Kind.QUEUE, name)


def exchange(name: str) -> Resource:
    return resource(Kind.EXCHANGE, name)


def policy(*patterns: str, deny: str = "", everything: bool = False) -> Policy:
    grants = [Grant(True, UNMASKED, Whom.USER, "erin", Extent(resources=((Kind.QUEUE, patterns),)))] if patterns else []
    if everything:
        grants.append(Grant(True, UNMASKED, Whom.USER, "erin", Extent(installation=True)))
    if deny:
        grants.append(Grant(False, UNMASKED, Whom.USER, "erin", Extent(resources=((Kind.QUEUE, (deny,)),))))
    return Policy(RuleBook("v", (QUEUES, FED, BOTH), AccessList(grants=tuple(grants))))


def names(view: View) -> list[str]:
    return [each.name for each in view.rules]


def test_rules_of_all_that_is_beside_cover_in_the_order_of_the_files() -> None:
    view = policy().view_over(ERIN, queue("q"), (exchange("customers"), exchange("other"), queue("orders.eu")))

    assert names(view) == ["Queues", "Fed"]
    assert view.resource == queue("q")
    assert bytes(view.value(b'{"a":"x","b":"y","c":"z"}').data) == '{"a":"••••","b":"••••","c":"z"}'.encode()


def test_where_no_rule_covers_anything_nothing_masks() -> None:
    assert not policy().view_over(ERIN, queue("q"), (exchange("free"),)).covered


def test_of_a_kind_that_is_not_known_every_rule_covers() -> None:
    assert names(policy().view_over(ERIN, queue("q"), every=(Kind.EXCHANGE,))) == ["Fed", "Both"]
    assert names(policy().view_over(ERIN, queue("orders"), every=set(Kind))) == ["Queues", "Fed", "Both"]


@pytest.mark.parametrize(
    ("one", "main", "beside", "may"),
    [
        (policy("q"), "q", ("e:customers",), True),
        (policy("q"), "q", ("q:orders",), False),
        (policy("q", "orders"), "q", ("q:orders",), True),
        (policy("orders"), "q", ("q:orders",), False),
        (policy("q", "orders", deny="orders"), "q", ("q:orders", "e:customers"), False),
        (policy(everything=True), "q", ("q:orders", "e:customers"), True),
        (policy(everything=True, deny="q"), "q", ("e:customers",), False),
        (policy("q"), "q", ("q:other", "e:customers"), True),
    ],
)
def test_it_is_lifted_as_a_whole_by_who_may_lift_each_queue(one: Policy, main: str, beside: tuple[str, ...], may: bool) -> None:
    others = [queue(each[2:]) if each.startswith("q:") else exchange(each[2:]) for each in beside]

    assert one.view_over(ERIN, queue(main), others).may_lift is may


def test_what_may_have_been_anywhere_is_lifted_by_who_may_lift_everything() -> None:
    assert not policy("q").view_over(ERIN, queue("q"), every=set(Kind)).may_lift
    assert policy("q").view_over(ERIN, queue("q"), every=(Kind.EXCHANGE,)).may_lift
    assert policy(everything=True).view_over(ERIN, queue("q"), every=set(Kind)).may_lift


def test_a_receipt_for_the_queue_with_all_the_rules_lifts_it() -> None:
    view = policy("q").view_over(ERIN, queue("q"), (exchange("customers"),))
    receipt = Receipt(Entry(READ_UNMASKED, "erin", resource=queue("q"), rules=view.tags), 1)

    assert bytes(view.lift(receipt).value(b'{"b":1}').data) == b'{"b":1}'


def test_a_closed_policy_masks_it_whole() -> None:
    closed = Policy.closed()

    assert closed.view_over(ERIN, queue("q")).masks
    assert closed.anything_of(ERIN, SHOP, Kind.QUEUE).masks


def test_rules_of_one_kind_alone_are_told_apart() -> None:
    one = policy("q")

    assert names(one.anything_of(ERIN, SHOP, Kind.QUEUE)) == ["Queues", "Both"]
    assert names(one.anything_of(ERIN, SHOP, Kind.EXCHANGE)) == ["Fed", "Both"]
    assert not one.anything_of(ERIN, SHOP, Kind.TOPIC).covered
    assert policy(everything=True).anything_of(ERIN, SHOP, Kind.QUEUE).may_lift


def test_a_header_is_named_by_a_rule_and_not_by_mask_all() -> None:
    everything = Rule("All", Platform.RABBITMQ, ((Kind.QUEUE, ("q",)),), mask_all=True)
    named = Rule("N", Platform.RABBITMQ, ((Kind.QUEUE, ("n",)),), fields=(Field(FieldKind.HEADER, Redact(), name="X-a"),))
    one = Policy(RuleBook("v", (everything, named), AccessList()))

    assert not one.view(ERIN, queue("q")).names_header("x-A")
    assert one.view(ERIN, queue("n")).names_header("x-A")
    assert not one.view(ERIN, queue("none")).names_header("x-A")
    assert not Policy.closed().view(ERIN, queue("q")).names_header("x-A")


def test_a_preview_of_a_queue_takes_it_to_be_bound_to_whatever_a_rule_names() -> None:
    book = RuleBook("v", (QUEUES, FED), AccessList())
    masked = preview(book, Limits(), platform=Platform.RABBITMQ, kind=Kind.QUEUE, name=b"q", data=b'{"a":"x","b":"y"}')

    assert bytes(masked.data) == '{"a":"x","b":"••••"}'.encode()


def test_explaining_a_queue_names_rules_on_exchanges_that_may_feed_it() -> None:
    book = RuleBook("v", (QUEUES, FED), AccessList())
    lines = explain(book, platform=Platform.RABBITMQ, kind=Kind.QUEUE, name=b"q", who="erin")

    assert any('rule "Fed"' in line and "bindings" in line for line in lines)
    assert lines[-1] == "erin sees it masked"
