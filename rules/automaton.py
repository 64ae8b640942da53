"""The paths of several rules as one deterministic automaton over JSON positions.

    rules -> items (one bit for each step of each path) -> State (a set of bits) -> State for each child

A position is known by three sets: `firm`, the steps that wait to be taken here, or the ends of paths that end here;
`soft`, the same for paths that came here by a `[*]` that an array's element had taken already, in case it was meant
for what that element holds (arrays are passed through); `inside`, the ends that were met at a container around.
A firm step that meets a scalar hides it. A soft one does not, or `$.cards[*].number` would hide all of a card.
States are made when a document first needs them.

Knows which fields cover a position. Does not read bytes: that is `scan`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .methods import Act, keeping, redacting
from .model import Descend, Every, Field, FieldKind, Hit, Partial, Rule

MAX_STATES = 10_000  # a state is about 1 KiB; only `..` followed by many `.*` needs more than a few dozen

MAX_NAMED = 1024  # combinations of fields whose hits are kept ready

VALUE_KINDS = frozenset({FieldKind.JSON_PATH, FieldKind.WHOLE_VALUE})


class TooManyPaths(ValueError):
    """A document needs more states than are held."""


def method_name(field: Field) -> str:
    """How marks spell the field's method."""
    return "partial" if isinstance(field.method, Partial) else "redact"


def hit_of(rule: Rule, field: Field) -> Hit:
    return Hit(field.spelling, method_name(field), rule.name)


def name_bytes(name: str) -> bytes:
    """A member's name as the scanner compares it: UTF-8, where only a surrogate without its twin stays one."""
    whole = name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return whole.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _MaskAll:
    """A rule that masks every value but where its own fields say otherwise: its bit, their bits, their ends."""

    bit: int
    items: int
    ends: int


class State:
    """What holds at one position. The scanner reads the public attributes and asks for children.

    `text`: what is done to a string that is not looked into; `scalar`: to a number or boolean; None: it stays.
    `looks`: a string that starts like JSON is treated apart: with `opens` it is opened, and `failed` is done to it
    if that cannot be (None: it stays); without `opens`, `failed` is done to it anyway. `dead`: nothing here or below is masked.
    `spare` is where the compiled scanner keeps its copies of all states, at the root.
    """

    __slots__ = (
        "_element", "_firm", "_home", "_inside", "_other", "_soft", "act", "dead", "failed", "keys", "looks", "opens",
        "scalar", "spare", "text",
    )  # fmt: skip

    def __init__(self, home: Automaton, firm: int, soft: int, direct: int, inside: int) -> None:
        self._home = home
        self._firm, self._soft = firm, soft
        self._inside = inside | direct
        self.keys: dict[bytes, State] = {}
        self.spare: object = None
        self._other: State | None = None
        self._element: State | None = None
        self._decide(home, firm & home.enters, firm & home.descends, direct, inside)
        self.dead = self.act is None and not firm | soft

    def _decide(self, home: Automaton, must: int, may: int, direct: int, inside: int) -> None:
        around = [each for each in home.mask_alls if not each.ends & (direct | inside)]
        all_bits = all_items = 0
        for each in around:
            all_bits |= each.bit
            all_items |= each.items
        partials = tuple((home.partials[bit], bit) for bit in bits_of(direct & home.partial_ends))
        hiding = all_bits | inside | (direct & ~home.partial_ends)
        entering = (must | may) & ~all_items
        self.act: Act | None = None
        if hiding:
            self.act = redacting(hiding, partials)
        elif partials:
            self.act = keeping(partials)
        self.text = self.scalar = self.failed = self.act
        self.opens = self.looks = False
        if not must | may:
            self.opens = self.looks = self.act is None and self._soft != 0
            return
        if not direct | inside and all(each.items & (must | may) for each in around):
            self.opens = self.looks = True
            self.failed = redacting(hiding | entering)
            if must:
                self.text = self.scalar = self.failed
        elif hiding:
            self.text = self.scalar = self.failed = redacting(hiding | (must & ~all_items), partials)
        else:  # kept ends would show what the path below hides
            self.looks = bool(may)
            self.failed = redacting(entering, partials)
            if must:
                self.text = self.scalar = self.failed

    def member(self, name: bytes) -> State:
        """The state of an object's member.

        Raises:
            TooManyPaths: see there.
        """
        home = self._home
        named = home.names.get(name, 0)
        firm, soft = home.skipping(self._firm), home.skipping(self._soft)
        if named & (firm | soft):
            child = self.keys[name] = self._below(firm, soft, named | home.every)
            return child
        return self.other

    @property
    def other(self) -> State:
        """The state of a member that no step here names. Raises what `member` raises."""
        if self._other is None:
            home = self._home
            self._other = self._below(home.skipping(self._firm), home.skipping(self._soft), home.every)
        return self._other

    def named(self, bits: int) -> tuple[Hit, ...]:
        """What the bits stand for, in order, each once."""
        return self._home.named(bits)

    def names(self) -> list[bytes]:
        """The names of members that a step here waits for, each once."""
        home = self._home
        waiting = bits_of(home.skipping(self._firm) | home.skipping(self._soft))
        return list(dict.fromkeys(home.name_of[bit] for bit in waiting if bit in home.name_of))

    def _below(self, firm: int, soft: int, taken: int) -> State:
        home = self._home
        return home.state(
            ((firm & taken) << 1) | (firm & home.descends), ((soft & taken) << 1) | (soft & home.descends), self._inside
        )

    @property
    def element(self) -> State:
        """The state of an array's elements.

        Raises:
            TooManyPaths: see there.
        """
        if self._element is None:
            firm, soft, every = self._firm, self._soft, self._home.every
            self._element = self._home.state(
                ((firm & every) << 1) | (firm & ~every), ((soft & every) << 1) | soft | (firm & every), self._inside
            )
        return self._element


class Automaton:
    """The value-kind fields of rules; `bare` are the indexes of rules whose mask_all does not count.

    `hits` says what a bit stands for. Bits rise in the order of rules, then fields; every step of a path has
    one, the last one being its end.
    """

    def __init__(self, rules: Sequence[Rule], bare: Collection[int] = ()) -> None:
        self.hits: list[Hit] = []
        self.names: dict[bytes, int] = {}
        self.name_of: dict[int, bytes] = {}
        self.every = self.descends = self.enters = self.skippable = 0
        self.partial_ends = 0
        self.partials: dict[int, Partial] = {}
        self.mask_alls: list[_MaskAll] = []
        self._ends = self._firm = self._direct = 0
        for index, rule in enumerate(rules):
            bit = 0
            if rule.mask_all and index not in bare:
                bit = self._bit(Hit("value", "redact", rule.name))
            items = ends = 0
            for field in rule.fields:
                if field.kind in VALUE_KINDS:
                    steps, end = self._add(rule, field)
                    items |= steps
                    ends |= end
            if bit:
                self.mask_alls.append(_MaskAll(bit, items, ends))
        self._named: dict[int, tuple[Hit, ...]] = {}
        self._states: dict[tuple[int, int, int], State] = {}
        self.root = self._root()

    def _bit(self, hit: Hit) -> int:
        self.hits.append(hit)
        return 1 << (len(self.hits) - 1)

    def _add(self, rule: Rule, field: Field) -> tuple[int, int]:
        """The bits of a field's steps, and the one of its end. A whole value is the path without steps."""
        steps = () if field.path is None else field.path.steps
        hit = hit_of(rule, field)
        taken = [self._bit(hit) for _ in steps]
        end = self._bit(hit)
        skippable = False
        for step, bit in zip(reversed(steps), reversed(taken), strict=True):
            if isinstance(step, Every):
                self.enters |= bit
                self.every |= bit
                if skippable:
                    self.skippable |= bit
                continue
            skippable = True
            name = name_bytes(step.name)
            self.names[name] = self.names.get(name, 0) | bit
            self.name_of[bit] = name
            if isinstance(step, Descend):
                self.descends |= bit
            else:
                self.enters |= bit
        if taken:
            self._firm |= taken[0]
        else:
            self._direct |= end
        self._ends |= end
        if isinstance(field.method, Partial):
            self.partial_ends |= end
            self.partials[end] = field.method
        return sum(taken), end

    def _root(self) -> State:
        self._states = {}
        return self.state(self._firm | self._direct, 0, 0)

    def state(self, firm: int, soft: int, inside: int) -> State:
        """The state of a set of items. Both sets may hold ends, which are what covers the position directly.

        Raises:
            TooManyPaths: there would be more than `MAX_STATES`.
        """
        firm |= soft & self._ends
        soft &= ~firm
        key = (firm, soft, inside)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MAX_STATES:
                raise TooManyPaths("too many paths")
            direct = firm & self._ends
            state = self._states[key] = State(self, firm & ~direct, soft, direct, inside)
        return state

    def skipping(self, items: int) -> int:
        """The items as an object meets them: one that stands where an array was expected needs no `[*]` taken."""
        skipped = items & self.skippable
        while skipped:
            items |= skipped << 1
            skipped = (skipped << 1) & self.skippable
        return items

    def start_over(self) -> State:
        """The root, every state being forgotten, so that what one document needed is not held against the next."""
        self.root = self._root()
        return self.root

    def named(self, bits: int) -> tuple[Hit, ...]:
        """What the bits stand for, in order, each once."""
        hits = self._named.get(bits)
        if hits is None:
            hits = tuple(dict.fromkeys(self.hits[bit.bit_length() - 1] for bit in bits_of(bits)))
            if len(self._named) < MAX_NAMED:
                self._named[bits] = hits
        return hits


def bits_of(bits: int) -> list[int]:
    """Each bit that is set, lowest first."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low)
        bits ^= low
    return found
