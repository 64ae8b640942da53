"""Edits that tests hand in."""

from __future__ import annotations

from typing import TypeAlias

Three: TypeAlias = tuple[bytes | None, bytes | None, bytes]


class Seen(list[Three]):
    """Leaves everything and remembers what it saw."""

    def __call__(self, key: bytes | None, value: bytes | None, headers: bytes) -> None:
        self.append((key, value, headers))


def leave(key: bytes | None, value: bytes | None, headers: bytes) -> None:
    return None


def same(key: bytes | None, value: bytes | None, headers: bytes) -> Three:
    return key, value, headers


def hide(key: bytes | None, value: bytes | None, headers: bytes) -> Three:
    """All that a producer sets, without its length; null stays null."""
    return None if key is None else b"##", None if value is None else b"####", b"\x02\x04##\x04##"


def hide_value(key: bytes | None, value: bytes | None, headers: bytes) -> Three:
    return key, None if value is None else b"####", headers
