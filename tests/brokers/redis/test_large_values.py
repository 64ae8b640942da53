"""Large values: while one reader's are masked, others are served, rules change, and the process stops as it should.

Conditions alone, no clock: how long the longest wait is, `bench/loop.py` measures. What is counted here are the answers
that a second reader got between the moment the first one asked and the first byte of its answer.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import RespClient, Word, encode
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

from .scenery import MASK

MIB = 1024 * 1024
LIMIT_S = 120.0
PATHS = ["$..email", "$.orders[*].card.number", "$..iban", "$.orders[*].notes.*", "$.orders[*]['full name']", "$..a.b"]
TEN_RULES = "rules:\n" + "".join(
    f'  - {{name: Large {number}, platform: redis, resources: ["large:*"], '
    f'fields: [{{kind: json_path, path: "{path}", method: redact}}]}}\n'
    for number, path in enumerate([*PATHS, "$..phone", "$.orders[*].items[*].serial", "$.meta.token", "$..x.y.z"])
)
ALL_OF_IT = TEN_RULES + '  - {name: Late, platform: redis, resources: ["large:*"], mask_all: true}\n'


def document(canary: Canary, size: int) -> bytes:
    """Orders of some 300 bytes, a canary in each covered place of the first, one in the middle and the last."""

    def order(secret: str) -> bytes:
        return json.dumps(
            {
                "id": 1,
                "email": secret,
                "card": {"number": secret, "until": "12/30"},
                "full name": secret,
                "items": [{"sku": "A-1", "serial": secret, "price": 9.5}, {"sku": "B-2", "serial": secret, "price": 1.25}],
                "notes": {"one": secret},
                "paid": True,
            }
        ).encode()

    plain, secret = order("nobody"), order(canary.text())
    half = [plain] * (size // len(plain) // 2)
    return b'{"meta":{"token":"x"},"orders":[' + b",".join([secret, *half, secret, *half, secret]) + b"]}"


def put_list(server: RedisServer, canary: Canary, count: int) -> None:
    element = json.dumps({"email": canary.text()})
    with server.admin() as direct:
        for _ in range(count // 1000):
            direct.call("RPUSH", "large:list", *[element] * 1000)


class Large:
    """A reader that asks for something large, its answer read in a thread."""

    def __init__(self, running: Veil, *words: Word) -> None:
        self.received = bytearray()
        self.first_byte = threading.Event()
        self.gone = False
        self._end = encode("ECHO", "end-of-it")
        self._connection = socket.create_connection((running.host, running.port), timeout=LIMIT_S)
        self._connection.sendall(encode("PING"))
        while not self.received.endswith(b"+PONG\r\n"):
            self.received += self._connection.recv(100)
        self.received.clear()
        self._thread = threading.Thread(target=self._read)
        self._sender = threading.Thread(target=self._connection.sendall, args=(encode(*words) + self._end,))
        self._sender.start()
        self._thread.start()

    def _read(self) -> None:
        answer = b"$9\r\nend-of-it\r\n"
        try:
            while not self.received.endswith(answer):
                data = self._connection.recv(MIB)
                if not data:
                    self.gone = True
                    return
                self.received += data
                self.first_byte.set()
            del self.received[-len(answer) :]
        finally:
            self.first_byte.set()

    def join(self) -> bytes:
        """All of the answer."""
        self._thread.join(LIMIT_S)
        self._sender.join(LIMIT_S)
        assert not self._thread.is_alive()
        self._connection.close()
        return bytes(self.received)


@contextmanager
def beside(running: Veil) -> Iterator[RespClient]:
    with RespClient(running.host, running.port, timeout_s=LIMIT_S) as client:
        assert client.call("PING") == b"PONG"
        yield client


def answers_until_first_byte(large: Large, client: RespClient) -> int:
    count = 0
    while not large.first_byte.is_set():
        assert client.call("PING") == b"PONG"
        count += 1
    return count


def parsed(reply: bytes) -> dict[str, list[dict[str, object]]]:
    head, _, body = reply.partition(b"\r\n")
    assert head == b"$%d" % (len(body) - 2)
    found = json.loads(body)
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_while_sixty_megabytes_are_masked_another_reader_is_answered(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    with redis_once.admin() as direct:
        assert direct.call("SET", "large:json", document(canary, 60 * MIB)) == b"OK"
    running = veil(TEN_RULES, upstream=redis_once)
    with beside(running) as client:
        large = Large(running, "GET", "large:json")
        answered = answers_until_first_byte(large, client)
        shown = parsed(large.join())

        assert answered >= 20
        orders = shown["orders"]
        for order in (orders[0], orders[len(orders) // 2], orders[-1]):
            assert order["email"] == MASK.decode()
        assert orders[0]["paid"] is True
        canary.assert_nowhere(running, [client])
        canary.assert_not_in(bytes(large.received[: 64 * 1024]), "the beginning")
        assert not any(value.encode() in large.received for value in canary.values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("LRANGE", "large:list", 0, -1), ("MGET", *[f"large:{number}" for number in range(100_000)])],
    ids=["LRANGE", "MGET"],
)
def test_while_a_hundred_thousand_elements_are_looked_at_another_reader_is_answered(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, words: tuple[Word, ...]
) -> None:
    put_list(redis_once, canary, 100_000)
    running = veil(TEN_RULES, upstream=redis_once)
    with beside(running) as client:
        large = Large(running, *words)
        answered = answers_until_first_byte(large, client)
        got = large.join()

        assert got.startswith(b"*100000\r\n")
        assert answered >= 5
        assert not any(value.encode() in got for value in canary.values)
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_a_rule_that_comes_while_a_large_value_is_masked_masks_it(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    """Whether the rule comes before, in, or after the work on the value: if it was in force, it masks."""
    element = json.dumps({"email": "x", "open to ten rules": canary.text()})
    with redis_once.admin() as direct:
        for _ in range(200):
            direct.call("RPUSH", "large:list", *[element] * 1000)
    running = veil(TEN_RULES, upstream=redis_once)
    with beside(running) as client:
        large = Large(running, "LRANGE", "large:list", 0, -1)
        running.write_rules(ALL_OF_IT)
        running.signal(signal.SIGHUP)
        running.wait_rules(within_s=60)
        had_begun = large.first_byte.is_set()
        got = large.join()

        assert had_begun or not any(value.encode() in got for value in canary.values)
        again = client.call("LRANGE", "large:list", 0, 0)
        assert again == [json.dumps({"email": MASK.decode(), "open to ten rules": MASK.decode()}, ensure_ascii=False).encode()]
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_a_reader_that_leaves_in_the_middle_of_the_work_leaves_nothing_behind(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_list(redis_once, canary, 100_000)
    running = veil(TEN_RULES, upstream=redis_once)
    with beside(running) as client:
        for _ in range(6):
            leaver = running.client()
            leaver.send("LRANGE", "large:list", 0, -1)
            leaver.close()
        wait_until(lambda: running.metric("veil_connections") == 1, "all have left", LIMIT_S)

        assert client.call("LRANGE", "large:list", 0, 0) == [b'{"email": "%b"}' % MASK]
        assert "fault" not in running.log()
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_a_stop_in_the_middle_of_the_work_lets_the_answer_out_and_exits_with_0(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_list(redis_once, canary, 100_000)
    running = veil(TEN_RULES, upstream=redis_once)
    large = Large(running, "LRANGE", "large:list", 0, -1)
    os.kill(running.pid, signal.SIGTERM)
    got = large.join()

    assert not any(value.encode() in got for value in canary.values)
    assert running.stop() == 0
    canary.assert_not_in(running.log(), "the log")
    canary.assert_not_in(running.audit_bytes(), "the audit file")
