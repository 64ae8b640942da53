"""The header section of a record: a count, then names and values with their lengths.

Source: KIP-82, KIP-98.
"""

from __future__ import annotations

from .model import BadRecords, Headers
from .varint import NULL, read_raw, write_length

NO_HEADERS = b"\x00"


def read_headers(section: bytes) -> Headers:
    """The headers of a section, in order.

    Raises:
        BadRecords: a null or negative name, a count or length that is not met exactly.
    """
    headers: Headers = []
    try:
        count, at = read_raw(section, 0)
        if count & 1:
            raise BadRecords("a negative number of headers")
        for _ in range(count >> 1):
            length, at = read_raw(section, at)
            if length & 1:
                raise BadRecords("a header name that is null")
            name = section[at : at + (length >> 1)]
            at += length >> 1
            length, at = read_raw(section, at)
            if not length & 1:
                headers.append((name, section[at : at + (length >> 1)]))
                at += length >> 1
            elif length == 1:
                headers.append((name, None))
            else:
                raise BadRecords("a header value of negative length")
    except IndexError:
        raise BadRecords("headers that end early") from None
    if at != len(section):
        raise BadRecords("headers that do not end where their record does")
    return headers


def check_headers(section: bytes) -> None:
    """Nothing, if `read_headers` can read it; it raises what that raises, in less time for short headers."""
    size = len(section)
    try:
        count = section[0]
        if count & 129:  # negative, or 64 and more of them
            read_headers(section)
            return
        at = 1
        for _ in range(count >> 1):
            length = section[at]
            if length & 129:
                read_headers(section)
                return
            at += 1 + (length >> 1)
            length = section[at]
            if length & 129:
                if length != 1:
                    read_headers(section)
                    return
                at += 1
            else:
                at += 1 + (length >> 1)
    except IndexError:
        raise BadRecords("headers that end early") from None
    if at != size:
        raise BadRecords("headers that do not end where their record does")


def write_headers(headers: Headers) -> bytes:
    """The section of these headers, in their order."""
    parts = [write_length(len(headers))]
    for name, value in headers:
        parts += (write_length(len(name)), name)
        if value is None:
            parts.append(NULL)
        else:
            parts += (write_length(len(value)), value)
    return b"".join(parts)
