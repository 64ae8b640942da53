"""A reader for whom every key that starts with `c` is covered by one rule, R."""

from __future__ import annotations

from dataclasses import dataclass, field

from rules.model import Connection, Hit, Kind, Platform, Refusal, Resource, Rule
from rules.plan import Plan
from rules.view import View

MASK = "••••".encode()

CONNECTION = Connection("shop", Platform.REDIS)
RULE = Rule("R", Platform.REDIS, ((Kind.KEY, ("c*",)),), mask_all=True)


class Covering(Plan):
    """Covers every field, or those named; mask text in a covered place is a hit."""

    def __init__(self, fields: frozenset[bytes] | None = None, *, whole: bool = True) -> None:
        self.rules = (RULE,)
        self.refusal = Refusal("R", "value")
        self._fields = fields
        self._whole = whole

    def value_holds_mask(self, data: bytes) -> Hit | None:
        return Hit("value", "redact", "R") if MASK in data else None

    def field_holds_mask(self, name: bytes, data: bytes) -> Hit | None:
        covered = self.covers_field(name) is not None
        return Hit(f"field:{name.decode('latin-1')}", "redact", "R") if covered and MASK in data else None

    def covers_field(self, name: bytes) -> Refusal | None:
        if self._fields is None:
            return self.refusal
        return Refusal("R", f"field:{name.decode('latin-1')}") if name in self._fields else None

    @property
    def hides_whole(self) -> bool:
        return self._whole


@dataclass
class Eyes:
    """See `judge.Eyes`. `lifted`: names of keys that are on record, `*` for the connection as a whole."""

    plan: Plan = field(default_factory=Covering)
    lifted: frozenset[bytes] = frozenset()
    writes_strict: bool = False
    rules: bool = True
    """False: there are no rules at all."""

    def view(self, key: bytes) -> View:
        return self._view(key, covered=key.startswith(b"c"))

    @property
    def anything(self) -> View:
        return self._view(b"*", covered=True)

    def _view(self, name: bytes, *, covered: bool) -> View:
        resource = Resource(CONNECTION, Kind.KEY, name)
        plan = self.plan if covered and self.rules else None
        return View(resource, "alice", plan, may_lift=True, lifted=plan is not None and name in self.lifted)


def words(text: str) -> tuple[bytes, ...]:
    """A command from its words; `''` is an empty one."""
    return tuple(b"" if word == "''" else word.encode() for word in text.split())
