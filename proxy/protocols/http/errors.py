"""Requests that are answered here and now, and the connection closed: what could be read in two ways is read in none."""

from __future__ import annotations

from proxy.core.errors import WireError


class BadRequest(WireError):
    """A request that goes nowhere. `status` is what its client is told before the connection closes."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class BadResponse(WireError):
    """The server's answer could be read in two ways, or not at all: the client gets 502, and both sides close."""
