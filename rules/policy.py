"""A snapshot of rules and access. Immutable; replaced whole, never edited."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection

from .access import UNMASKED, Access, Reader
from .audit import RuleTag
from .model import AccessList, Connection, Kind, Limits, Resource, Rule, RuleBook
from .patterns import Matcher
from .plan import Plan, closed_plan, compile_plan
from .platforms import GRANTED, PLATFORMS
from .view import View

CACHE_SIZE = 4096  # views and plans kept; resource names come from readers, so the cache must not grow with them
CACHED_NAME_BYTES = 1024  # a view of a longer name is made anew: a cache full of long names would fill the memory

ANYTHING = b"*"
NOT_READ = "rules could not be read"


class Policy:
    """Views under one state of rules and access. Safe to share, between threads as well; only caches change.

    Two threads that miss at once make the same thing twice, which does no harm: whichever is kept, it says the same.
    A plain dict bears look-ups, `clear` and stores at once; an OrderedDict bears look-ups beside one change.
    """

    def __init__(self, book: RuleBook, limits: Limits = Limits()) -> None:
        self.version = book.version
        self.rules = book.rules
        self._enabled = tuple(rule for rule in book.rules if rule.enabled)
        self._tags = {rule.name: RuleTag.of(rule) for rule in self._enabled}
        self._access = Access(book.access)
        self.limits = limits
        self._closed: Plan | None = None
        self._matchers = [
            (Matcher(rule.resources, strict=False), Matcher(rule.excepted, strict=True)) for rule in self._enabled
        ]
        self._plans: dict[tuple[int, ...], Plan] = {}  # by the identity of rules: to hash what they say takes 50 µs
        self._views: OrderedDict[tuple[str | None, Resource], View] = OrderedDict()
        self._changing_views = threading.Lock()
        self._anything: dict[tuple[str | None, Connection], View] = {}

    @classmethod
    def closed(cls, reason: str = NOT_READ) -> Policy:
        """Before the first good read of the store: everything is masked whole and nothing may be lifted."""
        policy = cls(RuleBook("", (), AccessList()))
        policy._closed = closed_plan(reason)
        return policy

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def tag(self, rule: str) -> RuleTag:
        """What an entry says of the rule of this name; the name alone where it is not in force (any more)."""
        return self._tags.get(rule) or RuleTag(rule)

    def view(self, who: Reader, what: Resource) -> View:
        """What the reader may see of the resource."""
        key = (who.name, what)
        view = self._views.get(key)
        if view is None:
            view = self._view(who, what)
            if len(what.name) > CACHED_NAME_BYTES:
                return view
            with self._changing_views:
                self._views[key] = view
                if len(self._views) > CACHE_SIZE:
                    self._views.popitem(last=False)
        return view

    def _view(self, who: Reader, what: Resource) -> View:
        name = who.name or ""
        if self._closed is not None:
            return View(what, name, self._closed)
        rules = self._covering(what)
        if not rules:
            return View(what, name)
        held = self._access.may(who, UNMASKED, what)
        return View(what, name, self._plan(rules, what.connection), held.yes, held.through_short)

    def _covering(self, what: Resource) -> tuple[Rule, ...]:
        return tuple(
            rule
            for rule, (named, excepted) in zip(self._enabled, self._matchers, strict=True)
            if applies_in(rule, what.connection)
            and named.matches(what.kind, what.name)
            and not excepted.matches(what.kind, what.name)
        )

    def view_over(self, who: Reader, what: Resource, beside: Collection[Resource] = (), every: Collection[Kind] = ()) -> View:
        """What the reader may see of contents that are read from `what` and stand under the rules of other resources too:
        the exchanges that feed a queue, the queues that a message went through.

        Of the kinds in `every` it is not known which resources those are: each rule that names any covers. Lifted is
        this only as a whole, by a reader who may lift `what` and every resource beside it that a grant can name and
        a rule covers.
        """
        name = who.name or ""
        if self._closed is not None:
            return View(what, name, self._closed)
        of_kind = {kind: self._of_kind(what.connection, kind) for kind in every}
        covered: list[Resource] = []
        covering: set[int] = {id(rule) for rules in of_kind.values() for rule in rules}
        for each in dict.fromkeys((what, *beside)):
            rules = self._covering(each)
            covering |= set(map(id, rules))
            if rules and each.kind in GRANTED:
                covered.append(each)
        if not covering:
            return View(what, name)
        ordered = tuple(rule for rule in self._enabled if id(rule) in covering)
        needed = dict.fromkeys((what, *covered))
        held = [self._access.may(who, UNMASKED, each) for each in needed]
        if any(of_kind.get(kind) for kind in GRANTED):
            held.append(self._access.may_everywhere(who, UNMASKED, what.connection))
        deciding = next((each for each in held if not each.yes), held[0])
        return View(what, name, self._plan(ordered, what.connection), deciding.yes, deciding.through_short)

    def _of_kind(self, connection: Connection, kind: Kind) -> tuple[Rule, ...]:
        return tuple(
            rule
            for rule in self._enabled
            if applies_in(rule, connection) and any(named is kind and listed for named, listed in rule.resources)
        )

    def anything_of(self, who: Reader, connection: Connection, kind: Kind) -> View:
        """As `anything`, of the rules alone that name resources of one kind."""
        what = Resource(connection, PLATFORMS[connection.platform].kinds[0], ANYTHING)
        name = who.name or ""
        if self._closed is not None:
            return View(what, name, self._closed)
        rules = self._of_kind(connection, kind)
        if not rules:
            return View(what, name)
        held = self._access.may_everywhere(who, UNMASKED, connection)
        return View(what, name, self._plan(rules, connection), held.yes, held.through_short)

    def anything(self, who: Reader, connection: Connection) -> View:
        """The view of a connection as a whole, under the name `*`: it masks while any rule there masks for
        the reader, and may be lifted only under a permission on all of it that no deny touches."""
        key = (who.name, connection)
        view = self._anything.get(key)
        if view is None:
            if len(self._anything) > CACHE_SIZE:
                self._anything.clear()
            view = self._anything[key] = self._anything_view(who, connection)
        return view

    def _anything_view(self, who: Reader, connection: Connection) -> View:
        name = who.name or ""
        what = Resource(connection, PLATFORMS[connection.platform].kinds[0], ANYTHING)
        if self._closed is not None:
            return View(what, name, self._closed)
        rules = tuple(rule for rule in self._enabled if applies_in(rule, connection))
        if not rules:
            return View(what, name)
        held = self._access.may_everywhere(who, UNMASKED, connection)
        return View(what, name, self._plan(rules, connection), held.yes, held.through_short)

    def may_lift_somewhere(self, who: Reader, connection: Connection) -> bool:
        """Whether the reader may perhaps lift anything of a connection; a no is certain."""
        return self._closed is None and self._access.may_somewhere(who, UNMASKED, connection)

    def _plan(self, rules: tuple[Rule, ...], connection: Connection) -> Plan:
        key = tuple(map(id, rules))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) > CACHE_SIZE:
                self._plans.clear()
            plan = self._plans[key] = compile_plan(rules, connection.platform, self.limits)
        return plan


def applies_in(rule: Rule, connection: Connection) -> bool:
    """Whether the rule is for the connection's platform and its scope takes the connection in."""
    scope = rule.scope
    return (
        rule.platform is connection.platform
        and (scope.environment is None or scope.environment == connection.environment)
        and (scope.connection is None or scope.connection == connection.name)
    )
