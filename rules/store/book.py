"""Several files' bytes as one rule book: what files must agree on, and all of them or none.

No I/O: `files` reads a directory, other stores may bring their bytes from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..model import AccessList, Place, Problem, Rule, RuleBook
from .accessfile import AccessPart, read_grants, read_roles, read_teams, read_users
from .document import load, quote
from .rulefile import read_rules, rule_names
from .values import Findings, near

FILE_KEYS = ("rules", "users", "teams", "roles", "grants")
PROBLEM_LIMIT = 1000  # problems told of one file; the next one says that there are more


class Bound(NamedTuple):
    """`book` is None when there is any problem."""

    book: RuleBook | None
    problems: tuple[Problem, ...]


class _Part:
    """What one file says, problems included."""

    def __init__(self, file: str, data: bytes) -> None:
        self.found = Findings()
        self.rules: list[Rule] = []
        self.names: list[tuple[Place, str]] = []
        self.access = AccessPart()
        root, problems = load(data, file)
        self.found.problems.extend(problems)
        told = None if root is None else self.found.record(root, "a rule file", FILE_KEYS)
        if told is None:
            return
        if not told and not self.found.problems and root is not None:
            self.found.tell(root.place, "says nothing (write `rules: []` if no rules are meant)")
        if "rules" in told:
            self.rules = read_rules(told["rules"], self.found)
            self.names = [(name.place, name.text) for name in rule_names(told["rules"])]
        for key, read in (("users", read_users), ("teams", read_teams), ("roles", read_roles), ("grants", read_grants)):
            if key in told:
                read(told[key], self.access, self.found)

    def sorted_problems(self) -> list[Problem]:
        told = sorted(self.found.problems, key=lambda each: (each.place.line, each.place.column))
        if len(told) > PROBLEM_LIMIT:
            rest = len(told) - PROBLEM_LIMIT
            told = [*told[:PROBLEM_LIMIT], Problem(told[PROBLEM_LIMIT].place, f"and {rest} more problems from here on")]
        return told


def bind(files: Sequence[tuple[str, bytes]]) -> Bound:
    """One book of files given as (how places spell the file, its bytes), in the order that rules are to have.

    Every problem of every file is told. The book's version is a digest of the files' names and bytes.
    """
    parts = [_Part(file, data) for file, data in files]
    _tell_twice(parts)
    _tell_undefined_roles(parts)
    problems = tuple(problem for part in parts for problem in part.sorted_problems())
    if problems:
        return Bound(None, problems)
    access = AccessList(
        users=tuple(user for part in parts for _, user in part.access.users),
        teams=tuple(team for part in parts for _, team in part.access.teams),
        roles=tuple(role for part in parts for _, role in part.access.roles),
        grants=tuple(grant for part in parts for grant in part.access.grants),
    )
    rules = tuple(rule for part in parts for rule in part.rules)
    return Bound(RuleBook(_version(files), rules, access), ())


def _tell_twice(parts: Iterable[_Part]) -> None:
    """What is defined twice, over all files, at its second place."""
    seen: dict[tuple[str, object], Place] = {}
    for part in parts:
        defined: list[tuple[str, object, str, Place]] = []
        defined.extend(("rule", name, f"the rule {quote(name)}", place) for place, name in part.names)
        defined.extend(("user", each.name, f"the user {quote(each.name)}", place) for place, each in part.access.users)
        defined.extend(("team", each.name, f"the team {quote(each.name)}", place) for place, each in part.access.teams)
        defined.extend(("role", each.name, f"the role {quote(each.name)}", place) for place, each in part.access.roles)
        defined.extend(("grant", grant, "the same grant", grant.place) for grant in part.access.grants)
        for sort, what, words, place in defined:
            first = seen.setdefault((sort, what), place)
            if first is not place:
                part.found.tell(place, f"{words} stands at {first} already")


def _tell_undefined_roles(parts: Sequence[_Part]) -> None:
    known = dict.fromkeys(name for part in parts for name in part.access.defined)
    for part in parts:
        for place, name in part.access.uses:
            if name not in known:
                part.found.tell(place, f"the role {quote(name)} is defined nowhere{near(name, known)}")


def _version(files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for file, data in files:
        name = file.encode("utf-8", "surrogatepass")
        for each in (name, data):
            digest.update(len(each).to_bytes(8, "big"))
            digest.update(each)
    return digest.hexdigest()
