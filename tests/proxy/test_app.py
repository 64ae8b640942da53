"""The whole process in one nursery, over real sockets, with a protocol that passes lines and echoes names."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from proxy import app as app_module
from proxy.app import App, Bound, may_unmask
from proxy.core.errors import ConfigError
from proxy.core.session import ProtocolEntry, Session, SessionSettings
from proxy.core.steps import EndServer, Record, Steps, ToReader, ToServer
from proxy.core.viewer import Viewer
from proxy.process import room_for_readers
from proxy.runtime.listen import CannotBind, accept_for_ever
from proxy.runtime.log import Log
from proxy.runtime.upstream import Address
from proxy.settings import load_configuration
from rules.audit import Entry
from rules.model import AccessList, Connection, Extent, Grant, Kind, Platform, Whom
from rules.view import plain


class Lines:
    """Passes what it gets; `audit` is recorded and answered with the number, `boom` is a fault."""

    logged_in = True
    wakes_at_s = math.inf

    def __init__(self, viewer: Viewer, settings: SessionSettings) -> None:
        self._viewer = viewer
        self.changes = 0

    def from_reader(self, data: bytes) -> Steps[None]:
        if data == b"boom":
            raise PermissionError("SECRET")
        if data == b"audit":
            receipts = yield Record((Entry("event", self._viewer.who, self._viewer.peer),))
            yield ToReader(plain(b"masked" if receipts is None else b"recorded"))
        elif data:
            yield ToServer(data)
        else:
            yield EndServer()

    weight = 0
    missing_bytes = 0

    def from_server(self, data: bytes) -> Steps[None]:
        if data:
            yield ToReader(plain(data))

    def policy_changed(self) -> Steps[None]:
        yield ToReader(plain(b"news"))

    def wake(self) -> Steps[None]:
        yield ToReader(plain(b"woken"))


def lines_session(viewer: Viewer, settings: SessionSettings) -> Session:
    return Lines(viewer, settings)


PROTOCOLS = {"redis": ProtocolEntry("redis", frozenset({Platform.REDIS}), lines_session, lambda: "")}
RULES = 'rules:\n  - {name: r, platform: redis, resources: ["a*"], mask_all: true}\n'


class Running:
    def __init__(self, app: App, bound: Bound, log: io.StringIO, tmp_path: Path) -> None:
        self.app = app
        self.admin = bound.admin
        self.listener = bound.listeners[0][1]
        self.log = log
        self.rules = tmp_path / "rules.d" / "rules.yaml"
        self.audit = tmp_path / "audit.jsonl"

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream(self.listener.host, self.listener.port)

    async def get(self, path: str) -> tuple[int, bytes]:
        async with await trio.open_tcp_stream(self.admin.host, self.admin.port) as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            got = b""
            while data := await stream.receive_some():
                got += data
        head, _, body = got.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def logged(self, event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(3):
        while not holds():
            await trio.sleep(0.01)


async def echo(stream: trio.SocketStream) -> None:
    async with stream:
        try:
            while data := await stream.receive_some():
                if data != b"silence":
                    await stream.send_all(b"<" + data + b">")
        except trio.BrokenResourceError:
            return


def config(tmp_path: Path, upstream: Address, more: str = "", limits: str = "{}", reader: str = "{}") -> Path:
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    (tmp_path / "rules.d" / "rules.yaml").write_text(RULES + more, encoding="utf-8")
    path = tmp_path / "veil.yaml"
    path.write_text(
        f"""\
store: {{files: {{directory: rules.d}}}}
audit: {{file: {{path: audit.jsonl}}}}
admin: {{listen: "127.0.0.1:0"}}
limits: {limits}
connections:
  - name: shop
    platform: redis
    reader: {reader}
    listeners:
      - {{protocol: redis, listen: "127.0.0.1:0", upstream: "{upstream}"}}
""",
        encoding="utf-8",
    )
    return path


@asynccontextmanager
async def running(tmp_path: Path, more: str = "", limits: str = "{}", reader: str = "{}") -> AsyncIterator[Running]:
    brokers = await trio.open_tcp_listeners(0, host="127.0.0.1")
    upstream = Address("127.0.0.1", brokers[0].socket.getsockname()[1])
    stream = io.StringIO()
    log = Log(stream)
    app = App(load_configuration(config(tmp_path, upstream, more, limits, reader), {}, PROTOCOLS), PROTOCOLS, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, echo, brokers)

        async def start(task_status: trio.TaskStatus[Bound]) -> None:
            await app.run(signals=False, task_status=task_status)

        bound: Bound = await nursery.start(start)
        await app.watch.first_read.wait()
        yield Running(app, bound, stream, tmp_path)
        app.stop()
        app.stop()
        nursery.cancel_scope.cancel()
    assert log.unknown_keys == 0


async def say(stream: trio.SocketStream, data: bytes) -> bytes:
    await stream.send_all(data)
    with trio.fail_after(3):
        return bytes(await stream.receive_some())


async def test_a_reader_is_carried_to_the_broker_and_back(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as stream:
        assert await say(stream, b"hello") == b"<hello>"


async def test_readers_have_broker_connections_of_their_own(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as one, await veil.connect() as two:
        await one.send_all(b"silence")

        assert await say(two, b"two") == b"<two>"
        assert await say(one, b"one") == b"<one>"


async def test_ready_once_the_rules_are_read_and_metrics_count_the_readers(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as stream:
        await say(stream, b"hello")
        status, body = await veil.get("/readyz")
        _, metrics = await veil.get("/metrics")

    assert status == 200
    assert json.loads(body)["ready"] is True
    for line in (
        b"veil_connections 1.0",
        b"veil_connections_total 1.0",
        b"veil_rules 1.0",
        b"veil_rules_last_reload_successful 1.0",
    ):
        assert line in metrics.splitlines()


async def test_a_record_is_on_the_disk_before_it_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as stream:
        assert await say(stream, b"audit") == b"recorded"

        assert b'"event":"event"' in veil.audit.read_bytes()


async def test_without_a_disk_the_session_is_told_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with running(tmp_path) as veil, await veil.connect() as stream:
        monkeypatch.setattr(os, "fsync", broken)

        assert await say(stream, b"audit") == b"masked"
        assert b"not writable" in (await veil.get("/readyz"))[1]

        monkeypatch.undo()

        assert await say(stream, b"audit") == b"recorded"


async def test_a_changed_policy_reaches_running_sessions(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as stream:
        await say(stream, b"hello")
        veil.rules.write_text(RULES.replace("a*", "b*"), encoding="utf-8")
        veil.app.watch.reread()
        with trio.fail_after(3):
            assert await stream.receive_some() == b"news"


async def test_a_fault_closes_its_reader_alone_and_its_words_are_not_logged(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as bad, await veil.connect() as good:
        await bad.send_all(b"boom")
        with trio.fail_after(3):
            assert await bad.receive_some() == b""

        assert await say(good, b"hello") == b"<hello>"
        assert veil.logged("session-fault")[0]["error"] == "PermissionError"
        assert "SECRET" not in veil.log.getvalue()


async def test_beyond_max_connections_readers_are_closed_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, limits="{max_connections: 1}") as veil:
        async with await veil.connect() as one, await veil.connect() as two:
            assert await say(one, b"hello") == b"<hello>"
            with trio.fail_after(3):
                assert await two.receive_some() == b""
        await until(lambda: bool(veil.logged("reader-gone")))
        async with await veil.connect() as three:
            assert await say(three, b"hello") == b"<hello>"
        _, metrics = await veil.get("/metrics")

    assert b"veil_connections_turned_away_total 1.0" in metrics


async def test_an_upstream_that_is_down_closes_the_reader_and_is_logged(tmp_path: Path) -> None:
    log = io.StringIO()
    app = App(load_configuration(config(tmp_path, Address("127.0.0.1", 1)), {}, PROTOCOLS), PROTOCOLS, Log(log))
    async with trio.open_nursery() as nursery:

        async def start(task_status: trio.TaskStatus[Bound]) -> None:
            await app.run(signals=False, task_status=task_status)

        veil = Running(app, await nursery.start(start), log, tmp_path)
        async with await veil.connect() as stream:
            with trio.fail_after(3):
                assert await stream.receive_some() == b""
        assert veil.logged("upstream-unreachable")
        page = app._metrics().page().decode()
        assert 'veil_upstream_connect_failures_total{connection="shop",platform="redis"} 1.0' in page
        assert 'veil_connection_readers_total{connection="shop",platform="redis"} 1.0' in page
        app.stop()


async def test_draining_closes_the_idle_lets_the_busy_finish_and_takes_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as idle, await veil.connect() as busy:
        await say(idle, b"hello")
        await say(busy, b"hello")
        await busy.send_all(b"silence")
        await until(lambda: any(relay.quiet_for_s() > app_module.QUIET_S for relay in veil.app._census.relays))
        veil.app.stop()
        with trio.fail_after(3):
            assert await idle.receive_some() == b""
        status, _ = await veil.get("/readyz")

        assert status == 503
        assert await say(busy, b"last") == b"<last>"
        with pytest.raises(OSError, match="attempts to connect"):
            await veil.connect()


async def test_a_second_stop_ends_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as veil, await veil.connect() as busy:
        await say(busy, b"hello")
        await busy.send_all(b"silence")
        veil.app.stop()
        veil.app.stop()
        with trio.fail_after(2):
            assert await busy.receive_some() == b""


async def test_an_address_that_is_taken_is_told_and_nothing_is_served(tmp_path: Path) -> None:
    (taken,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = taken.socket.getsockname()[1]
    path = config(tmp_path, Address("127.0.0.1", 1))
    path.write_text(path.read_text().replace('"127.0.0.1:0", upstream', f'"127.0.0.1:{port}", upstream'))
    app = App(load_configuration(path, {}, PROTOCOLS), PROTOCOLS, Log(io.StringIO()))

    with pytest.RaisesGroup(pytest.RaisesExc(CannotBind, match=f"cannot listen on 127.0.0.1:{port}"), flatten_subgroups=True):
        await app.run(signals=False)
    await taken.aclose()


async def test_an_audit_file_that_will_not_do_is_a_config_error(tmp_path: Path) -> None:
    path = config(tmp_path, Address("127.0.0.1", 1))
    (tmp_path / "audit.jsonl").write_text("not a trail\n")

    with pytest.raises(ConfigError, match="audit file"):
        App(load_configuration(path, {}, PROTOCOLS), PROTOCOLS, Log(io.StringIO()))


async def test_a_fixed_reader_who_may_read_unmasked_is_warned_of(tmp_path: Path) -> None:
    grants = "grants:\n  - {allow: messages.read.unmasked, to: {user: console}, on: installation}\n"
    async with running(tmp_path, grants, reader="{from: fixed, user: console}") as veil:
        await until(lambda: bool(veil.logged("fixed-reader-unmasked")))
        _, body = await veil.get("/readyz")

    assert "console" in json.loads(body)["warnings"][0]


@pytest.mark.parametrize(
    ("user", "on", "expected"),
    [
        ("console", Extent(resources=((Kind.KEY, ("eu:*",)),)), True),
        ("console", Extent(connection="other"), False),
        ("else", Extent(installation=True), False),
    ],
)
def test_who_may_unmask_anything_is_found(user: str, on: Extent, expected: bool) -> None:
    access = AccessList(grants=(Grant(True, "messages.read.unmasked", Whom.USER, "console", on),))

    assert may_unmask(access, user, Connection("shop", Platform.REDIS)) is expected


async def test_running_out_of_descriptors_is_survived_without_spinning(autojump_clock: trio.testing.MockClock) -> None:
    class Exhausted:
        tries = 0

        async def accept(self) -> trio.SocketStream:
            await trio.lowlevel.checkpoint()
            self.tries += 1
            raise OSError(errno.EMFILE, "Too many open files")

    listener, stream = Exhausted(), io.StringIO()
    with trio.move_on_after(10):
        await accept_for_ever(listener, lambda _: None, Log(stream), Address("127.0.0.1", 1))  # type: ignore[arg-type]

    assert 50 <= listener.tries <= 101
    assert stream.getvalue().count("accept-exhausted") == 1


@pytest.mark.slow  # a change of rules settles first
async def test_a_fixed_reader_who_may_read_unmasked_since_a_change_is_warned_of(tmp_path: Path) -> None:
    async with running(tmp_path, reader="{from: fixed, user: console}") as veil:
        assert json.loads((await veil.get("/readyz"))[1])["warnings"] == []
        access = veil.rules.with_name("access.yaml")
        access.write_text("grants: [{allow: messages.read.unmasked, to: {user: console}, on: installation}]\n")
        await until(lambda: len(veil.logged("fixed-reader-unmasked")) == 1)
        assert "console" in json.loads((await veil.get("/readyz"))[1])["warnings"][0]
        access.unlink()
        await until(lambda: len(veil.logged("rules-in-force")) == 3)

        assert json.loads((await veil.get("/readyz"))[1])["warnings"] == []
    assert len(veil.logged("fixed-reader-unmasked")) == 1


@pytest.mark.parametrize(
    ("descriptors", "expected"), [(64, 16), (1024, 432), (20_160, 10_000), (1, 1), (resource.RLIM_INFINITY, sys.maxsize)]
)
def test_some_descriptors_are_kept_from_readers(descriptors: int, expected: int) -> None:
    assert room_for_readers(descriptors) == expected
