"""Option words of Redis commands, read by position, as the server reads them.

An option word may also stand where a value is due (`SET NX NX`, `SORT k STORE BY`), so that nothing here searches
for a word. What is not understood is None: the caller treats it as the worst that it could mean. A word with a NUL
in it, which the server may take for the word before the NUL, is not understood either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TRIM = -1
"""Arity of MAXLEN and MINID: an optional `=` or `~`, then the threshold."""
PAIRS = -2
"""Arity of FIELDS in HSETEX: a count, then that many pairs."""

Grammar = Mapping[bytes, int]
"""Option word in upper case -> how many values follow it (or TRIM, PAIRS)."""

_LIFE: Grammar = {b"EX": 1, b"PX": 1, b"EXAT": 1, b"PXAT": 1, b"KEEPTTL": 0}

SET: Grammar = {**_LIFE, b"NX": 0, b"XX": 0, b"GET": 0, b"IFEQ": 1, b"IFNE": 1, b"IFDEQ": 1, b"IFDNE": 1}
MSETEX: Grammar = {**_LIFE, b"NX": 0, b"XX": 0}
HSETEX: Grammar = {**_LIFE, b"NX": 0, b"XX": 0, b"FNX": 0, b"FXX": 0, b"FIELDS": PAIRS}
RESTORE: Grammar = {b"REPLACE": 0, b"ABSTTL": 0, b"IDLETIME": 1, b"FREQ": 1}
XREAD: Grammar = {b"COUNT": 1, b"BLOCK": 1}
XREADGROUP: Grammar = {**XREAD, b"GROUP": 2, b"NOACK": 0, b"CLAIM": 1}
XADD: Grammar = {
    b"NOMKSTREAM": 0,
    b"KEEPREF": 0,
    b"DELREF": 0,
    b"ACKED": 0,
    b"IDMP": 2,
    b"IDMPAUTO": 1,
    b"MAXLEN": TRIM,
    b"MINID": TRIM,
    b"LIMIT": 1,
}
ZADD: Grammar = {b"NX": 0, b"XX": 0, b"GT": 0, b"LT": 0, b"CH": 0, b"INCR": 0}
GEOADD: Grammar = {b"NX": 0, b"XX": 0, b"CH": 0}
ZRANGE: Grammar = {b"BYSCORE": 0, b"BYLEX": 0, b"REV": 0, b"WITHSCORES": 0, b"LIMIT": 2}
SCAN: Grammar = {b"MATCH": 1, b"COUNT": 1}
HSCAN: Grammar = {**SCAN, b"NOVALUES": 0}
ZSCAN: Grammar = {**SCAN, b"NOSCORES": 0}
SORT: Grammar = {b"BY": 1, b"LIMIT": 2, b"GET": 1, b"ASC": 0, b"DESC": 0, b"ALPHA": 0, b"STORE": 1}
GEORADIUS: Grammar = {
    b"WITHDIST": 0,
    b"WITHHASH": 0,
    b"WITHCOORD": 0,
    b"ANY": 0,
    b"ASC": 0,
    b"DESC": 0,
    b"COUNT": 1,
    b"STORE": 1,
    b"STOREDIST": 1,
}
MIGRATE: Grammar = {b"COPY": 0, b"REPLACE": 0, b"AUTH": 1, b"AUTH2": 2}
TRACKING: Grammar = {b"REDIRECT": 1, b"PREFIX": 1, b"BCAST": 0, b"OPTIN": 0, b"OPTOUT": 0, b"NOLOOP": 0}
VADD: Grammar = {b"CAS": 0, b"NOQUANT": 0, b"Q8": 0, b"BIN": 0, b"EF": 1, b"SETATTR": 1, b"M": 1}


def decimal(word: bytes) -> int | None:
    """A count as the server's string2ll takes it (no sign, blank or leading zero), below 2^31; None otherwise."""
    if not word.isdigit() or len(word) > 10 or (word[0] == 48 and len(word) > 1):
        return None
    number = int(word)
    return number if number < 2**31 else None


@dataclass(frozen=True, slots=True)
class Options:
    """What was given, in order, and where it ends: `end` is the index of the first argument that is no option."""

    end: int
    given: tuple[tuple[bytes, tuple[bytes, ...]], ...] = field(repr=False)

    def __contains__(self, word: bytes) -> bool:
        return any(each == word for each, _ in self.given)

    def values(self, word: bytes) -> list[tuple[bytes, ...]]:
        """The values at each time that the option is given."""
        return [values for each, values in self.given if each == word]

    def has_any(self, *words: bytes) -> bool:
        return any(word in self for word in words)


def leading(argv: tuple[bytes, ...], start: int, grammar: Grammar) -> Options | None:
    """The options from `start` up to the first argument that is none; None where one lacks its values."""
    given = []
    at = start
    while at < len(argv) and (word := argv[at].upper()) in grammar:
        count = _arity(argv, at, grammar[word])
        if count is None or at + count >= len(argv):
            return None
        given.append((word, argv[at + 1 : at + 1 + count]))
        at += 1 + count
    return Options(at, tuple(given))


def all_of(argv: tuple[bytes, ...], start: int, grammar: Grammar) -> Options | None:
    """The options from `start` to the end; None where anything else stands among them."""
    options = leading(argv, start, grammar)
    return options if options is not None and options.end == len(argv) else None


def _arity(argv: tuple[bytes, ...], at: int, arity: int) -> int | None:
    if arity == TRIM:
        return 2 if at + 1 < len(argv) and argv[at + 1] in (b"=", b"~") else 1
    if arity == PAIRS:
        count = decimal(argv[at + 1]) if at + 1 < len(argv) else None
        return None if not count else 1 + 2 * count
    return arity
