"""Readers side by side: what one may see never reaches another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, names, put_secret

REQUESTS = 500


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_two_readers_that_ask_in_turn_never_get_each_others_reply(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, version: int
) -> None:
    for name in ("alice", "mallory"):
        redis_server.add_user(name, PASSWORD)
    value = canary.text()
    with redis_server.admin() as direct:
        direct.pipeline(*(("SET", f"secret:{number}", f"{number} {value}") for number in range(REQUESTS)))
    running = veil(SECRET, ALICE, upstream=redis_server)
    with running.client() as alice, running.client() as mallory:
        alice.login("alice", PASSWORD, version=version)
        mallory.login("mallory", PASSWORD, version=version)
        for number in range(REQUESTS):
            for client in (alice, mallory) if number % 2 else (mallory, alice):
                client.send("GET", f"secret:{number}")
                client.send("ECHO", f"{number}")

        for number in range(REQUESTS):
            assert [alice.read(), alice.read()] == [f"{number} {value}".encode(), f"{number}".encode()]
            assert [mallory.read(), mallory.read()] == [MASK, f"{number}".encode()]

        canary.assert_nowhere(running, [mallory])
    recorded = names(running, UNMASKED)
    assert [(who, key) for who, key, _ in recorded] == [("alice", {"key": f"secret:{number}"}) for number in range(REQUESTS)]
    assert_sound(running)


@pytest.mark.slow
def test_many_readers_at_once_see_what_they_may_and_in_their_own_order(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    for name in ("alice", "mallory"):
        redis_once.add_user(name, PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    running = veil(SECRET, ALICE, upstream=redis_once)
    wrong: list[str] = []
    clients: list[RespClient] = []

    def read(name: str, expected: bytes, client: RespClient) -> None:
        expected_replies = [[b"OK", expected, b"%d" % number] for number in range(20)]
        replies = [client.pipeline(("AUTH", name, PASSWORD), ("GET", "secret:1"), ("ECHO", number)) for number in range(20)]
        if replies != expected_replies:
            wrong.append(name)

    def reader(name: str, expected: bytes) -> Callable[[], None]:
        client = running.client()
        clients.append(client)
        return lambda: read(name, expected, client)

    work = [reader("alice", value) for _ in range(4)] + [reader("mallory", MASK) for _ in range(4)]
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    canary.assert_nowhere(running, clients[4:])
    for client in clients:
        client.close()
    assert_sound(running)


def test_a_new_connection_inherits_no_name_from_one_that_was_closed(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    running = veil(SECRET, ALICE, upstream=redis_once)
    with running.client() as alice:
        alice.login("alice", PASSWORD)
        assert alice.call("GET", "secret:1") == value

    with running.client() as nobody:
        assert nobody.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [nobody])


def test_a_fixed_reader_stays_who_it_is_whatever_it_logs_in_as(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_once.add_user("alice", PASSWORD)
    put_secret(redis_once, canary.text())
    running = veil(SECRET, ALICE, upstream=redis_once, connection={"reader": {"from": "fixed", "user": "console"}})
    with running.client() as client:
        client.login("alice", PASSWORD)

        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])
