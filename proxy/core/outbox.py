"""What a session has said and sent and not handed over yet, and how its directions are driven.

Both directions of a session put what they have to say here, in order; it leaves as one step a side.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar, cast

from rules.view import Shown

from .errors import WireError
from .steps import Step, Steps, ToReader, ToServer
from .viewer import Viewer

FLUSH_BYTES = 64 * 1024
T = TypeVar("T")

Loop: TypeAlias = Generator[Step | None, object, None]
"""A direction of a session: yields steps, and None when more bytes must arrive."""


class Outbox:
    """One for a session."""

    def __init__(self) -> None:
        # In pieces, since to join one alone copies nothing: that is how an answer of many MiB goes through.
        self._out: list[Shown] = []
        self._up: list[bytes] = []
        self._out_bytes = 0
        self._up_bytes = 0

    def say(self, data: Shown) -> None:
        """To the reader, after all that was said before."""
        self._out.append(data)
        self._out_bytes += len(data)

    def send(self, data: bytes) -> None:
        """To the server, after all that was sent before."""
        self._up.append(data)
        self._up_bytes += len(data)

    @property
    def is_long(self) -> bool:
        return self._out_bytes >= FLUSH_BYTES or self._up_bytes >= FLUSH_BYTES

    def flush(self) -> Steps[None]:
        """Hands over what was said and sent. Call it before any step that waits."""
        if self._up_bytes:
            data = b"".join(self._up)
            self._up.clear()
            self._up_bytes = 0
            yield ToServer(data)
        if self._out_bytes:
            shown = Shown(b"".join(self._out))
            self._out.clear()
            self._out_bytes = 0
            yield ToReader(shown)

    def flushed(self, work: Steps[T]) -> Steps[T]:
        """Does the work; what was said before goes out first, where there is anything to wait for."""
        answer: object = None
        try:
            while True:
                step = work.send(answer)
                yield from self.flush()
                answer = yield step
        except StopIteration as done:
            return cast("T", done.value)

    def drive(self, loop: Loop, viewer: Viewer) -> Steps[None]:
        """Runs a direction until it wants more bytes, by the policy of the moment at each of its steps. What was said
        before nonsense still goes out.

        Raises:
            WireError: the loop met nonsense.
        """
        answer: object = None
        try:
            viewer.look()
            while (step := loop.send(answer)) is not None:
                answer = yield step
                viewer.look()
        except WireError:
            yield from self.flush()
            raise
        yield from self.flush()
