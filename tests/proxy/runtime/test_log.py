"""The log: fixed keys, one ASCII line an event, nothing of an exception's words."""

from __future__ import annotations

import io
import json
import os
import threading
from typing import Any

import pytest

from proxy.runtime.log import VALUE_LIMIT, Log


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_with_its_time_and_level() -> None:
    stream = io.StringIO()
    Log(stream).info("serving", connection="shop", count=3)

    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "event": "serving", "connection": "shop", "count": 3}


def test_a_key_outside_the_list_is_dropped_and_counted() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log.info("serving", value="SECRET")

    assert "SECRET" not in stream.getvalue()
    assert log.unknown_keys == 1


def test_a_value_that_is_no_plain_word_is_dropped_and_counted() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log.info("serving", reason=b"SECRET")  # type: ignore[arg-type]

    assert "SECRET" not in stream.getvalue()
    assert log.unknown_keys == 1


def test_a_name_with_line_ends_and_escapes_stays_on_its_line() -> None:
    stream = io.StringIO()
    Log(stream).info("reader-gone", who="eve\n\x1b[31m\u2028\udce9")

    assert stream.getvalue().isascii()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_a_long_value_is_cut() -> None:
    stream = io.StringIO()
    Log(stream).info("reader-gone", who="x" * 10_000)

    assert len(lines(stream)[0]["who"]) == VALUE_LIMIT + 1


def test_of_an_exception_only_its_type_and_place_are_told() -> None:
    stream = io.StringIO()
    log = Log(stream)
    inner = ValueError("SECRET-1")
    failure = ExceptionGroup("SECRET-2", [KeyError("SECRET-3")])
    failure.__cause__ = inner
    log.failed("session-fault", failure, connection="shop")

    assert "SECRET" not in stream.getvalue()
    assert lines(stream)[0]["error"] == "KeyError"


def test_the_place_of_an_exception_is_the_innermost_frame() -> None:
    stream = io.StringIO()

    def inner() -> None:
        raise ValueError("SECRET")

    with pytest.raises(ValueError, match="SECRET") as caught:
        inner()
    Log(stream).failed("session-fault", caught.value)

    assert lines(stream)[0]["location"].startswith("test_log.py:")
    assert lines(stream)[0]["location"].endswith(" inner")


def test_a_closed_standard_error_does_not_stop_the_process() -> None:
    stream = io.StringIO()
    stream.close()
    log = Log(stream)
    log.info("serving")

    assert log.lost == 1


def test_a_reader_of_the_log_that_stopped_reading_does_not_stop_the_process() -> None:
    there, here = os.pipe()
    with os.fdopen(there, "rb") as read, os.fdopen(here, "w") as stream:
        log = Log(stream)

        def write() -> None:
            for number in range(2000):
                log.info("reader-gone", reason="x" * 200, count=number)

        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        writing.join(5)
        stuck = writing.is_alive()
        while writing.is_alive():
            os.read(there, 65536)

        assert not stuck
        assert log.lost > 0
        os.set_blocking(there, False)
        whole = read.read()
        assert whole.endswith(b"\n")
        assert [json.loads(line)["count"] for line in whole.splitlines()] == list(range(2000 - log.lost))


def test_a_line_that_a_pipe_might_take_in_part_is_not_begun() -> None:
    there, here = os.pipe()
    with os.fdopen(there, "rb") as read, os.fdopen(here, "w") as stream:
        log = Log(stream)
        log.info("serving", **dict.fromkeys(("message", "reason", "who"), "\u2028" * VALUE_LIMIT))
        os.set_blocking(there, False)

        assert log.lost == 1
        assert read.read() is None
