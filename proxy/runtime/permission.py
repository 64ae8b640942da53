"""What the permission to read unmasked reaches."""

from __future__ import annotations

from rules.access import UNMASKED, Access, Reader
from rules.model import AccessList, Connection, Resource


def may_unmask(access: AccessList, user: str, connection: Connection) -> bool:
    """Whether the user may read anything of the connection unmasked: tried on a name for each pattern that a
    grant or role has there."""
    held = Access(access)
    reader = Reader(user)
    if held.may_everywhere(reader, UNMASKED, connection).yes:
        return True
    extents = [grant.on for grant in access.grants if grant.allow] + [role.on for role in access.roles if role.on]
    return any(
        held.may(reader, UNMASKED, Resource(connection, kind, glob.replace("*", "x").replace("?", "x").encode())).yes
        for extent in extents
        for kind, globs in extent.resources
        for glob in globs
    )
