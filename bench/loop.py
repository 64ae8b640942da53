"""How long one reader's large replies keep another reader waiting: the longest gap between two answers to PING.

    python -m bench.loop [--json] [--check] [--mib 60]

Starts a real server and Veil in front of it. One connection reads or writes what is large while a second one sends
PING after PING. `ratio` is the longest gap in units of the target, 250 ms. Scheduling by the machine is in the gaps:
on a busy one they are longer.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run by its path
    sys.path.insert(0, str(Path(__file__).parent.parent))

from rules.scan import ENGINE
from tests.brokers.redis_server import RedisFleet, RedisServer, offered
from tests.brokers.resp_client import RespClient, Word, encode
from tests.brokers.veil import Veil

TARGET_S = 0.25
LINE_S = 120.0  # until the first byte of an answer
RULES = "rules:\n" + "".join(
    f"""  - name: Rule {number}
    platform: redis
    resources: ["large:*"]
    fields: [{{kind: json_path, path: "{path}", method: {method}}}]
"""
    for number, (path, method) in enumerate(
        [
            ("$..email", "redact"),
            ("$.orders[*].customer.name", "redact"),
            ("$.orders[*].customer.phone", "partial, keep_last: 2"),
            ("$..iban", "partial, keep_first: 2, keep_last: 4"),
            ("$.orders[*].cards[*].number", "redact"),
            ("$.orders[*].billing.*", "redact"),
            ("$..ssn", "redact"),
            ("$.orders[*]['birth date']", "redact"),
            ("$.orders[*].items[*].note", "redact"),
            ("$.meta.token", "redact"),
        ]
    )
)


@dataclass(frozen=True)
class Load:
    """Something large: the commands that put it there, and the one whose answer is waited for."""

    name: str
    put: Callable[[], Iterator[tuple[Word, ...]]]
    ask: Callable[[], bytes]


@dataclass(frozen=True)
class Row:
    name: str
    gap_s: float
    took_s: float
    pings: int


def order(number: int) -> dict[str, object]:
    return {
        "id": number,
        "customer": {
            "name": "Zoë Müller",
            "phone": "+49 30 1234567",
            "email": f"zoe{number}@example.com",
            "ssn": "123-45-6789",
        },
        "birth date": "1980-01-02",
        "cards": [{"number": "4111111111111111", "until": "12/30", "limit": 1200.5}],
        "billing": {"street": "Straße 1", "city": "Köln", "iban": "DE02120300000000202051"},
        "items": [{"sku": f"A-{each}", "count": each, "note": 'a \\"note\\"', "price": 9.99} for each in range(4)],
        "paid": True,
    }


def document(size: int) -> bytes:
    """Orders as one JSON text of about that many bytes."""
    one = json.dumps(order(1), ensure_ascii=False).encode()
    return b'{"meta":{"token":"abc"},"orders":[' + b",".join([one] * (size // (len(one) + 1))) + b"]}"


def pieces(command: str, key: str, words: Iterator[Word], many: int = 1000) -> Iterator[tuple[Word, ...]]:
    held: list[Word] = []
    for word in words:
        held.append(word)
        if len(held) == many:
            yield (command, key, *held)
            held = []
    if held:
        yield (command, key, *held)


def loads(mib: int) -> list[Load]:
    small = json.dumps(order(1)).encode()
    text = document(mib << 20)
    return [
        Load(
            f"GET of {mib} MiB of JSON, ten rules",
            lambda: iter([("SET", "large:json", text)]),
            lambda: encode("GET", "large:json"),
        ),
        Load(
            f"GET of one string of {mib} MiB in JSON",
            lambda: iter([("SET", "large:text", b'{"email":"' + b"x" * (mib << 20) + b'"}')]),
            lambda: encode("GET", "large:text"),
        ),
        Load(
            "LRANGE of 100 000 short elements",
            lambda: pieces("RPUSH", "large:list", ('{"email":"a@b.c"}' for _ in range(100_000))),
            lambda: encode("LRANGE", "large:list", 0, -1),
        ),
        Load(
            "LRANGE of 20 000 orders",
            lambda: pieces("RPUSH", "large:orders", (small for _ in range(20_000))),
            lambda: encode("LRANGE", "large:orders", 0, -1),
        ),
        Load(
            "HGETALL of 50 000 fields",
            lambda: pieces("HSET", "large:hash", (word for n in range(50_000) for word in (f"f{n}", '{"email":"a@b.c"}'))),
            lambda: encode("HGETALL", "large:hash"),
        ),
        Load(
            "KEYS of 200 000 names",
            lambda: pieces("MSET", "n", (word for n in range(200_000) for word in ("x", f"name:{n}"))),
            lambda: encode("KEYS", "*"),
        ),
        Load(
            "MGET of 100 000 keys",
            lambda: iter(()),
            lambda: encode("MGET", *(f"large:{number}" for number in range(100_000))),
        ),
        Load(
            "EXEC of 20 000 commands",
            lambda: iter(()),
            lambda: encode("MULTI") + encode("LRANGE", "large:list", 0, 0) * 20_000 + encode("EXEC"),
        ),
        Load(f"RPUSH of {mib} MiB of JSON", lambda: iter(()), lambda: encode("RPUSH", "large:added", text)),
    ]


def put(server: RedisServer, load: Load) -> None:
    with server.admin() as admin:
        for command in load.put():
            if command[0] == "MSET":  # names and values alternate
                admin.call("MSET", *(word for at in range(3, len(command), 2) for word in (command[at], "1")))
            else:
                admin.call(*command)


def gaps_while(running: Veil, work: Callable[[], None]) -> tuple[float, float, int]:
    """The longest gap between two answers to PING while the work went on, how long that took, and the answers."""
    done = threading.Event()
    failed: list[BaseException] = []

    def carry() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  told by the main thread
            failed.append(error)
        finally:
            done.set()

    with RespClient(running.host, running.port, timeout_s=LINE_S) as pinger:
        pinger.call("PING")
        thread = threading.Thread(target=carry)
        began = last = time.perf_counter()
        thread.start()
        longest, count = 0.0, 0
        while not done.is_set():
            pinger.call("PING")
            now = time.perf_counter()
            longest, last, count = max(longest, now - last), now, count + 1
        took = time.perf_counter() - began
        thread.join()
    if failed:
        raise failed[0]
    return longest, took, count


def ask(running: Veil, request: bytes) -> None:
    """Sends it and a PING of its own behind it, and reads until that is answered."""
    end = encode("ECHO", "the-end-of-it")
    with socket.create_connection((running.host, running.port), timeout=LINE_S) as connection:
        sender = threading.Thread(target=connection.sendall, args=(request + end,))
        sender.start()
        tail = b""
        while not tail.endswith(b"the-end-of-it\r\n"):
            data = connection.recv(1 << 20)
            if not data:
                raise EOFError("Veil closed the connection: " + running.log()[-3000:])
            tail = (tail + data)[-64:]
        sender.join()


def measure(mib: int, only: str) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        numbers = iter(range(1000))

        def subfolder(name: str) -> Path:
            sub = folder / f"{name}{next(numbers)}"
            sub.mkdir()
            return sub

        fleet = RedisFleet(subfolder)
        try:
            server = fleet.server(offered()[0])
            running = Veil(subfolder("veil"), RULES, "", server.address, {})
            running.start()
            try:
                for load in loads(mib):
                    if only not in load.name:
                        continue
                    put(server, load)
                    request = load.ask()
                    gap_s, took_s, pings = gaps_while(running, lambda request=request: ask(running, request))  # type: ignore[misc]
                    rows.append(Row(load.name, gap_s, took_s, pings))
                    with server.admin() as admin:
                        if "large:json" not in load.name:
                            admin.call("DEL", "large:added")
            finally:
                running.stop()
        finally:
            fleet.stop()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a JSON list of name, ratio, target, ok")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--mib", type=int, default=60, help="size of the large values")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    given = parser.parse_args()
    rows = measure(given.mib, given.only)
    if given.json:
        told = [
            {"name": row.name, "ratio": round(row.gap_s / TARGET_S, 3), "target": 1.0, "ok": row.gap_s <= TARGET_S}
            for row in rows
        ]
        print(json.dumps(told, indent=1))
    else:
        print(f"scanner: {ENGINE}; target: {TARGET_S * 1000:.0f} ms\n")
        print(f"{'while this went on':<42}{'longest gap':>14}{'ratio':>8}{'took':>10}{'PINGs':>8}")
        for row in rows:
            print(f"{row.name:<42}{row.gap_s * 1000:>11.0f} ms{row.gap_s / TARGET_S:>8.2f}{row.took_s:>8.1f} s{row.pings:>8}")
    return int(given.check and any(row.gap_s > TARGET_S for row in rows))


if __name__ == "__main__":
    sys.exit(main())
