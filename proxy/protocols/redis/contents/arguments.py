"""What is shown of the arguments of a command that a diagnostic tells about: SLOWLOG, COMMANDLOG, MONITOR.

The command's name, and its first argument where the table knows that it is a key or a channel. Every other
argument reads `••••`: nothing in a log entry says which rule would cover it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rules.view import MASK

from .. import surface

# "... (172 more bytes)", "... (3 more arguments)": the server's own cut, which would tell a length
_CUT = re.compile(rb"\.\.\. \([0-9]+ more (?:bytes|arguments)\)\Z")
# The table's `keys` begin with index 1; a count of keys that stands there is written #1
_FIRST = re.compile(r"1(?![0-9])")


def shown_args(argv: Sequence[bytes]) -> tuple[bytes, ...]:
    """As many arguments as came, each either the very one or `••••`. Never raises, whatever they are."""
    if not argv:
        return ()
    shown = 1 if _first_is_named(tuple(argv)) else 0
    return tuple(arg if at <= shown and _CUT.search(arg) is None else MASK for at, arg in enumerate(argv))


def _first_is_named(argv: tuple[bytes, ...]) -> bool:
    row = surface.find(argv)
    return row.command != "*" and not row.subcommand and _FIRST.match(row.keys) is not None
