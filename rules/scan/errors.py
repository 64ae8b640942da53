"""What both scanners raise. Apart, since each of them needs it."""

from __future__ import annotations


class NotJson(ValueError):
    """Not a JSON text in UTF-8."""


class TooDeep(ValueError):
    """More open brackets, or more strings within strings, than are followed."""
