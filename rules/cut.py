"""What a plan leaves of one value."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from .model import Hit

Bytes = TypeVar("Bytes", bound=bytes)


class Cut(NamedTuple, Generic[Bytes]):
    """What is left of one value, with what was hit.

    `whole` is the reason when the value could not be read as a rule expects and is masked whole;
    `rule` then names that rule. `data` is the very object that came in when nothing was hit.
    """

    data: Bytes
    hits: tuple[Hit, ...] = ()
    whole: str | None = None
    rule: str | None = None
