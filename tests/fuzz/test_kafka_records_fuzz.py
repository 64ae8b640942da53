"""A short run of the fuzzer of record sections. FUZZ_EXECUTIONS and FUZZ_FIRST look longer and elsewhere."""

from __future__ import annotations

import os
from typing import Any

import pytest

from proxy.protocols.kafka.records import BadRecords, Spliced, splice

from .kafka_records import Failed, Fuzzer

EXECUTIONS = int(os.environ.get("FUZZ_EXECUTIONS", "3000"))
SEED = int(os.environ.get("FUZZ_FIRST", "0"))


@pytest.mark.slow
def test_no_section_gives_contents_away_or_raises_anything_but_bad_records() -> None:
    fuzzer = Fuzzer(SEED)
    fuzzer.run(EXECUTIONS)

    assert fuzzer.count.total() == EXECUTIONS
    assert min(fuzzer.count[each] for each in ("refused", "nothing", "untouched", "masked")) > EXECUTIONS / 100


def _passes_control_batches(data: bytes, edit: Any, **how: Any) -> Spliced:
    if len(data) > 61 and data[16] == 2 and data[22] & 0x20:
        return Spliced([data], len(data), 0, cut=False)
    return splice(data, edit, **how)


def _passes_the_partial_end(data: bytes, edit: Any, **how: Any) -> Spliced:
    made = splice(data, edit, **how)
    whole = splice(data, lambda *_: None).size
    return made._replace(parts=[*made.parts, data[whole:]], size=made.size + len(data) - whole)


def _forgets_null_values(data: bytes, edit: Any, **how: Any) -> Spliced:
    return splice(data, lambda key, value, headers: None if value is None else edit(key, value, headers), **how)


def _raises_something(data: bytes, edit: Any, **how: Any) -> Spliced:
    try:
        return splice(data, edit, **how)
    except BadRecords:
        raise IndexError from None


def _leaves_what_it_cannot_read(data: bytes, edit: Any, **how: Any) -> Spliced:
    try:
        return splice(data, edit, **how)
    except BadRecords:
        return Spliced([data], len(data), 0, cut=False)


@pytest.mark.parametrize(
    "broken",
    [_passes_control_batches, _passes_the_partial_end, _forgets_null_values, _raises_something, _leaves_what_it_cannot_read],
)
def test_the_fuzzer_sees_what_it_is_there_for(broken: Any) -> None:
    with pytest.raises(Failed):
        Fuzzer(SEED, broken).run(2000)
