"""Readers that ask all the time while something befalls Veil."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.brokers.processes import wait_until
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import Veil
from tests.canary import Canary

ASKED: Sequence[tuple[str | int, ...]] = (
    ("GET", "secret:1"),
    ("MGET", "secret:1", "open"),
    ("GETRANGE", "secret:1", 0, -1),
)
KEPT_BYTES = 4 * 1024 * 1024


def distinct(received: bytearray) -> bytes:
    """Every line once: answers repeat, and to search each of them again would take longer than to get them."""
    return b"\r\n".join(sorted(set(bytes(received).split(b"\r\n"))))


@contextmanager
def masked_readers(running: Veil, canary: Canary, commands: Sequence[tuple[str | int, ...]] = ASKED) -> Iterator[list[bytes]]:
    """Readers that ask on and on; at the end none of them has seen a canary. Gives each one's last answers in the end."""
    end = threading.Event()
    counts = [0, 0]
    whole = [False, False]
    last: list[bytes] = []

    def read(number: int) -> None:
        with running.client() as client:
            client.call("HELLO", 2 + number)
            while not end.is_set():
                client.pipeline(*commands)
                counts[number] += 1
                if len(client.received) > KEPT_BYTES:
                    look(client)
            look(client)
            whole[number] = True

    def look(client: RespClient) -> None:
        canary.assert_not_in(distinct(client.received), "what a reader received")
        last.append(bytes(client.received[-KEPT_BYTES:]))
        del last[:-4]
        client.forget()

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    wait_until(lambda: all(counts), "both are answered")
    try:
        yield last
    finally:
        end.set()
        for reader in readers:
            reader.join()
    assert all(whole), "a reader saw a canary or lost its connection"
