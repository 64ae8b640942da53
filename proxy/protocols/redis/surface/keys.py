"""Which arguments of a command are keys or channels, by position.

The grammar of the table's `keys` column, terms joined by commas, is read once for each spelling:

    -            none                        1..-2        a range; negative counts from the end
    1            the argument at 1           1..-1/2      every second of a range, in whole pairs
    #2           a count at 2, then keys     #1/2         a count at 1, then pairs of key and value
    streams      the first half behind STREAMS
    xreadgroup   the same, behind GROUP and its two names
    migrate      the argument at 3, or those behind KEYS where it is empty
    sort         every STORE target; the last one wins, but all of them count
    georadius:6  STORE and STOREDIST targets among the options from 6 on

The server's own COMMAND GETKEYS is no safe guide: for `SORT l STORE BY STORE x` some versions leave out x.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from . import options

Keys = tuple[bytes, ...]
Argv = tuple[bytes, ...]
Term = Callable[[Argv], Keys | None]


def keys_of(spec: str, argv: Argv) -> Keys | None:
    """The keys in the order of the arguments, repeated where they are; None where the arguments do not fit.

    Raises:
        ValueError: `spec` is not of the grammar.
    """
    found: Keys = ()
    for term in compiled(spec):
        more = term(argv)
        if more is None:
            return None
        found += more
    return found


@cache
def compiled(spec: str) -> tuple[Term, ...]:
    """The terms of a spec.

    Raises:
        ValueError: it is not of the grammar.
    """
    return () if spec == "-" else tuple(_term(each) for each in spec.split(","))


def _term(text: str) -> Term:
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("georadius:"):
        return _stored(int(text.removeprefix("georadius:")), options.GEORADIUS, b"STORE", b"STOREDIST")
    place, _, step = text.partition("/")
    if place.startswith("#"):
        return _counted(int(place[1:]), int(step or 1))
    first, _, last = place.partition("..")
    return _range(int(first), int(last or first), int(step or 1))


def _range(first: int, last: int, step: int) -> Term:
    def term(argv: Argv) -> Keys | None:
        stop = (last if last >= 0 else len(argv) + last) + 1
        if stop <= first or stop > len(argv) or (stop - first) % step:
            return None
        return argv[first:stop:step]

    return term


def _counted(at: int, step: int) -> Term:
    def term(argv: Argv) -> Keys | None:
        count = options.decimal(argv[at]) if at < len(argv) else None
        if not count or count * step > len(argv) - at - 1:
            return None
        return argv[at + 1 : at + 1 + count * step : step]

    return term


def _stored(start: int, grammar: options.Grammar, *words: bytes) -> Term:
    def term(argv: Argv) -> Keys | None:
        given = options.all_of(argv, start, grammar) if len(argv) >= start else None
        if given is None:
            return None
        return tuple(values[0] for word, values in given.given if word in words)

    return term


def _behind_streams(argv: Argv, given: options.Options | None) -> Keys | None:
    if given is None or given.end >= len(argv) or argv[given.end].upper() != b"STREAMS":
        return None
    rest = argv[given.end + 1 :]
    return None if not rest or len(rest) % 2 else rest[: len(rest) // 2]


def _streams(argv: Argv) -> Keys | None:
    return _behind_streams(argv, options.leading(argv, 1, options.XREAD))


def _xreadgroup(argv: Argv) -> Keys | None:
    given = options.leading(argv, 1, options.XREADGROUP)
    return _behind_streams(argv, given) if given is not None and b"GROUP" in given else None


def _migrate(argv: Argv) -> Keys | None:
    if len(argv) < 6:
        return None
    given = options.leading(argv, 6, options.MIGRATE)
    if given is None:
        return None
    if given.end == len(argv):
        return (argv[3],)
    rest = argv[given.end + 1 :]
    return rest if argv[given.end].upper() == b"KEYS" and not argv[3] and rest else None


_WORDS: dict[str, Term] = {
    "streams": _streams,
    "xreadgroup": _xreadgroup,
    "migrate": _migrate,
    "sort": _stored(2, options.SORT, b"STORE"),
}
