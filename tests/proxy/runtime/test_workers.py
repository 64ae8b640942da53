"""Several processes as one: their figures, their addresses, what they say to each other, and how they are kept."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from pathlib import Path

import pytest
import trio
from prometheus_client import ProcessCollector

from proxy.core.tally import Tally
from proxy.runtime.current import Current
from proxy.runtime.journal import Journal
from proxy.runtime.listen import CannotBind, Census
from proxy.runtime.log import Log
from proxy.runtime.metrics import Counted, Metrics
from proxy.runtime.upstream import Address
from proxy.runtime.workers import channel as channel_module
from proxy.runtime.workers import crew as crew_module
from proxy.runtime.workers.channel import Channel, ChannelBroken, first_message
from proxy.runtime.workers.crew import Crew, Plan
from proxy.runtime.workers.desk import Desk
from proxy.runtime.workers.figures import GAUGES, Family, Figures, as_json, figures_of, from_json, joined, page, without_gauges
from proxy.runtime.workers.ports import share, take
from proxy.runtime.workers.report import Report, report_from
from rules.model import Connection, Place, Platform, Problem

HERE = Address("127.0.0.1", 0)


def figures(tmp_path: Path, *, masked: int = 0, readers: int = 0) -> Figures:
    log = Log(io.StringIO())
    tally = Tally()
    tally.count({("r", "redact"): masked}, {})
    tally.worked(0.001)
    census = Census(100)
    census.open = census.total = readers
    journal = Journal(tmp_path / "audit.jsonl", log)
    connections = (Connection("shop", Platform.REDIS),)
    metrics = Metrics(Counted("1", census, Current(), journal, log, {"shop": tally}, connections))
    journal.release()
    return figures_of(metrics.families())


def lines(told: Figures) -> list[str]:
    return page(told).decode().splitlines()


def test_every_gauge_of_the_page_says_what_it_is_of_the_whole(tmp_path: Path) -> None:
    told = {**figures(tmp_path), **figures_of(ProcessCollector(registry=None).collect())}

    assert {name for name, kind in told if kind == "gauge"} == set(GAUGES)
    assert {kind for _, kind in told} == {"gauge", "counter", "histogram"}


def test_counts_of_workers_are_summed_and_a_dead_ones_stay(tmp_path: Path) -> None:
    one, two = figures(tmp_path, masked=2, readers=3), figures(tmp_path, masked=5, readers=4)
    both = lines(joined([one, two]))
    later = lines(joined([without_gauges(one), two]))

    masked = 'veil_values_masked_total{connection="shop",method="redact",platform="redis",rule="r"} 7.0'
    for told in (both, later):
        assert masked in told
        assert "veil_connections_total 7.0" in told
        assert 'veil_masking_seconds_bucket{le="+Inf"} 2.0' in told
        assert "veil_masking_seconds_count 2.0" in told
    assert "veil_connections 7.0" in both
    assert "veil_connections 4.0" in later
    assert "veil_connections_limit 200.0" in both


def test_gauges_of_the_whole_are_those_of_the_worst_worker() -> None:
    def one(name: str, value: float) -> Figures:
        return {(name, "gauge"): Family("", {(name, ()): value})}

    for name, expected in (("veil_rules_last_reload_successful", 0), ("veil_audit_failing", 1), ("veil_build_info", 1)):
        told = joined([one(name, 1), one(name, 0)])

        assert told[name, "gauge"].samples[name, ()] == expected


def test_figures_of_one_process_are_the_page_that_it_has_alone(tmp_path: Path) -> None:
    told = figures(tmp_path, masked=1)
    sent = from_json(json.loads(json.dumps(as_json(told))))

    assert sent == told
    assert lines(joined([sent])) == lines(told)


def test_a_report_arrives_as_it_was_sent(tmp_path: Path) -> None:
    problem = Problem(Place("rules.d/r.yaml", 3, 7), "no such key")
    expected = Report(True, True, False, True, "v1", (problem,), ("look",), figures(tmp_path, masked=3))

    assert report_from(json.loads(json.dumps(expected.as_message()))["report"]) == expected


@pytest.mark.parametrize("told", [None, {}, [], {"rules_read": 1}, {**Report().as_message()["report"], "figures": [[1]]}])
def test_what_is_no_report_is_not_taken_for_one(told: object) -> None:
    with pytest.raises(ChannelBroken):
        report_from(told)


async def test_messages_arrive_whole_byte_by_byte_and_with_others_behind_them() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, b'{"a":1}\n{"b"')
    assert await channel.receive() == {"a": 1}
    for byte in b':2}\n{"c":3}\n[]\n':
        theirs.send(bytes([byte]))
    assert await channel.receive() == {"b": 2}
    assert await channel.receive() == {"c": 3}
    with pytest.raises(ChannelBroken):
        await channel.receive()
    theirs.close()
    assert await channel.receive() is None
    assert not await channel.send({"want": "report"})
    await channel.close()


async def test_a_message_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "LINE_BYTES", 10)
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.send(b"x" * 11)
        channel = Channel(ours)
        with pytest.raises(ChannelBroken):
            await channel.receive()
        await channel.close()


def test_the_first_message_is_taken_with_what_came_behind_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b'{"worker":1}\n{"want"')
        assert first_message(ours) == ({"worker": 1}, b'{"want"')
        theirs.close()
        with pytest.raises(ChannelBroken):
            first_message(ours)


async def test_an_address_is_shared_by_the_workers_and_by_nobody_else() -> None:
    taken = await take(HERE)
    one, two = share(taken), share(taken)
    assert {each.getsockname()[1] for each in (*one, *two)} == {taken.real.port}
    for each in (*one, *two):
        each.listen()
    for mode in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        with pytest.raises(CannotBind, match="Address already in use"):
            await take(taken.real)
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, mode, 1)
            if mode == socket.SO_REUSEADDR:
                with pytest.raises(OSError):
                    stranger.bind((taken.real.host, taken.real.port))
    for each in one:  # a worker has died: the others take all
        each.close()
    for _ in range(20):
        socket.create_connection((taken.real.host, taken.real.port), timeout=5).close()
    for each in two:
        each.close()
    taken.close()


async def test_a_name_of_several_addresses_has_one_number_on_all_of_them() -> None:
    taken = await take(Address("localhost", 0))

    assert {each.getsockname()[1] for each in taken.held} == {taken.real.port}
    taken.close()


async def test_what_is_no_address_cannot_be_taken() -> None:
    with pytest.raises(CannotBind):
        await take(Address("256.256.256.256", 1))


class Serving:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def report(self) -> Report:
        return Report(version="v")

    def drain(self) -> None:
        self.told.append("drain")

    def stop_now(self) -> None:
        self.told.append("stop")

    def reread(self) -> None:
        self.told.append("reread")


@pytest.mark.parametrize("end", [b"", b"nonsense\n", b'{"want":"more"}\n'])
async def test_a_worker_obeys_and_stops_when_nobody_it_knows_speaks(end: bytes) -> None:
    ours, theirs = socket.socketpair()
    serving = Serving()
    theirs.send(b'{"want":"reread"}\n{"want":"drain"}\n{"want":"report"}\n' + end)
    theirs.shutdown(socket.SHUT_WR)
    with trio.fail_after(5):
        channel = Channel(ours)
        await Desk(channel).run(serving)
        await channel.close()

    assert serving.told == ["reread", "drain", "stop"]
    assert theirs.recv(100_000).count(b'"version":"v"') == 2
    theirs.close()


STUB = """
import json, socket, sys
from proxy.runtime.workers.channel import encode, first_message
from proxy.runtime.workers.report import Report
own = socket.socket(fileno=int(sys.argv[1]))
hello, behind = first_message(own)
"""


def crew(stub: str, log: Log, count: int = 1) -> Crew:
    command = (sys.executable, "-c", STUB + stub)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    return Crew(Plan(count, command, environment, (), lambda number: {"worker": number}), log)


@pytest.mark.slow
async def test_a_worker_that_dies_at_once_and_again_is_started_less_and_less_often() -> None:
    stream = io.StringIO()
    kept = Crew(Plan(1, ("/bin/false",), {}, (), lambda number: {"worker": number}), Log(stream))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        begun = trio.current_time()
        while kept.restarts < 3:  # at once, after 0.5 s, after 1 s more
            await trio.sleep(0.02)
        took_s = trio.current_time() - begun
        kept.drain()

    assert took_s >= 1.4
    assert stream.getvalue().count("exit code 1") in (3, 4)


@pytest.mark.slow
async def test_what_a_worker_refuses_at_the_start_ends_all_and_is_told_once() -> None:
    stream = io.StringIO()
    kept = crew('own.sendall(encode({"refused": 2, "problems": ["one", "two"]})); sys.exit(2)', Log(stream), count=3)
    with trio.fail_after(30):
        await kept.run()

    assert kept.refused is not None
    assert (kept.refused.code, kept.refused.problems) == (2, ("one", "two"))


REPORT = "own.sendall(encode(Report(bound=True, rules_read=True, version=str(hello['worker'])).as_message()))\n"


@pytest.mark.slow
async def test_workers_of_different_rules_are_told_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "SKEW_S", 0.2)
    monkeypatch.setattr(crew_module, "POLL_S", 0.1)
    stream = io.StringIO()
    kept = crew(REPORT + "for line in own.makefile('rb'):\n  " + REPORT, Log(stream), count=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        with trio.fail_after(30):
            await kept.up.wait()
            while "workers-differ" not in stream.getvalue():
                await trio.sleep(0.02)
        assert kept.differ_for_s > 0.2
        kept.drain()
        monkeypatch.setattr(crew_module, "STOP_S", 0.1)
        kept.drain()

    assert stream.getvalue().count("workers-differ") == 1
    assert stream.getvalue().count("worker-killed") == 2, "who does not end is ended"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stub", "polls", "reason"),
    [("own.recv(1)\nwhile True: pass", 8, "no answer"), ("own.sendall(b'nonsense\\n'); own.recv(9)", 10_000, "message")],
)
async def test_a_worker_that_stands_still_or_speaks_nonsense_is_killed_and_replaced(
    monkeypatch: pytest.MonkeyPatch, stub: str, polls: int, reason: str
) -> None:
    monkeypatch.setattr(crew_module, "POLL_S", 0.1)
    monkeypatch.setattr(crew_module, "HUNG_POLLS", polls)
    monkeypatch.setattr(crew_module, "STOP_S", 0.1)
    stream = io.StringIO()
    kept = crew(stub, Log(stream))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        with trio.fail_after(30):
            while not kept.restarts:
                await trio.sleep(0.02)
        kept.drain()
        kept.drain()

    assert '"worker-killed"' in stream.getvalue()
    assert reason in stream.getvalue()


@pytest.mark.slow
async def test_what_a_worker_writes_is_passed_on_in_whole_lines_and_with_a_limit() -> None:
    stream = io.StringIO()
    kept = crew("sys.stderr.write('first\\n' + 'x' * 9000 + '\\nhalf'); sys.stderr.flush()\n", Log(stream))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        with trio.fail_after(30):
            while "half" not in stream.getvalue():
                await trio.sleep(0.02)
        kept.drain()

    told = stream.getvalue().splitlines()
    assert "first" in told
    assert "half" in told
    assert max(map(len, told)) <= crew_module.LINE_BYTES


SERVES = REPORT + "for line in own.makefile('rb'):\n  if b'drain' in line: break\n  " + REPORT


async def stands_by(kept: Crew) -> trio.Process:
    while kept._standing_by is None:
        await trio.sleep(0.02)
    return kept._standing_by.process


async def replaced(kept: Crew) -> trio.Process:
    """The process in the place of the one worker, which is killed."""
    before = kept.living[0]
    before.kill()
    while not kept.living or kept.living[0] is before:
        await trio.sleep(0.02)
    return kept.living[0].process


@pytest.mark.slow
async def test_a_worker_that_ends_is_replaced_by_a_process_that_has_started_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "POLL_S", 0.05)
    kept = crew(SERVES, Log(io.StringIO()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        with trio.fail_after(30):
            spare = await stands_by(kept)
            assert await replaced(kept) is spare
            later = await stands_by(kept)
            assert later is not spare
        kept.drain()

    assert (spare.returncode, later.returncode) == (0, -9), "nobody who stood by outlives the others"


@pytest.mark.slow
async def test_a_process_that_has_died_while_it_stood_by_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "POLL_S", 0.05)
    monkeypatch.setattr(crew_module, "LONGEST_S", 0.05)
    kept = crew(SERVES, Log(io.StringIO()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        with trio.fail_after(30):
            spare = await stands_by(kept)
            spare.kill()
            while kept._standing_by is not None and kept._standing_by.process is spare:
                await trio.sleep(0.02)
            assert await stands_by(kept) is not spare
            monkeypatch.setattr(crew_module, "POLL_S", 600.0)
            await trio.sleep(0.1)  # whoever looks after those that stand by looks no more
            (await stands_by(kept)).kill()
            assert (await replaced(kept)).returncode is None
            while kept.living[0].report is None:
                await trio.sleep(0.02)
        kept.drain()


@pytest.mark.slow
async def test_workers_that_stand_still_have_ended_within_fifteen_seconds_of_the_drain() -> None:
    kept = crew("while True: own.recv(1) or __import__('time').sleep(60)", Log(io.StringIO()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        with trio.fail_after(30):
            while not kept.living:
                await trio.sleep(0.02)
        begun_s = trio.current_time()
        kept.drain()

    assert trio.current_time() - begun_s < 15
