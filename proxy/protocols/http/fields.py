"""Header fields: which are sent on, and what of them is written anew. What is not listed stays behind.

to the server   what judging and serving need: no other name for the reader, the place or the method
to the reader   what a browser needs: nothing that tells about contents, no way round Veil, and nothing that a server
                promises of its own host (Strict-Transport-Security)
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from .wire import TEXT, Fields

TO_SERVER = frozenset(
    {b"accept", b"accept-language", b"authorization", b"content-type", b"cookie", b"origin", b"user-agent", b"x-requested-with"}
)
TO_READER = frozenset(
    {
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"access-control-expose-headers",
        b"access-control-max-age",
        b"allow",
        b"cache-control",
        b"content-disposition",
        b"content-language",
        b"content-security-policy",
        b"content-type",
        b"date",
        b"expires",
        b"location",
        b"pragma",
        b"permissions-policy",
        b"referrer-policy",
        b"server",
        b"set-cookie",
        b"vary",
        b"www-authenticate",
        b"x-content-type-options",
        b"x-frame-options",
        b"x-xss-protection",
    }
)
OF_ASSETS = frozenset({b"etag", b"last-modified", b"content-encoding"})
"""Of what holds no contents they pass as well."""
_PLACE = re.compile(rb"[A-Za-z0-9\-._~!$&'()*,;+=:@%/?#\[\]]+")
IDENTITY = (b"accept-encoding", b"identity")


def to_server(fields: Fields, host: bytes, *, accept: bytes | None = None, also: frozenset[bytes] = frozenset()) -> Fields:
    """The fields of a request as the server gets them; `accept` is asked for in place of what the reader accepts, and
    `also` are names that this API alone knows.

    A page that came from where it asks now came from Veil. It would be from elsewhere to the server, which knows itself by
    another name: its origin stays behind, as it does in every GET of a browser's.
    """
    asked = next((b"://" + value.lower() for name, value in fields if name == b"host"), None)
    kept: Fields = [(b"host", host)]
    for name, value in fields:
        if (name not in TO_SERVER and name not in also) or (name == b"accept" and accept is not None):
            continue
        if name == b"origin" and asked is not None and value.lower() in (b"http" + asked, b"https" + asked):
            continue
        if name == b"content-type" and TEXT.fullmatch(value):
            value = b"application/json"  # as it was judged
        kept.append((name, value))
    if accept is not None:
        kept.append((b"accept", accept))
    return [*kept, IDENTITY, (b"connection", b"keep-alive")]


def to_reader(fields: Fields, host: bytes, *, holds_contents: bool) -> Fields:
    """The fields of an answer as the reader gets them, without framing."""
    passed = TO_READER if holds_contents else TO_READER | OF_ASSETS
    kept: Fields = []
    for name, value in fields:
        if name not in passed:
            continue
        if name == b"location":
            here = location(value, host)
            if here is None:
                continue
            value = here
        elif name == b"set-cookie":
            value = cookie(value)
        kept.append((name, value))
    return kept


def location(value: bytes, host: bytes) -> bytes | None:
    """A place on this server, without its name, so that it is asked for through Veil; None for any other."""
    # Browsers take a backslash for a slash, and leave out what is no character at all.
    if value.startswith(b"//") or not _PLACE.fullmatch(value):
        return None
    if _is_relative(value):
        return value
    try:
        told = urlsplit(value.decode("ascii"))
    except ValueError:
        return None
    if told.netloc and told.netloc.lower().encode() != host.lower():
        return None
    if (told.scheme and told.scheme not in ("http", "https")) or not told.path.startswith("/") or told.path.startswith("//"):
        return None
    query = f"?{told.query}" if told.query else ""
    fragment = f"#{told.fragment}" if told.fragment else ""
    return f"{told.path}{query}{fragment}".encode()


def _is_relative(value: bytes) -> bool:
    """Whether it is a place counted from the one that was asked for: no scheme, no host, and no empty segment, which
    might become one."""
    path = re.split(rb"[?#]", value, maxsplit=1)[0]
    return not path.startswith(b"/") and b":" not in path and b"//" not in path


def cookie(value: bytes) -> bytes:
    """A cookie without the server's own domain: it is the browser's host that it belongs to."""
    parts = [each for each in value.split(b";") if each.partition(b"=")[0].strip().lower() != b"domain"]
    return b";".join(parts).strip(b" \t")
