"""Which release this is. Apart from the rest, since `veil --version` need not load more than the scanner."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from rules.scan import ENGINE, LEFT_OUT
from rules.scan.fingerprint import NOT_BUILT


def version() -> str:
    """The installed version; `0` when run from a checkout that is not installed."""
    try:
        return installed_version("veil")
    except PackageNotFoundError:
        return "0"


def scanner() -> str:
    """Which scanner masks; with the reason where one was compiled and is left out."""
    why = "" if LEFT_OUT in {None, NOT_BUILT} else f"; the compiled one is left out: {LEFT_OUT}"
    return ENGINE + why
