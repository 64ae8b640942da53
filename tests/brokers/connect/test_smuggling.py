"""Requests that two servers read in two ways, sent at a real worker through Veil: none of them makes a connector."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path

import pytest

from tests.brokers.kafka_connect import ConnectServer
from tests.brokers.kafka_server import USERS
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import RULES, new_topic, reader, sink, whole_trail

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parents[2] / "corpora" / "http_smuggling.jsonl"
LOGIN = b"Authorization: Basic " + base64.b64encode(f"bob:{USERS['bob']}".encode())
OF_THE_CORPUS = b"/api/queues/%2F/q/get"


def exchanged(veil: Veil, data: bytes) -> bytes:
    """All that comes back until the other side closes or falls silent."""
    received = b""
    with socket.create_connection((veil.host, veil.port), timeout=2) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while True:
            try:
                piece = client.recv(65536)
            except (TimeoutError, ConnectionResetError):
                return received
            if not piece:
                return received
            received += piece


def test_nothing_of_the_corpus_gets_a_trace_out_or_a_connector_in(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    cards = new_topic(connect_server, "cards", canary.text().encode())
    config = sink(tmp_path / "copy.txt", cards, value__converter="org.apache.kafka.connect.json.JsonConverter")
    connect_server.create("failing", **config)
    connect_server.wait_state("failing", "FAILED")
    one = veil(RULES, upstream=connect_server)
    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    for line in lines:
        raw = base64.b64decode(line["b64"]).replace(b"mq.local", one.address.encode())
        for place in (OF_THE_CORPUS, b"/connectors/failing/status", b"/connectors?expand=status", b"/connectors"):
            sent = raw.replace(OF_THE_CORPUS, place).replace(b"/api/queues ", place + b" ")
            head, end, rest = sent.partition(b"\r\n")
            if end and b"uthorization" not in sent:
                sent = head + end + LOGIN + b"\r\n" + rest
            answer = exchanged(one, sent)

            canary.assert_not_in(answer, f"the answer to {line['id']}")
            if line["verdict"] == "reject":
                assert answer[:11] != b"HTTP/1.1 20", (line["id"], answer)
    assert len(lines) > 40
    assert connect_server.names() == {"failing"}
    with reader(one) as bob:
        assert bob.ask("GET", "/connectors").json() == ["failing"]
        whole_trail(one, canary, bob)


def test_a_request_inside_another_is_a_body_or_judged_by_itself(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    cards = new_topic(connect_server, "cards", canary.text().encode())
    config = json.dumps(sink(tmp_path / "copy.txt", cards)).encode()
    one = veil(RULES, upstream=connect_server)
    host = b"Host: " + one.address.encode() + b"\r\n" + LOGIN + b"\r\n"
    typed = b"Content-Type: application/json\r\n"
    inner = b"PUT /connectors/copy/config HTTP/1.1\r\n" + host + typed + b"Content-Length: %d\r\n\r\n" % len(config) + config
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner)

    def outer(line: bytes, *fields: bytes) -> bytes:
        return line + b" HTTP/1.1\r\n" + host + b"".join(each + b"\r\n" for each in fields) + b"\r\n"

    length = b"Content-Length: %d" % len(inner)
    forms = {
        "in the body of a GET": outer(b"GET /connectors", length) + inner,
        "in the body of a DELETE": outer(b"DELETE /connectors/none", length) + inner,
        "in the body of a pause": outer(b"PUT /connectors/none/pause", typed.strip(), length) + inner,
        "behind a length of nothing": outer(b"PUT /connectors/none/pause", b"Content-Length: 0") + inner,
        "behind a GET": outer(b"GET /connectors") + inner,
        "behind a HEAD": outer(b"HEAD /connectors") + inner,
        "behind chunks": outer(b"POST /connectors", typed.strip(), b"Transfer-Encoding: chunked") + b"0\r\n\r\n" + inner,
        "in chunks and a length": outer(b"POST /connectors", b"Transfer-Encoding: chunked", b"Content-Length: 5")
        + b"0\r\n\r\n"
        + inner,
        "in a chunk": outer(b"PUT /connectors/none/pause", typed.strip(), b"Transfer-Encoding: chunked") + chunk,
        "behind a bare line": b"GET /connectors HTTP/1.1\n" + host.replace(b"\r\n", b"\n") + b"\n" + inner,
        "in the target": outer(b"GET /connectors%20HTTP/1.1%0d%0a%0d%0a" + b"PUT%20/connectors/copy/config"),
        "by another method": outer(b"POST /connectors/copy/config", b"X-HTTP-Method-Override: PUT", typed.strip(), length)
        + inner,
        "with two lengths": outer(b"PUT /connectors/none/pause", b"Content-Length: 0", length) + inner,
        "at a place in a field": outer(b"POST /connectors/none/pause", b"X-Original-URL: /connectors/copy/config", length)
        + inner,
        "by dots": inner.replace(b"/connectors/copy", b"/connectors/none/../copy"),
        "by escaped letters": inner.replace(b"/connectors/copy", b"/%63onnectors/copy"),
        "by a parameter": inner.replace(b"/connectors/copy", b"/connectors;a=b/copy"),
        "by two slashes": inner.replace(b"/connectors/copy", b"//connectors/copy"),
        "by an escaped slash": inner.replace(b"/copy/config", b"%2Fcopy%2Fconfig"),
        "in another charset": inner.replace(b"application/json", b"application/json; charset=utf-16"),
        "as a form": inner.replace(b"application/json", b"application/x-www-form-urlencoded"),
    }
    for name, sent in forms.items():
        answer = exchanged(one, sent)

        assert answer.startswith(b"HTTP/1.1 "), (name, answer)
        assert b"HTTP/1.1 201" not in answer, (name, answer)
        canary.assert_not_in(answer, name)
    assert connect_server.names() == set()
    assert not (tmp_path / "copy.txt").exists()
    with reader(one) as bob:
        assert bob.ask("GET", "/connectors").json() == []
        whole_trail(one, canary, bob)
