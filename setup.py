"""The one part that is compiled, where a C compiler is found. Everything else is in pyproject.toml.

Where there is no compiler, no Python.h or no Cython, the installation says so in one line and goes on: the scanner
in Python is of equal meaning. Nothing that an earlier build left is taken over, since a build that fails today would
lend the extension of an older version.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

FOLDER = Path("rules", "scan")
PYX = FOLDER / "compiled.pyx"
BEFORE = runpy.run_path(str(FOLDER / "fingerprint.py"))
FASTER = {"unix": ["-O3"], "mingw32": ["-O3"]}  # others optimise as they are told by Python's own configuration
FAILURES = (BaseError, CCompilerError, OSError)


class Build(build):
    """Begins with empty folders: a wheel holds all that lies in them, modules of an earlier version too."""

    def run(self) -> None:
        for folder in (self.build_lib, self.build_temp):
            shutil.rmtree(folder, ignore_errors=True)
        super().run()


class BuildScanner(build_ext):
    """C is generated where objects are, never beside the sources."""

    def run(self) -> None:
        self.force = True
        for folder in (FOLDER, Path(self.build_lib) / FOLDER):
            for left in (*folder.glob("compiled.*.so"), *folder.glob("compiled.so"), *folder.glob("compiled*.pyd")):
                left.unlink()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        try:
            from Cython.Build import cythonize
        except ImportError:
            return self.go_without("no Cython")
        shutil.rmtree(self.build_temp, ignore_errors=True)
        try:
            ext.extra_compile_args = self.arguments()
            ext.sources = cythonize([ext], build_dir=self.build_temp, force=True, quiet=True)[0].sources
            return super().build_extension(ext)
        except FAILURES:
            return self.go_without("no C compiler that finds Python.h")

    def arguments(self) -> list[str]:
        """What the compiler takes of `FASTER`, tried on next to nothing.

        Raises:
            FAILURES: it compiles nothing at all, or does not find Python.h.
        """
        probe = Path(self.build_temp, "probe.c")
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_text("#include <Python.h>\n", encoding="ascii")
        for arguments in filter(None, [FASTER.get(self.compiler.compiler_type)]):
            with suppress(*FAILURES):
                self.compiler.compile([str(probe)], output_dir=self.build_temp, extra_postargs=arguments)
                return arguments
        self.compiler.compile([str(probe)], output_dir=self.build_temp)
        return []

    def go_without(self, reason: str) -> None:
        sys.stderr.write(f"veil: {reason}: the scanner will be the one in Python, which masks the same, but slower\n")


setup(
    cmdclass={"build": Build, "build_ext": BuildScanner},
    ext_modules=[
        Extension(
            "rules.scan.compiled",
            [str(PYX)],
            depends=[str(each) for each in BEFORE["sources"](FOLDER) if each != PYX],
            define_macros=[("VEIL_SOURCES", BEFORE["fingerprint"](FOLDER))],
            optional=True,
        )
    ],
)
