"""The one part that is compiled, where a C compiler is found. Everything else is in pyproject.toml.

Where there is no compiler, no Python.h or no Cython, the installation says so in one line and goes on: the scanner
in Python is of equal meaning. Nothing that an earlier build left is taken over, since a build that fails today would
lend the extension of an older version.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

FOLDER = Path("rules", "scan")
PYX = FOLDER / "compiled.pyx"
BEFORE = runpy.run_path(str(FOLDER / "fingerprint.py"))
FASTER = {"unix": ["-O3"], "mingw32": ["-O3"]}  # others optimise as they are told by Python's own configuration


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
        ext.sources = cythonize([ext], build_dir=self.build_temp, force=True, quiet=True)[0].sources
        faster = FASTER.get(self.compiler.compiler_type, [])
        for arguments in [faster, []] if faster else [[]]:
            ext.extra_compile_args = arguments
            try:
                return super().build_extension(ext)
            except (BaseError, CCompilerError, OSError):
                continue  # the compiler does not know the argument, or there is none
        return self.go_without("no C compiler that finds Python.h")

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
