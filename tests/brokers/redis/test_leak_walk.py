"""Every row of the surface table, through a running Veil, as a reader for whom every value is masked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.protocols.redis.surface import ROWS
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault, RespClient, encode
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .walk import KINDS, Data, Example, examples, in_step, is_refusal, nonce, rules, until

BATCH = 8  # of a pipeline; the data is put back in between
ENDS = {b"QUIT", b"HOST:", b"POST"}  # the connection, by the server
OPEN = "rules: []\n"


@pytest.fixture
def data(redis_server: RedisServer, canary: Canary) -> Iterator[Data]:
    redis_server.config_set("masterauth", "")
    redis_server.config_set("slowlog-log-slower-than", "10000")
    made = Data(redis_server, canary)
    made.load(scripts=True)
    yield made
    made.close()


def _reader(veil: Veil, version: int) -> RespClient:
    client = veil.client()
    client.call("HELLO", version)
    return client


def _expect(example: Example, *, refused: bool, where: str) -> None:
    if example.refused is not None:
        assert refused is example.refused, f"{where}: {example} was {'' if refused else 'not '}refused"


def _single(client: RespClient, data: Data, todo: list[Example]) -> None:
    for example in todo:
        data.load(scripts=example.argv[0] in (b"FUNCTION", b"SCRIPT", b"CONFIG"))
        before = data.counted()
        client.send(*example.argv)
        try:
            reply = in_step(client)
        except EOFError:
            pytest.fail(f"{example} ended the connection")
        after = data.counted()
        mark = nonce()
        assert client.call("PING", mark) == mark, f"out of step behind {example}"
        _expect(example, refused=is_refusal(reply), where="single")
        if example.refused:
            assert after == (before[0] + 1, before[1]), f"{example} was refused and reached the server"


def _pipelined(client: RespClient, data: Data, todo: list[Example]) -> None:
    for at in range(0, len(todo), BATCH):
        data.load()
        batch = todo[at : at + BATCH]
        marks = [nonce() for _ in batch]
        client.raw(b"".join(encode(*each.argv) + encode("PING", mark) for each, mark in zip(batch, marks, strict=True)))
        for example, mark in zip(batch, marks, strict=True):
            reply = in_step(client)
            assert in_step(client) == mark, f"out of step behind {example}"
            _expect(example, refused=is_refusal(reply), where="pipeline")


def _in_multi(client: RespClient, data: Data, todo: list[Example]) -> None:
    for example in todo:
        data.load()
        mark = nonce()
        client.raw(encode("MULTI") + encode(*example.argv) + encode("GET", "s:str") + encode("EXEC") + encode("PING", mark))
        begun, queued, _, done, step = [in_step(client) for _ in range(5)]
        assert step == mark, f"out of step behind {example} in a transaction"
        assert begun == b"OK"
        _expect(example, refused=is_refusal(queued), where="MULTI")
        if isinstance(queued, Fault):
            assert isinstance(done, Fault), f"{example}: the transaction was carried out"
            assert done.startswith(b"EXECABORT"), f"{example}: {done!r}"


def test_every_row_has_an_example() -> None:
    exercised = {example.row for example in examples()}

    assert [row.name for row in ROWS if row not in exercised] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_lets_a_canary_through(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, data: Data, kind: str
) -> None:
    todo = [example for example in examples(data.sha) if not example.alone]
    running = veil(rules(kind), upstream=redis_server)
    clients = []
    for version in (2, 3):
        for walk in (_single, _pipelined, _in_multi):
            data.load(scripts=True)
            with _reader(running, version) as client:
                clients.append(client)
                walk(client, data, todo)

    canary.assert_nowhere(running, clients)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_that_changes_the_connection_or_the_server_lets_a_canary_through(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, data: Data, kind: str
) -> None:
    running = veil(rules(kind), upstream=redis_server)
    clients = []
    for version in (2, 3):
        for example in [each for each in examples(data.sha) if each.alone and each.argv[0] != b"SHUTDOWN"]:
            data.load()
            with _reader(running, version) as client:
                clients.append(client)
                answered = nonce()
                client.send(*example.argv)
                client.send("PING", answered)  # CLIENT REPLY SKIP swallows it
                client.send("PING", answered + b"-again")
                begun = until(client, answered + b"-again", b"QUEUED\r\n+QUEUED")
                _expect(example, refused=b"-NOPERM veil: " in begun, where="alone")
                data.load()  # what subscribers, caching clients and MONITOR are told of
                last = nonce()
                client.send("PING", last)
                step = until(client, last, b"+QUEUED")
                assert last in step or b"QUEUED" in client.received or example.argv[0] in ENDS, f"out of step behind {example}"

    canary.assert_nowhere(running, clients)


def test_without_rules_every_read_shows_the_canary(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, data: Data
) -> None:
    """The walk proves nothing unless its examples reach contents."""
    running = veil(OPEN, upstream=redis_server)
    seen: dict[str, bool] = {}
    with _reader(running, 2) as client:
        for example in examples(data.sha):
            if example.alone or example.row.category != "read":
                continue
            data.load()
            start = len(client.received)
            client.send(*example.argv)
            reply = in_step(client)
            told = any(value.encode()[:12] in bytes(client.received[start:]) for value in canary.values)
            if not (isinstance(reply, Fault) and reply.startswith(b"ERR unknown command")):
                seen[example.row.name] = seen.get(example.row.name, False) or told

    assert len(seen) > 40
    assert [name for name, told in seen.items() if not told] == []


def test_shutting_the_server_down_tells_nothing(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, data: Data
) -> None:
    running = veil(rules("whole_value"), upstream=redis_server)
    with _reader(running, 3) as client:
        client.send("SHUTDOWN", "NOSAVE")

        assert client.at_end()
        canary.assert_nowhere(running, [client])
