"""The one place that reads the wall clock. Everything that measures a span uses the loop's own clock."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text() -> str:
    """Now, as RFC 3339 in UTC with milliseconds: `2026-11-30T10:15:00.123Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_seconds() -> float:
    """Now, in seconds since 1970, for metrics."""
    return datetime.now(UTC).timestamp()
