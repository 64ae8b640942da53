"""The tiny API through a real Veil, before a real HTTP server, asked by the clients of the standard library."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from proxy.app import App, Bound
from proxy.core.session import ProtocolEntry
from proxy.protocols.http.session import HttpSession
from proxy.runtime.log import Log
from proxy.settings import load_configuration
from rules.model import Platform
from tests.canary import assert_no_canary

from .desk import CANARY, CARD, MASK, TinyApi, login, messages

ENTRY = ProtocolEntry(
    "rabbitmq-management",
    frozenset({Platform.RABBITMQ}),
    lambda viewer, settings: HttpSession(viewer, settings, TinyApi()),
    lambda: "",
    alpn=("http/1.1",),
    has_headers=True,
)
PROTOCOLS = {ENTRY.name: ENTRY}
RULES = """\
rules:
  - {name: Cards, platform: rabbitmq, resources: {queue: ["orders*"]}, fields: [{kind: json_path, path: $.card, method: redact}]}
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: installation}
"""
BIG = 32 * 1024 * 1024
USERS = {login(each).split(": ")[1] for each in ("alice", "bob")}


class Broker(BaseHTTPRequestHandler):
    """Users have the password `pw`. `/big` is long, `/cut` ends early, `/once` ends its connection."""

    protocol_version = "HTTP/1.1"
    is_open = False
    seen: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path))  # type: ignore[attr-defined]
        if not self.server.is_open and self.path != "/big" and self.headers["Authorization"] not in USERS:  # type: ignore[attr-defined]
            self._answer(401, b'{"error":"not_authorised"}')
        elif self.path.startswith("/contents/"):
            self._answer(200, messages(CARD), ETag='"1"')
        elif self.path == "/big":
            self.send_response(200)
            self.send_header("Content-Length", str(BIG))
            self.end_headers()
            for _ in range(BIG // 65536):
                self.wfile.write(b"x" * 65536)
        elif self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"abc")
            self.close_connection = True
        elif self.path == "/once":
            self._answer(200, b"{}", Connection="close")
        else:
            self._answer(200, b"{}")

    def do_POST(self) -> None:
        self.do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: bytes, **fields: str) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def broker() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Broker) as server:
        server.daemon_threads = True
        server.seen, server.is_open = [], False  # type: ignore[attr-defined]
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


class Running:
    def __init__(self, folder: Path, log: io.StringIO, port: int) -> None:
        self.folder = folder
        self.log = log
        self.port = port
        self.received = bytearray()

    async def ask(self, *asked: tuple[str, str, str], host: str = "127.0.0.1") -> list[HTTPResponse]:
        """Answers to (method, path, a field or nothing), all on one connection; their bodies are in `received`."""
        return await trio.to_thread.run_sync(lambda: list(self._ask(asked, host)))

    def _ask(self, asked: tuple[tuple[str, str, str], ...], host: str) -> Iterator[HTTPResponse]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=20)) as client:
            for method, path, field in asked:
                client.putrequest(method, path, skip_host=True)
                client.putheader("Host", host)
                if field:
                    client.putheader(*field.split(": "))
                client.endheaders()
                answered = client.getresponse()
                self.received += str(answered.headers).encode() + answered.read()
                yield answered

    def audit(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]


@asynccontextmanager
async def veil(folder: Path, broker: ThreadingHTTPServer, reader: str = "{from: protocol}") -> AsyncIterator[Running]:
    (folder / "rules.d").mkdir()
    (folder / "rules.d" / "rules.yaml").write_text(RULES)
    path = folder / "veil.yaml"
    path.write_text(
        f"""\
store: {{files: {{directory: rules.d}}}}
audit: {{file: {{path: audit.jsonl}}}}
admin: {{listen: "127.0.0.1:0"}}
connections:
  - name: shop
    platform: rabbitmq
    reader: {reader}
    listeners:
      - {{protocol: rabbitmq-management, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:{broker.server_port}", hosts: [mq.local]}}
"""
    )
    stream = io.StringIO()
    log = Log(stream)
    app = App(load_configuration(path, {}, PROTOCOLS), PROTOCOLS, log)
    async with trio.open_nursery() as nursery:

        async def start(task_status: trio.TaskStatus[Bound]) -> None:
            await app.run(signals=False, task_status=task_status)

        bound = await nursery.start(start)
        with trio.fail_after(10):
            await app.watch.first_read.wait()
        yield Running(folder, stream, bound.listeners[0][1].port)
        app.stop()
        app.stop()
    assert "session-fault" not in stream.getvalue()
    assert_no_canary(stream.getvalue(), CANARY, where="the log")
    assert_no_canary((folder / "audit.jsonl").read_bytes(), CANARY, where="the audit file")


def test_readers_see_what_they_may_one_behind_the_other_on_one_connection(tmp_path: Path, broker: ThreadingHTTPServer) -> None:
    async def main() -> None:
        async with veil(tmp_path, broker) as running:
            path = "/contents/orders"
            told = await running.ask(("POST", path, login("bob")), ("GET", path, ""), ("HEAD", path, login("alice", "wrong")))
            assert [each.status for each in told] == [200, 401, 401]
            assert MASK.encode() in running.received
            assert_no_canary(bytes(running.received), CANARY)
            await running.ask(("POST", path, login("alice")))
            assert CANARY.encode() in running.received
            assert [each["who"] for each in running.audit() if each["event"] == "broker.message.read-unmasked"] == ["alice"]

    trio.run(main)


def test_a_server_that_lets_everybody_in_names_nobody(tmp_path: Path, broker: ThreadingHTTPServer) -> None:
    async def main() -> None:
        async with veil(tmp_path, broker) as running:
            broker.is_open = True  # type: ignore[attr-defined]
            await running.ask(("POST", "/contents/orders", login("alice")))
            assert MASK.encode() in running.received
            assert_no_canary(bytes(running.received), CANARY)
            assert "login-proves-nothing" in running.log.getvalue()

    trio.run(main)


def test_a_trusted_header_names_its_requests_reader(tmp_path: Path, broker: ThreadingHTTPServer) -> None:
    async def main() -> None:
        reader = "{from: header, name: X-Forwarded-User, trusted: [127.0.0.1]}"
        async with veil(tmp_path, broker, reader) as running:
            broker.is_open = True  # type: ignore[attr-defined]
            path = "/contents/orders"
            await running.ask(
                ("GET", path, ""), ("GET", path, "X_Forwarded_User: alice"), ("GET", path, "X-Forwarded-User: bob")
            )
            assert_no_canary(bytes(running.received), CANARY)
            await running.ask(("GET", path, "X-Forwarded-User: alice"))
            assert CANARY.encode() in running.received
            assert "header-trusted" in running.log.getvalue()

    trio.run(main)


@pytest.mark.parametrize(("host", "status"), [("mq.local", 200), ("evil.example", 421)])
def test_a_stranger_s_name_leads_nowhere(tmp_path: Path, broker: ThreadingHTTPServer, host: str, status: int) -> None:
    async def main() -> None:
        async with veil(tmp_path, broker) as running:
            (told,) = await running.ask(("GET", "/open", login("bob")), host=host)
            assert told.status == status
            assert len(broker.seen) == (status == 200)  # type: ignore[attr-defined]

    trio.run(main)


def test_the_connection_ends_with_the_servers_and_the_next_works(tmp_path: Path, broker: ThreadingHTTPServer) -> None:
    async def main() -> None:
        async with veil(tmp_path, broker) as running:
            for _ in range(2):
                (told,) = await running.ask(("GET", "/once", login("bob")))
                assert (told.status, told.headers["Connection"]) == (200, "close")

    trio.run(main)


def test_a_server_that_ends_within_an_answer_leaves_a_broken_one(tmp_path: Path, broker: ThreadingHTTPServer) -> None:
    async def main() -> None:
        async with veil(tmp_path, broker) as running:
            with pytest.raises(Exception, match="IncompleteRead"):
                await running.ask(("GET", "/cut", login("bob")))

    trio.run(main)


def test_a_long_answer_arrives_whole(tmp_path: Path, broker: ThreadingHTTPServer) -> None:
    async def main() -> None:
        async with veil(tmp_path, broker) as running:
            await running.ask(("GET", "/big", ""))
            assert running.received.count(b"x") >= BIG

    trio.run(main)
