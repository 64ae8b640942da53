"""A policy: which rules cover a resource for a reader, and when a view may be lifted."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import pytest

from rules import policy as module
from rules.access import UNMASKED, Reader
from rules.audit import READ_UNMASKED, Entry, Receipt
from rules.model import AccessList, Connection, Extent, Grant, Kind, Platform, Resource, Rule, RuleBook, Scope, Whom
from rules.policy import Policy

SHOP = Connection("shop", Platform.REDIS, "production")
KEY = Resource(SHOP, Kind.KEY, b"customer:1")
RULE = Rule("R", Platform.REDIS, ((Kind.KEY, ("customer:*",)),), mask_all=True)
ALICE = Reader("alice")
SECRET = b'{"a":"secret"}'


def policy(*rules: Rule, allowed: Extent | None = None) -> Policy:
    grants = () if allowed is None else (Grant(True, UNMASKED, Whom.USER, "alice", allowed),)
    return Policy(RuleBook("v", rules, AccessList(grants=grants)))


def names(one: Policy, resource: Resource = KEY) -> list[str]:
    return [rule.name for rule in one.view(ALICE, resource).rules]


def test_a_covered_resource_is_masked() -> None:
    view = policy(RULE).view(ALICE, KEY)

    assert view.masks
    assert not view.may_lift
    assert b"secret" not in bytes(view.value(SECRET).data)


def test_an_uncovered_resource_is_shown_as_it_is() -> None:
    view = policy(RULE).view(ALICE, replace(KEY, name=b"order:1"))

    assert not view.masks
    assert view.value(SECRET).data is SECRET


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"platform": Platform.MEMCACHED}, False),
        ({"resources": ((Kind.TOPIC, ("*",)),)}, False),
        ({"excepted": ((Kind.KEY, ("customer:1",)),)}, False),
        ({"excepted": ((Kind.TOPIC, ("*",)),)}, True),
        ({"scope": Scope(environment="production")}, True),
        ({"scope": Scope(environment="test")}, False),
        ({"scope": Scope(connection="shop")}, True),
        ({"scope": Scope(connection="other")}, False),
    ],
)
def test_a_rule_covers_what_its_patterns_and_scope_take_in(changes: dict[str, object], expected: bool) -> None:
    rule = replace(RULE, **changes)  # type: ignore[arg-type]

    assert (names(policy(rule)) == ["R"]) is expected


def test_a_question_mark_covers_more_and_excepts_less() -> None:
    accented = replace(KEY, name="é".encode())

    assert names(policy(replace(RULE, resources=((Kind.KEY, ("?",)),))), accented) == ["R"]
    assert names(policy(replace(RULE, resources=((Kind.KEY, ("??",)),))), accented) == ["R"]
    excepting = replace(RULE, resources=((Kind.KEY, ("*",)),), excepted=((Kind.KEY, ("?", "??")),))
    assert names(policy(excepting), accented) == ["R"]


def test_rules_keep_the_order_of_the_book() -> None:
    assert names(policy(replace(RULE, name="b"), replace(RULE, name="a"))) == ["b", "a"]


def test_a_grant_lets_a_view_be_lifted_against_a_receipt_alone() -> None:
    view = policy(RULE, allowed=Extent(resources=((Kind.KEY, ("customer:1",)),))).view(ALICE, KEY)

    assert view.masks
    assert view.may_lift
    lifted = view.lift(Receipt(Entry(READ_UNMASKED, "alice", resource=KEY, rules=view.tags), 1))
    assert lifted.value(SECRET).data is SECRET


@pytest.mark.parametrize(
    "changes",
    [
        {"event": "masking.refused"},
        {"who": "bob"},
        {"resource": replace(KEY, name=b"customer:2")},
        {"resource": None},
        {"rules": ()},
    ],
)
def test_a_receipt_for_another_read_lifts_nothing(changes: dict[str, object]) -> None:
    view = policy(RULE, allowed=Extent(installation=True)).view(ALICE, KEY)
    entry = replace(Entry(READ_UNMASKED, "alice", resource=KEY, rules=view.tags), **changes)  # type: ignore[arg-type]

    with pytest.raises(PermissionError):
        view.lift(Receipt(entry, 1))


def test_nobody_and_other_readers_do_not_share_a_view() -> None:
    one = policy(RULE, allowed=Extent(installation=True))

    assert one.view(ALICE, KEY).may_lift
    assert not one.view(Reader(None), KEY).may_lift
    assert not one.view(Reader("bob"), KEY).may_lift
    assert not one.view(Reader(""), KEY).may_lift


def test_the_same_view_comes_back_and_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_SIZE", 2)
    one = policy(RULE)
    first = one.view(ALICE, KEY)
    assert one.view(ALICE, KEY) is first
    for number in range(5):
        assert one.view(Reader(f"r{number}"), KEY).masks

    assert len(one._views) == 2
    assert one.view(ALICE, KEY) == first


def test_anything_masks_while_any_rule_of_the_connection_does() -> None:
    narrow = replace(RULE, resources=((Kind.KEY, ("one",)),))

    assert policy(narrow).anything(ALICE, SHOP).masks
    assert not policy(replace(narrow, enabled=False)).anything(ALICE, SHOP).masks
    assert not policy(replace(narrow, scope=Scope(connection="other"))).anything(ALICE, SHOP).masks
    assert not policy(replace(narrow, platform=Platform.KAFKA)).anything(ALICE, SHOP).masks


def test_anything_may_be_lifted_under_a_grant_on_all_of_the_connection_alone() -> None:
    def liftable(on: Extent) -> bool:
        return policy(RULE, allowed=on).anything(ALICE, SHOP).may_lift

    assert liftable(Extent(connection="shop"))
    assert liftable(Extent(resources=((Kind.KEY, ("*",)),)))
    assert not liftable(Extent(resources=((Kind.KEY, ("customer:*",)),)))
    assert not liftable(Extent(resources=((Kind.TOPIC, ("*",)),)))


def test_anything_is_the_star_of_the_first_kind_of_its_platform() -> None:
    kafka = Connection("k", Platform.KAFKA)

    assert policy().anything(ALICE, kafka).resource == Resource(kafka, Kind.TOPIC, b"*")
    assert policy().anything(ALICE, SHOP).resource == Resource(SHOP, Kind.KEY, b"*")


def test_the_closed_policy_masks_everything_and_lifts_nothing() -> None:
    closed = Policy.closed()

    assert closed.is_closed
    assert not policy().is_closed
    for view in (closed.view(ALICE, KEY), closed.anything(ALICE, SHOP)):
        assert view.masks
        assert not view.may_lift
        masked = view.value(SECRET)
        assert b"secret" not in bytes(masked.data)
        assert masked.whole == "rules could not be read"


def test_views_of_long_names_are_not_kept() -> None:
    one = policy(RULE)
    long = replace(KEY, name=b"customer:" + b"x" * module.CACHED_NAME_BYTES)

    assert one.view(ALICE, KEY) is one.view(ALICE, KEY)
    assert one.view(ALICE, long).masks
    assert one.view(ALICE, long) is not one.view(ALICE, long)


def test_the_closed_policy_lifts_nothing_anywhere() -> None:
    assert policy(allowed=Extent(connection="shop")).may_lift_somewhere(ALICE, SHOP)
    assert not policy().may_lift_somewhere(ALICE, SHOP)
    assert not Policy.closed().may_lift_somewhere(ALICE, SHOP)


@pytest.mark.slow
def test_many_threads_at_once_see_what_one_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_SIZE", 8)  # so that views are thrown out all the time
    shared = policy(RULE)
    keys = [b"customer:%d" % number for number in range(40)] + [b"free:%d" % number for number in range(40)]
    wrong: list[object] = []

    def work(start: int) -> None:
        try:
            for at in range(4000):
                name = keys[(start + at * 7) % len(keys)]
                if shared.view(ALICE, Resource(SHOP, Kind.KEY, name)).masks != name.startswith(b"customer"):
                    wrong.append(name)
                shared.anything(Reader(f"u{at % 20}"), SHOP)
        except Exception as error:  # noqa: BLE001  told below: a thread's own end tells nobody
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before_s)

    assert wrong == []
    assert len(shared._views) <= 8
