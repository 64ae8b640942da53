"""Definitions as the console's form sends them: parts, of which one is the JSON and one tells where to go then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...api import Call

_EDGE = rb"[A-Za-z0-9'+_./:=?-]{1,70}"
_KIND = re.compile(rb'multipart/form-data; ?boundary=(?:"(%b)"|(%b))' % (_EDGE, _EDGE), re.IGNORECASE)
_NAME = re.compile(rb'content-disposition: form-data; name="(file|redirect)"(?:; filename="([^"\\\r\n]*)")?', re.IGNORECASE)
_TYPE = re.compile(rb"content-type: [ -~]*", re.IGNORECASE)
_PATH = re.compile(rb"[A-Za-z0-9_./#?=%-]*")


@dataclass(frozen=True, slots=True)
class Form:
    inside: bytes = field(repr=False)
    boundary: bytes
    redirect: bytes | None

    def around(self, content: bytes) -> bytes:
        """The form written anew around what is in the file."""
        edge = b"--" + self.boundary
        parts = [edge + b'\r\nContent-Disposition: form-data; name="file"; filename="definitions.json"\r\n'
                 b"Content-Type: application/json\r\n\r\n" + content + b"\r\n"]  # fmt: skip
        if self.redirect is not None:
            parts.append(edge + b'\r\nContent-Disposition: form-data; name="redirect"\r\n\r\n' + self.redirect + b"\r\n")
        return b"".join(parts) + edge + b"--\r\n"


def form(call: Call) -> Form | None:
    """What the call holds; None where it can be read in two ways."""
    given = _KIND.fullmatch(call.one(b"content-type") or b"")
    if given is None:
        return None
    boundary = given[1] or given[2]
    edge = b"--" + boundary
    body = call.content
    if not body.startswith(edge + b"\r\n") or body.count(edge) != body.count(b"\r\n" + edge) + 1:
        return None
    pieces = body[len(edge) + 2 :].split(b"\r\n" + edge)
    if pieces[-1] not in (b"--", b"--\r\n") or len(pieces) < 2:
        return None
    found: dict[bytes, bytes] = {}
    for number, piece in enumerate(pieces[:-1]):
        if number:
            if not piece.startswith(b"\r\n"):
                return None
            piece = piece[2:]
        head, blank, content = piece.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        name = _NAME.fullmatch(lines[0])
        if not blank or name is None or any(not _TYPE.fullmatch(line) for line in lines[1:]) or len(lines) > 2:
            return None
        if name[1].lower() in found:
            return None
        found[name[1].lower()] = content
    redirect = found.get(b"redirect")
    if b"file" not in found or (redirect is not None and not _PATH.fullmatch(redirect)):
        return None
    return Form(found[b"file"], boundary, redirect)
