"""The same promises as `scan_fuzz`, on bytes that a fuzzer finds which watches what of the scanner in Python they reach.

    pip install atheris
    python -m tests.fuzz.scan_guided -max_total_time=600 -max_len=2000 corpus/

The arguments are libFuzzer's; a folder of found inputs goes on where the last run ended. The first byte of an input
says by which rules the rest is masked. Not part of the suite, since atheris is not to be had for every interpreter.
"""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

from tests.rules.scanners import the_compiled

from .documents import Maker
from .scan_fuzz import Fuzzer

SEEDS = 300
START_OVER = 4096  # inputs


def seed(folder: Path) -> None:
    """Documents to begin with, where there is nothing yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    for number in range(SEEDS):
        rng = random.Random(number)
        (folder / f"seed-{number}").write_bytes(bytes([rng.randrange(256)]) + Maker(rng).document().encode())


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["rules.scan.python"]):
        sys.modules.pop("rules.scan.python", None)
        python: Any = importlib.import_module("rules.scan.python")
    fuzzer = Fuzzer(python, the_compiled(), 0)

    def one(data: bytes) -> None:
        if data:
            fuzzer.given(data[0], data[1:])
            if fuzzer.executions % START_OVER == 0:
                fuzzer.start_over()

    for folder in sys.argv[1:]:
        if not folder.startswith("-"):
            seed(Path(folder))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
