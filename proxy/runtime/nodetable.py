"""Which node of a cluster readers reach where, in a file that keeps it over restarts.

    id ── seat ──▶ slot ──▶ port of the range      a node takes the slot `id modulo ports`, or the next one that is free
          └──────▶ host:port, as the cluster told

Several processes share the file: whoever gives a slot reads it anew under the lock of the file beside it
(`flock`), and puts the new one in its place by renaming. A seat is never taken back, for a reader may
remember its port for as long as it lives. Everything here blocks: it runs before serving begins, or in a thread.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from proxy.core.addresses import Node
from proxy.core.errors import ProxyError

from .certificates import Print, fingerprint

MOST_NODES = 1000  # with a port each no more are bound; by name there is no other limit
HOST_LIMIT = 255  # of a name in the DNS
LAST_PORT = 65535
LAST_ID = 2**31 - 1  # larger numbers no known cluster gives
FILE_BYTES = 1024 * 1024  # a thousand nodes with the longest names are some 400 KiB
VERSION = 1


class TableError(ProxyError):
    """A table that cannot be read or written; the message names it and the reason."""


class Seat(NamedTuple):
    node: Node
    slot: int


Seats = Mapping[int, Seat]
"""By the number of the node."""


class Found(NamedTuple):
    """All seats, and what the file that holds them looks like from outside."""

    seats: dict[int, Seat]
    seen: Print


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How readers are to reach the nodes behind one listener: by a port each, or by a server name each (`sni`)."""

    table: Path
    host: str = ""
    """Where the ports are bound."""
    ports: range = range(0)
    advertise: str = ""
    """What readers are told in place of `host`."""
    sni: str = ""
    """A host with `{id}` in it; empty where nodes have ports."""
    sni_port: int = 0
    """The port that goes with it; 0 is that of the listener."""

    @property
    def slots(self) -> int:
        return MOST_NODES if self.sni else len(self.ports)

    @property
    def descriptors(self) -> int:
        """How many are held for the ports: one each, two where the host is a name that may mean both families."""
        return len(self.ports) * (1 if re.fullmatch(r"[0-9.]+|.*:.*", self.host) else 2)


def is_served(node: Node) -> bool:
    """Whether a node can be in the table at all."""
    host = node.host
    is_name = 0 < len(host) <= HOST_LIMIT and host.isascii() and host.isprintable()
    return is_name and 0 <= node.id <= LAST_ID and 0 < node.port <= LAST_PORT


def seated(found: Seats, held: Seats, named: Iterable[Node], slots: int) -> dict[int, Seat]:
    """All seats: those of the file first, then those that memory alone has, then nodes that were named.

    What was named has its newest address. A node that finds no slot is missing.
    """
    seats = {number: seat for number, seat in found.items() if seat.slot < slots}
    lost = [seat.node for number, seat in found.items() if number not in seats]
    taken = {seat.slot for seat in seats.values()}
    for number, seat in held.items():
        if number not in seats and seat.slot < slots and seat.slot not in taken:
            seats[number] = seat
            taken.add(seat.slot)
    newest = {node.id: node for node in named}
    for number, node in newest.items():
        if number in seats:
            seats[number] = Seat(node, seats[number].slot)
    wanting = {node.id: node for node in (*lost, *(seat.node for seat in held.values())) if node.id not in seats}
    wanting |= {number: node for number, node in newest.items() if number not in seats}
    late = []
    for number in sorted(wanting):  # every one with its own slot first, so that nobody's place hangs on who came first
        if number % slots in taken:
            late.append(number)
        else:
            seats[number] = Seat(wanting[number], number % slots)
            taken.add(number % slots)
    for number in late:
        slot = next((each % slots for each in range(number, number + slots) if each % slots not in taken), None)
        if slot is not None:
            seats[number] = Seat(wanting[number], slot)
            taken.add(slot)
    return seats


class Table:
    """The file, as one process sees it. One thread at a time."""

    def __init__(self, path: Path, slots: int) -> None:
        self.path = path
        self._slots = slots

    def open(self) -> Found:
        """What it holds, once it is proven that it can be written; a file is there afterwards.

        Raises:
            TableError: it is damaged, or cannot be read or written.
        """
        with self._locked():
            found = self._read()
            seats = seated(found or {}, {}, (), self._slots)
            if found != seats:
                self._write(seats)
            else:
                self._new(b"").unlink()
            return Found(seats, self.look())

    def take(self, held: Seats, named: Iterable[Node]) -> Found:
        """Seats for all that is held and named, in the file as well.

        Raises:
            TableError: it is damaged, or cannot be read or written. It is as it was.
        """
        with self._locked():
            found = self._read()
            seats = seated(found or {}, held, named, self._slots)
            if found != seats:
                self._write(seats)
            return Found(seats, self.look())

    def look(self) -> Print:
        """What it looks like from outside: whoever has put a new one there has changed that."""
        return fingerprint([self.path])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            own = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as failed:
            raise self._error("cannot be locked", failed) from None
        try:
            fcntl.flock(own, fcntl.LOCK_EX)
            yield
        except OSError as failed:
            raise self._error("cannot be written", failed) from None
        finally:
            os.close(own)

    def _error(self, what: str, failed: OSError) -> TableError:
        return TableError(f"the node table {self.path} {what}: {failed.strerror or type(failed).__name__}")

    def _read(self) -> dict[int, Seat] | None:
        """None where there is no file.

        Raises:
            TableError: it is damaged, or cannot be read.
        """
        try:
            found = self.path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise TableError(f"the node table {self.path} is not a file")
            data = self.path.read_bytes() if found.st_size <= FILE_BYTES else b""
        except FileNotFoundError:
            return None
        except OSError as failed:
            raise self._error("cannot be read", failed) from None
        try:
            return _parsed(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise TableError(f"the node table {self.path} is damaged: mend it, or move it away") from None

    def _write(self, seats: Seats) -> None:
        """
        Raises:
            OSError: it could not be written, and is as it was.
        """
        told = [
            {"id": seat.node.id, "slot": seat.slot, "host": seat.node.host, "port": seat.node.port}
            for _, seat in sorted(seats.items())
        ]
        new = self._new(json.dumps({"version": VERSION, "nodes": told}, indent=1).encode("ascii") + b"\n")
        new.replace(self.path)
        with suppress(OSError):  # the folder of a file system that cannot be synced
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _new(self, data: bytes) -> Path:
        """A whole file beside the table.

        Raises:
            OSError: it could not be written.
        """
        path = self.path.with_name(f"{self.path.name}.new")
        try:
            with path.open("wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
        return path


def _parsed(told: Any) -> dict[int, Seat]:
    """
    Raises:
        KeyError, TypeError, ValueError: it is no table.
    """
    if set(told) != {"version", "nodes"} or told["version"] != VERSION or not isinstance(told["nodes"], list):
        raise ValueError
    seats: dict[int, Seat] = {}
    for each in told["nodes"]:
        if set(each) != {"id", "slot", "host", "port"} or not isinstance(each["host"], str):
            raise ValueError
        number, slot, port = (each[key] for key in ("id", "slot", "port"))
        if not all(type(count) is int for count in (number, slot, port)):
            raise ValueError
        seat = Seat(Node(number, each["host"], port), slot)
        if not is_served(seat.node) or not 0 <= slot < MOST_NODES or number in seats:
            raise ValueError
        seats[number] = seat
    if len({seat.slot for seat in seats.values()}) != len(seats):
        raise ValueError
    return seats
