"""The one part that is compiled, where a C compiler is found. Everything else is in pyproject.toml."""

from __future__ import annotations

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [
            Extension(
                "rules.scan.compiled",
                ["rules/scan/compiled.pyx"],
                depends=["rules/scan/lexer.h"],
                include_dirs=["rules/scan"],
                optional=True,
            )
        ],
        build_dir="build",
    )
)
