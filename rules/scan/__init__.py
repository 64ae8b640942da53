"""One pass over the bytes of a JSON text: what of it the automaton covers, and the text with that masked.

    cut(data, state, depth)     -> a document as it is to be shown, and which fields were hit
    mask(data, state, depth)    -> the bytes with masks put in, everything else byte for byte
    mask_in(data, state, depth) -> whether a covered string bears a mask already
    opens(data, state, depth)   -> whether a string at the top is a document of its own

Two scanners of equal meaning: `compiled` where there was a C compiler at installation, `python` elsewhere.
Does not decide anything: states (`automaton`) say what is done to a scalar, acts (`methods`) how.
"""

from __future__ import annotations

import re

from .errors import NotJson, TooDeep
from .python import WHITE, starts_like_json

try:
    from .compiled import cut, mask, mask_in, opens
except ImportError:
    from .python import cut, mask, mask_in, opens

    ENGINE = "python"
else:
    ENGINE = "compiled"

__all__ = ["ENGINE", "NotJson", "TooDeep", "cut", "first_byte", "is_null", "mask", "mask_in", "opens", "starts_like_json"]

_BLANK = re.compile(rb"[ \t\n\r]*+")


def first_byte(data: bytes) -> bytes:
    """The first byte that is not white space; empty when there is none."""
    start = _BLANK.match(data)
    assert start is not None
    return data[start.end() : start.end() + 1]


def is_null(data: bytes) -> bool:
    """Whether the text is JSON null, white space around it allowed."""
    return data.strip(WHITE) == b"null"
