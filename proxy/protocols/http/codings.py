"""Content codings of answers. None is asked for; a server that uses one all the same is understood within bounds."""

from __future__ import annotations

import zlib

GZIP_OR_ZLIB = 47  # zlib's own spelling of: whichever of the two heads is there


def decoded(content: bytes, coding: bytes | None, most: int) -> bytes | None:
    """The body without its coding; None where that cannot be done within `most` bytes."""
    if coding is None or coding.lower() == b"identity":
        return content
    if coding.lower() not in (b"gzip", b"x-gzip", b"deflate"):
        return None
    opener = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        opened = opener.decompress(content, most + 1)
    except zlib.error:
        return None
    return opened if opener.eof and not opener.unused_data and len(opened) <= most else None
