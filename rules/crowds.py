"""Paths that can hold so many combinations of steps at once that the automaton gives a document up: too many paths.

Such a document is masked whole. Each `.*` behind a `..name` doubles what has to be told apart, and the paths of all
rules that cover a resource multiply, so it is a matter of combinations: which rules can cover one name together, and
how many states their paths can lead to.

What is told is certain: the automaton itself ran out of states. Two things are left out. Where only names that are
masked would have to be nested in one another (`$..a`, `$..b`, and many more), no document does that, and nothing is
said. And the work is counted and has an end, which is told where it is met.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from . import automaton
from .automaton import Automaton, State, TooManyPaths
from .model import Descend, Every, Field, FieldKind, JsonPath, Kind, Place, Platform, Problem, Redact, Rule
from .patterns import Matcher, name_of_both, near

# States outside of anything masked: the steps of a few paths that only add up stay below, those that multiply do not.
A_PAIR_OF_STEPS, MANY, IN_ANY_CASE = 4, 500, 1000
STEPS_TAKEN = 60_000  # from state to state, in all: about half a second
PATHS_NAMED = 5


@dataclass(frozen=True, slots=True)
class _At:
    """A path, where it stands, and its rule."""

    path: JsonPath
    place: Place
    rule: Rule


@dataclass(frozen=True, slots=True)
class _States:
    """How many states some paths need at most, or one more than there may be; and whether many of these that are too
    many are outside of anything masked."""

    count: int
    run_out: bool


class OutOfSteps(Exception):
    """The work that may be done is done."""


def crowds(rules: Sequence[Rule]) -> Iterator[Problem]:
    """A warning for each set of paths of the rules, all of them enabled, that may run out of states."""
    search = _Search()
    try:
        for platform in dict.fromkeys(rule.platform for rule in rules):
            yield from search.on(platform, [rule for rule in rules if rule.platform is platform])
    except OutOfSteps:
        yield Problem(rules[0].place, "there are too many combinations of paths to try whether all find room", warning=True)


class _Search:
    def __init__(self) -> None:
        self._left = STEPS_TAKEN
        self._known: dict[frozenset[JsonPath], _States] = {}

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise OutOfSteps

    def on(self, platform: Platform, rules: list[Rule]) -> Iterator[Problem]:
        listed = [rule for rule in rules if _multiplying(rule)]
        each = _paths(listed)
        together = self._known[frozenset(each)] = self._explore(list(each))
        if together.count <= automaton.MAX_STATES:
            return  # fewer rules need fewer states
        # A step waits firmly, softly or not at all, and the path has been met above or not.
        long = {path: at for path, at in each.items() if 2 * 3 ** len(path.steps) > automaton.MAX_STATES}
        half = STEPS_TAKEN // 2  # the other half is for combinations
        alone = {path: at for path, at in long.items() if self._left > half and self._runs_out([path])}
        for at in alone.values():
            yield _told([at])
        told: list[frozenset[JsonPath]] = []
        for covering in self._covering_one_name(listed, alone):
            beside = [at for path, at in _paths(covering).items() if path not in alone]
            named = {at.path for at in beside}
            if not any(paths <= named for paths in told) and self._runs_out(named):
                needed = self._needed(beside)
                told.append(frozenset(at.path for at in needed))
                yield _told(needed)

    def _covering_one_name(self, rules: list[Rule], alone: Iterable[JsonPath]) -> Iterator[list[Rule]]:
        """Sets of rules that cover one name together, of those that meet and could run out of states."""
        holding: dict[Kind, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, rule in enumerate(rules):
            for kind, globs in rule.resources:
                for glob in globs:
                    holding[kind][glob].append(at)
        for kind, by_glob in holding.items():
            met: dict[str, dict[str, bytes]] = defaultdict(dict)
            for one, other in near(by_glob):
                self._spend(1)
                name = name_of_both(one, other)
                if name is not None:
                    met[one][other] = met[other][one] = name
            for glob in by_glob:
                beside = [rules[at] for at in sorted({at for other in met[glob] for at in by_glob[other]})]
                paths = _paths(beside).keys() - set(alone)
                if len(paths) > 1 and self._states(paths).count > automaton.MAX_STATES:
                    for name in dict.fromkeys(met[glob].values()):
                        self._spend(len(beside))
                        yield from _in_each_scope([rule for rule in beside if _covers(rule, kind, name)])

    def _needed(self, together: list[_At]) -> list[_At]:
        """As few of them as still run out, while there is time to find out."""
        try:
            largest = sorted(together, key=lambda at: -self._states([at.path]).count)
            few = largest[:2]
            while not self._runs_out(at.path for at in few):
                few = largest[: len(few) + 1]
            for at in reversed(few):
                fewer = [each for each in few if each is not at]
                if self._runs_out(each.path for each in fewer):
                    few = fewer
        except OutOfSteps:
            few = together
        return [at for at in together if at in few]

    def _runs_out(self, paths: Iterable[JsonPath]) -> bool:
        return self._states(paths).run_out

    def _states(self, paths: Iterable[JsonPath]) -> _States:
        key = frozenset(paths)
        known = self._known.get(key)
        if known is None:
            # A state of all is a state of each, so that there are no more than their product.
            possible = math.prod(self._states([path]).count for path in key) if len(key) > 1 else automaton.MAX_STATES + 1
            if possible > automaton.MAX_STATES:
                known = self._explore(sorted(key, key=lambda path: path.text))
            else:
                known = _States(possible, run_out=False)
            self._known[key] = known
        return known

    def _explore(self, paths: list[JsonPath]) -> _States:
        fields = tuple(Field(FieldKind.JSON_PATH, Redact(), path) for path in paths)
        root = Automaton([Rule("", Platform.KAFKA, (), fields=fields)]).root
        steps = sum(len(path.steps) for path in paths)
        many = max(MANY, min(A_PAIR_OF_STEPS * steps * steps, IN_ANY_CASE))
        bare, masked = deque([root]), deque[State]()
        seen = {id(root)}
        bare_count = 1
        try:
            while bare or masked:
                for child in self._children(bare.popleft() if bare else masked.popleft()):
                    if id(child) not in seen:
                        seen.add(id(child))
                        bare_count += child.act is None
                        (bare if child.act is None else masked).append(child)
        except TooManyPaths:
            return _States(automaton.MAX_STATES + 1, run_out=bare_count > many)
        return _States(len(seen), run_out=False)

    def _children(self, state: State) -> Iterator[State]:
        names = state.names()
        self._spend(len(names) + 2)
        yield state.element
        yield state.other
        for name in names:
            yield state.member(name)


def _multiplying(rule: Rule) -> list[_At]:
    """The paths whose steps can wait beside those of others: with a `.*`, or with several `..name`."""
    places = rule.field_places or (rule.place,) * len(rule.fields)
    return [
        _At(field.path, place, rule)
        for field, place in zip(rule.fields, places, strict=True)
        if field.path is not None
        and (
            any(isinstance(step, Every) for step in field.path.steps)
            or sum(isinstance(step, Descend) for step in field.path.steps) > 1
        )
    ]


def _paths(rules: Iterable[Rule]) -> dict[JsonPath, _At]:
    """Each path once, where it stands first."""
    found: dict[JsonPath, _At] = {}
    for rule in rules:
        for at in _multiplying(rule):
            found.setdefault(at.path, at)
    return found


def _covers(rule: Rule, kind: Kind, name: bytes) -> bool:
    excepted = Matcher(rule.excepted, strict=True)
    return Matcher(rule.resources, strict=False).matches(kind, name) and not excepted.matches(kind, name)


def _in_each_scope(rules: list[Rule]) -> Iterator[list[Rule]]:
    """Those that apply to one connection in one environment, for each that some rule speaks of."""
    for environment in dict.fromkeys(rule.scope.environment for rule in rules):
        for connection in dict.fromkeys(rule.scope.connection for rule in rules):
            yield [
                rule
                for rule in rules
                if rule.scope.environment in (None, environment) and rule.scope.connection in (None, connection)
            ]


def _told(together: list[_At]) -> Problem:
    """At the path that stands last."""
    *before, last = together
    beside = [f'{at.path.text} in rule "{at.rule.name}" ({at.place})' for at in before[:PATHS_NAMED]]
    if len(before) > PATHS_NAMED:
        beside.append(f"{len(before) - PATHS_NAMED} more")
    what = f"{last.path.text} beside {', '.join(beside)}" if beside else last.path.text
    message = (
        f"{what}: a document can need more than {automaton.MAX_STATES} combinations of their steps, and is masked whole then"
    )
    return Problem(last.place, "".join(each if each.isprintable() else "?" for each in message), warning=True)
