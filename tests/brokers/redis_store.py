"""Rule sets in a server, put there as `veil rules push` does it, and bent as a test wants them."""

from __future__ import annotations

from collections.abc import Mapping

from rules.store.redis import Held, Location, held, next_version, opened, put

from .redis_server import RedisServer

NOW = 1_800_000_000


def location(server: RedisServer, prefix: str = "veil:", key: bytes | None = None) -> Location:
    return Location(server.host, server.port, prefix, key=key)


def push(
    server: RedisServer,
    files: Mapping[str, str],
    *,
    version: int | None = None,
    empty: bool = False,
    key: bytes | None = None,
    prefix: str = "veil:",
) -> int:
    """Replaces what is there, whatever it is. The version that it has now."""
    where = location(server, prefix, key)
    documents = [(name, files[name].encode()) for name in sorted(files)]
    with opened(where) as client:
        before: Held = held(client, where)
        taken = version if version is not None else next_version(before, NOW)
        put(client, where, documents, before, taken, empty=empty)
    return taken
