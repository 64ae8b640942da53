"""What the demo prints, and the two things that all of its parts need: a free port, and a way to give up."""

from __future__ import annotations

import os
import socket
from itertools import zip_longest
from typing import TextIO

from proxy.core.errors import ProxyError

HOST = "127.0.0.1"
START_S = 10.0
HEAD, WIDTH = 22, 44  # of the columns
LAST_PORT = 65535


class DemoFailed(ProxyError):
    """The demo cannot go on; the message is one line for the user."""


class Screen:
    """Lines to standard output, coloured only on a terminal and unless NO_COLOR is set."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._colours = out.isatty() and not os.environ.get("NO_COLOR")

    def line(self, text: str = "") -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._colours else text

    def columns(self, head: str, left: str, right: str) -> None:
        for start, one, two in zip_longest((head,), _wrapped(left), _wrapped(right), fillvalue=""):
            self.line(f"{start:<{HEAD}}{one:<{WIDTH + 3}}{two}".rstrip())

    def told(self, head: str, text: str) -> None:
        self.line(f"{head:<{HEAD}}{text}")


def _wrapped(text: str) -> list[str]:
    return [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)] or [""]


def printable(said: bytes) -> str:
    """Bytes as text for a terminal: what could steer it is `?`."""
    return "".join(each if each.isprintable() else "?" for each in said.decode("utf-8", "replace"))


def free_port(wanted: int = 0) -> int:
    """The wanted port where it is free, else any free one."""
    return free_ports(1, wanted).start


def free_ports(count: int, wanted: int = 0) -> range:
    """So many free ports in a row, from the wanted one on where those are free.

    Raises:
        DemoFailed: there are none.
    """
    for first in (wanted, *(0,) * 50):
        ports = _free(first, count)
        if ports is not None:
            return ports
    raise DemoFailed("no free port on loopback")


def _free(first: int, count: int) -> range | None:
    probes: list[socket.socket] = []
    try:
        for number in range(count):
            probe = socket.socket()
            probes.append(probe)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, first + number if first else 0))
            first = first or int(probe.getsockname()[1])
            if first + count > LAST_PORT:
                return None
    except OSError:
        return None
    finally:
        for probe in probes:
            probe.close()
    return range(first, first + count)
