"""The admin port over real sockets, spoken to by hand."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from proxy.admin import server as server_module
from proxy.admin.routes import Routes, State
from proxy.admin.server import AdminServer
from proxy.runtime.listen import bind
from proxy.runtime.log import Log
from proxy.runtime.upstream import Address
from rules.model import Place, Problem

READY = State(rules_read=True, bound=True, draining=False, audit_failing=False)


class Admin:
    def __init__(self, port: int) -> None:
        self.port = port
        self.state = READY

    async def send(self, raw: bytes) -> bytes:
        """Everything that comes back for these bytes."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            await stream.send_all(raw)
            got = b""
            with trio.fail_after(5):
                while data := await stream.receive_some():
                    got += data
        return got

    async def get(self, path: str, method: str = "GET") -> tuple[int, bytes, bytes]:
        raw = await self.send(f"{method} {path} HTTP/1.1\r\nHost: anything\r\n\r\n".encode())
        head, _, body = raw.partition(b"\r\n\r\n")
        return int(head.split()[1]), head, body


@asynccontextmanager
async def serving() -> AsyncIterator[Admin]:
    sockets = await bind(Address("127.0.0.1", 0))
    admin = Admin(sockets[0].socket.getsockname()[1])
    log = Log(io.StringIO())
    routes = Routes(lambda: admin.state, lambda: b"veil_build_info 1.0\n", "text/plain; version=0.0.4")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(AdminServer(routes, Address("127.0.0.1", 0), log).run, sockets)
        yield admin
        nursery.cancel_scope.cancel()
    assert log.unknown_keys == 0


async def test_livez_and_metrics_answer_anyone() -> None:
    async with serving() as admin:
        assert (await admin.get("/livez"))[::2] == (200, b"ok\n")
        status, head, body = await admin.get("/metrics")

    assert (status, body) == (200, b"veil_build_info 1.0\n")
    assert b"version=0.0.4" in head


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (READY, 200),
        (replace(READY, rules_read=False), 503),
        (replace(READY, bound=False), 503),
        (replace(READY, draining=True), 503),
        (replace(READY, problems=(Problem(Place("a.yaml", 1, 1), "x"),)), 200),
        (replace(READY, audit_failing=True), 200),
    ],
)
async def test_readyz_says_whether_readers_are_served(state: State, status: int) -> None:
    async with serving() as admin:
        admin.state = state

        assert (await admin.get("/readyz"))[0] == status


async def test_readyz_tells_what_is_wrong_by_file_line_and_column() -> None:
    async with serving() as admin:
        admin.state = replace(READY, problems=(Problem(Place("rules.d/a.yaml", 3, 5), "no key"),))
        _, head, body = await admin.get("/readyz?verbose")

    assert b"application/json" in head
    assert json.loads(body)["problems"] == [{"file": "rules.d/a.yaml", "line": 3, "column": 5, "message": "no key"}]


async def test_head_has_the_head_alone() -> None:
    async with serving() as admin:
        status, head, body = await admin.get("/livez", "HEAD")

    assert (status, body) == (200, b"")
    assert b"Content-Length: 3" in head


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/livez", 405), ("GET", "/", 404), ("GET", "/api/v1/rules", 404)]
)
async def test_what_is_not_there_is_refused(method: str, path: str, status: int) -> None:
    async with serving() as admin:
        assert (await admin.get(path, method))[0] == status


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"\r\n\r\n\r\n",
    ],
)
async def test_nonsense_is_refused_and_the_port_lives_on(raw: bytes) -> None:
    async with serving() as admin:
        answer = await admin.send(raw)

        assert answer.startswith(b"HTTP/1.1 4")
        assert (await admin.get("/livez"))[0] == 200


async def test_a_client_that_dawdles_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_S", 0.1)
    async with serving() as admin:
        assert (await admin.send(b"GET /live")).startswith(b"HTTP/1.1 408")


async def test_beyond_the_cap_the_oldest_connection_is_closed_and_a_probe_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS", 2)
    async with serving() as admin:
        idle = [await trio.open_tcp_stream("127.0.0.1", admin.port) for _ in range(5)]
        assert (await admin.get("/livez"))[0] == 200
        with trio.fail_after(2):
            assert await idle[0].receive_some() == b""
        for stream in idle:
            await stream.aclose()
        assert (await admin.get("/livez"))[0] == 200


async def test_a_supervisor_whose_workers_have_all_ended_names_none_and_one_process_alone_has_none() -> None:
    async with serving() as admin:
        alone = json.loads((await admin.get("/readyz"))[2])
        admin.state = replace(READY, bound=False, workers=())
        status, _, body = await admin.get("/readyz")

    assert "workers" not in alone
    assert (status, json.loads(body)["workers"]) == (503, [])
