"""Veil as it is installed: into an empty environment, from a copy of the tree, by pip; with a C compiler and without.

One environment serves all, and its own setuptools and Cython build all but the first, which pip builds as it would for anyone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.brokers.mode import absent
from tests.brokers.veil import TREE, environment

pytestmark = pytest.mark.slow

CARRIED = ("LICENSE", "README.md", "pyproject.toml", "setup.py", "rules", "proxy")
BUILT = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
NO_COMPILER = {"CC": "/bin/false"}
RULES = "rules:\n- {name: R, platform: redis, resources: [k], fields: [{kind: json_path, path: $.mail, method: redact}]}\n"
PREVIEW = "preview", "--rules", "rules.d", "--platform", "redis", "--resource", "key=k"
LIMIT_S = 240


def run(*command: str | Path, cwd: Path, extra: Mapping[str, str] | None = None, feed: str = "") -> str:
    """What the command writes to either output. It must not fail."""
    around = {**environment(), "PYTHONPATH": "", **(extra or {})}
    done = subprocess.run(
        command, cwd=cwd, env=around, input=feed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def copy_tree(to: Path) -> Path:
    for name in CARRIED:
        if (TREE / name).is_dir():
            shutil.copytree(TREE / name, to / name, ignore=BUILT)
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, to / name)
    return to


class Environment:
    """One environment that Veil alone is installed in, and an empty folder to run it from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.elsewhere = folder / "elsewhere"
        (self.elsewhere / "rules.d").mkdir(parents=True)
        (self.elsewhere / "rules.d" / "r.yaml").write_text(RULES)
        # The pip that is there serves, since to install one takes longer than to install Veil.
        self.lent = find_spec("pip") is not None
        options = ["--without-pip"] if self.lent else []
        run(sys.executable, "-m", "venv", *options, "venv", cwd=folder)

    def pip(self, *arguments: str | Path, extra: Mapping[str, str] | None = None) -> str:
        python = self.bin / "python"
        command: list[str | Path] = [sys.executable, "-m", "pip", "--python", python] if self.lent else [python, "-m", "pip"]
        return run(*command, *arguments, cwd=self.elsewhere, extra=extra)

    def setup(self, tree: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> str:
        return run(self.bin / "python", "setup.py", "-q", *arguments, cwd=tree, extra=extra)

    def wheel(self, tree: Path, extra: Mapping[str, str] | None = None) -> None:
        self.pip("wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", tree / "dist", tree, extra=extra)

    def version(self, tree: Path | None = None) -> str:
        """What --version says after the number: as it is installed, or of a tree."""
        command = [self.bin / "veil"] if tree is None else [self.bin / "python", "-m", "proxy"]
        veil, _, scanner = run(*command, "--version", cwd=tree or self.elsewhere).strip().split(" ", 2)
        assert veil == "veil"
        return scanner

    def preview(self) -> str:
        return run(self.bin / "veil", *PREVIEW, cwd=self.elsewhere, feed='{"mail":"ada@example.org","n":1}')

    def libraries(self) -> list[str]:
        """The extensions among Veil's installed files."""
        listed = self.pip("show", "--files", "veil").splitlines()
        return [line.strip() for line in listed if line.endswith((".so", ".pyd"))]


class Bare(NamedTuple):
    """What is found after pip has installed Veil where nothing compiles. The other tests go on with the environment."""

    environment: Environment
    said: str
    libraries: list[str]
    version: str
    preview: str


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    folder = tmp_path_factory.mktemp("packaging")
    made = Environment(folder)
    said = made.pip("install", "-v", copy_tree(folder / "without"), extra=NO_COMPILER)
    return Bare(made, said, made.libraries(), made.version(), made.preview())


@pytest.fixture(scope="module")
def builder(bare: Bare) -> Environment:
    """The environment with what builds Veil."""
    bare.environment.pip("install", "-q", "setuptools>=77", "cython>=3.1")
    return bare.environment


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A C compiler that finds Python.h, and a scanner to compile that says what it is of."""
    if 'include "fingerprint.pxi"' not in (TREE / "rules" / "scan" / "compiled.pyx").read_text(encoding="utf-8"):
        absent("compiled", "compiled.pyx does not include fingerprint.pxi, and without that it never serves")
    probe = tmp_path_factory.mktemp("probe") / "probe.c"
    probe.write_text("#include <Python.h>\n")
    words = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    try:
        run(*words, f"-I{sysconfig.get_path('include')}", "-fsyntax-only", probe, cwd=probe.parent)
    except (AssertionError, OSError):
        absent("compiled", "a C compiler and Python.h are needed (gcc, libc6-dev, python3-dev)")


@pytest.fixture(scope="module")
def sdist(builder: Environment) -> Path:
    tree = copy_tree(builder.folder / "sdist")
    builder.setup(tree, "sdist", "--dist-dir", "dist", extra=NO_COMPILER)
    (made,) = (tree / "dist").glob("*.tar.gz")
    return made


@pytest.fixture(scope="module")
def built(builder: Environment, compiler: None, sdist: Path) -> Path:
    """The tree that an sdist holds, after its wheel was built (`dist`), with the extension beside its sources too."""
    run("tar", "-xf", sdist, cwd=builder.folder)
    tree = builder.folder / sdist.name.removesuffix(".tar.gz")
    builder.wheel(tree)
    (library,) = (tree / "build").glob("lib*/rules/scan/*.so")
    shutil.copy2(library, tree / "rules" / "scan")
    return tree


def change(tree: Path) -> None:
    """Another version of the scanner, as a checkout brings it: with a date before that of what was built."""
    source = tree / "rules" / "scan" / "compiled.pyx"
    source.write_text(source.read_text(encoding="utf-8") + "\n# another version\n", encoding="utf-8")
    os.utime(source, (0, 0))


def test_without_a_compiler_pip_installs_veil_and_it_masks_in_python(bare: Bare) -> None:
    assert "Traceback" not in bare.said
    assert bare.said.count("the scanner will be the one in Python") == 1
    assert bare.libraries == []
    assert bare.version == "(scanner: python)"
    assert bare.preview == '{"mail":"••••","n":1}'


def test_without_headers_of_python_veil_is_built_too(builder: Environment, compiler: None) -> None:
    tree = copy_tree(builder.folder / "headless")
    script = tree / "cc"  # a compiler that never finds Python.h
    script.write_text("#!/bin/sh\necho 'fatal error: Python.h: No such file or directory' >&2\nexit 1\n")
    script.chmod(0o755)

    said = builder.setup(tree, "build_ext", "--inplace", extra={"CC": str(script)})

    assert said.count("the scanner will be the one in Python") == 1
    assert builder.version(tree) == "(scanner: python)"


def test_without_cython_veil_is_built_too(builder: Environment) -> None:
    tree = copy_tree(builder.folder / "plain")
    hidden = tree / "hidden" / "Cython"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError\n")

    said = builder.setup(tree, "build_ext", "--inplace", extra={"PYTHONPATH": str(hidden.parent)})

    assert said.count("veil: no Cython: the scanner will be the one in Python") == 1
    assert builder.version(tree) == "(scanner: python)"


def test_an_sdist_holds_what_the_scanner_is_built_from_and_nothing_that_was_built(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}

    sources = {
        str(each.relative_to(TREE)) for each in (TREE / "rules" / "scan").glob("*.*") if each.suffix not in {".so", ".pyd"}
    }
    assert held >= sources | {"setup.py", "pyproject.toml", "README.md", "LICENSE"}
    assert {name for name in held if name.endswith((".c", ".so", ".pyd", ".pyc"))} == set()


def test_a_wheel_of_the_sdist_masks_with_the_compiled_scanner(builder: Environment, built: Path) -> None:
    (wheel,) = (built / "dist").glob("*.whl")

    builder.pip("install", "-q", "--no-deps", "--force-reinstall", wheel)

    assert len(builder.libraries()) == 1
    assert builder.version() == "(scanner: compiled)"
    assert builder.preview() == '{"mail":"••••","n":1}'


def test_building_leaves_no_c_among_the_sources(built: Path) -> None:
    assert [str(each) for name in ("rules", "proxy") for each in (built / name).rglob("*.c")] == []


def test_an_extension_that_an_earlier_checkout_left_does_not_mask(builder: Environment, built: Path) -> None:
    tree = shutil.copytree(built, builder.folder / "later")
    before = builder.version(tree)
    change(tree)

    assert before == "(scanner: compiled)"
    assert builder.version(tree) == "(scanner: python; the compiled one is left out: it was built from other sources)"


def test_what_an_earlier_build_left_gets_into_no_wheel(builder: Environment, built: Path) -> None:
    tree = shutil.copytree(built, builder.folder / "leftovers")
    (lent,) = (tree / "build").glob("lib*")
    (lent / "rules" / "gone.py").touch()
    change(tree)
    shutil.rmtree(tree / "dist")

    builder.wheel(tree, NO_COMPILER)

    (wheel,) = (tree / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "rules/scan/compiled.pyx" in names
    assert [name for name in names if name.endswith((".so", ".pyd", "gone.py"))] == []


def test_an_editable_install_builds_the_changed_scanner_anew_or_drops_it(builder: Environment, built: Path) -> None:
    tree = shutil.copytree(built, builder.folder / "editable")
    editable = "install", "-q", "--no-deps", "--no-build-isolation", "--force-reinstall", "-e", tree
    change(tree)

    builder.pip(*editable)
    anew = builder.version()
    change(tree)
    builder.pip(*editable, extra=NO_COMPILER)

    assert (anew, builder.version()) == ("(scanner: compiled)", "(scanner: python)")
    assert list((tree / "rules" / "scan").glob("*.so")) == []
