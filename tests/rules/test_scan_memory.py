"""What a scanner takes, it gives back: seen from outside, since what a compiled one takes Python does not count."""

from __future__ import annotations

import gc
import json
import mmap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rules import automaton, scan
from rules.automaton import Automaton

from .making import MASK, partial, path, plan, rule
from .scanners import Scanner

pytestmark = pytest.mark.usefixtures("scanner")

STATM = Path("/proc/self/statm")
LARGE = 60_000  # bytes; from some size on the compiled scanner lets other threads run

LONG = "x" * 500  # what is kept of a call is so much that 10,000 of them are seen
OPENED = json.dumps({"s": json.dumps({"q": "hello", "k": LONG})}).encode()
ESCAPED = json.dumps({"é" + LONG: 1, "q": 1}).encode()
HALF = json.dumps({"s": '["' + LONG + '\\ud800"]', "q": "[" + LONG}).replace("\\\\u", "\\u").encode()
TEXTS = {
    "hits": [b'{"q":"S3CR3T","k":[1,2,{"q":12345}]}', OPENED, ESCAPED, HALF, b'{"\\u0071":true}', '{"q":"•é😀"}'.encode()],
    "misses": [b'{"k":"S3CR3T","l":[1,2,{"m":12345}]}', b'{"k":"[1]"}', b'{"' + b"k" * 300 + b'":1}', b"[[[]]]"],
    "errors": [
        OPENED[:-1],
        ESCAPED[:-1],
        HALF[:-1],
        b'{"q":"S3CR3T',
        b'{"q":"S3CR3T"}}',
        b"[" * 40,
        b'{"q":"{\\"q\\":',
        b"\xff",
        b'{"k":1,"q":"x",}',
        b'{"s":"[\\ud800"}x',
    ],
}


def resident() -> int:
    return int(STATM.read_text().split()[1]) * mmap.PAGESIZE


def attempts(scanner: Scanner, kind: str) -> Callable[[int], None]:
    root = Automaton([rule("R", path("$..q", partial(1, 1)), path("$.q.*"), path("$.s.q"))]).root
    errors = (scan.NotJson, scan.TooDeep)

    def run(count: int) -> None:
        for _ in range(count):
            for data in TEXTS[kind]:
                for call in (scanner.mask, scanner.mask_in, scanner.opens):
                    try:
                        call(data, root, 30)
                    except errors:
                        continue

    return run


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="there is no /proc to ask")
@pytest.mark.parametrize("kind", TEXTS)
def test_100_000_calls_leave_nothing_behind(scanner: Scanner, kind: str) -> None:
    run = attempts(scanner, kind)
    rounds = 10_000 if scan.ENGINE == "compiled" else 500
    run(rounds // 10)
    gc.collect()
    before = resident()

    run(rounds)  # times three doors, times four texts or more

    gc.collect()
    assert resident() - before < 1 << 20  # a byte a call would hide in it, an object a call would not


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="there is no /proc to ask")
def test_automata_that_are_gone_leave_nothing_behind(scanner: Scanner) -> None:
    rules = [rule("R", *(path(f"$.n{at}.m", partial(at % 60 + 1, 1)) for at in range(30)), path("$..q"))]
    data = b'{"n1":{"m":"hello"},"n29":{"m":1},"q":"{\\"q\\":1}"}'

    def run(count: int) -> None:
        for _ in range(count):
            made = Automaton(rules)
            assert scanner.mask(data, made.root, 512)[1]
            made.start_over()
            assert scanner.mask(data, made.root, 512)[1]

    run(60)
    gc.collect()
    before = resident()

    run(300)

    gc.collect()
    assert resident() - before < 2 << 20


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="there is no /proc to ask")
def test_one_large_text_is_not_held_for_ever(scanner: Scanner) -> None:
    root = Automaton([rule("R", path("$.q"))]).root
    size = 40 << 20  # above this much C gives memory back to the system at once
    scanner.mask(b'{"k":"x","q":1}', root, 512)
    gc.collect()
    before = resident()

    assert scanner.mask(b'{"k":"' + b"x" * size + b'","q":1}', root, 512)[1]

    gc.collect()
    assert resident() - before < size // 4


def pieces() -> Iterator[tuple[bytes, bytes]]:
    """Texts and what is left of them, short and long."""
    for size in (1, 50, 2_000, LARGE):
        for name in ("q", "k"):
            secret = "S3CR3T" if name == "q" else "plain!"
            shown = "••••" if name == "q" else "plain!"
            count = max(1, size // 20)
            yield tuple(("[" + ",".join([f'{{"{name}":"{each}"}}'] * count) + "]").encode() for each in (secret, shown))  # type: ignore[misc]


def in_threads(work: Callable[[int], None], threads: int = 4) -> None:
    """Raises what any of them raised. They begin together."""
    gate = threading.Barrier(threads)

    def one(number: int) -> None:
        gate.wait()
        work(number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(threads)))


@pytest.mark.slow
def test_threads_that_mask_by_one_plan_get_the_same_answers() -> None:
    shared = plan(path("$..q"))
    texts = list(pieces())

    def work(number: int) -> None:
        for each in range(16):
            data, left = texts[(number + each) % len(texts)]
            assert shared.value(data).data == left
            assert shared.value(data[:-1]).data == MASK
            assert (shared.value_holds_mask(left) is not None) == (MASK in left)

    in_threads(work)


@pytest.mark.slow
def test_threads_get_the_same_answers_while_states_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread uses up may make another mask whole; it never shows more, and what fits is right."""
    monkeypatch.setattr(automaton, "MAX_STATES", 60)
    shared = plan(path("$..a" + ".*" * 6))
    alone = plan(path("$..a" + ".*" * 6))
    texts = []
    for number in range(64):
        names = f"{number:06b}".translate({48: "a", 49: "b"})
        inner = "".join(f'{{"{name}":' for name in names) + '"S3CR3T"' + "}" * 6
        texts.append(('{"a":[' + ",".join([inner] * (1 if number % 8 else 800)) + "]}").encode())
    expected = [alone.value(data).data for data in texts]
    wholes: list[str] = []

    def work(number: int) -> None:
        for each in range(32):
            at = (7 * number + each) % 64
            cut = shared.value(texts[at])
            if cut.whole is not None:
                wholes.append(cut.whole)
                assert cut.data == MASK
            else:
                assert cut.data == expected[at]

    in_threads(work)

    assert set(wholes) <= {"too many paths"}
    assert any(each != text for each, text in zip(expected, texts, strict=True))


@pytest.mark.slow
def test_threads_may_use_the_states_of_an_automaton_that_starts_over() -> None:
    shared = Automaton([rule("R", path("$..q", partial(1, 1)), path("$.*.q.*"))])
    texts = [(data, scan.mask(data, shared.root, 512)) for data, _ in pieces()]

    def work(number: int) -> None:
        for each in range(24):
            if number == 0:
                shared.start_over()
            data, left = texts[(number + each) % len(texts)]
            assert scan.mask(data, shared.root, 512) == left

    in_threads(work)
