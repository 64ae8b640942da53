"""The access keys of one file (`users`, `teams`, `roles`, `grants`) as access lists.

Which role names exist is known only over all files, so the uses of a role come back with their places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ..access import UNMASKED
from ..model import Extent, Grant, Kind, Patterns, Place, Platform, Role, Team, User, Whom
from ..platforms import GRANTED, PLATFORMS
from .document import Mapping, Node, Scalar, Unread, quote
from .rulefile import read_globs
from .values import Findings, near

EXTENT_KEYS = ("platform", "environment", "connection", *(str(kind) for kind in Kind))
INSTALLATION = "installation"


class Permission(StrEnum):
    """Every permission that a role or grant may name. `*` stands for all but the first."""

    UNMASKED = UNMASKED
    READ = "messages.read"
    MANAGE = "masking.manage"
    ALL = "*"


@dataclass(slots=True)
class AccessPart:
    """What one file says. `uses` are the roles it names elsewhere than where they are defined."""

    users: list[tuple[Place, User]] = field(default_factory=list)
    teams: list[tuple[Place, Team]] = field(default_factory=list)
    roles: list[tuple[Place, Role]] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    uses: list[tuple[Place, str]] = field(default_factory=list)
    defined: list[str] = field(default_factory=list)


def read_users(node: Node, part: AccessPart, found: Findings) -> None:
    """Add the users under the key to the part."""
    for entry in found.mapping(node, "users") or ():
        named = found.key_name(entry.key, "the user's name")
        told = found.record(entry.value, "a user", ("teams", "roles", "disabled"))
        if told is None:
            continue
        teams = found.names(told["teams"], "teams") if "teams" in told else ()
        roles = _roles(told["roles"], part, found) if "roles" in told else ()
        disabled = found.boolean(told["disabled"], "disabled") if "disabled" in told else False
        if named and teams is not None and roles is not None and disabled is not None:
            part.users.append((entry.key.place, User(entry.key.text, teams, roles, disabled)))


def read_teams(node: Node, part: AccessPart, found: Findings) -> None:
    """Add the teams under the key to the part."""
    for entry in found.mapping(node, "teams") or ():
        named = found.key_name(entry.key, "the team's name")
        told = found.record(entry.value, "a team", ("roles", "members"))
        if told is None:
            continue
        roles = _roles(told["roles"], part, found) if "roles" in told else ()
        members = found.names(told["members"], "members") if "members" in told else ()
        if named and roles is not None and members is not None:
            part.teams.append((entry.key.place, Team(entry.key.text, roles, members)))


def read_roles(node: Node, part: AccessPart, found: Findings) -> None:
    """Add the roles under the key to the part."""
    for entry in found.mapping(node, "roles") or ():
        named = found.key_name(entry.key, "the role's name")
        part.defined.append(entry.key.text)
        told = found.record(entry.value, "a role", ("permissions", "on"), ("permissions",))
        if told is None:
            continue
        permissions = _permissions(told["permissions"], found) if "permissions" in told else None
        on = _extent(told["on"], found) if "on" in told else None
        if named and permissions is not None and (on is not None or "on" not in told):
            part.roles.append((entry.key.place, Role(entry.key.text, permissions, on)))


def read_grants(node: Node, part: AccessPart, found: Findings) -> None:
    """Add the grants under the key to the part."""
    for item in found.sequence(node, "grants") or ():
        told = found.record(item, "a grant", ("allow", "deny", "to", "on"), ("to", "on"))
        if told is None:
            continue
        given = [key for key in ("allow", "deny") if key in told]
        permissions = [found.choice(told[key], "the permission", Permission) for key in given]
        if len(given) != 1:
            found.tell(item.place, "a grant needs exactly one of `allow` and `deny`")
        whom = _whom(told["to"], part, found) if "to" in told else None
        on = _extent(told["on"], found) if "on" in told else None
        if len(given) == 1 and permissions[0] is not None and whom is not None and on is not None:
            part.grants.append(Grant(given[0] == "allow", str(permissions[0]), whom[0], whom[1], on, item.place))


def _roles(node: Node, part: AccessPart, found: Findings) -> tuple[str, ...] | None:
    names = found.names(node, "roles")
    if names is not None:
        items = found.sequence(node, "roles") or ()
        part.uses.extend((item.place, name) for item, name in zip(items, names, strict=True))
    return names


def _permissions(node: Node, found: Findings) -> tuple[str, ...] | None:
    items = found.sequence(node, "permissions")
    if items is None:
        return None
    read = [found.choice(item, "the permission", Permission) for item in items]
    if not read:
        found.tell(node.place, "permissions is empty")
        return None
    known = tuple(str(each) for each in read if each is not None)
    return known if len(known) == len(read) else None


def _whom(node: Node, part: AccessPart, found: Findings) -> tuple[Whom, str] | None:
    told = found.record(node, "to", tuple(str(each) for each in Whom))
    if told is None:
        return None
    if len(told) != 1:
        found.tell(node.place, "`to` needs exactly one of `user`, `team` and `role`")
        return None
    (key, value), *_ = told.items()
    name = found.name(value, f"the {key}'s name")
    if name is None:
        return None
    if key == Whom.ROLE:
        part.uses.append((value.place, name))
    return Whom(key), name


def _extent(node: Node, found: Findings) -> Extent | None:
    if isinstance(node, Scalar):
        if node.text == INSTALLATION:
            return Extent(installation=True)
        found.tell(node.place, f"`on` must be `installation` or a mapping, not {quote(node.text)}")
        return None
    told = found.record(node, "on", EXTENT_KEYS)
    if told is None or isinstance(node, Unread):
        return None
    before = len(found.problems)
    if isinstance(node, Mapping) and not node.entries:
        found.tell(node.place, "`on` is empty: write `on: installation` if everything is meant")
        return None
    platform = found.choice(told["platform"], "the platform", Platform) if "platform" in told else None
    environment = found.name(told["environment"], "the environment") if "environment" in told else None
    connection = found.name(told["connection"], "the connection") if "connection" in told else None
    resources: Patterns = ()
    kinds = [kind for kind in Kind if kind in told]
    for kind in kinds:
        globs = read_globs(told[kind], f"on.{kind}", found, may_be_empty=False)
        if kind not in GRANTED:
            found.tell(told[kind].place, f"nothing is granted on an {kind}: name the {Kind.QUEUE} instead")
        elif platform is not None and kind not in PLATFORMS[platform].kinds:
            said = near("", (str(each) for each in PLATFORMS[platform].kinds if each in GRANTED))
            found.tell(told[kind].place, f"there is no {kind} on {platform}{said}")
        elif globs is not None:
            resources += ((kind, globs),)
    if len(kinds) > 1:
        # All keys under `on` must hold, and nothing is of two kinds: such a grant would reach nothing.
        found.tell(told[kinds[1]].place, f"`on` names {kinds[0]} and {kinds[1]}, and nothing is both: write a grant for each")
    if len(found.problems) > before:
        return None
    extent = Extent(False, platform, environment, connection, resources)
    return None if extent == Extent() else extent
