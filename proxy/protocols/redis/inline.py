"""The words of an inline command, by the quoting of the server itself, and what is said of a command that is none.

Source: sdssplitargs in sds.c of Redis 7.
"""

from __future__ import annotations

from proxy.core.errors import WireError

PROTOCOL_ERROR = b"-ERR Protocol error: %b\r\n"


def broken(what: str) -> WireError:
    """What a server hangs up on, with what it says before it does."""
    return WireError(f"not a Redis command: {what}", PROTOCOL_ERROR % what.encode())


_ESCAPES = {ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("b"): b"\b", ord("a"): b"\a"}
_SPACE = frozenset(b" \t\n\v\f\r")  # isspace: skipped before a word, wanted behind a closing quote
_END = frozenset(b" \t\n\r")  # what ends a word without quotes
_HEX = frozenset(b"0123456789abcdefABCDEF")


def split_inline(line: bytes) -> tuple[bytes, ...]:
    """The words of an inline command, by the server's own quoting (sdssplitargs).

    Raises:
        WireError: unbalanced quotes, a closing quote with text behind it, or NUL, behind which a server would
            never find the end of the line.
    """
    if b"\0" in line:
        raise broken("NUL in an inline request")
    words: list[bytes] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _SPACE:
            at += 1
        if at == len(line):
            return tuple(words)
        word, at = _word(line, at)
        words.append(word)


def _word(line: bytes, at: int) -> tuple[bytes, int]:
    out = bytearray()
    while at < len(line) and line[at] not in _END:
        quote = line[at]
        if quote not in b"\"'":
            out.append(quote)
            at += 1
            continue
        at = _quoted(line, at + 1, quote, out)
        if at < len(line) and line[at] not in _SPACE:
            raise broken("unbalanced quotes in request")
        return bytes(out), at
    return bytes(out), at


def _quoted(line: bytes, at: int, quote: int, out: bytearray) -> int:
    """Takes up to the closing quote and returns the place behind it."""
    while at < len(line):
        byte = line[at]
        if byte == quote:
            return at + 1
        if byte == 0x5C and quote == 0x22 and at + 1 < len(line):
            code = line[at + 2 : at + 4]
            if line[at + 1] == 0x78 and len(code) == 2 and _HEX.issuperset(code):
                out.append(int(code, 16))
                at += 4
                continue
            out += _ESCAPES.get(line[at + 1], line[at + 1 : at + 2])
            at += 2
            continue
        if byte == 0x5C and quote == 0x27 and line[at + 1 : at + 2] == b"'":
            out += b"'"
            at += 2
            continue
        out.append(byte)
        at += 1
    raise broken("unbalanced quotes in request")
