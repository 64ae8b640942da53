"""Every command and subcommand that a running server tells of has a row of the surface table."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.protocols.redis.surface import find
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Reply


def _told_by_command(entries: Reply) -> Iterator[bytes]:
    assert isinstance(entries, list)
    for entry in entries:
        assert isinstance(entry, list)
        name = entry[0]
        assert isinstance(name, bytes)
        yield name
        for subcommands in entry[9:]:
            assert isinstance(subcommands, list)
            yield from _told_by_command(subcommands)


def _told_by_docs(docs: Reply) -> Iterator[bytes]:
    assert isinstance(docs, list)
    for name, about in zip(docs[::2], docs[1::2], strict=True):
        assert isinstance(name, bytes)
        yield name
        assert isinstance(about, list)
        for word, what in zip(about[::2], about[1::2], strict=True):
            if word == b"subcommands":
                assert isinstance(what, list)
                yield from _told_by_docs(what)


def _without_a_row(names: set[bytes]) -> list[bytes]:
    said = {name: name.upper().replace(b"|", b" ") for name in names}
    return sorted(name for name, words in said.items() if find(tuple(words.split())).name.encode() != words)


def test_every_command_that_the_server_lists_has_a_row(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        names = set(_told_by_command(client.call("COMMAND")))

    assert len(names) > 350
    assert _without_a_row(names) == []


def test_every_command_that_the_server_documents_has_a_row(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        names = set(_told_by_docs(client.call("COMMAND", "DOCS")))

    assert len(names) > 350
    assert _without_a_row(names) == []


def test_a_command_without_a_row_is_found() -> None:
    assert _without_a_row({b"get", b"config|get", b"nosuch", b"config|nosuch"}) == [b"config|nosuch", b"nosuch"]
