"""Every place of every short text: where a scanner takes many bytes at once, the last ones are taken otherwise."""

from __future__ import annotations

import json

import pytest

from rules import scan
from rules.automaton import Automaton, State

from .making import partial, path, rule

pytestmark = pytest.mark.usefixtures("scanner")

SIZES = range(71)
STEP = 7  # of places, where all sizes are gone through as well


def root(*paths: str, mask_all: bool = False) -> State:
    return Automaton([rule("R", *map(path, paths), mask_all=mask_all)]).root


def taken(data: bytes, state: State) -> bool:
    try:
        scan.mask(data, state, 512)
    except scan.NotJson:
        return False
    return True


@pytest.mark.parametrize("size", SIZES)
def test_a_string_of_any_size_at_any_place_is_kept_or_masked(size: int) -> None:
    one, other = root("$.q"), Automaton([rule("R", path("$.q", partial(1, 1)))]).root
    for before in SIZES:
        blank, text = " " * before, "x" * size
        data = f'{blank}{{"k":"{text}","q":"{text}"}}'.encode()
        kept = "••••" if size <= 2 else "x" + "•" * (size - 2) + "x"

        assert scan.mask(data, one, 512)[0].decode() == f'{blank}{{"k":"{text}","q":"••••"}}'
        assert scan.mask(data, other, 512)[0].decode() == f'{blank}{{"k":"{text}","q":"{kept}"}}'


@pytest.mark.parametrize("size", SIZES)
def test_no_beginning_of_a_document_is_one(size: int) -> None:
    data = f'[{{"q":"{"x" * size}","\\u0071":[1.5e+10,true,false,null,"é\\ud83d\\ude00"]}}]'.encode()
    states = [root("$..q"), root("$.z"), root(mask_all=True)]

    assert all(taken(data, state) for state in states)
    for end in range(len(data)):
        assert not any(taken(data[:end], state) for state in states)
        assert not any(taken(b" " * (size % 17) + data[:end] + b" ", state) for state in states)


SPECIAL = [
    b'"',
    b"\\",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b" ",
    "é".encode(),
    b"\xc3",
    b"\xa9",
    b"\xff",
    "😀".encode(),
    b"\\n",
    b'\\"',
    b"\\x",
    b"\\u12",
]


@pytest.mark.parametrize("special", SPECIAL, ids=repr)
def test_one_byte_is_seen_at_each_place_of_a_string_wherever_it_starts(special: bytes) -> None:
    states = [root("$..q"), root("$.z.z"), root("$.*")]
    for size in (*range(0, 71, STEP), 15, 16, 17, 31, 32, 33, 63, 64, 65):
        for at in range(size + 1):
            text = b"x" * at + special + b"x" * (size - at)
            data = b" " * (at % 5) + b'{"k":"' + text + b'"}'
            try:
                json.loads(data)
                expected = True
            except ValueError:  # of which UnicodeDecodeError is one
                expected = False

            assert [taken(data, state) for state in states] == [expected] * 3


@pytest.mark.parametrize("special", [bytes([value]) for value in range(256)], ids=repr)
def test_each_byte_alone_outside_strings_is_judged_as_a_strict_reader_judges_it(special: bytes) -> None:
    state = root("$..q")
    for around in (
        (b"[1", b"]"),
        (b"[", b"1]"),
        (b'{"a"', b":1}"),
        (b'{"a":', b"1}"),
        (b"[1]", b""),
        (b"", b"[1]"),
        (b'["', b'"]'),
        (b"[tru", b"]"),
    ):
        data = special.join(around)
        try:
            json.loads(data.decode())
            expected = True
        except ValueError:
            expected = False

        assert taken(data, state) == expected


@pytest.mark.parametrize("lead", range(0x80, 0x100), ids=hex)
def test_utf8_is_what_python_takes_for_it(lead: int) -> None:
    state = root("$.z")
    edges = (0x00, 0x22, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    texts = [bytes([lead]), *(bytes([lead, second]) for second in range(0x80, 0xC0))]
    texts += [bytes([lead, second, third]) for second in edges for third in edges]
    texts += [bytes([lead, second, third, fourth]) for second in edges for third in (0x80, 0xBF, 0x41) for fourth in edges]
    for text in texts:
        if b'"' in text or b"\0" in text:
            continue
        try:
            text.decode()
            expected = True
        except UnicodeDecodeError:
            expected = False

        assert taken(b'["' + text + b'"]', state) == expected
        assert taken(b'["xxxxxxxxxxxxx' + text + b'x"]', state) == expected


@pytest.mark.parametrize(
    "escape", [r"\"", r"\\", r"\/", r"\n", r"\u0022", r"\u005C", r"\u0000", r"\u00e9", r"\u2022", r"\ud83d\ude00"]
)
def test_an_escape_at_each_place_of_an_opened_string_keeps_its_spelling(escape: str) -> None:
    state, all_of_it = root("$..q"), root("$.q.*")
    character = json.loads(f'"{escape}"')
    for before in range(40):
        for after in (0, 1, 15, 16, 31, 33):
            inner = json.dumps({"k": "x" * before + character + "y" * after, "q": "S3CR3T"}, ensure_ascii=False)
            outer = json.dumps(inner, ensure_ascii=False)

            shown, bits = scan.mask(b'{"q":1,"r":' + outer.encode() + b"}", state, 512)
            whole, _ = scan.mask(b'{"q":' + outer.encode() + b"}", all_of_it, 512)

            assert bits
            assert shown.decode() == '{"q":0,"r":' + outer.replace("S3CR3T", "••••") + "}"
            assert json.loads(json.loads(whole)["q"]) == {"k": "••••", "q": "••••"}


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 20, 63, 64, 65, 255, 256, 257, 400, 5000])
def test_any_length_of_a_name_is_compared_to_its_end(count: int) -> None:
    name = "n" * count
    state = Automaton(
        [rule("R", path(f"$['{name}']"), path(f"$['{name}x']"), *(path(f"$.other{at}") for at in range(count % 64)))]
    ).root
    spelled = "".join(f"\\u{ord(each):04x}" for each in name)
    text = f'{{"{name}":1,"{name}x":1,"{name}y":1,"{name}xx":1,"y{name}":1,"{spelled}":1,"{spelled}x":1,"{spelled}\\u0079":1}}'

    shown = scan.mask(text.encode(), state, 512)[0].decode()

    assert (
        shown
        == f'{{"{name}":0,"{name}x":0,"{name}y":1,"{name}xx":1,"y{name}":1,"{spelled}":0,"{spelled}x":0,"{spelled}\\u0079":1}}'
    )


@pytest.mark.parametrize("count", [1, 7, 8, 9, 10, 100, 1000])
def test_any_number_of_names_is_told_apart(count: int) -> None:
    state = Automaton([rule("R", *(path(f"$.n{at}") for at in range(0, 2 * count, 2)))]).root
    text = "{" + ",".join(f'"n{at}":1' for at in range(2 * count + 2)) + "}"

    shown = scan.mask(text.encode(), state, 512)[0].decode()

    assert json.loads(shown) == {f"n{at}": int(at % 2 or at >= 2 * count) for at in range(2 * count + 2)}


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 300])
def test_any_number_of_fields_is_named(count: int) -> None:
    one = Automaton([rule("R", *(path(f"$.n{at}", partial(at % 65, 64 - at % 65)) for at in range(count)))])
    text = "{" + ",".join(f'"n{at}":"{"x" * 65}"' for at in range(count)) + "}"

    assert one.named(scan.mask(text.encode(), one.root, 512)[1]) == tuple(dict.fromkeys(one.hits))


def test_many_masks_make_a_text_many_times_as_long() -> None:
    state = root("$.*")
    for count in (1, 100, 10_000):
        data = b"[" + b'"",' * count + b"1]"

        assert scan.mask(data, state, 512)[0] == b"[" + '"••••",'.encode() * count + b"0]"


def test_many_masks_within_strings_within_strings_are_spelled_for_each() -> None:
    state = root("$..q")
    text = '[{"q":true},{"q":"é"},{"q":[]}]'
    left = '[{"q":false},{"q":"••••"},{"q":[]}]'
    for _ in range(8):
        text, left = (json.dumps([each, each], ensure_ascii=False) for each in (text, left))
        if len(text) > 1 << 16:
            break

        assert scan.mask(text.encode(), state, 512)[0].decode() == left


@pytest.mark.parametrize("wrong", [None, "{}", bytearray(b"{}"), memoryview(b"{}")])
def test_what_is_no_bytes_is_refused_and_not_read(wrong: object) -> None:
    if scan.ENGINE == "compiled":  # Python would stumble over it all the same, later and in other words
        with pytest.raises(TypeError):
            scan.mask(wrong, root("$.q"), 512)  # type: ignore[arg-type]


def test_an_exception_tells_nothing_of_the_text() -> None:
    texts = [
        b'{"q":"S3CR3T',
        b'{"S3CR3T":\xff}',
        b'{"a":"\\ud800S3CR3T"} S3CR3T',
        b"[" * 513 + b"S3CR3T",
        b'{"q":"[\\"S3CR3T"} x',
    ]
    for data in texts:
        with pytest.raises((scan.NotJson, scan.TooDeep)) as caught:
            scan.mask(data, root("$..q"), 512)

        assert str(caught.value) in ("not JSON", "nested too deeply")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
