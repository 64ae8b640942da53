"""Who may read unmasked: grants, roles, teams, and denies that win."""

from __future__ import annotations

import pytest

from rules.access import UNMASKED, Access, Reader
from rules.model import AccessList, Connection, Extent, Grant, Kind, Patterns, Platform, Resource, Role, Team, User, Whom

EVERYWHERE = Extent(installation=True)
SHOP = Connection("shop", Platform.REDIS, "production")
ORDERS = Connection("orders", Platform.KAFKA, "production")
RABBIT = Connection("rabbit", Platform.RABBITMQ)
KEY = Resource(SHOP, Kind.KEY, b"customer:1")
TOPIC = Resource(ORDERS, Kind.TOPIC, b"orders.eu")


def allow(on: Extent = EVERYWHERE, *, to: str = "alice", whom: Whom = Whom.USER, permission: str = UNMASKED) -> Grant:
    return Grant(True, permission, whom, to, on)


def deny(on: Extent = EVERYWHERE, *, to: str = "alice", whom: Whom = Whom.USER, permission: str = UNMASKED) -> Grant:
    return Grant(False, permission, whom, to, on)


def keys(*globs: str) -> Patterns:
    return ((Kind.KEY, globs),)


def may(listed: AccessList, resource: Resource = KEY, who: str | None = "alice", permission: str = UNMASKED) -> bool:
    return Access(listed).may(Reader(who), permission, resource).yes


def everywhere(*grants: Grant, connection: Connection = SHOP) -> bool:
    return Access(AccessList(grants=grants)).may_everywhere(Reader("alice"), UNMASKED, connection).yes


def granted(*grants: Grant, resource: Resource = KEY, who: str | None = "alice") -> bool:
    return may(AccessList(grants=grants), resource, who)


def test_a_reader_in_no_file_is_an_ordinary_one() -> None:
    assert not may(AccessList())


def test_nobody_has_a_permission_even_where_a_grant_names_nobody() -> None:
    assert not granted(allow(to=""), who=None)


def test_a_grant_holds_for_its_user_alone() -> None:
    assert granted(allow())
    assert not granted(allow(to="Alice"))
    assert not granted(allow(to="alic"))
    assert not granted(allow(whom=Whom.TEAM))
    assert not granted(allow(whom=Whom.ROLE))


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (EVERYWHERE, True),
        (Extent(platform=Platform.REDIS), True),
        (Extent(platform=Platform.KAFKA), False),
        (Extent(environment="production"), True),
        (Extent(environment="test"), False),
        (Extent(connection="shop"), True),
        (Extent(connection="sho"), False),
        (Extent(connection="shop", environment="test"), False),
        (Extent(resources=keys("customer:*")), True),
        (Extent(resources=keys("order:*", "customer:?")), True),
        (Extent(resources=keys("customer")), False),
        (Extent(resources=((Kind.TOPIC, ("*",)),)), False),
        (Extent(resources=((Kind.TOPIC, ("*",)), (Kind.KEY, ("*",)))), False),
        (Extent(connection="other", resources=keys("*")), False),
    ],
)
def test_every_key_of_an_extent_must_hold(on: Extent, expected: bool) -> None:
    assert granted(allow(on)) is expected


def test_an_environment_that_the_config_leaves_out_fits_no_grant_on_one() -> None:
    queue = Resource(RABBIT, Kind.QUEUE, b"q")

    assert not granted(allow(Extent(environment="production")), resource=queue)
    assert granted(allow(Extent(connection="rabbit")), resource=queue)


@pytest.mark.parametrize("order", [1, -1])
def test_a_deny_wins_over_every_allow(order: int) -> None:
    assert not granted(*[allow(), allow(Extent(connection="shop")), deny(Extent(platform=Platform.REDIS))][::order])


def test_a_deny_elsewhere_takes_nothing_away() -> None:
    assert granted(allow(), deny(Extent(platform=Platform.KAFKA)))
    assert granted(allow(), deny(to="bob"))
    assert granted(allow(), deny(permission="messages.read"))


def test_a_deny_of_everything_denies_unmasked_reading() -> None:
    assert not granted(allow(), deny(permission="*"))


def test_a_question_mark_grants_less_and_denies_more() -> None:
    accented = Resource(SHOP, Kind.KEY, "é".encode())

    assert not granted(allow(Extent(resources=keys("?"))), resource=accented)
    assert not granted(allow(Extent(resources=keys("??"))), resource=accented)
    assert not granted(allow(), deny(Extent(resources=keys("?"))), resource=accented)
    assert not granted(allow(), deny(Extent(resources=keys("??"))), resource=accented)


def test_a_deny_through_a_team_or_role_wins_over_an_allow_to_the_user() -> None:
    for denied in (deny(to="t", whom=Whom.TEAM), deny(to="r", whom=Whom.ROLE)):
        listed = AccessList(users=(User("alice", teams=("t",), roles=("r",)),), roles=(Role("r"),), grants=(allow(), denied))

        assert not may(listed)


def test_teams_come_from_the_user_and_from_the_team() -> None:
    to_team = allow(to="t", whom=Whom.TEAM)

    assert may(AccessList(users=(User("alice", teams=("t",)),), grants=(to_team,)))
    assert may(AccessList(teams=(Team("t", members=("alice",)),), grants=(to_team,)))
    assert not may(AccessList(teams=(Team("t", members=("bob",)),), grants=(to_team,)))


def test_roles_come_from_the_user_and_from_every_team() -> None:
    role = Role("r", (UNMASKED,))

    assert may(AccessList(users=(User("alice", roles=("r",)),), roles=(role,)))
    assert may(AccessList(teams=(Team("t", roles=("r",), members=("alice",)),), roles=(role,)))
    assert may(AccessList(users=(User("alice", teams=("t",)),), teams=(Team("t", roles=("r",)),), roles=(role,)))
    assert not may(AccessList(users=(User("alice"),), roles=(role,)))


def test_a_role_holds_where_its_scope_does() -> None:
    def scoped(on: Extent) -> bool:
        return may(AccessList(users=(User("alice", roles=("r",)),), roles=(Role("r", (UNMASKED,), on),)))

    assert scoped(Extent(environment="production"))
    assert not scoped(Extent(environment="test"))
    assert not scoped(Extent(resources=keys("x")))


def test_a_grant_to_a_role_holds_for_who_has_it() -> None:
    grants = (allow(to="r", whom=Whom.ROLE),)

    assert may(AccessList(users=(User("alice", roles=("r",)),), roles=(Role("r"),), grants=grants))
    assert not may(AccessList(roles=(Role("r"),), grants=grants))


def test_a_disabled_user_has_no_permission() -> None:
    assert not may(AccessList(users=(User("alice", disabled=True),), grants=(allow(),)))


def test_the_star_never_grants_unmasked_reading() -> None:
    starred = AccessList(users=(User("alice", roles=("r",)),), roles=(Role("r", ("*",)),), grants=(allow(permission="*"),))

    assert not may(starred)
    assert may(starred, permission="messages.read")
    assert may(starred, permission="masking.manage")
    assert not may(starred, permission="anything.else")


def test_an_answer_says_through_what() -> None:
    listed = AccessList(
        users=(User("alice", roles=("r",)), User("carol", disabled=True)),
        roles=(Role("r", (UNMASKED,)),),
        grants=(allow(to="bob"), deny(to="dave")),
    )
    access = Access(listed)

    assert [access.may(Reader(who), UNMASKED, KEY).through for who in ("alice", "bob", "carol", "dave", "eve", None)] == [
        "through role r",
        "granted to user bob at -:1:1",
        "user carol is disabled",
        "denied to user dave at -:1:1",
        "no grant",
        "nobody is logged in",
    ]


def test_everything_of_a_connection_needs_a_grant_without_a_pattern() -> None:
    assert everywhere(allow())
    assert everywhere(allow(Extent(connection="shop")))
    assert everywhere(allow(Extent(resources=keys("*"))))
    assert everywhere(allow(Extent(resources=keys("a", "*"))))
    assert not everywhere(allow(Extent(resources=keys("customer:*"))))
    assert not everywhere(allow(Extent(resources=keys("a*", "*b"))))
    assert not everywhere(allow(Extent(connection="other")))
    assert not everywhere()


def test_all_topics_are_not_everything_of_a_redis() -> None:
    assert not everywhere(allow(Extent(resources=((Kind.TOPIC, ("*",)),))))
    assert not everywhere(allow(Extent(resources=((Kind.TOPIC, ("*",)), (Kind.KEY, ("*",))))))
    assert everywhere(allow(Extent(resources=((Kind.TOPIC, ("*",)),))), connection=ORDERS)
    assert everywhere(allow(Extent(resources=((Kind.QUEUE, ("*",)),))), connection=RABBIT)


def test_a_deny_that_touches_any_of_a_connection_takes_everything_away() -> None:
    assert not everywhere(allow(), deny(Extent(resources=keys("one"))))
    assert not everywhere(allow(), deny(Extent(environment="production")))
    assert not everywhere(allow(), deny(Extent(resources=((Kind.TOPIC, ("x",)), (Kind.KEY, ("x",))))))
    assert everywhere(allow(), deny(Extent(connection="other", resources=keys("one"))))
    assert everywhere(allow(), deny(Extent(resources=((Kind.TOPIC, ("one",)),))))


def test_a_topic_is_granted_by_its_own_kind() -> None:
    assert granted(allow(Extent(resources=((Kind.TOPIC, ("orders.eu*",)),))), resource=TOPIC)
    assert not granted(allow(Extent(resources=keys("*"))), resource=TOPIC)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (AccessList(), False),
        (AccessList(grants=(allow(Extent(resources=keys("a*"))),)), True),
        (AccessList(grants=(allow(Extent(resources=keys("a*"))), deny())), True),
        (AccessList(grants=(deny(),)), False),
        (AccessList(grants=(allow(to="bob"),)), False),
        (AccessList(grants=(allow(permission="*"),)), False),
        (AccessList(grants=(allow(Extent(connection="other")),)), False),
        (AccessList(grants=(allow(Extent(resources=((Kind.TOPIC, ("*",)),))),)), False),
        (AccessList(grants=(allow(),), users=(User("alice", disabled=True),)), False),
        (AccessList(users=(User("alice", roles=("pii",)),), roles=(Role("pii", (UNMASKED,)),)), True),
        (AccessList(users=(User("alice", roles=("pii",)),), roles=(Role("pii", ("*",)),)), False),
        (AccessList(users=(User("alice"),), roles=(Role("pii", (UNMASKED,)),)), False),
        (AccessList(teams=(Team("fraud", ("pii",), ("alice",)),), roles=(Role("pii", (UNMASKED,)),)), True),
    ],
)
def test_a_no_to_whether_anything_may_be_lifted_anywhere_is_certain(listed: AccessList, expected: bool) -> None:
    assert Access(listed).may_somewhere(Reader("alice"), UNMASKED, SHOP) is expected


def test_nobody_may_lift_anything_anywhere() -> None:
    listed = AccessList(grants=(allow(to=""),))

    assert not Access(listed).may_somewhere(Reader(None), UNMASKED, SHOP)
