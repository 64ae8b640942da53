"""Whether two JSON paths can name the same place, and whether one always ends above the other. Both answers are exact.

For warnings alone: masking itself is `automaton`, which knows documents. A place is spelled here as the labels on the
way to it: a member's name, or an array's element, which names pass through. A path stands at one of its steps, or at
its end, and a label moves it on or lets it stay:

    step       an element     its own name     another name     and before any label
    .name      stay           on               gone
    ..name     stay           stay or on       stay
    .* [*]     stay or on     on               on               on, where a name still follows: an object may
                                                                stand in place of the array

A path never goes back, so one number a path, with one bit for each step, holds all that has to be known, and two
paths of thousands of steps cost milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .model import Descend, Every, JsonPath, PathStep

Steps = tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class _Bits:
    """Of each path one bit a step, the first lowest: the steps of each sort, and those that a name looks for."""

    every: int
    skippable: int  # the `.*` behind which a name still follows
    descends: int
    named: dict[str, int]


@lru_cache(maxsize=16384)
def _bits(steps: Steps) -> _Bits:
    every = skippable = descends = 0
    named: dict[str, int] = {}
    name_follows = False
    for at in reversed(range(len(steps))):
        step, bit = steps[at], 1 << at
        if isinstance(step, Every):
            every |= bit
            skippable |= bit if name_follows else 0
            continue
        name_follows = True
        named[step.name] = named.get(step.name, 0) | bit
        descends |= bit if isinstance(step, Descend) else 0
    return _Bits(every, skippable, descends, named)


def _along(reached: int, open_to: int) -> int:
    """With every bit that is reached from one of them by going up over bits that are open: the sum's carry runs there."""
    return reached | ((open_to + (reached & open_to)) ^ open_to)


def paths_meet(one: JsonPath, other: JsonPath) -> bool:
    """Whether some document has a value that both paths name."""
    return _meet(one.steps, other.steps)


@lru_cache(maxsize=65536)
def _meet(one: Steps, other: Steps) -> bool:
    """Step by step of the one path: where the other may stand meanwhile."""
    mine, its = _bits(one), _bits(other)
    all_steps = (1 << len(other)) - 1
    at = 1
    for index, step in enumerate(one):
        # The other moves while this one stays: at `..name` under any label, at others for an element alone.
        at = _along(at, all_steps if isinstance(step, Descend) else its.every | its.skippable)
        waits = at & all_steps
        if isinstance(step, Every):
            moved = waits | (waits << 1)
        else:
            moved = (waits & its.descends) | ((waits & (its.every | its.named.get(step.name, 0))) << 1)
        if mine.skippable >> index & 1:
            moved |= waits
        if not moved:
            return False
        at = moved
    return bool(at >> len(other) & 1)


def always_above(upper: JsonPath, lower: JsonPath) -> bool:
    """Whether every value that the lower path names lies inside one that the upper path names."""
    return _above(upper.steps, lower.steps)


@lru_cache(maxsize=65536)
def _above(upper: Steps, lower: Steps) -> bool:
    """Looks for the one value of the lower path that the upper one is least likely to lie above.

    The fewer steps the upper path may stand at, the better for that value, and a name that no step looks for leaves
    the fewest, fewer than an element: so each `.*` is such a name, and in front of each `..name` come many of them. Only the
    `.*` at the end of the upper path go on under any name; once they have begun, the value has so many labels left.
    """
    bits = _bits(upper)
    tail = len(upper)
    while tail and isinstance(upper[tail - 1], Every):
        tail -= 1
    left = len(upper) - tail  # labels from the place where the tail begins to the end of the upper path
    at = _along(1, bits.skippable)
    for index, step in enumerate(lower):
        if at >> tail:
            return _fewest_labels(lower[index:]) > left
        match step:
            case Every():
                at = (at & bits.descends) | ((at & bits.every) << 1)
            case Descend():
                at &= bits.descends
                at |= (at & bits.named.get(step.name, 0)) << 1
            case _:
                at = (at & bits.descends) | ((at & (bits.every | bits.named.get(step.name, 0))) << 1)
        at = _along(at, bits.skippable)
    return False


def _fewest_labels(steps: Steps) -> int:
    """How many labels the shortest way through these steps has."""
    return len(steps) - _bits(steps).skippable.bit_count()
