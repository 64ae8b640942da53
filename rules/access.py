"""Who may do what. A deny wins over every allow."""

from __future__ import annotations

from dataclasses import dataclass

from .model import AccessList, Connection, Extent, Grant, Patterns, Place, Resource, Role, Whom
from .patterns import Matcher
from .platforms import GRANTED, PLATFORMS

UNMASKED = "messages.read.unmasked"
ALL = "*"  # the glob that takes in every name
STARRED = frozenset({"masking.manage", "messages.read"})  # what `*` grants; never UNMASKED


@dataclass(frozen=True, slots=True)
class Reader:
    """Whoever is on the other side of a listener. None: nobody has logged in."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a permission is held, and through what, in words for `explain`."""

    yes: bool
    what: str = ""
    place: Place | None = None

    @property
    def through(self) -> str:
        """For the operator, with the file that says so."""
        return self.what if self.place is None else f"{self.what} at {self.place}"

    @property
    def through_short(self) -> str:
        """For the reader, without the folders of the file."""
        return self.what if self.place is None else f"{self.what} at {self.place.short}"


class Access:
    """The access list with its patterns compiled."""

    def __init__(self, listed: AccessList = AccessList()) -> None:
        self._users = {user.name: user for user in listed.users}
        self._teams = listed.teams
        self._roles = {role.name: role for role in listed.roles}
        self._grants = listed.grants
        self._matchers: dict[Patterns, Matcher] = {}
        for extent in [grant.on for grant in listed.grants] + [role.on for role in listed.roles if role.on is not None]:
            if extent.resources and extent.resources not in self._matchers:
                self._matchers[extent.resources] = Matcher(extent.resources, strict=True)
        self._loose = {patterns: Matcher(patterns, strict=False) for patterns in self._matchers}

    def may(self, reader: Reader, permission: str, resource: Resource) -> Answer:
        """Whether the reader holds the permission on one resource."""
        return self._answer(reader, permission, resource.connection, resource)

    def may_everywhere(self, reader: Reader, permission: str, connection: Connection) -> Answer:
        """Whether the reader holds it on every resource of a connection, with no deny touching any."""
        return self._answer(reader, permission, connection, None)

    def may_somewhere(self, reader: Reader, permission: str, connection: Connection) -> bool:
        """Whether anything allows it anywhere on a connection; denies are left aside, so that a yes may be one too many."""
        name = reader.name
        user = self._users.get(name or "")
        if name is None or (user is not None and user.disabled):
            return False
        teams = self._teams_of(name)
        names = self._roles_of(name, teams)
        extents = [
            grant.on
            for grant in self._grants
            if grant.allow and self._is_for(grant, name, teams, names) and _covers(grant.permission, permission, allow=True)
        ]
        extents += [
            role.on or Extent(installation=True)
            for role in self._roles.values()
            if role.name in names and any(_covers(each, permission, allow=True) for each in role.permissions)
        ]
        return any(self._reaches(on, connection, None, deny=True) for on in extents)

    def _answer(self, reader: Reader, permission: str, connection: Connection, resource: Resource | None) -> Answer:
        if reader.name is None:
            return Answer(False, "nobody is logged in")
        user = self._users.get(reader.name)
        if user is not None and user.disabled:
            return Answer(False, f"user {reader.name} is disabled")
        teams = self._teams_of(reader.name)
        roles = self._roles_of(reader.name, teams)
        allowed = Answer(False, "no grant")
        for grant in self._grants:
            if not self._is_for(grant, reader.name, teams, roles) or not _covers(
                grant.permission, permission, allow=grant.allow
            ):
                continue
            if not grant.allow:
                if self._reaches(grant.on, connection, resource, deny=True):
                    return Answer(False, f"denied to {grant.whom} {grant.name}", grant.place)
            elif not allowed.yes and self._reaches(grant.on, connection, resource, deny=False):
                allowed = Answer(True, f"granted to {grant.whom} {grant.name}", grant.place)
        for name in sorted(roles):
            role: Role | None = self._roles.get(name)
            if allowed.yes or role is None:
                continue
            extent = role.on or Extent(installation=True)
            held = any(_covers(each, permission, allow=True) for each in role.permissions)
            if held and self._reaches(extent, connection, resource, deny=False):
                allowed = Answer(True, f"through role {name}{self._by_team(name, reader.name, teams)}")
        return allowed

    def _teams_of(self, name: str) -> frozenset[str]:
        user = self._users.get(name)
        listed = () if user is None else user.teams
        return frozenset(listed) | {team.name for team in self._teams if name in team.members}

    def _roles_of(self, name: str, teams: frozenset[str]) -> frozenset[str]:
        user = self._users.get(name)
        own = frozenset(() if user is None else user.roles)
        return own.union(*(team.roles for team in self._teams if team.name in teams))

    def _by_team(self, role: str, name: str, teams: frozenset[str]) -> str:
        """` of team T` where a role is held by being in a team alone; nothing where it is the user's own."""
        user = self._users.get(name)
        if user is not None and role in user.roles:
            return ""
        return "".join(f" of team {team.name}" for team in self._teams if team.name in teams and role in team.roles)

    @staticmethod
    def _is_for(grant: Grant, name: str, teams: frozenset[str], roles: frozenset[str]) -> bool:
        match grant.whom:
            case Whom.USER:
                return grant.name == name
            case Whom.TEAM:
                return grant.name in teams
            case Whom.ROLE:
                return grant.name in roles

    def _reaches(self, on: Extent, connection: Connection, resource: Resource | None, *, deny: bool) -> bool:
        """Whether an extent takes the resource in; with None, for a deny whether it touches the connection
        anywhere, for an allow whether it takes in all of it."""
        if on.installation:
            return True
        if on.platform is not None and on.platform is not connection.platform:
            return False
        if on.environment is not None and on.environment != connection.environment:
            return False
        if on.connection is not None and on.connection != connection.name:
            return False
        if not on.resources:
            return True
        kinds = {kind for kind, _ in on.resources}
        if not deny and len(kinds) > 1:
            return False  # every key must hold, and nothing is of two kinds
        if resource is None:
            here = frozenset(PLATFORMS[connection.platform].kinds)
            if deny:
                return not kinds.isdisjoint(here)
            return kinds == here & GRANTED and any(ALL in patterns for _, patterns in on.resources)
        matchers = self._loose if deny else self._matchers
        return matchers[on.resources].matches(resource.kind, resource.name)


def _covers(held: str, wanted: str, *, allow: bool) -> bool:
    """`*` allows only what is starred, and denies everything."""
    return held == wanted or (held == "*" and (not allow or wanted in STARRED))
