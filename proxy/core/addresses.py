"""Servers of a cluster, as it names them itself and as readers are told to reach them.

A reader that were told a server's own address would walk round Veil. Where a node is reached is the runtime's to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Node:
    """A server by the number and the address that its cluster gives it."""

    id: int
    host: str
    port: int


class Endpoint(NamedTuple):
    """Where a reader reaches a node: an address of Veil's."""

    host: str
    port: int
