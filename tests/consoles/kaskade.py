"""kaskade, a terminal console for Kafka from PyPI, in a pseudo-terminal, pointed at an address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .pip import program
from .terminal import Terminal

VERSION = "5.1.0"


class Kaskade:
    """One running console. What it draws is `screen`; its own log is a place where a value could end, too."""

    def __init__(self, folder: Path, mode: str, address: str, settings: Mapping[str, object], *words: str) -> None:
        """`mode` is `consumer` or `admin`; `settings` are librdkafka's."""
        binary = program("kaskade", VERSION, "kaskade", required_as="console")
        told = {"broker.address.family": "v4", **settings}
        flags = [word for name, value in told.items() for word in ("--kafka", f"{name}={value}")]
        env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self._folder = folder
        self.screen = Terminal([str(binary), mode, "-b", address, *flags, *words], env)

    def log(self) -> str:
        """All that it left in its home."""
        return "".join(each.read_text(errors="replace") for each in self._folder.rglob("*") if each.is_file())

    def close(self) -> None:
        self.screen.close()
