"""The header section of a record: a count, then names and values with their lengths.

Source: KIP-82, KIP-98.
"""

from __future__ import annotations

from .model import BadRecords, Headers
from .varint import NULL, read_raw, write_length

NO_HEADERS = b"\x00"
_AWAY = 1 << 40  # behind the end of any section
NAME_STEPS = tuple(_AWAY if byte & 129 else 1 + (byte >> 1) for byte in range(256))
"""From the first byte of a length to what follows its bytes, where that is one byte and not negative."""
VALUE_STEPS = (NAME_STEPS[0], 1, *NAME_STEPS[2:])
"""The same; null has no bytes."""


def read_headers(section: bytes) -> Headers:
    """The headers of a section, in order.

    Raises:
        BadRecords: a null or negative name, a count or length that is not met exactly.
    """
    headers: Headers = []
    try:
        raw = section[0]
        at = 1
        if raw > 127:
            raw, at = read_raw(section, 0)
        if raw & 1:
            raise BadRecords("a negative number of headers")
        for _ in range(raw >> 1):
            raw = section[at]
            start = at + 1
            if raw > 127:
                raw, start = read_raw(section, at)
            if raw & 1:
                raise BadRecords("a header name that is null")
            at = start + (raw >> 1)
            name = section[start:at]
            raw = section[at]
            start = at + 1
            if raw > 127:
                raw, start = read_raw(section, at)
            if not raw & 1:
                at = start + (raw >> 1)
                headers.append((name, section[start:at]))
            elif raw == 1:
                at = start
                headers.append((name, None))
            else:
                raise BadRecords("a header value of negative length")
    except IndexError:
        raise BadRecords("headers that end early") from None
    if at != len(section):
        raise BadRecords("headers that do not end where their record does")
    return headers


def check_headers(section: bytes) -> None:
    """Nothing, if `read_headers` can read it; it raises what that raises, in a fifth of the time."""
    try:
        at = 1
        count = section[0]
        if not count & 129:  # neither negative nor more than 63
            for _ in range(count >> 1):
                at += NAME_STEPS[section[at]]
                at += VALUE_STEPS[section[at]]
            if at == len(section):
                return
    except IndexError:
        pass
    read_headers(section)


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
