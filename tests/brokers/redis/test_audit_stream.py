"""The trail in a stream of a real Redis: one chain over all writers, and nothing shown while it cannot be written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from proxy import cli
from proxy.runtime.redis_link import LinkError, RedisLink
from proxy.runtime.sameserver import Brokers, ids_of
from proxy.runtime.secret import RedisUrl, Secret
from proxy.runtime.trail import RulesOf, TrailError
from proxy.runtime.trail.stream import StreamTrail
from proxy.runtime.upstream import Address
from rules.audit import Entry, InForce, RuleTag, broken_links
from tests.brokers.faults import forwarded
from tests.brokers.processes import Process, answers, free_port, wait_until
from tests.brokers.redis_server import RedisServer, valkey_binary
from tests.brokers.resp_client import RespClient
from tests.brokers.tls import TlsRedis
from tests.brokers.veil import VeilFactory
from tests.canary import Canary
from tests.certificates import Authority

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, put_secret

TIME = "2026-11-30T10:00:00.000Z"
STREAM = "veil:audit"


class Sink:
    """A server for the trail alone, which keeps what it is told over a kill."""

    def __init__(self, folder: Path, binary: str, *arguments: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._command = [
            binary,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            str(folder),
            *arguments,
        ]
        self.process: Process | None = None

    def start(self) -> None:
        self.process = Process(self._command, self._folder / "sink.log")
        wait_until(lambda: answers("127.0.0.1", self.port), "the sink listens")
        wait_until(lambda: self.call("PING") == b"PONG", "the sink has loaded")

    def call(self, *words: str) -> object:
        with RespClient("127.0.0.1", self.port) as client:
            return client.call(*words)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.child.pid, number)

    @property
    def url(self) -> RedisUrl:
        return RedisUrl(Address("127.0.0.1", self.port))

    def trail(self, *upstreams: Address) -> StreamTrail:
        return StreamTrail(self.url, STREAM, Brokers(upstreams))

    def lines(self) -> list[bytes]:
        found = self.call("XRANGE", STREAM, "-", "+")
        assert isinstance(found, list)
        return [each[1][1] for each in found]


def binaries() -> list[tuple[str, str, tuple[str, ...]]]:
    valkey = valkey_binary()
    found: list[tuple[str, str, tuple[str, ...]]] = []
    if valkey is not None:
        found.append(("waitaof", str(valkey), ("--appendonly", "yes", "--appendfsync", "everysec")))
    redis = subprocess.run(["sh", "-c", "command -v redis-server"], capture_output=True, text=True).stdout.strip()
    return found + ([("always", redis, ("--appendonly", "yes", "--appendfsync", "always"))] if redis else [])


@pytest.fixture
def make_sink(tmp_path: Path) -> Iterator[Callable[..., Sink]]:
    made: list[Sink] = []

    def make(binary: str, *arguments: str) -> Sink:
        folder = tmp_path / f"sink{len(made)}"
        folder.mkdir()
        made.append(Sink(folder, binary, *arguments))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        if each.process is not None and each.process.alive():
            each.signal(signal.SIGCONT)
            each.kill()


@pytest.fixture(params=binaries(), ids=lambda each: str(each[0]))
def sink(request: pytest.FixtureRequest, make_sink: Callable[..., Sink]) -> Sink:
    _, binary, arguments = request.param
    return make_sink(binary, *arguments)


def put(trail: StreamTrail, *who: str) -> list[int]:
    return trail.append([(Entry("e", each), TIME) for each in who])


@pytest.mark.broker
@pytest.mark.slow
def test_many_writers_share_one_chain_and_their_numbers(sink: Sink) -> None:
    numbers: list[int] = []

    def write(name: str) -> None:
        trail = sink.trail()
        for number in range(8):
            numbers.extend(put(trail, f"{name}-{number}"))
        trail.close()

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(numbers) == list(range(1, 25))
    assert len(sink.lines()) == 24
    assert not list(broken_links(sink.lines()))


@pytest.mark.broker
@pytest.mark.slow
def test_the_chain_goes_on_over_a_kill_of_the_sink_and_its_rules_are_told_once(sink: Sink) -> None:
    rules = RulesOf(InForce({"r": ("1", RuleTag("r"))}), "store")
    trail = sink.trail()
    assert trail.append([(rules, TIME)]) == [1]
    assert put(trail, "a") == [2]
    sink.kill()
    with pytest.raises(LinkError):
        put(trail, "b")
    sink.start()
    trail.close()

    assert trail.append([(rules, TIME), (Entry("e", "c"), TIME)]) == [2, 3]
    assert not list(broken_links(sink.lines()))


@pytest.mark.broker
@pytest.mark.slow
def test_a_sink_that_lost_entries_is_not_written_to_again(sink: Sink) -> None:
    trail = sink.trail()
    put(trail, "a", "b")
    sink.call("FLUSHALL")

    for _ in range(2):
        with pytest.raises(TrailError, match="has lost entries"):
            put(trail, "c")
        trail.close()


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("others", [2, 3], ids=["as many entries", "more entries"])
def test_a_sink_that_lost_entries_and_was_given_others_since_is_not_written_to_again(sink: Sink, others: int) -> None:
    trail, other = sink.trail(), sink.trail()
    put(trail, "a")
    found = sink.call("XRANGE", STREAM, "-", "+")
    assert isinstance(found, list)
    identity, digest = found[0][0].decode(), json.loads(found[0][1][1])["hash"]
    put(trail, "b", "c")
    sink.call("DEL", STREAM)  # a replica took over that had got no further than the first entry
    sink.call("XADD", STREAM, identity, "entry", found[0][1][1].decode())
    sink.call("HSET", f"{STREAM}:head", "seq", "1", "hash", digest)
    put(other, *"xyz"[:others])

    for _ in range(2):
        with pytest.raises(TrailError, match="has lost entries"):
            put(trail, "d")
        trail.close()
    assert put(other, "e") == [others + 2]


@pytest.mark.broker
@pytest.mark.slow
def test_a_stream_that_was_moved_away_goes_on_with_its_chain(sink: Sink) -> None:
    trail = sink.trail()
    put(trail, "a", "b")
    before = sink.lines()
    sink.call("RENAME", STREAM, f"{STREAM}:2026")

    assert put(trail, "c") == [3]
    assert put(trail, "d") == [4]
    assert not list(broken_links([*before, *sink.lines()]))


@pytest.mark.broker
@pytest.mark.slow
def test_a_stream_whose_last_entry_was_removed_is_not_written_to(sink: Sink) -> None:
    trail = sink.trail()
    put(trail, "a", "b")
    found = sink.call("XREVRANGE", STREAM, "+", "-", "COUNT", "1")
    assert isinstance(found, list)
    sink.call("XDEL", STREAM, found[0][0].decode())

    with pytest.raises(TrailError, match="removed or changed"):
        put(sink.trail(), "c")


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((("appendonly", "no"),), "appendonly yes is needed"),
        ((("maxmemory-policy", "allkeys-lru"),), "noeviction is needed"),
        ((("maxmemory-policy", "volatile-ttl"),), "noeviction is needed"),
    ],
)
def test_a_sink_that_could_lose_an_entry_is_refused(sink: Sink, settings: tuple[tuple[str, str], ...], expected: str) -> None:
    for name, value in settings:
        sink.call("CONFIG", "SET", name, value)

    with pytest.raises(TrailError, match=expected):
        sink.trail().open()


@pytest.mark.broker
@pytest.mark.slow
def test_a_sink_whose_settings_are_changed_while_it_is_written_gives_no_numbers(sink: Sink) -> None:
    trail = sink.trail()
    put(trail, "a")
    sink.call("CONFIG", "SET", "appendonly", "no")

    with pytest.raises(TrailError):
        put(trail, "b")


@pytest.mark.broker
@pytest.mark.slow
def test_a_full_sink_takes_nothing_and_goes_on_when_there_is_room(sink: Sink) -> None:
    trail = sink.trail()
    put(trail, "a")
    sink.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(TrailError, match="OOM"):
        put(trail, "b")
    sink.call("CONFIG", "SET", "maxmemory", "0")

    assert put(trail, "c") == [2]
    assert not list(broken_links(sink.lines()))


@pytest.mark.broker
@pytest.mark.slow
def test_a_replica_and_a_wrong_key_and_a_wrong_password_are_refused(sink: Sink) -> None:
    sink.call("SET", f"{STREAM}:head", "x")
    with pytest.raises(TrailError, match="cannot be"):
        sink.trail().open()
    with pytest.raises(TrailError, match="password") as caught:
        StreamTrail(RedisUrl(Address("127.0.0.1", sink.port), user="u", password=Secret("hunter2")), STREAM, Brokers(())).open()
    assert "hunter2" not in str(caught.value)
    sink.call("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(TrailError, match="replica"):
        sink.trail().open()


@pytest.mark.broker
@pytest.mark.slow
def test_a_sink_that_is_an_upstream_is_found_by_address_by_id_and_by_its_clients(sink: Sink) -> None:
    link = RedisLink(sink.url, connect_s=2, answer_s=5)
    own = Address("127.0.0.1", sink.port)
    elsewhere = Address("10.0.0.9", 1)  # another spelling of the server, as a NAT or a second name gives it
    ids = ids_of(link.info())

    def found(at: Address, ids: frozenset[str], clients: Callable[[], bytes]) -> object:
        same = Brokers([own]).among((at,), ids, clients)
        return None if same is None else (same.broker, same.by_address)

    def clients() -> bytes:
        listed = link.call("CLIENT", "LIST")
        assert isinstance(listed, bytes)
        return listed

    assert link.reached() == (own,)
    assert len(ids) == 2
    assert found(own, frozenset(), bytes) == (own, True)
    assert found(elsewhere, ids, bytes) == (own, False)
    sink.call("CONFIG", "SET", "requirepass", "pw")  # the link is in already; a probe is told nothing
    assert found(elsewhere, ids, clients) == (own, False)
    assert found(elsewhere, ids, bytes) is None
    link.close()
    assert link.reached() == ()


@pytest.mark.broker
@pytest.mark.slow
def test_an_upstream_that_comes_up_as_the_sink_later_takes_the_trail_with_it(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.runtime.trail.stream.LOOK_AGAIN_S", 0.0)
    port = free_port()
    trail = sink.trail(Address("127.0.0.1", port))
    assert put(trail, "a") == [1]
    with forwarded(("127.0.0.1", sink.port), port), pytest.raises(TrailError, match="is on the upstream"):
        put(trail, "b")
    assert put(trail, "c") == [2]
    trail.close()


@pytest.mark.slow
@pytest.mark.broker
def test_a_trail_over_tls_trusts_the_file_that_is_named_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "sink"
    folder.mkdir()
    authority, strangers = Authority(tmp_path), Authority(tmp_path, "strangers")
    server = TlsRedis(folder, authority, authority.server("redis"))
    server.start()
    try:
        server.config_set("appendonly", "yes")
        server.config_set("appendfsync", "always")
        url = RedisUrl(Address("localhost", server.tls_port), tls=True, ca=str(authority.path))
        trail = StreamTrail(url, STREAM, Brokers(()))
        assert put(trail, "a") == [1]
        trail.close()
        for ca in (str(strangers.path), None, str(tmp_path / "none.crt")):
            with pytest.raises(LinkError, match="cannot be reached"):
                put(StreamTrail(replace(url, ca=ca), STREAM, Brokers(())), "b")
        name = f"rediss://localhost:{server.tls_port}"
        verify = ["audit", "verify", "--redis", name, "--stream", STREAM]
        assert cli.main([*verify, "--ca", str(authority.path)]) == 0
        assert cli.main(verify) == 1
        with pytest.raises(TrailError, match="is on the upstream"):
            put(StreamTrail(url, STREAM, Brokers([Address("127.0.0.1", server.port)])), "b")
    finally:
        server.stop()


@pytest.mark.slow
def test_veil_refuses_at_start_to_keep_its_trail_in_an_upstream(redis_once: RedisServer, veil: VeilFactory) -> None:
    redis_once.config_set("appendonly", "yes")
    redis_once.config_set("appendfsync", "always")
    running = veil(SECRET, upstream=redis_once, audit={"redis": {"url": f"redis://localhost:{redis_once.port}"}}, start=False)

    with pytest.raises(ConnectionRefusedError, match="is on the upstream"):
        running.start()
    running._process = None


@pytest.mark.slow
def test_reads_are_masked_while_the_sink_is_dead_or_hangs_and_shown_again_after(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, sink: Sink
) -> None:
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    running = veil(SECRET, ALICE, upstream=redis_once, audit={"redis": {"url": str(sink.url), "stream": STREAM}})
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value
        troubles: list[tuple[Callable[[], None], Callable[[], None]]] = [
            (partial(sink.signal, signal.SIGSTOP), partial(sink.signal, signal.SIGCONT)),
            (sink.kill, sink.start),
        ]
        for stop, again in troubles:
            stop()
            start = len(alice.received)
            assert alice.call("GET", "secret:1") == MASK
            assert alice.pipeline(*[("GET", "secret:1")] * 20) == [MASK] * 20
            assert "not writable" in running.page("/readyz")[1]
            canary.assert_not_in(bytes(alice.received[start:]), "what came while nothing could be recorded")
            again()
            wait_until(lambda: alice.call("GET", "secret:1") == value, "unmasked again", within_s=3)
        shown = bytes(alice.received).count(value)
    lines = sink.lines()
    assert sum(UNMASKED.encode() in line for line in lines) >= shown
    assert not list(broken_links(lines))
    canary.assert_not_in(b"\n".join(lines), "the trail")
    canary.assert_nowhere(running)
    assert cli.main(["audit", "verify", "--config", str(running.config_path)]) == 0
    assert cli.main(["audit", "search", "--who", "alice", "--redis", str(sink.url), "--stream", STREAM]) == 0


@pytest.mark.slow
def test_veil_starts_and_masks_while_the_sink_is_not_there_and_shows_when_it_comes(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, sink: Sink
) -> None:
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    sink.kill()
    running = veil(SECRET, ALICE, upstream=redis_once, audit={"redis": {"url": str(sink.url), "stream": STREAM}})
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [alice])
        sink.start()
        wait_until(lambda: alice.call("GET", "secret:1") == value, "unmasked at last", within_s=3)
    wait_until(lambda: len(sink.lines()) >= 3, "the rules are told as well")
    assert not list(broken_links(sink.lines()))
    canary.assert_nowhere(running)
