"""Whether a store is a broker: by its address, by the id of its run, and when nothing can be told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from proxy.runtime import apart
from proxy.runtime.apart import Brokers
from proxy.runtime.upstream import Address
from tests.brokers.processes import free_port

RUN_ID = "0123456789" * 4


@contextmanager
def broker(*answer: bytes) -> Iterator[Address]:
    """A server that gives one answer, in parts, to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                for part in answer:
                    connected.sendall(part)
                if not answer:
                    connected.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("127.0.0.1", listening.getsockname()[1])
        thread.join()


def test_the_address_of_an_upstream_is_known_by_every_spelling() -> None:
    port = free_port()

    assert "upstream localhost" in Brokers([Address("localhost", port)]).among(Address("127.0.0.1", port), RUN_ID, bytes)
    assert Brokers([Address("localhost", port)]).among(Address("127.0.0.1", port + 1), RUN_ID, bytes) == ""
    assert Brokers([]).among(Address("127.0.0.1", port), RUN_ID, bytes) == ""


def test_the_same_run_is_the_same_server_whatever_its_address() -> None:
    text = b"$70\r\n# Server\r\nrun_id:" + RUN_ID.encode() + b"\r\nx:y\r\n"
    with broker(text[:20], text[20:]) as address:
        assert "same server" in Brokers([address]).among(Address("10.0.0.1", 1), RUN_ID, bytes)
    with broker(text.replace(b"0123", b"ffff")) as address:
        assert Brokers([address]).among(Address("10.0.0.1", 1), RUN_ID, bytes) == ""


@pytest.mark.parametrize(
    "answer", [b"-NOAUTH Authentication required.\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$5\r\nhello\r\n"]
)
def test_a_broker_that_tells_nothing_is_another_one(answer: bytes) -> None:
    with broker(answer) as address:
        assert Brokers([address]).among(Address("10.0.0.1", 1), RUN_ID, bytes) == ""


def test_a_broker_that_wants_a_login_is_known_by_a_connection_that_shows_up_among_the_clients() -> None:
    here: list[str] = []

    def clients() -> bytes:
        return f"id=1 addr=10.0.0.1:1 fd=8\nid=2 addr={here[0]} laddr=127.0.0.1:1 fd=9\n".encode()

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, (host, port) = listening.accept()
            with connected:
                here.append(f"{host}:{port}")
                connected.sendall(b"-NOAUTH Authentication required.\r\n")
                connected.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        broker_at = Address("127.0.0.1", listening.getsockname()[1])
        assert "same server" in Brokers([broker_at]).among(Address("10.0.0.1", 1), RUN_ID, clients)
        thread.join()


def test_a_broker_that_is_silent_gone_or_nameless_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "ASK_S", 0.05)
    with broker() as address:
        brokers = Brokers([address, Address("127.0.0.1", free_port()), Address("nowhere.invalid", 1)])

        assert brokers.among(Address("10.0.0.1", 1), RUN_ID, bytes) == ""
