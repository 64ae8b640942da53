"""Kafka frames that are hardly frames any more: whatever comes, a WireError or a message that is written back as it was.

    python -m tests.fuzz.kafka_frames --executions 200000 --seed 1

Each starts from a message of chance in chance's own version, behind the header of a request or a response, and is
mutated: bits, bytes, cuts, doubled pieces, lengths that lie.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections import Counter
from random import Random

from proxy.core.buffer import Buffer
from proxy.core.errors import WireError
from proxy.protocols.kafka import primitives, schema, wire
from tests.proxy.kafka.entities import codec_of, entity_of, every, made, written

LIES = [
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00", b"\x7f\xff", b"\xff\xff", b"\xff\xfe", b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x00", b"\x80\x00", b"\xff\xff\x03", b"\x00", b"\x01", b"\xff", b"\x00\x00\x00\x01",
]  # fmt: skip
FRAME_LIMIT = 1 << 20
BLOCK = 50
"""Frames that are made of one message."""
MOST_MEMORY = 64
"""Bytes that are held for each byte of a frame, and as many for the frame's own and its codec."""
ALLOWANCE = 1 << 20


class Failed(Exception):
    """What the fuzzer found, with all that is needed to see it again."""


class Fuzzer:
    """Counts what came of what it tried."""

    def __init__(self, seed: int, *, memory: bool = False) -> None:
        self._rng = Random(seed)
        self._all = list(every())
        self._memory = memory
        self.executions = 0
        self.count: Counter[str] = Counter()

    def block(self) -> None:
        """One message, and what becomes of it."""
        rng = self._rng
        key, version, answer = rng.choice(self._all)
        body = written(made(entity_of(key, version, answer=answer), rng, rng.randrange(4))[0])
        if answer:
            sized = wire.response_frame(rng.randrange(-(2**31), 2**31), key, version, [body])
        else:
            client_id = rng.choice((b"", b"client", bytes(200)))
            head = wire.HEAD.pack(key, version, rng.randrange(2**31)) + wire.CLIENT_ID.pack(len(client_id)) + client_id
            flexible = schema.request_header_is_flexible(key, version)
            frame = head + (primitives.NO_TAGS if flexible else b"") + body
            sized = wire.SIZE.pack(len(frame)) + frame
        self.tried(key, version, sized, answer=answer, sound=True)
        for _ in range(BLOCK - 1):
            data = self.mutated(sized)
            if rng.random() < 0.9:  # else the size of the frame is among what lies
                data = wire.SIZE.pack(max(0, len(data) - 4)) + data[4:]
            self.tried(key, version, data, answer=answer, sound=False)

    def mutated(self, data: bytes) -> bytes:
        rng = self._rng
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(7):
                case 0 if at < len(data):
                    data = data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
                case 1:
                    data = data[:at] + rng.randbytes(1) + data[at + 1 :]
                case 2:
                    data = data[:at] + data[at + rng.randrange(9) :]
                case 3:
                    data = data[:at] + rng.randbytes(rng.randrange(9)) + data[at:]
                case 4:
                    lie = rng.choice(LIES)
                    data = data[:at] + lie + data[at + rng.choice((0, len(lie))) :]
                case 5:
                    stop = min(len(data), at + rng.randrange(40))
                    data = data[:stop] + data[at:stop] * rng.randrange(1, 4) + data[stop:]
                case _:
                    data = data[: max(at, rng.randrange(len(data) + 1))]
        return data

    def tried(self, key: int, version: int, data: bytes, *, answer: bool, sound: bool) -> None:
        self.executions += 1
        if self._memory:
            tracemalloc.start()
        try:
            outcome = self._outcome(key, version, data, answer=answer)
            peak = tracemalloc.get_traced_memory()[1] if self._memory else 0
        except WireError:
            outcome, peak = "WireError", tracemalloc.get_traced_memory()[1] if self._memory else 0
        except Exception as error:
            raise Failed(f"{type(error).__name__} for key {key}, version {version}, answer {answer}: {data.hex()}") from error
        finally:
            if self._memory:
                tracemalloc.stop()
        if sound and outcome != "read":
            raise Failed(f"{outcome} for a sound message: key {key}, version {version}, answer {answer}: {data.hex()}")
        if peak > ALLOWANCE + MOST_MEMORY * len(data):
            raise Failed(f"{peak} bytes held for key {key}, version {version}, answer {answer}: {data.hex()}")
        self.count[outcome] += 1

    @staticmethod
    def _outcome(key: int, version: int, data: bytes, *, answer: bool) -> str:
        buffer = Buffer()
        buffer.feed(data)
        parse = wire.frame(buffer, FRAME_LIMIT)
        try:
            next(parse)
        except StopIteration as done:
            frame: bytes = done.value
        else:
            return "not whole"
        if answer:
            wire.response_correlation(frame)
            at = wire.response_body_at(frame, key, version)
        else:
            header = wire.request_header(frame)
            key, version, at = header.key, header.version, header.body_at
        codec = codec_of(key, version, answer=answer)
        message = codec.read(frame, at)
        out: list[bytes | memoryview] = []
        codec.write(message, out)
        if b"".join(out) != frame[at:]:
            raise AssertionError("written otherwise than read")
        return "read"


def run(fuzzer: Fuzzer, executions: int) -> None:
    """At least so many executions."""
    goal = fuzzer.executions + executions
    while fuzzer.executions < goal:
        fuzzer.block()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kafka_frames")
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", action="store_true", help="watch what is allocated, too; slow")
    chosen = parser.parse_args(arguments)
    fuzzer = Fuzzer(chosen.seed, memory=chosen.memory)
    begun = time.monotonic()
    try:
        run(fuzzer, chosen.executions)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    took = time.monotonic() - begun
    print(f"{fuzzer.executions} executions, seed {chosen.seed}, {took:.0f} s: {dict(sorted(fuzzer.count.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
