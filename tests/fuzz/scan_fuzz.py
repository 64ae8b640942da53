"""The two scanners against each other, and both against what they promise, on documents and on bytes near them.

    python -m tests.fuzz.scan_fuzz --executions 1000000 --seed 1

One execution is one text under one automaton, given to both. They must give the same bytes, bits or exception, and

    nothing but NotJson, TooDeep, TooManyPaths    the same object where nothing was hit
    JSON comes out of JSON                        no canary from a covered position
    what a naive walk makes of it (a sample)

Executions come in blocks of `BLOCK`: two documents, then changes to them. `--block` starts at the one that failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rules import automaton, scan
from rules.automaton import Automaton, State, TooManyPaths
from rules.cut import Cut
from rules.model import Field, FieldKind, JsonPath, Kind, Method, Name, Partial, Platform, Redact, Rule
from rules.paths import parse_path
from rules.scan import NotJson, TooDeep, python
from tests.rules import naive
from tests.rules.scanners import Scanner

from .documents import HOT, LONG_NAME, Maker, core, mutate

BLOCK = 32
NAIVE_ONE_IN = 20  # it takes ten times as long as the scanners
MESSAGES = {"not JSON", "nested too deeply", "too many paths"}
STEPS = [".a", ".b", ".c", ".card", ".*", ".*", "[*]", "[*]", "..a", "..b", f"..{HOT}", f".{HOT}", ".é", "['a b']", r"['a\'b']"]
METHODS: list[Method] = [
    Redact(),
    Redact(),
    Redact(),
    Partial(1, 1),
    Partial(0, 4),
    Partial(2, 0),
    Partial(4, 4),
    Partial(0, 0),
    Partial(64, 64),
]
HIDING: list[Method] = [Redact(), Partial(1, 1), Partial(0, 4), Partial(2, 2)]
"""None of them shows more than four characters at either end, so never the `core` of a canary."""


class Failed(AssertionError):
    """What the fuzzer found, with all that is needed to see it again."""


@dataclass
class Case:
    """Rules as each scanner sees them: an automaton for each, so that neither lives on what the other has made."""

    rules: list[Rule]
    hot: bool  # covers `$..HOT` at least
    states: int = automaton.MAX_STATES

    def __post_init__(self) -> None:
        self.automata = Automaton(self.rules), Automaton(self.rules)

    def start_over(self) -> None:
        for each in self.automata:
            each.start_over()


def _path(text: str, method: Method) -> Field:
    return Field(FieldKind.JSON_PATH, method, parse_path(text))


def _named(names: list[str], method: Method) -> Field:
    """A path of names that a rule file could not spell so simply."""
    return Field(FieldKind.JSON_PATH, method, JsonPath("$" + repr(names), tuple(map(Name, names))))


def _rule(name: str, *fields: Field, mask_all: bool = False) -> Rule:
    return Rule(name, Platform.KAFKA, ((Kind.TOPIC, ("*",)),), mask_all=mask_all, fields=fields)


def _whole(method: Method) -> Field:
    return Field(FieldKind.WHOLE_VALUE, method)


def cases(rng: random.Random) -> list[Case]:
    """Kinds of rules that treat texts differently, and some by chance."""
    every = f"$..{HOT}"
    beside = _path("$.a.b", Partial(1, 1)), _path("$..card", Partial(0, 4))
    made = [Case([_rule("R", _path(every, method))], hot=True) for method in HIDING]
    made += [
        Case([_rule("R", mask_all=True)], hot=True),
        Case([_rule("R", _whole(Redact()))], hot=True),
        Case([_rule("R", _whole(Partial(2, 2)))], hot=True),
        Case([_rule("R", *beside, mask_all=True)], hot=True),
        Case([_rule("R", *beside, mask_all=True), _rule("S", _path(every, Partial(1, 0)), _path("$.*.a", Redact()))], hot=True),
        Case([_rule("R", _path(every, Partial(3, 1)), _path(every, Partial(1, 3)))], hot=True),
        Case([_rule("R", *(_path(f"$.n{at}", Redact()) for at in range(300)), _path(every, Redact()))], hot=True),
        Case([_rule(f"R{at}", _path(f"$..n{at}.a", Redact()), _path(every, Partial(0, 1))) for at in range(70)], hot=True),
        Case([_rule("R", _path("$.*", Redact()), _path(every, Redact()))], hot=True),
        Case([_rule("R", _path("$..a" + ".*" * 5, Redact()))], hot=False),
        Case([_rule("R", _path("$..a" + ".*" * 5, Redact()))], hot=False, states=3),
        Case([_rule("R", _path("$.no.such", Redact()))], hot=False),
        Case([_rule("R", _path("$..nosuch", Redact()))], hot=False),
        Case([_rule("R", _path("$[*].a[*].b", Partial(0, 4)), _path("$.*.*", Partial(1, 1)))], hot=False),
    ]
    odd = ["\ud800", "\ude00\ud83d", "😀", "a\nb", 'a"b', "a\\b", "", LONG_NAME, LONG_NAME + "!", "x" * 16, "日本", "a\x7fb"]
    made += [Case([_rule("R", *(_named([name], rng.choice(METHODS)) for name in odd))], hot=False)]
    made += [Case([_rule("R", _named([name], Redact()), _named([HOT, name], Redact()))], hot=False) for name in odd]
    while len(made) < 80:
        rules = []
        for at in range(rng.choice((1, 1, 2, 3))):
            count = rng.choice((1, 1, 2, 4))
            fields = [
                _path("$" + "".join(rng.choices(STEPS, k=rng.choice((1, 2, 2, 3, 4)))), rng.choice(METHODS))
                for _ in range(count)
            ]
            fields += [_whole(rng.choice(METHODS))] * (rng.random() < 0.1)
            rules.append(_rule(f"R{at}", *fields, mask_all=rng.random() < 0.15))
        made.append(Case(rules, hot=False))
    return made


def _outcome(call: Callable[[bytes, State, int], object], data: bytes, root: State, depth: int) -> object:
    try:
        return call(data, root, depth)
    except (NotJson, TooDeep, TooManyPaths) as error:
        if str(error) not in MESSAGES or error.__cause__ is not None:
            raise Failed("an exception says more than it should") from error
        return type(error)


class Fuzzer:
    """`count` counts what came out, by kind."""

    def __init__(self, first: Scanner, second: Scanner, seed: int) -> None:
        self._scanners = first, second
        self._seed = seed
        self._cases = cases(random.Random(seed))
        self.executions = 0
        self.count: Counter[str] = Counter()

    def block(self, number: int) -> None:
        """Raises Failed when anything that is promised does not hold."""
        rng = random.Random((self._seed << 40) + number)
        maker = Maker(rng)
        texts = []
        for _ in range(2):
            text = maker.document().encode()
            texts.append((text, [core(each) for each in maker.canaries]))
        if number % 64 == 0:
            self.start_over()
        for at in range(BLOCK):
            data, canaries = texts[at % 2]
            if at >= 14:
                data = mutate(rng, data, texts[1 - at % 2][0])
            case = rng.choice(self._cases)
            depth = rng.choice((512, 512, 512, 512, 3))
            try:
                self._one(case, data, canaries, depth, deep=rng.randrange(NAIVE_ONE_IN) == 0)
            except Exception as error:
                left = self._smaller(case, data, canaries, depth)
                raise Failed(
                    f"{error!r}\nseed {self._seed}, block {number}, execution {at}, depth {depth}\n"
                    f"rules {case.rules}\nstates {case.states}\ndata {left!r}\ncanaries {canaries}"
                ) from error

    def start_over(self) -> None:
        """Without the states that texts needed so far."""
        for case in self._cases:
            case.start_over()

    def given(self, chosen: int, data: bytes) -> None:
        """One execution on a text that comes from elsewhere; `chosen` (0 to 255) says by which rules."""
        self._one(self._cases[chosen % len(self._cases)], data, [], 3 if chosen > 200 else 512, deep=chosen % 16 == 0)

    def _smaller(self, case: Case, data: bytes, canaries: list[bytes], depth: int) -> bytes:
        """Some of the bytes, on which it fails as well."""

        def fails(less: bytes) -> bool:
            try:
                self._one(case, less, canaries, depth, deep=True)
            except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
                return True
            return False

        size = max(1, len(data) // 2)
        while size and fails(data):
            at = 0
            while at < len(data):
                less = data[:at] + data[at + size :]
                if fails(less):
                    data = less
                else:
                    at += size
            size //= 2
        return data

    def _both(self, name: str, case: Case, data: bytes, depth: int) -> tuple[object, object]:
        first, second = (
            _outcome(getattr(scanner, name), data, each.root, depth)
            for scanner, each in zip(self._scanners, case.automata, strict=True)
        )
        return first, second

    def _compared(self, name: str, case: Case, data: bytes, depth: int) -> object:
        kept, automaton.MAX_STATES = automaton.MAX_STATES, case.states
        try:
            if case.states != kept:
                case.start_over()
            first, second = self._both(name, case, data, depth)
            if TooManyPaths in (first, second):  # what earlier documents needed is not held against this one
                case.start_over()
                first, second = self._both(name, case, data, depth)
        finally:
            automaton.MAX_STATES = kept
        if first != second or type(first) is not type(second):
            raise Failed(f"{name} differs: {first!r} and {second!r}")
        if isinstance(first, tuple) and isinstance(second, tuple) and (first[0] is data) != (second[0] is data):
            raise Failed("one gave back the object, the other a copy")
        return first

    def _one(self, case: Case, data: bytes, canaries: list[bytes], depth: int, deep: bool) -> None:
        self.executions += 1
        out = self._compared("mask", case, data, depth)
        if isinstance(out, type):
            self.count[out.__name__] += 1
        else:
            assert isinstance(out, tuple)
            self._result(case, data, out[0], out[1], canaries, deep=deep)
        if self.executions % 2 == 0 or deep:
            self._cut(case, data, out, depth)
        if self.executions % 4 == 0 or deep:
            bit = self._compared("mask_in", case, data, depth)
            if isinstance(bit, int) and (bit <= 0 or bit & (bit - 1)):
                raise Failed(f"mask_in gave {bit}, which is no bit")
            self.count[
                "mask_in: a mask" if isinstance(bit, int) else "mask_in: none" if bit is None else "mask_in: raised"
            ] += 1
        if self.executions % 8 == 0 or deep:
            opened = self._compared("opens", case, data, depth)
            self.count[f"opens: {opened}" if isinstance(opened, bool) else "opens: raised"] += 1

    def _cut(self, case: Case, data: bytes, out: object, depth: int) -> None:
        """The same as `out`, what `mask` came to, with hits in place of bits; nothing where there is no bracket at once."""
        cut = self._compared("cut", case, data, depth)
        expected = out
        if not data.startswith((b"{", b"[")):
            expected = None
        elif isinstance(out, tuple):
            expected = Cut(out[0], case.automata[0].named(out[1]))
        if cut != expected or (isinstance(cut, Cut) and isinstance(out, tuple) and not out[1] and cut.data is not data):
            raise Failed(f"mask gives {out!r}, and cut {cut!r}")
        self.count["cut: nothing" if cut is None else "cut: raised" if isinstance(cut, type) else "cut: left"] += 1

    def _result(self, case: Case, data: bytes, shown: bytes, bits: int, canaries: list[bytes], *, deep: bool) -> None:
        if not bits:
            self.count["untouched"] += 1
            if shown is not data:
                raise Failed("nothing was hit, and it is another object")
        else:
            self.count["masked"] += 1
            if bits >> len(case.automata[0].hits):
                raise Failed("bits that name no field")
            try:
                naive.READER.decode(shown.decode())
            except RecursionError:
                pass
            except ValueError:
                raise Failed(f"what came out is no JSON: {shown!r}") from None
        leaks = case.hot and any(each in shown for each in canaries)
        if leaks or deep:  # a change of bytes may have put a canary elsewhere: then the naive walk shows it too
            self._naively(case, data, shown)
            if leaks:
                self.count["canary moved to where it may be seen"] += 1

    def _naively(self, case: Case, data: bytes, shown: bytes) -> None:
        try:
            expected = naive.dump(naive.Walk(case.rules).run(naive.parse(data.decode())))
            right = naive.parse(shown.decode()) == naive.parse(expected)
        except RecursionError:
            return
        except ValueError as error:
            raise Failed(f"taken for JSON: {error!r}") from None
        self.count["compared with the naive walk"] += 1
        if not right:
            raise Failed(f"a naive walk makes of it {expected}, and not {shown.decode()}")


def run(fuzzer: Fuzzer, executions: int, first: int = 0) -> None:
    """At least so many executions, from a block on."""
    number = first
    goal = fuzzer.executions + executions
    while fuzzer.executions < goal:
        fuzzer.block(number)
        number += 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.scan_fuzz")
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block", type=int, default=0, help="the block to start with")
    chosen = parser.parse_args(arguments)
    if scan.LEFT_OUT is not None:
        print(f"the compiled scanner is not there ({scan.LEFT_OUT}): python setup.py build_ext --inplace", file=sys.stderr)
        return 2
    from rules.scan import compiled

    fuzzer = Fuzzer(python, compiled, chosen.seed)
    begun = time.monotonic()
    try:
        run(fuzzer, chosen.executions, chosen.block)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    took = time.monotonic() - begun
    print(f"{fuzzer.executions} executions, seed {chosen.seed}, {took:.0f} s, {fuzzer.executions / took:.0f} executions/s")
    print(json.dumps(dict(sorted(fuzzer.count.items())), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
