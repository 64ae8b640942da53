"""A short run of the fuzzer of Kafka's sessions. FUZZ_EXECUTIONS and FUZZ_FIRST look longer and elsewhere."""

from __future__ import annotations

import os

import pytest

from proxy.protocols.kafka import schema
from proxy.protocols.kafka.records import Spliced, splice
from proxy.protocols.kafka.session import fetching, pending

from .kafka_frames import Failed
from .kafka_session import SessionFuzzer, main, replayed, run

FRAMES = int(os.environ.get("FUZZ_EXECUTIONS", "1500"))
SEED = int(os.environ.get("FUZZ_FIRST", "0"))


@pytest.mark.slow
def test_whatever_comes_from_either_side_no_record_is_shown_unmasked() -> None:
    fuzzer = SessionFuzzer(SEED)

    run(fuzzer, FRAMES)

    assert {"WireError", "answers", "closed", "sections"} <= fuzzer.count.keys()


@pytest.mark.slow
def test_sessions_that_are_fed_byte_by_byte_show_the_same() -> None:
    fuzzer = SessionFuzzer(SEED, sound=True)
    shown = 0
    for _ in range(5):
        script = fuzzer.play()
        script.fed = [each for each in script.fed if each[0] != "policy"]
        whole = replayed(script, None)
        shown += len(whole)
        assert replayed(script, 1) == whole
        assert replayed(script, 7) == whole

    assert shown


def test_the_fuzzer_finds_records_that_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(data: memoryview, edit: object, **more: object) -> Spliced:
        return splice(data, lambda key, value, headers: None)

    monkeypatch.setattr(fetching, "splice", unmasked)

    with pytest.raises(Failed, match="shown"):
        run(SessionFuzzer(SEED), 3000)


def test_the_fuzzer_finds_tagged_fields_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(codec: schema.Codec, frame: bytes, at: int) -> tuple[schema.Message, bool]:
        return codec.read(frame, at), False

    monkeypatch.setattr(schema.Codec, "known", known)

    with pytest.raises(Failed, match="tagged"):
        run(SessionFuzzer(SEED), 3000)


def test_the_fuzzer_finds_answers_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def push(queue: pending.Pending, item: pending.Sent | pending.Local) -> None:
        queue._items.append(item)
        if len(queue._items) > 1 and isinstance(item, pending.Local):
            queue._items.rotate(1)

    monkeypatch.setattr(pending.Pending, "push", push)

    with pytest.raises(Failed):
        run(SessionFuzzer(SEED), 3000)


def test_it_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--frames", "20"]) == 0

    assert "frames, seed 1" in capsys.readouterr().out
