"""What the tree is used for and what not. That it masks the same is proven by everything that asks for the `scanner`."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import pytest

from rules import automaton
from rules.automaton import Automaton, State
from rules.scan import TooDeep, canonical, mirror, python, walk
from tests.brokers.veil import TREE, environment

from .making import partial, path, rule

orjson = pytest.importorskip("orjson", reason="needs orjson: pip install 'veil[orjson]'")

DEEPEST = canonical.OPEN_BRACKETS


def root(*fields: str) -> State:
    return Automaton([rule("R", *(path(each, partial(1, 1) if "p" in each else partial()) for each in fields))]).root


def on_the_tree(text: str | bytes, state: State, max_depth: int = 512) -> tuple[bytes, int] | None:
    data = text if isinstance(text, bytes) else text.encode()
    return canonical.mask(data, mirror.mirror_of(state), max_depth, python._opened)


@pytest.fixture
def unscanned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is masked is masked on the tree."""

    def never(*_: object) -> None:
        pytest.fail("scanned")

    with monkeypatch.context() as patch:
        patch.setattr(python, "walk", never)
        yield


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[]", "[]"),
        ("{}", "{}"),
        ('{"q":"hello","k":1}', '{"q":"••••","k":1}'),
        ('{"p":"hello","k":1.5e-7}', '{"p":"h•••o","k":1.5e-7}'),
        ('{"p":"é😀é","k":[{"q":[1,true,null,"x",{}]}]}', '{"p":"é•é","k":[{"q":[0,false,null,"••••",{}]}]}'),
        ('{"p":"no","k":"hello"}', '{"p":"••••","k":"hello"}'),
        ('{"p":-12.75}', '{"p":"-••••5"}'),
        ('{"p":12,"k":18446744073709551615}', '{"p":"••••","k":18446744073709551615}'),
        ('{"p":true}', '{"p":false}'),
        (r'{"p":"\n\"x\u0001\\","k":"\t\\u"}', r'{"p":"\n•••\\","k":"\t\\u"}'),
        (r'{"s":"{\"q\":\"hello\",\"k\":[1.10]}"}', r'{"s":"{\"q\":\"••••\",\"k\":[1.10]}"}'),
        (r'{"s":" [{\"p\" : \"hello\"}]"}', r'{"s":" [{\"p\" : \"h•••o\"}]"}'),
        (r'{"s":"{\"k\":1}","t":"[INFO]","u":" x","v":""}', r'{"s":"{\"k\":1}","t":"••••","u":" x","v":""}'),
        (r'{"k":"[1"}', r'{"k":"••••"}'),
    ],
)
@pytest.mark.usefixtures("unscanned")
def test_canonical_json_is_masked_on_the_tree(text: str, left: str) -> None:
    data = text.encode()

    shown, bits = python.mask(data, root("$..q", "$..p"), 512)

    assert shown.decode() == left
    assert (bits == 0) is (shown is data) is (text == left)


@pytest.mark.usefixtures("unscanned")
def test_what_no_rule_reaches_is_not_walked_through() -> None:
    data = b'{"k":{"q":[{"q":1}]},"l":[]}'

    assert python.mask(data, root("$.q"), 512)[0] is data


def test_a_rule_without_anything_for_values_leaves_the_object() -> None:
    data = b'[{"q":1}]'
    shown = on_the_tree(data, Automaton([]).root)

    assert shown is not None
    assert shown[0] is data


@pytest.mark.parametrize(
    "text",
    [
        '{"q":1,"q":1}', '{"q":1,"k":2,"q":1}', "[1.10]", "[1E2]", "[1e2]", "[-0]", "[1e400]", "[100000000000000000000]", "[ 1]", "[1 ]",
        '{"q": 1}', '{"k":1, "q":2}', "[1]\n", "\ufeff[1]", r'["\/"]', r'["\u0041"]', r'["\u00e9"]', r'["\u000a"]', r'["\u001F"]',
        r'["\ud800"]', r'["\ud83d\ude00"]', r'{"\u0071":1}', "[NaN]", "[01]", "[1,]", "[1]]", "", '"q"', "1", "null", "[" * 300 + "]" * 300,
    ],
)  # fmt: skip
def test_what_would_not_come_out_byte_for_byte_is_left_to_the_scanner(text: str) -> None:
    assert on_the_tree(text, root("$..q")) is None


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\x80", b"\x00", b"\x1f"]
)
def test_what_is_no_utf8_or_a_bare_control_is_left_to_the_scanner(bad: bytes) -> None:
    for data in (b'["' + bad + b'"]', b'{"' + bad + b'":1}', b"[1]" + bad):
        assert on_the_tree(data, root("$..q")) is None


def test_a_document_that_could_be_too_deep_is_left_to_the_scanner() -> None:
    deepest = "[" * DEEPEST + "]" * DEEPEST

    assert on_the_tree(deepest, root("$..q"), DEEPEST) is not None
    assert on_the_tree(f"[{deepest}]", root("$..q"), 512) is None
    assert on_the_tree("[]", root("$..q"), DEEPEST - 1) is None


@pytest.mark.parametrize("levels", [1, 100, 200])
def test_brackets_around_an_opened_string_count_within_it(levels: int) -> None:
    text = "[" * levels + json.dumps("[" * (300 - levels) + '{"q":1}' + "]" * (300 - levels)) + "]" * levels

    assert python.mask(text.encode(), root("$..q"), 301)[1]
    with pytest.raises(TooDeep):
        on_the_tree(text, root("$..q"), 300)
    with pytest.raises(TooDeep):
        python.mask(text.encode(), root("$..q"), 300)


def test_a_tree_takes_a_bounded_amount_of_memory() -> None:
    for unit in (b'{"a":1.5,"b":2}', b'["aaaaaaaaaaaa"]', b'{"aaaaaaaaaaa":0}', b'"ab"', b'"\\n\xc3\xa9"', b"300"):
        data = b"[" + unit + (b"," + unit) * ((1 << 17) // len(unit)) + b"]"
        tracemalloc.start()
        on_the_tree(data, root("$..q"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

        assert peak < 75 * len(data)


def test_a_text_of_brackets_becomes_no_tree() -> None:
    for unit in ("[]", "{}", '{"":[]}'):
        few, many = (f"[{unit}" + f",{unit}" * count + "]" for count in (50, 5_000))

        assert on_the_tree(few, root("$..q")) is not None
        assert on_the_tree(many, root("$..q")) is None


def test_a_text_above_the_limit_becomes_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "MAX_TREE_BYTES", 9)

    assert on_the_tree('{"q":"a"}', root("$..q")) is not None
    assert on_the_tree('{"q":"ab"}', root("$..q")) is None
    assert python.mask(b'{"q":"ab"}', root("$..q"), 512)[1]


def test_an_orjson_that_writes_deeper_documents_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orjson, "dumps", lambda _: b"")

    assert canonical._least_depth() == sys.maxsize


def test_an_orjson_that_writes_something_else_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orjson, "loads", lambda _: {"q": "another"})

    assert python.mask(b'{"q":"S3CR3T","k":"stays"}', root("$..q"), 512)[0] == '{"q":"••••","k":"stays"}'.encode()


def test_states_that_run_out_on_the_tree_run_out_for_the_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_STATES", 3)
    data = b'{"a":{"b":{"c":{"d":1}}}}'

    with pytest.raises(automaton.TooManyPaths):
        on_the_tree(data, root("$..a.*.*.*"))
    with pytest.raises(automaton.TooManyPaths):
        python.mask(data, root("$..a.*.*.*"), 512)
    assert mirror.mirror_of.cache_info().currsize == 0


def test_a_partial_that_keeps_nothing_hides_strings_and_numbers_alike() -> None:
    state = Automaton([rule("R", path("$.q", partial(0, 0)))]).root
    text = '{"q":["hello",12345,true,null]}'

    shown = on_the_tree(text, state)

    assert shown == python._splice(text.encode(), walk.walk(text.encode(), state, 512))
    assert shown is not None
    assert shown[0].decode() == '{"q":["••••",0,false,null]}'


WITHOUT = """
import sys
sys.modules["orjson"] = None
from rules.automaton import Automaton
from rules.scan import canonical, python
from tests.rules.making import path, rule
assert canonical.LEAST_DEPTH == sys.maxsize
sys.stdout.buffer.write(python.mask(b'{"q":"S3CR3T","k":1}', Automaton([rule("R", path("$..q"))]).root, 512)[0])
"""


@pytest.mark.slow
def test_without_orjson_the_scanner_masks() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, env=environment(), cwd=TREE)

    assert (done.stdout.decode(), done.stderr.decode()) == ('{"q":"••••","k":1}', "")
