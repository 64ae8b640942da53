"""The verdict on one command, before anything of it is sent. (interface stub)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rules.model import Refusal
from rules.view import View

from .surface import Row


class Eyes(Protocol):
    """What the reader of a session may see, at this moment."""

    def view(self, key: bytes) -> View: ...

    @property
    def anything(self) -> View: ...

    @property
    def writes_strict(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Forward:
    """Send `argv` (perhaps rewritten) and lay `shape` over the reply; None: the reply passes as it comes.

    `keys`: the keys (or channels) whose views the reply is looked at through. With `by_anything` the shape
    applies while any rule of the connection masks, whatever the keys.
    """

    argv: tuple[bytes, ...]
    row: Row
    keys: tuple[bytes, ...] = ()
    shape: str | None = None
    by_anything: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer a refusal. It would be another verdict if all of `views` were lifted (they all mask).

    `key` is the key to name, or None where the command as a whole is refused.
    """

    row: Row
    refusal: Refusal
    views: tuple[View, ...]
    key: bytes | None = None


Verdict = Forward | Refused


def judge(argv: tuple[bytes, ...], eyes: Eyes) -> Verdict:
    """The verdict on a command that is not of the session's own state machine.

    Works in this order: row, keys, exceptions, treatment. Never raises, whatever the arguments.
    """
    raise NotImplementedError
