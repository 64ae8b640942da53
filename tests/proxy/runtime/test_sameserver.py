"""Whether a server is one of the brokers: by its address, its ids or its clients, and when nothing can be told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from proxy.runtime import sameserver
from proxy.runtime.sameserver import Brokers, ids_of
from proxy.runtime.upstream import Address
from tests.brokers.processes import free_port, wait_until

RUN_ID, DATA_ID, OTHER_ID = "0123456789" * 4, "a" * 40, "b" * 40
FAR = (Address("10.0.0.1", 1),)
SHORT_S = 0.2
DENIED = b"-NOAUTH Authentication required.\r\n"


def info(run_id: str = RUN_ID, data_id: str = DATA_ID) -> bytes:
    text = f"# Server\r\nrun_id:{run_id}\r\n# Replication\r\nmaster_replid:{data_id}\r\nmaster_replid2:{'0' * 40}\r\n".encode()
    return b"$%d\r\n%b\r\n" % (len(text), text)


@contextmanager
def broker(*answer: bytes) -> Iterator[tuple[Address, Callable[[], bytes]]]:
    """A server that gives one answer, in parts, to whoever asks it something, and the list of its clients."""
    connected: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    one, _ = listening.accept()
                except OSError:
                    return
                connected.append(one)
                threading.Thread(target=tell, args=(one,), daemon=True).start()

        def tell(one: socket.socket) -> None:
            try:
                if one.recv(1000):
                    for part in answer:
                        one.sendall(part)
            except OSError:
                return

        def clients() -> bytes:
            with socket.socket() as last:  # let in after all that came before
                last.connect(listening.getsockname())
                wait_until(lambda: last.getsockname() in [each.getpeername() for each in connected], "all have been let in")
                return told()

        def told() -> bytes:
            listed = ["id=1 addr=10.0.0.1:1 laddr=127.0.0.1:1 fd=8"]
            listed += ["id=2 addr={}:{} laddr=10.0.0.1:1 fd=9".format(*each.getpeername()) for each in connected]
            return "\n".join(listed).encode()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("127.0.0.1", listening.getsockname()[1]), clients
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
    for each in connected:
        each.close()


@pytest.mark.parametrize("spelled", ["localhost", "127.0.0.1", "::1", "0.0.0.0"])
def test_the_address_of_a_broker_is_known_by_every_spelling(spelled: str) -> None:
    port = free_port()

    found = Brokers([Address(spelled, port)]).among((Address("127.0.0.1", port),), (), bytes)

    assert found is not None
    assert (found.broker, found.by_address) == (Address(spelled, port), True)
    assert str(found) == f"it is the upstream {Address(spelled, port)}"
    assert Brokers([Address(spelled, port)]).among((Address("127.0.0.1", port + 1),), (), bytes) is None
    assert Brokers([]).among((Address("127.0.0.1", port),), (), bytes) is None


def test_a_name_that_leads_nowhere_is_still_known_as_itself() -> None:
    same = Address("nowhere.invalid", 7)

    assert Brokers([same]).among((same, *FAR), (), bytes) is not None
    assert Brokers([same]).among(FAR, (), bytes) is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (info(), True),
        (info(run_id=OTHER_ID), True),  # it holds the same data: a replica, or what one was promoted from
        (info(data_id=OTHER_ID), True),
        (info(OTHER_ID, OTHER_ID), False),
        (info("0" * 40, "0" * 40), False),
        (DENIED, False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"$5\r\nhello\r\n", False),
        (b"$999999999\r\n", False),
        (b"$x\r\n", False),
    ],
)
def test_whoever_tells_the_same_run_or_the_same_data_is_the_same_server(told: bytes, expected: bool) -> None:
    mine = {RUN_ID, DATA_ID, *ids_of(b"run_id:" + b"0" * 40)}
    with broker(told[:30], told[30:]) as (address, _):
        found = Brokers([address]).among(FAR, mine, bytes, SHORT_S)

    assert (found is not None) is expected
    assert found is None or str(found) == f"it is the same server as the upstream {address}"


def test_a_broker_that_wants_a_login_is_known_by_a_connection_that_shows_up_among_the_clients() -> None:
    with broker(DENIED) as (address, clients), broker(DENIED) as (other, _):
        assert Brokers([other, address]).among(FAR, {RUN_ID}, clients, SHORT_S) is not None
    with broker(DENIED) as (_, clients), broker(DENIED) as (other, _):
        assert Brokers([other]).among(FAR, {RUN_ID}, clients, SHORT_S) is None


def test_a_broker_that_was_down_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, down = socket.create_connection, [True]

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        if down:
            raise ConnectionRefusedError
        return real(address, timeout)

    monkeypatch.setattr(socket, "create_connection", connect)
    with broker(info()) as (address, clients):
        brokers = Brokers([address])
        assert brokers.among(FAR, {RUN_ID}, clients, SHORT_S) is None
        down.clear()

        assert brokers.among(FAR, {RUN_ID}, clients, SHORT_S) is not None


def test_brokers_that_are_silent_gone_or_nameless_are_waited_for_together_and_no_longer_than_the_limit() -> None:
    with broker() as (one, _), broker() as (two, _), broker(b"$5000\r\nrun") as (three, _):
        brokers = Brokers([one, two, three, Address("127.0.0.1", free_port()), Address("nowhere.invalid", 1)])
        start = time.monotonic()

        assert brokers.among(FAR, {RUN_ID}, bytes, SHORT_S) is None
        assert time.monotonic() - start < 5 * SHORT_S


def test_a_name_that_is_looked_up_for_ever_holds_up_nobody_and_threads_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = threading.Event()
    threads: set[int] = set()

    def look_up(*_: object, **__: object) -> list[object]:
        threads.add(threading.get_ident())
        resolved.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(sameserver, "UNFINISHED", 3)
    brokers = Brokers([Address("slow.test", 1), Address("slow.test", 2)])
    for _ in range(4):
        assert brokers.among(FAR, {RUN_ID}, bytes, 0.02) is None
    resolved.set()

    assert len(threads) == 3


def test_what_the_list_of_clients_raises_is_passed_on_and_every_connection_is_closed() -> None:
    def clients() -> bytes:
        raise PermissionError

    with broker(DENIED) as (address, _):
        knock = Brokers([address])
        with pytest.raises(PermissionError):
            knock.among(FAR, {RUN_ID}, clients, SHORT_S)  # an unclosed socket is an error of the whole run


def test_a_connection_that_comes_about_too_late_is_closed() -> None:
    with broker() as (address, _):
        knock = sameserver._Knock(address, SHORT_S)
        knock.end()
        knock.run()

        assert knock.open() == []
