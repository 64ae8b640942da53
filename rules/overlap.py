"""Whether two JSON paths can name the same place, and whether one always ends above the other.

For warnings alone: masking itself is `automaton`, which knows documents. A place is spelled here as the labels on the
way to it: a member's name, any other name, or an array's element, which names pass through.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from .model import Descend, Every, JsonPath, Name, PathStep

Steps = tuple[PathStep, ...]
Label = str | None  # None: an array's element
MAX_SETS = 2000  # sets of steps looked at; only `..` followed by many `.*` needs more, and then nothing is said


def _closed(steps: Steps, at: frozenset[int]) -> frozenset[int]:
    """With the steps that a `[*]` before a name leaves out, where an object stands in place of the array."""
    reached = set(at)
    for start in at:
        here = start
        while here < len(steps) and isinstance(steps[here], Every):
            here += 1
        if here < len(steps):
            reached.update(range(start, here + 1))
    return frozenset(reached)


def _after(steps: Steps, at: frozenset[int], label: Label) -> frozenset[int]:
    reached: set[int] = set()
    for here in at:
        if here == len(steps):
            continue
        step = steps[here]
        match step:
            case Name():
                if label is None:
                    reached.add(here)
                elif label == step.name:
                    reached.add(here + 1)
            case Every():
                reached.add(here + 1)
                if label is None:
                    reached.add(here)
            case Descend():
                reached.add(here)
                if label == step.name:
                    reached.add(here + 1)
    return _closed(steps, frozenset(reached))


def _labels(*paths: Steps) -> Iterator[Label]:
    """An element, every name that some step looks for, and one that none does."""
    names = {step.name for steps in paths for step in steps if not isinstance(step, Every)}
    yield None
    yield from sorted(names)
    yield "".join(sorted(names)) + "_"


def paths_meet(one: JsonPath, other: JsonPath) -> bool:
    """Whether some document has a value that both paths name."""
    return _meet(one.steps, other.steps)


@lru_cache(maxsize=65536)
def _meet(one: Steps, other: Steps) -> bool:
    labels = list(_labels(one, other))
    start = (_closed(one, frozenset({0})), _closed(other, frozenset({0})))
    seen = {start}
    left = [start]
    while left:
        a, b = left.pop()
        if len(one) in a and len(other) in b:
            return True
        for label in labels:
            pair = (_after(one, a, label), _after(other, b, label))
            if pair[0] and pair[1] and pair not in seen:
                if len(seen) >= MAX_SETS:
                    return False
                seen.add(pair)
                left.append(pair)
    return False


def always_above(upper: JsonPath, lower: JsonPath) -> bool:
    """Whether every value that the lower path names lies inside one that the upper path names."""
    return _above(upper.steps, lower.steps)


@lru_cache(maxsize=65536)
def _above(upper: Steps, lower: Steps) -> bool:
    labels = list(_labels(upper, lower))
    start = (_closed(upper, frozenset({0})), _closed(lower, frozenset({0})))
    seen = {start}
    left = [start]
    while left:
        a, b = left.pop()
        if len(lower) in b:
            return False  # came here without passing an end of the upper path
        if len(upper) in a:
            continue  # everything below is inside
        for label in labels:
            pair = (_after(upper, a, label), _after(lower, b, label))
            if pair[1] and pair not in seen:
                if len(seen) >= MAX_SETS:
                    return False
                seen.add(pair)
                left.append(pair)
    return True
