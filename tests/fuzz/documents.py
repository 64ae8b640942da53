"""JSON texts made by a grammar with a liking for corners, and bytes made of them that are hardly JSON any more.

Everything hangs on one `random.Random`, so that a seed says it all. Canaries stand in strings and numbers below
members of the name `HOT` alone, however it is spelled: whatever covers `$..HOT` must show none of them.
"""

from __future__ import annotations

import json
import random
import re

HOT = "ssn"
LONG_NAME = "long-" * 60
NAMES = [
    HOT, HOT, HOT, "a", "a", "b", "b", "c", "card", "number", "", "é", "日本", "😀", "a b", "a'b", 'a"b', "a\\b", "a\nb",
    "a\x7fb", "ssn ", "Ssn", "0", "n0", "n7", "n299", "\ud800", "\ude00\ud83d", "x" * 15, "x" * 16, "x" * 17, LONG_NAME, LONG_NAME + "!",
]  # fmt: skip
SCALARS = [
    "0", "-0", "1", "12345", "1.10", "1E2", "1e400", "-1.0e-0", "9" * 40, "1.000000000000000005", "true", "false", "null",
    "null", "true", '""', '"x"', '"•"', '"••••"', r'"\u2022\u2022••"', '"h•••o"', '"4•••"', '"•••1"', r'"\\"', r'"\""', r'"\/"',
    r'"\ud800"', r'"\ude00\ud83d"', r'"\ud83d\ude00"', '"\U0001f600\u2028"', '"["', '"{"', '" { "', r'"\n\t[1,"', r'"\u005b]"',
    r'"\u007B\"ssn\":1}"', r'"\u0020[]"', r'"\u0000"', '"ssn"', r'"\"ssn\":1"', '"]"', '"\x7f"', r'"\u00e9\u00E9\u20ac"',
]  # fmt: skip
PIECES = [
    b'"', b"\\", b"\\\\", b'\\"', b"\\u", b"\\u00", b"\\ud83d", b"\\ude00", b"\\u2022", b"{", b"}", b"[", b"]", b":", b",", b"\x00",
    b"\x1f", b"\n", b" ", b"\x7f", b"\x80", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", b"\xe2\x80",
    b"\xef\xbb\xbf", b"\xc3\xa9", b"0", b"-", b"1e", b".5", b"1E+9", b"tru", b"null", b"NaN", b'"ssn":', b'{"ssn":', b'{"a":[', b"[[[[",
    b"]]]]", b"}}", b'"{\\"ssn\\":', b"\xe2\x80\xa2" * 4, b"/", b"'", b" " * 33, b"x" * 31, b"[" * 600, b'"[\\"{' * 3,
]  # fmt: skip
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: no UTF-8 stands for it
ALPHABET = "abcXYZ019 •é日😀\u2028\x7f/\\\"'\n\t{}[]:,"


class Maker:
    """Makes texts. `canaries` are those that stand in what it made."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.canaries: list[str] = []

    def document(self) -> str:
        """A JSON text, at most a few thousand characters but for the deep ones."""
        self.canaries = []
        rng = self._rng
        self._budget = rng.choice((3, 8, 8, 20, 20, 60))
        self._tidy = rng.random() < 0.7
        if rng.random() < 0.025:
            return self._deep()
        if rng.random() < 0.06:
            return self._white() + self._value(hot=False, depth=0, opened=0) + self._white()
        return self._white() + self._container(hot=False, depth=0, opened=0) + self._white()

    def spell(self, text: str) -> str:
        """A JSON string of the text; what need not be escaped sometimes is, what may be is in any way."""
        rng = self._rng
        often = rng.choice((0.0, 0.0, 0.0, 0.02, 0.3, 1.0))
        if not often:
            return HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(text, ensure_ascii=False))
        out = []
        for each in text:
            point = ord(each)
            if each in SHORT and (each in '"\\' or point < 0x20 or rng.random() < often):
                out.append(SHORT[each] if rng.random() < 0.8 else f"\\u{point:04x}")
            elif point < 0x20 or 0xD800 <= point < 0xE000 or rng.random() < often:
                units = each.encode("utf-16-be", "surrogatepass")
                for at in range(0, len(units), 2):
                    unit = units[at : at + 2].hex()
                    out.append("\\u" + (unit.upper() if rng.random() < 0.5 else unit))
            else:
                out.append(each)
        return '"' + "".join(out) + '"'

    def _white(self) -> str:
        if self._tidy or self._rng.random() < 0.6:
            return ""
        return "".join(self._rng.choices(" \t\r\n", k=self._rng.choice((1, 1, 2, 3, 17, 40))))

    def _deep(self) -> str:
        """Around the limits of 512 brackets and of eight strings within each other."""
        rng = self._rng
        if rng.random() < 0.5:
            count = rng.choice((5, 8, 9, 60, 511, 512, 513, 700))
            opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('{"ssn":', "}"), ('[{"b":[', "]}]")))
            return opening * count + self._scalar(hot="ssn" in opening) + closing * count
        levels = rng.choice((1, 2, 7, 8, 9, 10))
        text = self._container(hot=False, depth=4, opened=3) if levels < 7 else rng.choice(('{"ssn":1}', '["x"]', "[1", "{}"))
        for _ in range(levels):
            text = self.spell(text)
            text = f"[{text}]" if rng.random() < 0.5 else f'{{"b":{text},"a":0}}'
            if len(text) > 8_000:
                break
        return text

    def _value(self, hot: bool, depth: int, opened: int) -> str:
        self._budget -= 1
        chance = self._rng.random()
        if self._budget <= 0 or depth > 6 or chance < 0.45:
            return self._scalar(hot)
        if chance < 0.6 and opened < 3:
            return self.spell(self._white() + self._container(hot, depth + 1, opened + 1) + self._white())
        return self._container(hot, depth + 1, opened)

    def _container(self, hot: bool, depth: int, opened: int) -> str:
        rng = self._rng
        count = rng.choice((0, 1, 1, 2, 3, 5)) if depth else rng.choice((1, 2, 3, 5, 8))
        if rng.random() < 0.03:  # what is flat is gone through in pieces
            count = rng.choice((31, 32, 33, 64, 65, 66))
            member = rng.choice(("1", '"x"', "[]", '"\\n"', '{"q":1}', "null"))
            return "[" + ",".join([member] * count) + "]"
        white = self._white
        if rng.random() < 0.6:
            members = []
            for _ in range(count):
                name = rng.choice(NAMES)
                members.append(
                    f"{white()}{self.spell(name)}{white()}:{white()}{self._value(hot or name == HOT, depth, opened)}"
                )
                if rng.random() < 0.1:  # again, under the same name
                    members.append(f"{self.spell(name)}:{self._value(hot or name == HOT, depth, opened)}{white()}")
            return "{" + (",".join(members) or white()) + "}"
        return "[" + (f"{white()},{white()}".join(self._value(hot, depth, opened) for _ in range(count)) or white()) + "]"

    def _scalar(self, hot: bool) -> str:
        rng = self._rng
        chance = rng.random()
        if hot and chance < 0.6:
            return self._canary()
        if chance < 0.8:
            return rng.choice(SCALARS)
        # A run of one character with something in it, at every place of a vector.
        size = rng.choice((3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 300))
        run = [rng.choice("xxx•é😀")] * size
        for _ in range(rng.choice((0, 0, 1, 2))):
            run[rng.randrange(size)] = rng.choice(ALPHABET)
        return self.spell("".join(run))

    def _canary(self) -> str:
        rng = self._rng
        if rng.random() < 0.2:
            digits = str(rng.randrange(10**23, 10**24))
            self.canaries.append(digits)
            return digits
        letters = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=24))
        self.canaries.append(letters)
        around = rng.choice(("", "", "", "é", "{", "[", " {", "\n", "x" * 40, '"'))
        return self.spell(around + letters + rng.choice(("", "", "}", "]", "\\")))


def core(canary: str) -> bytes:
    """What of a canary no partial of the fuzzer shows."""
    return canary[6:18].encode()


def mutate(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """The bytes after one to four changes, `other` being another document to take parts of."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        length = rng.choice((1, 1, 2, 3, 8, 16, 40))
        match rng.randrange(8):
            case 0:
                data = data[:at] + rng.choice(PIECES) + data[at:]
            case 1:
                data = data[:at] + rng.choice(PIECES) + data[at + length :]
            case 2:
                data = data[:at] + data[at + length :]
            case 3:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 4:
                data = data[:at] if rng.random() < 0.5 else data[at:]
            case 5:
                data = data[:at] + data[at : at + length] * rng.choice((2, 2, 5)) + data[at + length :]
            case 6:
                start = rng.randrange(len(other) + 1)
                data = data[:at] + other[start : start + length * 4] + data[at:]
            case _:
                bit = data[at : at + 1]
                data = data[:at] + bytes([bit[0] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if bit else data
    return data
