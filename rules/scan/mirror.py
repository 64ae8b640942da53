"""The states of an automaton as the scanner in Python reads them: what it asks of every value, without a detour.

Made when a document first needs them, exactly where it needs a `State`, so that both run out at the same document.
Does not decide anything: that is `automaton`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..automaton import State

MIRRORS_KEPT = 64  # automata whose mirrors wait for the next document; of one that is gone they stay until others push them out


class Mirror:
    """One state. `keys` and `names` hold the children that a step here names, by the name's bytes and by the name;
    None: not met yet. What they do not hold is at `other`, an array's elements are at `element`, both None until met.
    """

    __slots__ = (
        "_found", "dead", "element", "failed", "keys", "looks", "names", "opens", "other", "scalar", "state", "text",
    )  # fmt: skip

    def __init__(self, state: State, found: dict[State, Mirror]) -> None:
        self.state = state
        self._found = found
        self.dead, self.looks, self.opens = state.dead, state.looks, state.opens
        self.text, self.scalar, self.failed = state.text, state.scalar, state.failed
        self.keys: dict[bytes, Mirror | None] = dict.fromkeys(state.names())
        # A name with a lone surrogate is none that a canonical document can have; it stands here and is never asked for.
        self.names: dict[Any, Mirror | None] = {key.decode("utf-8", "surrogatepass"): None for key in self.keys}
        self.other: Mirror | None = None
        self.element: Mirror | None = None
        found[state] = self

    def member(self, key: bytes) -> Mirror:
        """What stands at a member met for the first time. Raises what `State.member` raises."""
        if key not in self.keys:
            child = self.other = self._of(self.state.other)
            return child
        child = self.keys[key] = self._of(self.state.member(key))
        self.names[key.decode("utf-8", "surrogatepass")] = child
        return child

    def first_element(self) -> Mirror:
        """What stands at elements, met for the first time. Raises what `State.element` raises."""
        child = self.element = self._of(self.state.element)
        return child

    def _of(self, state: State) -> Mirror:
        return self._found.get(state) or Mirror(state, self._found)


@lru_cache(MIRRORS_KEPT)
def mirror_of(root: State) -> Mirror:
    """The mirror of an automaton's root, the same as long as it is kept."""
    return Mirror(root, {})


def forget() -> None:
    """Lets go of all mirrors: an automaton that ran out of states starts over, and its old ones are many."""
    mirror_of.cache_clear()
