"""Which release this is. Apart from the rest, since `veil --version` need not load any of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


def version() -> str:
    """The installed version; `0` when run from a checkout that is not installed."""
    try:
        return installed_version("veil")
    except PackageNotFoundError:
        return "0"
