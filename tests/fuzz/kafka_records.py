"""Record sections near well-formed ones: nothing but BadRecords, and no contents past an edit that hides all.

    python -m tests.fuzz.kafka_records --executions 1000000 --seed 1

One execution is one section: some batches of every format and codec with a canary in each key, value and header, then
changes to its bytes, or to the records before they are compressed and sealed with lengths and checksums that fit. It holds

    nothing but BadRecords comes out                 what `leave` lets through is the bytes that came
    no canary behind a batch's header, unpacked      read again, every record is one that the edit made
    without records it goes out as it is             a room is kept to, and is filled by whole batches
"""

from __future__ import annotations

import argparse
import random
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from crc32c import crc32c

from proxy.protocols.kafka.records import BadRecords, Spliced, has_records, splice, whole_batches
from tests.proxy.kafka.records.edits import Seen, hide
from tests.proxy.kafka.records.made import Batch, Rec, joined, marker, message, pack, record, unpack, varint

CANARY = b"S3CR3T"
CODECS = ["none", "none", "none", "gzip", "snappy", "xerial", "lz4", "zstd"]
NUMBERS = [varint(at) for at in (-(2**31), -2, -1, 0, 1, 5, 63, 64, 8191, 8192, 2**31 - 1, 2**40)]
NUMBERS += [b"\xff" * 5, b"\x80\x00", b"\x80\x80\x80\x80\x10", b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\0", b"\1"]
HIDDEN = {(None, None), (b"##", None), (None, b"####"), (b"##", b"####")}

Splice: TypeAlias = Callable[..., Spliced]


class Failed(AssertionError):
    """What was found, with all that is needed to see it again."""


def _part(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", CANARY, CANARY, b'{"a":"%s"}' % CANARY, CANARY * rng.randrange(30)))


def _recs(rng: random.Random) -> list[Rec]:
    return [
        Rec(
            _part(rng),
            _part(rng),
            tuple((rng.choice((b"h", b"", CANARY)), _part(rng)) for _ in range(rng.choice((0, 0, 1, 3)))),
            rng.choice((0, at, -at, at * 999, 2**40)),
            at * rng.choice((1, 1, 100)),
        )
        for at in range(rng.randrange(1, 6))
    ]


def changed(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to four changes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 40)))
        match rng.randrange(8):
            case 0:
                data = data[:at] + rng.randbytes(to - at) + data[to:]
            case 1 if at < len(data):
                data = data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
            case 2:
                data = data[:at] + data[to:]
            case 3:
                data = data[:at] + data[at:to] * 2 + data[to:]
            case 4:
                data = data[:at] + rng.choice(NUMBERS) + data[at + rng.choice((0, 1, 2)) :]
            case 5:
                data = data[: rng.randrange(len(data) + 1)]
            case 6:
                data = data[:at] + CANARY + data[at:]
            case _:
                start = rng.randrange(len(data) + 1)
                data = data[:at] + data[start : start + to - at] + data[to:]
    return data


def sealed(data: bytes) -> bytes:
    """One batch of any format with a length and a checksum that fit."""
    if len(data) < 22:
        return data
    data = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
    if data[16] == 2:
        return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]
    return data[:12] + zlib.crc32(data[16:]).to_bytes(4, "big") + data[16:]


def one(rng: random.Random) -> bytes:
    """A batch of some format, changed somewhere or nowhere."""
    deep, late = rng.random() < 0.5, rng.random() < 0.4
    codec = rng.choice(CODECS)
    match rng.randrange(10):
        case 0:
            data = marker(rng.randrange(2)).bytes()
        case 1:
            data = Batch(producer_id=3, attributes=rng.choice((0, 0x10, 0x30))).bytes()
        case 2:
            data = Batch(_recs(rng), codec, attributes=0x20).bytes()
        case 3 | 4:
            magic = rng.randrange(2)
            inner = [message(_part(rng), _part(rng), magic=magic, offset=at) for at in range(rng.randrange(1, 5))]
            if codec in {"none", "zstd"}:
                data = inner[0]
            else:
                if deep:
                    inner[0] = changed(rng, inner[0])
                    inner[0] = sealed(inner[0]) if rng.random() < 0.8 else inner[0]
                data = message(None, pack(codec, b"".join(inner)), magic=magic, attributes={"gzip": 1, "lz4": 3}.get(codec, 2))
        case _:
            recs = _recs(rng)
            section = b"".join(map(record, recs))
            data = Batch(recs, codec, section=changed(rng, section) if deep else section).bytes()
    if late:
        data = changed(rng, data)
    return sealed(data) if rng.random() < 0.9 else data


def clear(data: bytes) -> list[bytes]:
    """Of each batch in what came out, all behind its header, unpacked, in a plain way of its own.

    A change may have put a canary into offsets and times, in the formats that have room for one there.
    """
    found = []
    while data:
        size = 12 + struct.unpack_from(">i", data, 8)[0]
        batch, data = data[:size], data[size:]
        if batch[16] == 2:
            found.append(batch[61:])
            if batch[22] & 7 and len(batch) > 61:
                found.append(unpack(batch[22] & 7, batch[61:]))
        else:
            start = 26 if batch[16] else 18
            found += clear(unpack(batch[17] & 7, batch[start + 8 :])) if batch[17] & 7 else [batch[start:]]
    return found


class Fuzzer:
    """A splice, and what came of it. `hide` stands for rules that cover everything."""

    def __init__(self, seed: int, tried: Splice = splice) -> None:
        self.seed = seed
        self.splice = tried
        self.count: Counter[str] = Counter()

    def run(self, executions: int) -> None:
        """
        Raises:
            Failed: a section for which one of the promises does not hold.
        """
        for at in range(executions):
            rng = random.Random(f"{self.seed}/{at}")
            section = b"".join(one(rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))
            if rng.random() < 0.2:
                section = section[: rng.randrange(len(section) + 1)]
            try:
                self.count[self.look(section, rng)] += 1
            except Exception as fault:
                raise Failed(f"--seed {self.seed}, execution {at}: {type(fault).__name__} {fault} of {section!r}") from fault

    def look(self, section: bytes, rng: random.Random) -> str:
        """What became of it: `refused`, `nothing`, `untouched` or `masked`."""
        seen = Seen()
        try:
            left = self.splice(section, seen)
        except BadRecords:
            self.refused(section)
            return "refused"
        came = joined(left)
        assert section.startswith(came), "what was left is not what came"
        assert (left.size, left.records, left.cut) == (len(came), len(seen), False), "wrong sums"
        assert whole_batches(section, len(section), at_least_one=False) == len(came), "other batches"
        made = self.splice(section, hide)
        out = joined(made)
        assert (made.size, made.records, made.cut) == (len(out), len(seen), False), "wrong sums"
        assert not any(CANARY in part for part in clear(out)), "a canary"
        if not has_records(section):
            assert (out, seen) == (section, []), "records after all"
        again = Seen()
        assert joined(self.splice(out, again)) == out, "not read again"
        assert {three[:2] for three in again} <= HIDDEN, "a record that the edit did not make"
        assert len(again) == len(seen), "other records"
        room = rng.randrange(made.size + 2)
        cut = self.splice(section, hide, room=room, at_least_one=False)
        assert cut.size <= room, "more than the room"
        assert out.startswith(joined(cut)), "another cut"
        assert cut.cut == (cut.size < made.size), "cut or not"
        return "masked" if seen else "untouched" if out else "nothing"

    def refused(self, section: bytes) -> None:
        """What is refused is refused whatever the edit says, and holds records for all that is known."""
        try:
            self.splice(section, hide)
        except BadRecords as refusal:
            assert CANARY.decode() not in str(refusal), "contents in an exception"
        else:
            raise AssertionError("refused for one edit alone")
        assert has_records(section), "refused, and without records"
        whole_batches(section, len(section), at_least_one=True)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--executions", type=int, default=100_000)
    ask.add_argument("--seed", type=int, default=1)
    asked = ask.parse_args()
    fuzzer = Fuzzer(asked.seed)
    start = time.monotonic()
    fuzzer.run(asked.executions)
    print(f"{asked.executions} executions, {time.monotonic() - start:.0f} s: {dict(fuzzer.count)}")


if __name__ == "__main__":
    main()
