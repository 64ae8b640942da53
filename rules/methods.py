"""What masking does to one value, and which of several methods wins.

Knows texts and counts of characters. Does not know JSON (that is `scan`) nor where a rule reaches (`automaton`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .model import Method, Partial

DOT = "•"
MASK_TEXT = DOT * 4
MASK_BYTES = MASK_TEXT.encode()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What several methods at one position come to.

    `redacts`: nothing is shown. Otherwise the first and the last characters stay, unless the value has no more
    than `floor` characters: then one of the methods would hide it whole, so it is hidden whole.
    """

    redacts: bool
    keep_first: int = 0
    keep_last: int = 0
    floor: int = 0

    def hides(self, characters: int) -> bool:
        """Whether a value of that many characters is hidden whole."""
        return self.redacts or characters <= self.floor


REDACTED = Outcome(redacts=True)


def reveals(method: Method) -> int:
    """How many characters the method shows at most. This is the order of strictness: less is stricter."""
    return method.keep_first + method.keep_last if isinstance(method, Partial) else 0


def combine(methods: Iterable[Method]) -> Outcome:
    """The stricter of all; of partials that show equally many, the smaller of each end.

    What keeps nothing is redacted. Without any method: redacted.
    """
    partials: list[Partial] = []
    for method in methods:
        if not isinstance(method, Partial):
            return REDACTED
        partials.append(method)
    fewest = min(map(reveals, partials), default=0)
    strictest = [partial for partial in partials if reveals(partial) == fewest]
    first = min((partial.keep_first for partial in strictest), default=0)
    last = min((partial.keep_last for partial in strictest), default=0)
    if first + last == 0:
        return REDACTED
    return Outcome(False, first, last, max(map(reveals, partials)))


@dataclass(frozen=True, slots=True)
class Act:
    """What is done to a scalar, and who decided it.

    `redacting` and each entry of `partials` name fields as bits of a number, which `automaton` gives out.
    `redacting` is what decides while `outcome` redacts through a redact; `partials` are all the partials that
    cover the position, whether they decide or not. `kept` are those of them that decide while ends are kept.
    """

    outcome: Outcome
    redacting: int = 0
    partials: tuple[tuple[Partial, int], ...] = ()
    kept: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fewest = min((reveals(partial) for partial, _ in self.partials), default=0)
        object.__setattr__(self, "kept", _bits(bit for partial, bit in self.partials if reveals(partial) == fewest))

    def deciders(self, characters: int | None = None) -> int:
        """The bits of the fields that decided what a value of so many characters reads.

        None: the value has no characters to keep (a boolean).
        """
        if self.redacting:
            return self.redacting
        if characters is not None and self.outcome.hides(characters):
            hiding = _bits(bit for partial, bit in self.partials if characters <= reveals(partial))
            if hiding:
                return hiding
        return self.kept

    def thresholds(self) -> list[int]:
        """The lengths up to which each partial would hide a value whole, rising: between them who decides is the same."""
        return sorted({reveals(partial) for partial, _ in self.partials})

    def left_by(self, text: str) -> int | None:
        """The bit of a field whose mask the text bears; None when it bears none.

        Mask text is `••••` anywhere, or all but the kept ends being `•`, as a partial leaves it.
        """
        if bears_mask(text.encode("utf-8", "surrogatepass")):
            return lowest(self.deciders(len(text)))
        for partial, bit in self.partials:
            if left_by(partial, text):
                return bit
        if not self.outcome.redacts and left_by(Partial(self.outcome.keep_first, self.outcome.keep_last), text):
            return lowest(self.deciders())
        return None


def redacting(bits: int, partials: tuple[tuple[Partial, int], ...] = ()) -> Act:
    """The act that shows nothing, decided by these fields."""
    return Act(REDACTED, bits, partials)


def keeping(partials: tuple[tuple[Partial, int], ...]) -> Act:
    """The act of one or more partials with nothing stricter beside them."""
    return Act(combine(partial for partial, _ in partials), 0, partials)


def lowest(bits: int) -> int:
    """The lowest bit that is set."""
    return bits & -bits


def _bits(each: Iterable[int]) -> int:
    total = 0
    for bit in each:
        total |= bit
    return total


def partial_text(text: str, outcome: Outcome) -> str:
    """A text outside JSON as the outcome leaves it, counted in code points."""
    size = len(text)
    if outcome.hides(size):
        return MASK_TEXT
    end = size - outcome.keep_last
    return text[: outcome.keep_first] + DOT * (end - outcome.keep_first) + text[end:]


def left_by(partial: Partial, text: str) -> bool:
    """Whether the text is what this partial makes of some value: kept ends and nothing but `•` between."""
    hidden = len(text) - reveals(partial)
    return hidden > 0 and text.count(DOT, partial.keep_first, len(text) - partial.keep_last) == hidden


def bears_mask(data: bytes) -> bool:
    """Whether `••••` occurs, spelled plainly or as JSON escapes, in strings within strings too.

    Back-slashes are dropped first, so that it also says yes to a literal `u2022u2022u2022u2022`: a refusal too
    many, where a pattern of escapes within escapes would be one to look through at every back-slash.
    """
    if b"u2022" in data:
        data = data.replace(b"\\", b"").replace(b"u2022", DOT.encode())
    return MASK_BYTES in data
