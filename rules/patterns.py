"""Globs on raw bytes. (interface stub)"""

from __future__ import annotations

from .model import Kind, Patterns


class Matcher:
    """Whether a name of a kind matches any of its globs, in time linear in name times patterns.

    `strict` (grants, except): `?` matches only where its byte reading and its code-point reading agree;
    otherwise (rules) where either does.
    """

    def __init__(self, patterns: Patterns, *, strict: bool) -> None:
        raise NotImplementedError

    def matches(self, kind: Kind, name: bytes) -> bool:
        raise NotImplementedError
