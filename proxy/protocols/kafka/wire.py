"""Kafka frames and their headers.

    frame     int32 size, then that many bytes: a header and a body
    request   int16 API key, int16 version, int32 correlation id, nullable string client id, [tags]
    response  int32 correlation id, [tags]

The tags are there in flexible versions. Frames are handled without their size. Does not know bodies (schema.py), nor
which response belongs to which request (session/).
Source: the Kafka protocol guide; KIP-482 for the tags, KIP-511 for the header of ApiVersions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from proxy.core.buffer import Buffer, Parse
from proxy.core.errors import WireError

from . import schema
from .primitives import NO_TAGS, Chunk, tags
from .schema import Message

SIZE = struct.Struct(">i")
HEAD = struct.Struct(">hhi")
CLIENT_ID = struct.Struct(">h")


class RequestHeader(NamedTuple):
    key: int
    version: int
    correlation_id: int
    client_id: bytes | None
    body_at: int
    """Where in the frame the body begins."""


def frame(buffer: Buffer, limit_bytes: int) -> Parse[bytes]:
    """The next frame, without its size.

    Raises:
        WireError: the size is negative.
        LimitExceeded: before it is waited for, when it is above `limit_bytes`.
    """
    (size,) = SIZE.unpack((yield from buffer.exact(SIZE.size, SIZE.size)))
    if size < 0:
        raise WireError("the size of a frame is negative")
    return (yield from buffer.exact(size, limit_bytes))


def peek(frame: bytes) -> tuple[int, int, int]:
    """API key, version and correlation id of a request, known or not.

    Raises:
        WireError: the frame is shorter.
    """
    if len(frame) < HEAD.size:
        raise WireError("a request is shorter than its header")
    key, version, correlation_id = HEAD.unpack_from(frame)
    return key, version, correlation_id


def request_header(frame: bytes) -> RequestHeader:
    """The header of a request whose key and version the schema knows; its tags are skipped.

    Raises:
        WireError: cut, ill-formed, or of an unknown key or version.
    """
    key, version, correlation_id = peek(frame)
    try:
        flexible = schema.request_header_is_flexible(key, version)
    except LookupError:
        raise WireError("a request of an unknown API or version") from None
    at = HEAD.size + CLIENT_ID.size
    if len(frame) < at:
        raise WireError("a request is shorter than its header")
    (length,) = CLIENT_ID.unpack_from(frame, HEAD.size)
    if length < -1 or length > len(frame) - at:
        raise WireError("a client id of no possible length")
    client_id = None if length < 0 else frame[at : at + length]
    at += max(0, length)
    if flexible:
        at = _behind_tags(frame, at)
    return RequestHeader(key, version, correlation_id, client_id, at)


def response_correlation(frame: bytes) -> int:
    """The correlation id of a response.

    Raises:
        WireError: the frame is shorter.
    """
    if len(frame) < SIZE.size:
        raise WireError("a response is shorter than its header")
    correlation_id: int = SIZE.unpack_from(frame)[0]
    return correlation_id


def response_body_at(frame: bytes, key: int, version: int) -> int:
    """Where in a response the body begins.

    Raises:
        WireError: cut, or its tags are ill-formed.
        LookupError: an unknown key or version; it is the request's, which was looked at before.
    """
    if len(frame) < SIZE.size:
        raise WireError("a response is shorter than its header")
    return _behind_tags(frame, SIZE.size) if schema.response_header_is_flexible(key, version) else SIZE.size


def has_header_tags(body_at: int) -> bool:
    """Whether the header of a response whose body begins there has more than its correlation id."""
    return body_at > SIZE.size + len(NO_TAGS)


def _behind_tags(frame: bytes, at: int) -> int:
    if at < len(frame) and frame[at] == 0:
        return at + 1
    return tags(frame, at, len(frame))[1]


def request_frame(header: RequestHeader, frame: bytes, body: Sequence[Chunk]) -> bytes:
    """The request with another body, behind its header as it came, with its size in front."""
    return sized(frame[: header.body_at], *body)


def response_frame(correlation_id: int, key: int, version: int, body: Sequence[Chunk]) -> bytes:
    """A response with its size and a header without tags. Raises LookupError for an unknown key or version."""
    flexible = schema.response_header_is_flexible(key, version)
    return sized(SIZE.pack(correlation_id), NO_TAGS if flexible else b"", *body)


def own_request(key: int, version: int, correlation_id: int, client_id: bytes, message: Message) -> bytes:
    """A request of Veil's own, with its size. Raises LookupError for an unknown key or version."""
    out: list[Chunk] = [HEAD.pack(key, version, correlation_id), CLIENT_ID.pack(len(client_id)), client_id]
    if schema.request_header_is_flexible(key, version):
        out.append(NO_TAGS)
    schema.request(key, version).write(message, out)
    return sized(*out)


def sized(*parts: Chunk) -> bytes:
    """The parts of a frame with its size in front."""
    return b"".join([SIZE.pack(sum(map(len, parts))), *parts])
