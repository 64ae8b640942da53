"""Secrets of the configuration, and addresses of a Redis that may hold one. Neither shows it when it is printed."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from .upstream import Address


class Secret:
    """A text that only `reveal` gives away: not `str`, `repr`, a format, a comparison's message or a pickle."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> str:
        return "…"

    def __format__(self, spec: str) -> str:
        return "…"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode("utf-8", "surrogatepass"), other._text.encode("utf-8", "surrogatepass"))

    def __hash__(self) -> int:
        return hash(self._text)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """`redis[s]://[user[:password]@]host[:port][/database]`, taken apart. Its text is the address alone.

    `ca` names a file of certificates that are trusted with TLS instead of the system's.
    """

    address: Address
    database: int = 0
    user: str | None = None
    password: Secret | None = None
    tls: bool = False
    ca: str | None = None

    def __str__(self) -> str:
        return f"{'rediss' if self.tls else 'redis'}://{self.address}/{self.database}"
