"""A table as text for a person, which `veil surface` prints of each protocol."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """The lines, each ending in a newline, with every column but the last as wide as its widest cell."""
    last = len(lines[0]) - 1
    widths = [max(len(line[column]) for line in lines) for column in range(last)]
    return "".join(
        "  ".join((*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[last])) + "\n"
        for line in lines
    )
