"""Which of the two scanners serves: a compiled one only when it was built from the sources that lie beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import rules
from rules import scan
from rules.scan.fingerprint import NOT_BUILT, NOT_LOADED, OTHER_SOURCES, SUFFIXES, fingerprint, left_out
from tests.brokers.mode import absent

HERE = Path(scan.__file__).parent
MODULE = "lonely_scanner"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources, and a library that was built from them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "compiled.pyx").write_text("one")
    (tmp_path / "lexer.h").write_text("two")
    library(tmp_path).write_bytes(b"\x7fELF" + fingerprint(tmp_path).encode() + b"\0")
    return tmp_path


def library(folder: Path) -> Path:
    return folder / (MODULE + EXTENSION_SUFFIXES[0])


def test_nothing_speaks_against_a_library_of_these_sources(folder: Path) -> None:
    assert left_out(MODULE, folder) is None


@pytest.mark.parametrize("name", ["compiled.pyx", "lexer.h"])
def test_a_library_is_left_out_once_a_source_has_changed(folder: Path, name: str) -> None:
    (folder / name).write_text("three")

    assert left_out(MODULE, folder) == OTHER_SOURCES


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_a_library_is_left_out_once_there_is_another_source(folder: Path, suffix: str) -> None:
    (folder / f"another{suffix}").write_text("")

    assert left_out(MODULE, folder) == OTHER_SOURCES


def test_a_library_is_left_out_once_a_source_has_gone_or_has_another_name(folder: Path) -> None:
    (folder / "lexer.h").rename(folder / "reader.h")
    renamed = left_out(MODULE, folder)
    (folder / "reader.h").unlink()

    assert (renamed, left_out(MODULE, folder)) == (OTHER_SOURCES, OTHER_SOURCES)


def test_what_is_no_source_does_not_count(folder: Path) -> None:
    for name in ("compiled.c", "python.py", ".lexer.h", "compiled.pyx~"):
        (folder / name).write_text("")

    assert left_out(MODULE, folder) is None


def test_without_sources_a_library_is_not_compared(folder: Path) -> None:
    (folder / "compiled.pyx").unlink()
    (folder / "lexer.h").unlink()

    assert left_out(MODULE, folder) is None


def test_a_library_that_is_not_there_was_not_built(folder: Path) -> None:
    library(folder).unlink()

    assert left_out(MODULE, folder) == NOT_BUILT


def test_a_source_that_cannot_be_read_leaves_the_library_out(folder: Path) -> None:
    (folder / "more.h").mkdir()

    assert left_out(MODULE, folder) == NOT_LOADED


@pytest.mark.slow
@pytest.mark.parametrize("trust", [False, True], ids=["of other sources", "of these sources"])
def test_a_library_that_is_no_library_leaves_python_to_mask(tmp_path: Path, trust: bool) -> None:
    copy = tmp_path / "rules"
    shutil.copytree(Path(rules.__file__).parent, copy, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    built_in = fingerprint(copy / "scan").encode() if trust else b""
    (copy / "scan" / f"compiled{EXTENSION_SUFFIXES[0]}").write_bytes(b"\x7fELF" + built_in)

    told = subprocess.run(
        [sys.executable, "-c", "from rules import scan; print(scan.ENGINE, scan.LEFT_OUT, scan.mask.__module__, sep='|')"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip

    assert told.stdout.strip() == f"python|{NOT_LOADED if trust else OTHER_SOURCES}|rules.scan.python"


def test_the_scanner_that_serves_says_why_it_is_not_the_compiled_one() -> None:
    assert (scan.ENGINE == "compiled") == (scan.LEFT_OUT is None)


def test_the_compiled_scanner_serves_here_and_was_built_from_these_sources() -> None:
    if scan.ENGINE != "compiled":
        absent("compiled", f"{scan.LEFT_OUT}; install a C compiler and Python.h (gcc, libc6-dev, python3-dev), then make clean")
    from rules.scan import compiled

    assert fingerprint(HERE) == compiled.SOURCES
