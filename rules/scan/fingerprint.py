"""Whether a compiled scanner was built from the sources that lie beside it: one that an earlier checkout left behind
must not mask in the name of this one.

    fingerprint(folder)       -> what setup.py builds in (`fingerprint.pxi` has the other half)
    left_out(module, folder)  -> why the compiled scanner is not to be loaded, or None

Stands on the standard library alone, since setup.py reads it before anything is installed.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

SUFFIXES = frozenset({".pyx", ".pxi", ".pxd", ".h"})

NOT_BUILT = "it was not built"
OTHER_SOURCES = "it was built from other sources"
NOT_LOADED = "it cannot be loaded"


def sources(folder: Path) -> list[Path]:
    """What the compiled scanner is built from, in a fixed order. Hidden files are an editor's."""
    return sorted(each for each in folder.iterdir() if each.suffix in SUFFIXES and not each.name.startswith("."))


def fingerprint(folder: Path) -> str:
    """64 hexadecimal digits over names and contents; empty where no source is."""
    found = sources(folder)
    told = "".join(f"{each.name} {sha256(each.read_bytes()).hexdigest()}\n" for each in found)
    return sha256(told.encode()).hexdigest() if found else ""


def left_out(module: str, folder: Path) -> str | None:
    """Why the compiled scanner called `module` is not to be loaded; None when nothing speaks against it.

    Looked for in the bytes of its file: what an earlier version does while it is loaded, nobody knows any more.
    Where no sources lie beside it (an image that was stripped of them), there is nothing to compare it with.
    """
    found = find_spec(module)
    if found is None or found.origin is None:
        return NOT_BUILT
    try:
        ours = fingerprint(folder).encode() in Path(found.origin).read_bytes()
    except OSError:
        return NOT_LOADED
    return None if ours else OTHER_SOURCES
