"""Every server of a cluster reached through Veil, over real sockets, with a protocol as small as can be."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from proxy.app import App
from proxy.core.addresses import Endpoint, Node
from proxy.core.errors import ConfigError
from proxy.core.tally import Tally
from proxy.runtime import nodes as nodes_module
from proxy.runtime.listen import CannotBind, bind
from proxy.runtime.log import Log
from proxy.runtime.tlsstream import HandshakeFailed, TlsStream
from proxy.runtime.upstream import Address
from proxy.settings import load_configuration
from tests.brokers.processes import free_port
from tests.brokers.veil import TREE, environment
from tests.certificates import Authority

from .tiny import PROTOCOLS, SESSIONS, WORKERS, Cluster, Running, ask, cluster, config, free_ports, spelled, until, veil


@pytest.fixture
def ports() -> range:
    return free_ports(4)


def brokers(ports: range, more: str = "") -> str:
    return f"{{ports: {spelled(ports)}, table: nodes.json{more}}}"


def told(*at: tuple[int, int]) -> bytes:
    return "".join(f" {number}=127.0.0.1:{port}" for number, port in at).encode()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


async def test_a_port_refuses_until_its_node_was_told_and_then_leads_to_that_node(tmp_path: Path, ports: range) -> None:
    async with cluster(1, 2) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        assert not any(map(listens, ports))
        with pytest.raises(CannotBind):
            await bind(Address("127.0.0.1", ports[3]))
        with pytest.raises(OSError):
            socket.create_server(("127.0.0.1", ports[3])).close()  # by SO_REUSEADDR neither

        assert await running.ask(b"nodes") == told((1, ports[1]), (2, ports[2]))
        assert [await ask(port, b"name") for port in ports[1:3]] == [b"server 1", b"server 2"]
        assert await running.ask(b"name") == b"server 1", "the listener's own port is as it was"
        assert not listens(ports[0])
        assert not listens(ports[3])
        assert await ask(ports[2], b"nodes") == told((1, ports[1]), (2, ports[2])), "a node's readers are told the same"

    assert [each["listener"] for each in running.logged("listening")][1:] == [f"127.0.0.1:{port}" for port in ports[1:3]]


async def test_what_is_known_is_answered_without_a_thread_or_a_file(
    tmp_path: Path, ports: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        expected = await running.ask(b"nodes")
        monkeypatch.setattr(nodes_module, "in_thread", None)
        nodes = running.app._clusters[0]
        answer = nodes.advertise((Node(1, "127.0.0.1", servers.servers[1].port),))
        with pytest.raises(StopIteration) as done:
            answer.send(None)
        monkeypatch.undo()

    assert done.value.value == {1: Endpoint("127.0.0.1", ports[1])}
    assert expected == told((1, ports[1]))


async def test_after_a_restart_nodes_have_their_ports_and_are_served_at_once(tmp_path: Path, ports: range) -> None:
    async with cluster(1, 5) as servers:
        path = config(tmp_path, servers.upstream, brokers(ports))
        async with veil(path) as running:
            expected = await running.ask(b"nodes")
        async with veil(path):
            assert await ask(ports[2], b"name") == b"server 5"
        servers.tell(only=[5])
        async with veil(path) as running:
            assert await running.ask(b"nodes") == told((5, ports[2])), "its own slot, though the other's is first"

    assert expected == told((1, ports[1]), (5, ports[2]))


async def test_a_node_that_finds_no_port_is_not_named(tmp_path: Path) -> None:
    ports = free_ports(1)
    async with cluster(1, 2) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        for _ in range(2):
            assert await running.ask(b"nodes") == told((1, ports[0]))

        assert len(running.logged("node-not-served")) == 1


async def test_a_node_that_leads_to_veil_itself_or_nowhere_is_not_named(tmp_path: Path, ports: range) -> None:
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        for address in (f"127.0.0.1:{ports[3]}", f"localhost:{running.at.port}", f"0.0.0.0:{ports[0]}", "x:0", "x:70000"):
            servers.tell(f"2={address}")

            assert await running.ask(b"nodes") == told((1, ports[1]))
        servers.tell(f"1=127.0.0.1:{ports[0]}", only=())
        assert await running.ask(b"nodes") == b" -", "not even by the address that it had before"


async def test_a_node_that_has_moved_is_served_where_it_is_now(tmp_path: Path, ports: range) -> None:
    async with cluster(1, 2) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        await running.ask(b"nodes")
        servers.tell(f"2=127.0.0.1:{servers.servers[1].port}", only=[1])

        assert await running.ask(b"nodes") == told((1, ports[1]), (2, ports[2]))
        assert await ask(ports[2], b"name") == b"server 1"
    assert json.loads((tmp_path / "nodes.json").read_text())["nodes"][1]["port"] == servers.servers[1].port


async def test_a_port_that_is_taken_is_told_at_the_start(tmp_path: Path, ports: range) -> None:
    with socket.create_server(("127.0.0.1", ports[2])):
        app = App(
            load_configuration(config(tmp_path, Address("127.0.0.1", 1), brokers(ports)), {}, PROTOCOLS), PROTOCOLS, Log()
        )

        match = f"cannot listen on 127.0.0.1:{ports[2]}: Address already in use"
        with pytest.RaisesGroup(pytest.RaisesExc(CannotBind, match=match), flatten_subgroups=True):
            await app.run(signals=False)
    assert not any(map(listens, ports))


@pytest.mark.parametrize("damage", [lambda path: path.write_text("{"), lambda path: path.mkdir()])
async def test_a_table_that_will_not_do_is_a_config_error(
    tmp_path: Path, ports: range, damage: Callable[[Path], object]
) -> None:
    path = config(tmp_path, Address("127.0.0.1", 1), brokers(ports, ""))
    configuration = load_configuration(path, {}, PROTOCOLS)
    damage(tmp_path / "nodes.json")

    with pytest.raises(ConfigError, match=r"orders: 127\.0\.0\.1:0: the node table .*nodes\.json is"):
        App(configuration, PROTOCOLS, Log())


async def test_a_table_that_cannot_be_written_is_warned_of_until_it_can(
    tmp_path: Path, ports: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "POLL_S", 0.02)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        monkeypatch.setattr(os, "fsync", full)
        assert await running.ask(b"nodes") == told((1, ports[1]))
        assert await ask(ports[1], b"name") == b"server 1"
        (warning,) = running.app._state().warnings
        monkeypatch.setattr(os, "fsync", lambda _: None)
        await until(lambda: not running.app._state().warnings)

    assert re.fullmatch(
        r"orders: 127.0.0.1:0: the node table .*nodes\.json cannot be written: No space left on device", warning
    )
    assert json.loads((tmp_path / "nodes.json").read_text())["nodes"][0]["id"] == 1
    assert len(running.logged("node-table-not-written")) == len(running.logged("node-table-written")) == 1


async def test_a_table_that_is_damaged_while_veil_runs_is_not_overwritten(
    tmp_path: Path, ports: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "POLL_S", 0.02)
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        (tmp_path / "nodes.json").write_text("{")
        await until(lambda: any("damaged" in each for each in running.app._state().warnings))
        assert await running.ask(b"nodes") == told((1, ports[1]))
        assert (tmp_path / "nodes.json").read_text() == "{"
        (tmp_path / "nodes.json").unlink()
        await until(lambda: not running.app._state().warnings)

    assert json.loads((tmp_path / "nodes.json").read_text())["nodes"][0]["id"] == 1


async def test_a_disk_that_hangs_holds_nobody_up_for_long(
    tmp_path: Path, ports: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "DISK_S", 0.1)
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        with (tmp_path / "nodes.json.lock").open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert await running.ask(b"nodes") == told((1, ports[1]))
            assert "does not answer" in running.app._state().warnings[0]


async def test_what_another_process_has_put_into_the_table_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "POLL_S", 0.02)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = free_ports(4)
    table = f", table: {tmp_path}/nodes.json}}"
    async with (
        cluster(3, 7) as servers,
        veil(config(tmp_path / "one", servers.upstream, f"{{ports: {spelled(first)}{table}")) as one,
    ):
        second = free_ports(4)
        async with veil(config(tmp_path / "two", servers.upstream, f"{{ports: {spelled(second)}{table}")) as two:
            servers.tell(only=[7])
            assert await one.ask(b"nodes") == told((7, first[3]))
            servers.tell(only=[3])
            assert await two.ask(b"nodes") == told((3, second[0]))
            await until(lambda: all(each.app._clusters[0].count == 2 for each in (one, two)))
            servers.tell()

            assert await one.ask(b"nodes") == told((3, first[0]), (7, first[3]))
            assert await two.ask(b"nodes") == told((3, second[0]), (7, second[3]))
            assert await ask(second[3], b"name") == b"server 7"


async def test_a_node_whose_port_cannot_listen_is_not_named_until_it_can(
    tmp_path: Path, ports: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deaf(address: Address, own: socket.socket) -> trio.SocketListener:
        tries.append(address)
        raise CannotBind(f"cannot listen on {address}: Address already in use")

    tries: list[Address] = []
    monkeypatch.setattr(nodes_module, "POLL_S", 0.02)
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        with monkeypatch.context() as patched:
            patched.setattr(nodes_module, "listening", deaf)
            assert await running.ask(b"nodes") == b" -"
            await until(lambda: len(tries) > 2)
        await until(lambda: listens(ports[1]))

        assert await running.ask(b"nodes") == told((1, ports[1]))
        assert len(running.logged("node-not-served")) == 1


async def test_two_answers_that_name_the_same_node_at_once_wait_for_one_entry(tmp_path: Path, ports: range) -> None:
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        answers: list[bytes] = []

        async def read() -> None:
            answers.append(await running.ask(b"nodes"))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(read)

        assert answers == [told((1, ports[1]))] * 10
        assert len(running.logged("listening")) == 2


async def test_draining_closes_the_ports_of_nodes_and_finishes_answers(tmp_path: Path, ports: range) -> None:
    async with cluster(1, 2) as servers:
        servers.tell(only=[1])
        async with veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
            await running.ask(b"nodes")
            async with await trio.open_tcp_stream("127.0.0.1", ports[1]) as busy:
                await busy.send_all(b"name")
                assert await busy.receive_some() == b"server 1"
                nodes = running.app._clusters[0]
                running.app.stop()
                await until(lambda: not listens(ports[1]))
                here = Node(1, "127.0.0.1", servers.servers[1].port)

                assert await nodes.advertise((here, Node(2, "b", 1))) == {1: Endpoint("127.0.0.1", ports[1])}


async def test_readers_of_nodes_are_counted_and_the_nodes_too(tmp_path: Path, ports: range) -> None:
    async with cluster(1, 2) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        await running.ask(b"nodes")
        await ask(ports[1], b"name")
        page = running.app._metrics().page().decode()

    assert 'veil_nodes{connection="orders",platform="kafka"} 2.0' in page
    assert 'veil_connection_readers_total{connection="orders",platform="kafka"} 2.0' in page
    assert list(running.app._house.tallies) == ["orders"]
    assert isinstance(running.app._house.tallies["orders"], Tally)


async def test_sessions_of_all_nodes_share_what_the_connection_knows_and_have_its_settings(
    tmp_path: Path, ports: range
) -> None:
    async with cluster(1) as servers, veil(config(tmp_path, servers.upstream, brokers(ports))) as running:
        SESSIONS.clear()
        await running.ask(b"nodes")
        await ask(ports[1], b"name")

    first, second = (each.settings for each in SESSIONS)
    assert first.shared is second.shared is not None
    assert (first.token_claim, first.markers) == ("sub", False)


# By server name


class Named:
    """Veil behind one port, and readers who ask for names."""

    def __init__(self, running: Running, authority: Authority) -> None:
        self.running = running
        self._context = ssl.create_default_context(cafile=authority.path)
        self._context.check_hostname = False

    async def ask(self, name: str | None, question: bytes) -> bytes:
        with trio.fail_after(10):
            stream = await trio.open_tcp_stream("127.0.0.1", self.running.at.port)
            async with TlsStream(stream, self._context, server_side=False, server_name=name) as inside:
                try:
                    await inside.handshake()
                    await inside.send_all(question)
                    return await inside.receive_some()
                except (trio.BrokenResourceError, HandshakeFailed):
                    return b""


def by_name(folder: Path, servers: Cluster, *, more: str = "", several: bool = False) -> tuple[Path, Authority]:
    authority = Authority(folder)
    authority.server("server", "dns:*.kafka.test")
    authority.make("other", "dns:other.test")
    pair = "certificate: server.crt, key: server.key"
    if several:
        pair = f"certificates: [{{certificate: other.crt, key: other.key}}, {{{pair}}}]"
    return config(folder, servers.upstream, f'{{sni: "B{{id}}.kafka.test"{more}}}', tls=f", tls: {{{pair}}}"), authority


@pytest.mark.parametrize("several", [False, True])
async def test_a_server_name_leads_to_its_node_and_any_other_to_the_first_server(tmp_path: Path, several: bool) -> None:
    async with cluster(1, 20) as servers:
        path, authority = by_name(tmp_path, servers, several=several)
        async with veil(path) as running:
            reader = Named(running, authority)
            at = running.at.port

            assert await reader.ask("b20.kafka.test", b"name") == b"", "nobody has named it yet"
            assert len(running.logged("node-unknown")) == 1
            assert await reader.ask(None, b"nodes") == f" 1=B1.kafka.test:{at} 20=B20.kafka.test:{at}".encode()
            assert await reader.ask("b20.kafka.test", b"name") == b"server 20"
            assert await reader.ask("B20.KAFKA.test", b"name") == b"server 20"
            assert await reader.ask("b1.kafka.test", b"name") == b"server 1"
            for other in (None, "kafka.test", "b020.kafka.test", "b20.kafka.test.x", "xb20.kafka.test"):
                assert await reader.ask(other, b"name") == b"server 1"
            for unknown in ("b2.kafka.test", "b9999999999.kafka.test"):
                assert await reader.ask(unknown, b"name") == b""


async def test_readers_are_told_the_port_that_the_config_says(tmp_path: Path) -> None:
    async with cluster(1) as servers:
        path, authority = by_name(tmp_path, servers, more=", port: 9094")
        async with veil(path) as running:
            assert await Named(running, authority).ask(None, b"nodes") == b" 1=B1.kafka.test:9094"
            servers.tell("2=b1.kafka.test:9094 3=b1.kafka.test:9092")
            assert await Named(running, authority).ask(None, b"nodes") == b" 1=B1.kafka.test:9094 3=B3.kafka.test:9094"


async def test_a_name_that_another_process_was_told_of_is_looked_for_in_the_table(tmp_path: Path) -> None:
    async with cluster(1) as servers:
        path, authority = by_name(tmp_path, servers, more=", table: nodes.json")
        async with veil(path) as running:
            seat = {"id": 7, "slot": 7, "host": "127.0.0.1", "port": servers.servers[1].port}
            (tmp_path / "new").write_text(json.dumps({"version": 1, "nodes": [seat]}))
            (tmp_path / "new").replace(tmp_path / "nodes.json")

            assert await Named(running, authority).ask("b7.kafka.test", b"name") == b"server 1"


# Several workers


def waited(holds: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < limit_s
        time.sleep(0.05)


def once(port: int, question: bytes) -> bytes:
    """An answer; empty where there is nobody."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
            stream.sendall(question)
            return stream.recv(1000)
    except OSError:
        return b""


def listeners(port: int) -> int:
    wanted = f" 0100007F:{port:04X} 00000000:0000 0A "
    return Path("/proc/net/tcp").read_text().count(wanted)


@contextmanager
def started(path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The workers, and their log."""
    log = path.with_name("log")
    command = [sys.executable, "-m", "tests.proxy.runtime.tiny", str(path)]
    with log.open("w") as opened, subprocess.Popen(command, cwd=TREE, env=environment(), stderr=opened) as process:
        try:
            yield process, log
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.slow
async def test_workers_agree_on_the_ports_and_one_that_is_new_serves_them_all(tmp_path: Path, ports: range) -> None:
    port, admin = free_port(), free_port()
    async with cluster(1, 5) as servers:
        path = config(tmp_path, servers.upstream, brokers(ports), port=port, admin=admin)
        with started(path) as (process, log):
            await trio.to_thread.run_sync(waited, lambda: once(port, b"name") == b"server 1")
            assert not any(map(listens, ports))
            expected = told((1, ports[1]), (5, ports[2]))
            assert [await ask(port, b"nodes") for _ in range(20)] == [expected] * 20
            for at, name in ((ports[1], b"server 1"), (ports[2], b"server 5")):
                assert [await ask(at, b"name") for _ in range(20)] == [name] * 20
            await trio.to_thread.run_sync(waited, lambda: listeners(ports[1]) == listeners(ports[2]) == WORKERS)
            page = once(admin, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").decode()
            os.kill(int(re.findall(r'"process": ?(\d+)', page)[0]), signal.SIGKILL)
            await trio.to_thread.run_sync(waited, lambda: "worker-ended" in log.read_text())
            await trio.to_thread.run_sync(waited, lambda: listeners(ports[1]) == listeners(ports[2]) == WORKERS)
            assert await ask(ports[2], b"name") == b"server 5"
            assert [await ask(port, b"nodes") for _ in range(10)] == [expected] * 10
            process.terminate()
            code = await trio.to_thread.run_sync(process.wait, 30)

    assert code == 0, log.read_text()
    assert not any(map(listens, ports))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["port", "table"])
async def test_what_keeps_workers_from_starting_is_told_once(tmp_path: Path, ports: range, fault: str) -> None:
    path = config(tmp_path, Address("127.0.0.1", 1), brokers(ports), port=free_port(), admin=free_port())
    with socket.create_server(("127.0.0.1", ports[3] if fault == "port" else 0)):
        if fault == "table":
            (tmp_path / "nodes.json").write_text("{")
        done = await trio.run_process(
            [sys.executable, "-m", "tests.proxy.runtime.tiny", str(path)],
            cwd=TREE,
            env=environment(),
            capture_stderr=True,
            check=False,
        )

    expected = f"CannotBind: cannot listen on 127.0.0.1:{ports[3]}" if fault == "port" else "is damaged"
    assert done.stderr.decode().count(expected) == 1
