"""Masked values that were shown and bear no mask text: a zero or a false in place of a number or a flag.

Written back byte for byte they would pass for values. What is kept of one is a hash under a key of this process; another
process, and this one after a restart, know nothing of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

MOST_RENDITIONS = 100_000
ANYWHERE = b""
"""In place of a resource's name: of whichever."""


class Renditions:
    """What all sessions of a connection have shown. Used from several threads at once."""

    def __init__(self) -> None:
        self._remembering = threading.Lock()
        self._shown: OrderedDict[int, None] = OrderedDict()

    def remember(self, resource: bytes, shown: bytes) -> None:
        """A masked value without mask text was shown of the resource."""
        told = hash((resource, shown))
        with self._remembering:
            self._shown[told] = None
            self._shown.move_to_end(told)
            if len(self._shown) > MOST_RENDITIONS:
                self._shown.popitem(last=False)

    def has_shown(self, resource: bytes, value: bytes) -> bool:
        return hash((resource, value)) in self._shown
