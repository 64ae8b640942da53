"""The one door contents leave by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

from .audit import READ_UNMASKED, Receipt, RuleTag
from .cut import Cut
from .model import Refusal, Resource, Rule
from .plan import Plan

Shown = NewType("Shown", bytes)
"""Bytes that may reach a reader. Made by a View, or by `plain` for bytes that hold no contents."""

MASK = Shown("••••".encode())


def plain(data: bytes) -> Shown:
    """Bytes of the protocol itself: handshakes, errors, counts, names. Never contents."""
    return Shown(data)


Masked: TypeAlias = Cut[Shown]
"""What a reader sees of one value: what a plan cut, once a View has let it out."""


@dataclass(frozen=True, slots=True)
class View:
    """What one reader may see of one resource under one policy.

    `plan` is None where no rule covers the resource. `grant` says through which grant the reader may lift.
    """

    resource: Resource
    who: str
    plan: Plan | None = None
    may_lift: bool = False
    grant: str = ""
    lifted: bool = False

    @property
    def covered(self) -> bool:
        """Some rule covers the resource, lifted or not."""
        return self.plan is not None

    @property
    def masks(self) -> bool:
        """False: forward the frame as it came, without parsing contents."""
        return self.plan is not None and not self.lifted

    @property
    def rules(self) -> tuple[Rule, ...]:
        return () if self.plan is None else self.plan.rules

    @property
    def tags(self) -> tuple[RuleTag, ...]:
        return tuple(RuleTag.of(rule) for rule in self.rules)

    @property
    def refusal(self) -> Refusal | None:
        """What to say when an operation on the resource may not go on; None where nothing masks."""
        if self.plan is None or self.lifted:
            return None
        return self.plan.refusal

    def lift(self, receipt: Receipt) -> View:
        """The same view without its masks.

        Raises:
            PermissionError: the reader may not lift, or the receipt is for another read or misses a rule.
        """
        entry = receipt.entry
        named = {tag.name for tag in entry.rules}
        missing = any(rule.name not in named for rule in self.rules)
        is_this = entry.event == READ_UNMASKED and entry.resource == self.resource and entry.who == self.who
        if not self.may_lift or not is_this or missing:
            raise PermissionError("the receipt is for another read")
        return View(self.resource, self.who, self.plan, self.may_lift, self.grant, lifted=True)

    def value(self, data: bytes) -> Masked:
        """A value: a message's, a string's, one member's of a list, set or sorted set."""
        if self.plan is None or self.lifted:
            return Cut(Shown(data))
        return self.plan.value(data)  # type: ignore[return-value]  # let out

    def key(self, data: bytes) -> Masked:
        """A record's key."""
        if self.plan is None or self.lifted:
            return Cut(Shown(data))
        return self.plan.key(data)  # type: ignore[return-value]  # let out

    def header(self, name: str, data: bytes) -> Masked:
        """The value of a header or message property; names are compared case-insensitively."""
        if self.plan is None or self.lifted:
            return Cut(Shown(data))
        return self.plan.header(name, data)  # type: ignore[return-value]  # let out

    def names_header(self, name: str) -> bool:
        """Whether a rule names this header or property, and masks it; mask_all names none."""
        return self.plan is not None and not self.lifted and self.plan.names_header(name)

    def field(self, name: bytes, data: bytes) -> Masked:
        """The value of one field of a hash or of a stream entry."""
        if self.plan is None or self.lifted:
            return Cut(Shown(data))
        return self.plan.field(name, data)  # type: ignore[return-value]  # let out

    def untouched(self, raw: bytes) -> Shown:
        """A whole frame that may go out as it came.

        Raises:
            PermissionError: this view masks.
        """
        if self.masks:
            raise PermissionError("a masked resource's frame cannot pass untouched")
        return Shown(raw)
