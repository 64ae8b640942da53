"""Kafka sessions that are lied to from both sides: whatever comes, a WireError or answers in order without contents.

    python -m tests.fuzz.kafka_session --frames 100000 --seed 1

Each play is a session with a reader that sends requests of chance and a server that answers what came up, its records
full of a canary. Frames of either side are mutated: bits, cuts, doubled pieces, lengths that lie, pieces of other frames,
other correlation ids. Rules are replaced meanwhile; each of them masks all of every topic, whatever a mutation made of
its name. The model looks at what the reader got: its frames are answers to its requests, in their order, can be read,
hold no tagged field that nobody knows, and no record in them bears the canary. Strings beside the records are not
looked at: a length that lies can make one of anything.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from proxy.core.addresses import Endpoint
from proxy.core.errors import WireError
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.records import BadRecords, splice
from proxy.protocols.kafka.records.compression import compress
from proxy.protocols.kafka.schema import TAGS
from proxy.protocols.kafka.session.pending import MOST_BYTES, MOST_REQUESTS
from proxy.protocols.kafka.surface import ROWS, Act, row
from rules.model import RuleBook
from rules.policy import Policy
from tests.fuzz.kafka_frames import Failed, Fuzzer
from tests.proxy.kafka.desk import CANARY, CLIENT, Desk, batch, fetch_request, header, path, record, rule
from tests.proxy.kafka.entities import entity_of, made

PRODUCE, FETCH, METADATA, SHARE_FETCH = 0, 1, 3, 78
FRAMES_OF_A_PLAY = 60
NAMES = [b"orders", b"vault", b"public", b"__consumer_offsets", b"x" * 300]
IDS = [bytes([number]) * 16 for number in range(1, 6)]
BOOKS = (
    RuleBook("1", (rule("All", "*", mask_all=True),)),
    RuleBook("2", (rule("Both", "*", path("$.card"), header("h"), mask_all=True), rule("All", "*", mask_all=True))),
)
READ = frozenset({Act.MASK, Act.VERSIONS, Act.LOGIN, Act.SIZES, Act.ADDRESSES})
"""Of these acts an answer is read whole before it is shown; Metadata's is not."""
HELD_BYTES = 4 << 20
"""Of a session's own in a play, whose frames are small."""


def sections() -> list[bytes]:
    """Records with the canary in each place that is covered."""
    one = record(CANARY, b'{"card":"%b","n":["%b",{"a":"%b"}]}' % (CANARY, CANARY, CANARY), [(b"h", CANARY), (b"i", CANARY)])
    two = record(None, CANARY, [(b"veil-masked", CANARY)], offset=1)
    made_of = [batch(one), batch(one, two), batch(two) + batch(one, base=9), batch(one) + batch(two)[:-3], b"", batch()]
    return made_of + [packed(codec, one + two, 2) for codec in (1, 2, 3, 4)]


def packed(codec: int, records: bytes, count: int) -> bytes:
    """A compressed batch around records that are given as bytes."""
    plain = batch(records)
    like = b"" if codec != 1 else records
    body = compress(codec, records, like)
    return rebuilt(plain[:21] + codec.to_bytes(2, "big") + plain[23:57] + count.to_bytes(4, "big") + body)


def rebuilt(raw: bytes) -> bytes:
    """The batch with the length and CRC that it should have."""
    from crc32c import crc32c

    return raw[:8] + (len(raw) - 12).to_bytes(4, "big") + raw[12:17] + crc32c(raw[21:]).to_bytes(4, "big") + raw[21:]


SECTIONS = sections()


class Anywhere(dict[int, Endpoint]):
    """Every node is reached at one place."""

    def get(self, key: int, default: object = None) -> Endpoint:
        return Endpoint("veil.example", 19100)


@dataclass
class Script:
    """What was fed to one session, to see it again."""

    fed: list[tuple[str, bytes]] = field(default_factory=list)

    def __str__(self) -> str:
        return "; ".join(f"{side}({data.hex()})" for side, data in self.fed)


class SessionFuzzer:
    """Counts what came of what it tried."""

    def __init__(self, seed: int, *, sound: bool = False) -> None:
        self._rng = Random(seed)
        self._mutator = Fuzzer(seed)
        self._sound = sound
        self._rows = [each for each in ROWS if not each.hidden]
        self._wild = 0.0
        """The share of frames that are mutated in this play."""
        self._pool: list[bytes] = [bytes(40)]
        self.frames = 0
        self.count: Counter[str] = Counter()

    # What is sent

    def _frame(self, data: bytes) -> bytes:
        """The sized frame, perhaps mutated."""
        rng = self._rng
        self.frames += 1
        if len(self._pool) < 500:
            self._pool.append(data)
        else:
            self._pool[rng.randrange(500)] = data
        if self._sound or rng.random() > self._wild:
            return data
        if rng.random() < 0.2:
            other = rng.choice(self._pool)
            at, start = rng.randrange(4, len(data) + 1), rng.randrange(len(other))
            data = data[:at] + other[start : start + rng.randrange(200)] + data[at + rng.choice((0, 40)) :]
        else:
            data = self._mutator.mutated(data)
        if rng.random() < 0.85:
            data = wire.SIZE.pack(max(0, len(data) - 4)) + data[4:]
        return data

    def _request(self, number: int) -> bytes:
        rng = self._rng
        if rng.random() < 0.55:
            key = rng.choice((PRODUCE, FETCH, FETCH, FETCH, SHARE_FETCH, SHARE_FETCH, METADATA, 17, 36, 18))
            found = row(key)
            assert found is not None
        else:
            found = rng.choice(self._rows if rng.random() < 0.97 or self._sound else list(ROWS))
        key = found.key
        version = rng.choice(list(found.versions) or list(schema.versions(key)) or [0])
        if not schema.versions(key):
            return wire.sized(wire.HEAD.pack(key, version, number), b"\xff\xff\0")
        if key == FETCH and rng.random() < 0.7:
            topics = rng.sample(NAMES if version < 13 else IDS, rng.randrange(4))
            more = {"session_id": rng.choice((0, 0, 7)), "session_epoch": rng.choice((0, -1, 1))} if version >= 7 else {}
            message = fetch_request(version, *topics, partition_max_bytes=rng.choice((1, 300, 1 << 20)), **more)
        else:
            message = made(entity_of(key, version, answer=False), rng, 2)[1]
            self._fill(message)
        if key == 17:
            message["mechanism"] = rng.choice((b"PLAIN", b"SCRAM-SHA-256", b"OAUTHBEARER", b"x"))
        if key == 36:
            message["auth_bytes"] = rng.choice(
                (b"\0alice\0pw", b"n,,n=alice,r=x", b"c=biws,r=x,p=x", b"", b"n,,\x01auth=Bearer a.b.c\x01\x01")
            )
        return wire.own_request(key, version, number, CLIENT, message)

    def _fill(self, message: object) -> None:
        """Puts records and known topics where there is room for them."""
        rng = self._rng
        if isinstance(message, list):
            for each in message:
                self._fill(each)
        if not isinstance(message, dict):
            return
        for name, value in message.items():
            if name == "records":
                message[name] = rng.choice(SECTIONS)
            elif name == "topic_id" and rng.random() < 0.8:
                message[name] = rng.choice(IDS)
            elif name in {"topic", "name"} and isinstance(value, bytes) and rng.random() < 0.8:
                message[name] = rng.choice(NAMES)
            elif name == "auth_bytes":
                message[name] = rng.choice((b"", b"v=x", b"r=x,s=eA==,i=4096"))
            elif name == "error_code" and rng.random() < 0.7:
                message[name] = 0
            else:
                self._fill(value)

    def _answer(self, request: bytes) -> bytes:
        """A sound answer, but perhaps for its correlation id."""
        rng = self._rng
        key, version, number = wire.peek(request)
        message = made(entity_of(key, version, answer=True), rng, 2)[1]
        self._fill(message)
        if not self._sound and rng.random() < self._wild / 10:
            number += rng.choice((1, -1, 1 << 16))
            number = max(-(1 << 31), min(number, (1 << 31) - 1))
        if not self._sound and rng.random() < 0.1:
            message[TAGS] = {90: CANARY}
        body: list[bytes | memoryview] = []
        schema.response(key, version).write(message, body)
        return wire.response_frame(number, key, version, body)

    # A play

    def play(self) -> Script:
        """One session, until nonsense or long enough."""
        rng = self._rng
        desk = Desk(BOOKS[0])
        desk.play.places = Anywhere()
        script = Script()
        self._wild = rng.choice((0.03, 0.1, 0.5))
        for topic_id, name in zip(IDS, NAMES, strict=True):
            if rng.random() < 0.5:
                desk.cluster.learn(topic_id, name)
        asked, went_up = bytearray(), bytearray()
        outcome = "played"
        try:
            for _ in range(FRAMES_OF_A_PLAY):
                match rng.randrange(12):
                    case 0:
                        desk.policy = Policy.closed() if rng.random() < 0.1 else Policy(rng.choice(BOOKS))
                        desk.play.policy_changed()
                        script.fed.append(("policy", b""))
                    case 1 | 2 | 3 | 4 | 5:
                        data = b"".join(self._frame(self._request(self.frames)) for _ in range(rng.choice((1, 1, 1, 2, 5))))
                        asked += data
                        script.fed.append(("reader", data))
                        desk.play.reader(data)
                    case _:
                        went_up += desk.play.sent_up()
                        told = list(taken(went_up))[: rng.choice((1, 1, 3))]
                        data = b"".join(self._frame(self._answer(each)) for each in told)
                        del went_up[: sum(len(each) + 4 for each in told)]
                        if data:
                            script.fed.append(("server", data))
                            desk.play.server(data)
                self._bounded(desk)
                if desk.play.closed:
                    outcome = "closed"
                    break
        except WireError as nonsense:
            outcome = type(nonsense).__name__
        except Failed:
            raise
        except Exception as error:
            raise Failed(f"{type(error).__name__}: {error} after {script}") from error
        self.count[outcome] += 1
        try:
            self._judge(bytes(asked), desk.play.to_reader)
        except AssertionError as wrong:
            raise Failed(f"{wrong} after {script}") from None
        return script

    @staticmethod
    def _bounded(desk: Desk) -> None:
        session = desk.play.session
        state = session._state  # type: ignore[attr-defined]
        held = len(session._requests) + len(session._answers) + len(state._out) + len(state._up)  # type: ignore[attr-defined]
        if len(state.pending) > MOST_REQUESTS + 1 or held > HELD_BYTES or state.pending._weight > MOST_BYTES + HELD_BYTES:
            raise Failed(f"{held} bytes and {len(state.pending)} requests are held")

    def _judge(self, asked: bytes, told: bytes) -> None:
        requests = [wire.peek(each) for each in taken(asked) if len(each) >= wire.HEAD.size]
        at = 0
        rest = len(told)
        for frame in taken(told):
            rest -= len(frame) + 4
            number = wire.response_correlation(frame)
            wrong: AssertionError | None = AssertionError("an answer to nothing, or out of order")
            # Some requests have no answer, and mutated ones may have another's correlation id.
            for here in (each for each in range(at, len(requests)) if requests[each][2] == number):
                try:
                    self._judge_one(*requests[here][:2], frame)
                except AssertionError as error:
                    wrong = error
                else:
                    at, wrong = here + 1, None
                    break
            if wrong is not None:
                raise wrong
            self.count["answers"] += 1
        assert rest == 0, "an answer that is not whole"

    def _judge_one(self, key: int, version: int, frame: bytes) -> None:
        found = row(key)
        act = None if found is None else found.act
        if key == METADATA or not (act in READ or (act is Act.JUDGE_WRITE and version >= 9)):
            return
        if key == 18 and (version not in found.versions or frame[4:6] == b"\0\x23"):  # type: ignore[union-attr]
            version = 0
        try:
            answer = schema.response(key, version).read(frame, wire.response_body_at(frame, key, version))
        except WireError as error:
            raise AssertionError(f"an answer of API {key} version {version} that cannot be read: {error}") from None
        if act is not Act.LOGIN:
            assert not has_unknown(answer), f"an unknown tagged field in an answer of API {key}"
        for section in records_in(answer):
            self.count["sections"] += 1
            look_into(section)


def taken(data: bytes | bytearray) -> Iterator[bytes]:
    """The whole frames at the start of the bytes, as a reader of sizes sees them."""
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if size < 0 or at + 4 + size > len(data):
            return
        yield bytes(data[at + 4 : at + 4 + size])
        at += 4 + size


def has_unknown(value: object) -> bool:
    if isinstance(value, dict):
        return TAGS in value or any(map(has_unknown, value.values()))
    return isinstance(value, list) and any(map(has_unknown, value))


def records_in(value: object) -> Iterator[bytes]:
    if isinstance(value, list):
        for each in value:
            yield from records_in(each)
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "records" and each:
                yield bytes(each)
            else:
                yield from records_in(each)


def look_into(section: bytes) -> None:
    """Raises AssertionError when the canary is in any record, or the section is no records."""
    found: list[bytes] = []

    def note(key: bytes | None, value: bytes | None, headers: bytes) -> None:
        found.extend((key or b"", value or b"", headers))

    try:
        spliced = splice(section, note)
    except BadRecords:
        raise AssertionError("records that cannot be read were shown") from None
    assert spliced.size == len(section), "a batch that is not whole was shown"
    assert all(CANARY not in each for each in (section, *found)), "the canary was shown"


def run(fuzzer: SessionFuzzer, frames: int) -> None:
    """At least so many frames."""
    goal = fuzzer.frames + frames
    while fuzzer.frames < goal:
        fuzzer.play()


def replayed(script: Script, sizes: int | None) -> bytes:
    """What the reader gets when the script is fed in pieces of so many bytes, or whole."""
    desk = Desk(BOOKS[0])
    desk.play.places = Anywhere()
    for topic_id, name in zip(IDS, NAMES, strict=True):
        desk.cluster.learn(topic_id, name)
    try:
        for side, data in script.fed:
            feed = {"reader": desk.play.reader, "server": desk.play.server}.get(side)
            if feed is not None:
                for at in range(0, len(data), sizes or len(data)):
                    feed(data[at : at + (sizes or len(data))])
    except WireError:
        pass
    return desk.play.to_reader


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kafka_session")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    fuzzer = SessionFuzzer(chosen.seed)
    begun = time.monotonic()
    try:
        run(fuzzer, chosen.frames)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    took = time.monotonic() - begun
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{fuzzer.frames} frames, seed {chosen.seed}, {took:.0f} s, {peak_mib} MiB: {dict(sorted(fuzzer.count.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
