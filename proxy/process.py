"""What the process is before it serves: how many descriptors it has, what it leaves behind when it dies, how it fails."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable

from proxy.runtime.log import Log

DESCRIPTORS_KEPT = 160  # for the admin port, probes of names, listeners, the trail and the rules; ports of nodes besides


def harden() -> None:
    """No core dumps, which would hold contents; and as many descriptors as are allowed, two a reader."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def room_for_readers(descriptors: int, held: int = 0) -> int:
    """How many readers so many descriptors are enough for, beside those that are `held`. Some are kept: probes of the
    admin port that cannot be accepted would get the process killed, and with it all readers."""
    if descriptors == resource.RLIM_INFINITY:
        return sys.maxsize
    left = max(0, descriptors - held)
    return max(1, (left - min(DESCRIPTORS_KEPT, left // 2)) // 2)


def prepare(log: Log) -> None:
    """What the whole process is before it serves."""
    harden()
    os.umask(0o077)
    # What a callback of a library raises goes to standard error as it is: by its type and place, as everything else.
    sys.unraisablehook = lambda told: log.failed("unraisable", told.exc_value or RuntimeError())


def unwrapped(work: Callable[[], None]) -> None:
    """Does the work; a failure that came out of nested nurseries is raised as itself.

    Raises:
        BaseException: the first of the failures.
    """
    try:
        work()
    except BaseExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
