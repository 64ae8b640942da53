"""JSON lines on standard error, with a fixed list of keys.

No contents can appear: nothing passes any, a key outside the list is dropped, and of an exception only its
type and the place it was raised at are told, never its message or what it was chained to.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Mapping, MutableMapping
from traceback import extract_tb
from typing import TextIO

import structlog

from .clock import utc_text

KEYS = frozenset(
    {
        "address", "connection", "count", "error", "event", "file", "level", "listener", "location", "message", "path",
        "peer", "place", "protocol", "reason", "rules", "scanner", "seconds", "session", "signal", "time", "upstream",
        "version", "who", "worker",
    }
)  # fmt: skip
VALUE_LIMIT = 256  # characters; a name or a reason fits, a value that got here by mistake would be cut


class Log:
    """Writes events. `unknown_keys` counts the programming errors: keys outside the list.

    `worker` is the number of this process among several, which every line of it bears.
    """

    def __init__(self, stream: TextIO | None = None, worker: int | None = None) -> None:
        self._stream = stream
        self._always = {} if worker is None else {"worker": worker}
        self.unknown_keys = 0
        self.lost = 0
        self._logger = structlog.wrap_logger(
            _Sink(self._write), processors=[self._only_known, _stamp, _render], wrapper_class=structlog.BoundLogger
        )

    def info(self, event: str, **told: str | int | bool) -> None:
        self._logger.info(event, **told)

    def warning(self, event: str, **told: str | int | bool) -> None:
        self._logger.warning(event, **told)

    def error(self, event: str, **told: str | int | bool) -> None:
        self._logger.error(event, **told)

    def failed(self, event: str, failure: BaseException, **told: str | int | bool) -> None:
        """An exception that nobody expected: its type and the innermost place, nothing it says."""
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        self.error(event, error=type(failure).__name__, location=location_of(failure), **told)

    def pass_on(self, line: str) -> None:
        """A line that another process has made."""
        self._write(line)

    def _write(self, line: str) -> None:
        try:
            stream = self._stream or sys.stderr
            if _takes(stream, len(line) + 1):
                stream.write(line + "\n")
                stream.flush()
            else:
                self.lost += 1
        except (OSError, ValueError):  # standard error is gone: serving goes on without it
            self.lost += 1

    def _only_known(self, _logger: object, level: str, told: MutableMapping[str, object]) -> Mapping[str, object]:
        kept: dict[str, object] = {"level": level, **self._always}
        for key, value in told.items():
            if key in KEYS and isinstance(value, str | int):
                kept[key] = value if isinstance(value, int) else _cut(value)
            else:
                self.unknown_keys += 1
        return kept


def _takes(stream: TextIO, count: int) -> bool:
    """Whether a line of so many characters can be written without waiting: whoever reads the log may have stopped
    reading, and serving must not wait for that. A pipe that can be written to has room for `PIPE_BUF`."""
    try:
        descriptor = stream.fileno()
    except OSError:  # in memory
        return True
    look = select.poll()
    look.register(descriptor, select.POLLOUT)
    return count <= select.PIPE_BUF and bool(look.poll(0))


class _Sink:
    """What structlog calls by the name of the level, with a finished line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.info = self.warning = self.error = write


def _cut(value: str) -> str:
    return value if len(value) <= VALUE_LIMIT else value[:VALUE_LIMIT] + "…"


def _stamp(_logger: object, _level: str, told: MutableMapping[str, object]) -> Mapping[str, object]:
    return {"time": utc_text(), **told}


def _render(_logger: object, _level: str, told: MutableMapping[str, object]) -> str:
    return json.dumps(told, ensure_ascii=True, separators=(",", ":"))


def location_of(failure: BaseException) -> str:
    """`file:line function` of the innermost frame, or an empty text where nothing was raised."""
    frames = extract_tb(failure.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno} {last.name}"
