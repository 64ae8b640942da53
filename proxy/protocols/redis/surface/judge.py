"""The verdict on one command, before anything of it is sent.

Works on the table alone: which row (`surface`), which keys (keys.py), what changes the treatment for these
arguments (exceptions.py). What a transaction, a login or a subscription means is the session's business.

What is forwarded although it would be refused if a rule covered it has a shape that hides its reply, so that a rule
which comes before the reply does is not too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, assert_never

from rules.model import Refusal
from rules.view import View

from . import Row, Treatment, find
from .exceptions import EXCEPTIONS, Case, Change
from .keys import keys_of

WRITES = frozenset({"write_add", "write_over"})
"""Categories that `writes: strict` refuses on covered keys; copies are refused in any case, deleting stays free."""

WHOLE = "whole"


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
    row = find(argv)
    keys = keys_of(row.keys, argv)
    if keys is None:
        return _alone(argv, row, (), eyes)
    views = {key: eyes.view(key) for key in keys} if _looks(row) else {}
    if row.category in WRITES and eyes.writes_strict and (refused := _refused(row, views)) is not None:
        return refused
    change = EXCEPTIONS[row.unless](Case(argv, views)) if row.unless != "-" else None
    if change is None:
        change = Change(row.treatment, row.shape)
    sent = change.argv or argv
    shape = None if change.shape == "-" else change.shape
    match change.treatment:
        case Treatment.PASS:
            return Forward(sent, row, keys)
        case Treatment.MASK_REPLY:
            return Forward(sent, row, keys, shape, by_anything=row.keys == "-" and shape is not None)
        case Treatment.MASK_WHOLE | Treatment.MASK_ARGS:
            return Forward(sent, row, keys, shape, by_anything=True)
        case Treatment.REFUSE_IF_COVERED:
            return _refused(row, views, change.culprits) or Forward(sent, row, keys, shape)
        case Treatment.REFUSE_IF_ANY_RULE:
            verdict = _alone(argv, row, keys, eyes)
            return verdict if isinstance(verdict, Refused) else _refused(row, views) or verdict
        case _:
            assert_never(change.treatment)


def _looks(row: Row) -> bool:
    """Whether the verdict depends on who reads: a plain GET is masked by its reply alone."""
    return row.unless != "-" or row.treatment is Treatment.REFUSE_IF_COVERED or row.category in WRITES


def _refused(row: Row, views: Mapping[bytes, View], culprits: tuple[tuple[bytes, Refusal], ...] = ()) -> Refused | None:
    """A refusal for the culprits, or without any for every key that a rule covers; None where none does."""
    if not culprits:
        culprits = tuple((key, view.refusal) for key, view in views.items() if view.refusal is not None)
    if not culprits:
        return None
    key, refusal = culprits[0]
    return Refused(row, refusal, tuple(views[each] for each, _ in culprits), key)


def _alone(argv: tuple[bytes, ...], row: Row, keys: tuple[bytes, ...], eyes: Eyes) -> Verdict:
    """For what names no resource that could be told: any rule that masks for the reader refuses it."""
    anything = eyes.anything
    if anything.refusal is not None:
        return Refused(row, anything.refusal, (anything,))
    return Forward(argv, row, keys, WHOLE, by_anything=True)
