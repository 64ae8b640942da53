"""Request targets: decoded once, judged as what they say, and written anew from it.

What two servers could take for two places is refused: dot segments, empty segments, parameters, backslashes, fragments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from .errors import BadRequest

_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_HEX = re.compile(rb"%([0-9a-fA-F]{2})")
_PATH = re.compile(rb"[A-Za-z0-9\-._~!$&'()*,=+:@%/]+")
_QUERY = re.compile(rb"[A-Za-z0-9\-._~!$&'()*,;+=:@%/?|\[\]\"{}^`<>]*")
SAFE = "-._~!$&'()*,=+:@"


@dataclass(frozen=True, slots=True)
class Target:
    """Segments of the path, decoded; and the pairs of the query, decoded, in their order. `slash` is a last, empty segment.
    The root has no segments."""

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    slash: bool = False

    @property
    def path(self) -> bytes:
        """The path, each segment escaped anew."""
        end = "/" if self.slash and self.segments else ""
        return ("/" + "/".join(quote(each, safe=SAFE) for each in self.segments) + end).encode()

    def encode(self) -> bytes:
        """What is sent: the path and the query as they were judged."""
        if not self.query:
            return self.path
        pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query)
        return self.path + b"?" + pairs.encode()

    def asked(self, name: str) -> list[str]:
        """Every value of a name in the query."""
        return [value for each, value in self.query if each == name]


def parse(raw: bytes) -> Target:
    """
    Raises:
        BadRequest: it is in another form, or could mean two places.
    """
    if not raw.startswith(b"/"):
        raise BadRequest(421 if b"://" in raw else 400, "the target is not a path")
    path, _, query = raw.partition(b"?")
    if not _PATH.fullmatch(path) or _ESCAPE.search(raw) or not _QUERY.fullmatch(query):
        raise BadRequest(400, "the target holds what no target may hold")
    if path == b"/":
        return Target((), _pairs(query))
    pieces = path.split(b"/")[1:]
    slash = pieces[-1] == b""
    segments = tuple(_decoded(each) for each in (pieces[:-1] if slash else pieces))
    for each in segments:
        if each in ("", ".", "..") or any(sign in each for sign in ("\0", "\\", ";", "\r", "\n")):
            raise BadRequest(400, "the target could mean two places")
    return Target(segments, _pairs(query), slash)


def _decoded(raw: bytes) -> str:
    try:
        return _HEX.sub(lambda found: bytes([int(found[1], 16)]), raw).decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest(400, "the target is not UTF-8") from None


def _pairs(query: bytes) -> tuple[tuple[str, str], ...]:
    pairs = []
    for each in query.split(b"&"):
        if not each:
            continue  # of && and of ?: nothing is asked
        name, _, value = each.partition(b"=")
        if not name:
            raise BadRequest(400, "the query asks for nothing by its name")
        pairs.append((_decoded(name.replace(b"+", b" ")), _decoded(value.replace(b"+", b" "))))
    return tuple(pairs)
