"""The rules that cover one resource, compiled to one plan. (interface stub)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .model import Hit, Limits, Platform, Refusal, Rule


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of one value, with what was hit; `whole` and `rule` as in `rules.view.Masked`."""

    data: bytes
    hits: tuple[Hit, ...] = ()
    whole: str | None = None
    rule: str | None = None


class Plan:
    """Immutable. `rules` are the enabled rules that cover the resource, by file name, then order."""

    rules: tuple[Rule, ...]
    refusal: Refusal

    def value(self, data: bytes) -> Cut:
        raise NotImplementedError

    def field(self, name: bytes, data: bytes) -> Cut:
        raise NotImplementedError

    def key(self, data: bytes) -> Cut:
        raise NotImplementedError

    def header(self, name: str, data: bytes) -> Cut:
        raise NotImplementedError

    def value_holds_mask(self, data: bytes) -> Hit | None:
        """A covered position of a value being written that bears mask text; None when there is none."""
        raise NotImplementedError

    def field_holds_mask(self, name: bytes, data: bytes) -> Hit | None:
        raise NotImplementedError

    def covers_field(self, name: bytes) -> Refusal | None:
        """The first rule that covers the hash field: one that names it, or any value-kind rule."""
        raise NotImplementedError

    @property
    def hides_whole(self) -> bool:
        """Every value is redacted whole (no json_path shows a part, no partial keeps a character)."""
        raise NotImplementedError


def compile_plan(rules: Sequence[Rule], platform: Platform, limits: Limits) -> Plan:
    """The plan of at least one rule."""
    raise NotImplementedError


def closed_plan(reason: str) -> Plan:
    """A plan without rules that masks everything whole, for before the first good read of the store."""
    raise NotImplementedError
