"""One pass over the bytes of a JSON text: what of it the automaton covers, and the text with that masked.

    cut(data, state, depth)     -> a document as it is to be shown, and which fields were hit
    mask(data, state, depth)    -> the bytes with masks put in, everything else byte for byte
    mask_in(data, state, depth) -> whether a covered string bears a mask already
    opens(data, state, depth)   -> whether a string at the top is a document of its own

Two scanners of equal meaning: `compiled` where there was a C compiler at installation, `python` elsewhere, and where
the compiled one is none of this version's (`fingerprint`). ENGINE says which; LEFT_OUT, why it is not the compiled one.
Does not decide anything: states (`automaton`) say what is done to a scalar, acts (`methods`) how.
"""

from __future__ import annotations

import re
from pathlib import Path

from .errors import NotJson, TooDeep
from .fingerprint import NOT_LOADED, left_out
from .walk import WHITE, starts_like_json

LEFT_OUT = left_out(f"{__name__}.compiled", Path(__file__).parent)
if LEFT_OUT is None:
    try:
        from .compiled import cut, mask, mask_in, opens
    except ImportError:  # of another interpreter, or cut short
        LEFT_OUT = NOT_LOADED
if LEFT_OUT is not None:
    from .python import cut, mask, mask_in, opens
ENGINE = "compiled" if LEFT_OUT is None else "python"

__all__ = [
    "ENGINE",
    "LEFT_OUT",
    "NotJson",
    "TooDeep",
    "cut",
    "first_byte",
    "is_null",
    "mask",
    "mask_in",
    "opens",
    "starts_like_json",
]

_BLANK = re.compile(rb"[ \t\n\r]*+")


def first_byte(data: bytes) -> bytes:
    """The first byte that is not white space; empty when there is none."""
    start = _BLANK.match(data)
    assert start is not None
    return data[start.end() : start.end() + 1]


def is_null(data: bytes) -> bool:
    """Whether the text is JSON null, white space around it allowed."""
    return data.strip(WHITE) == b"null"
