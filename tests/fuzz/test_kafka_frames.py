"""A short run of the fuzzer of Kafka's frames. FUZZ_EXECUTIONS and FUZZ_FIRST look longer and elsewhere."""

from __future__ import annotations

import os

import pytest

from proxy.core.errors import WireError
from proxy.protocols.kafka import schema, wire

from .kafka_frames import Failed, Fuzzer, main, run

EXECUTIONS = int(os.environ.get("FUZZ_EXECUTIONS", "3000"))
SEED = int(os.environ.get("FUZZ_FIRST", "0"))


@pytest.mark.slow
@pytest.mark.parametrize("memory", [False, True])
def test_whatever_comes_is_refused_or_read_and_written_back(*, memory: bool) -> None:
    fuzzer = Fuzzer(SEED, memory=memory)

    run(fuzzer, EXECUTIONS)

    assert fuzzer.executions >= EXECUTIONS
    assert {"WireError", "not whole", "read"} <= fuzzer.count.keys()


@pytest.mark.parametrize("wrong", [IndexError, MemoryError, ValueError])
def test_the_fuzzer_finds_another_exception(monkeypatch: pytest.MonkeyPatch, wrong: type[Exception]) -> None:
    def read(codec: schema.Codec, frame: bytes, at: int) -> schema.Message:
        raise wrong

    monkeypatch.setattr(schema.Codec, "read", read)

    with pytest.raises(Failed, match=wrong.__name__):
        run(Fuzzer(SEED), 1)


def test_the_fuzzer_finds_what_is_written_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(codec: schema.Codec, message: schema.Message, out: list[bytes | memoryview]) -> None:
        out.append(b"other")

    monkeypatch.setattr(schema.Codec, "write", write)

    with pytest.raises(Failed, match="AssertionError"):
        run(Fuzzer(SEED), 1)


def test_the_fuzzer_finds_a_sound_message_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def correlation(frame: bytes) -> int:
        raise WireError("never")

    monkeypatch.setattr(wire, "response_correlation", correlation)

    with pytest.raises(Failed, match="sound"):
        run(Fuzzer(SEED), 2000)


def test_it_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--executions", "50"]) == 0

    assert "50 executions, seed 1" in capsys.readouterr().out
