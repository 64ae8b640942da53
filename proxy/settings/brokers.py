"""What the config says of the nodes behind a listener (`brokers`), and of tokens: what makes no sense, which ports are
meant, and what the runtime is told.

A value is read by the model as well, which says what is wrong with its shape; here that is passed over.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from proxy.core.session import ProtocolEntry
from proxy.runtime.nodetable import LAST_PORT, NodeSettings
from proxy.runtime.upstream import Address, meant
from rules.store.document import quote

from .model import BrokersSection, Configuration, ConnectionSection, ListenerSection
from .values import read_address, read_host, read_ports

DEFAULT_PORTS = 16  # behind the listener's own: three or five nodes are common, and numbers often start at 1 or at 101
TABLE_NAME = re.compile("[A-Za-z0-9_.-]{1,100}")

Loc = tuple[str | int, ...]
Told = Iterator[tuple[Loc, str]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """Ports of nodes, and where the config says so."""

    loc: Loc
    host: str
    ports: range

    def meets(self, address: Address) -> bool:
        """Whether the address is one of them, as far as spelling tells. What is bound everywhere meets all hosts."""
        return address.port in self.ports and _meet(self.host, address.host)

    def overlap(self, other: Span) -> Address | None:
        """The first address that is of both."""
        first = max(self.ports.start, other.ports.start)
        both = first < min(self.ports.stop, other.ports.stop) and _meet(self.host, other.host)
        return Address(self.host, first) if both else None

    def is_upstream(self, address: Address) -> bool:
        """Whether a connection to the address would arrive at one of them."""
        return address.port in self.ports and not meant(self.host).isdisjoint(meant(address.host))


def _meet(one: str, other: str) -> bool:
    return _is_wildcard(one) or _is_wildcard(other) or not meant(one).isdisjoint(meant(other))


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def default_ports(listen: Address) -> range:
    return range(listen.port + 1, listen.port + 1 + DEFAULT_PORTS)


def meaning(listener: dict[str, Any], loc: Loc, protocol: ProtocolEntry | None) -> Told:
    """What does not fit together in one listener, whether or not the shape was right. No `protocol`: none with nodes."""
    name = str(listener.get("protocol"))
    if "token_claim" in listener and (protocol is None or not protocol.has_tokens):
        yield (*loc, "token_claim"), f'"token_claim" goes with logins by bearer token: {name} has none'
    if protocol is None or not protocol.has_nodes:
        if "brokers" in listener:
            yield (*loc, "brokers"), f'"brokers" goes with protocols whose servers name each other: {name} is none'
        return
    brokers = listener.get("brokers", {})
    if not isinstance(brokers, dict):
        return
    at = (*loc, "brokers")
    if "sni" in brokers:
        for key in ("listen", "ports", "advertise"):
            if key in brokers:
                yield (*at, key), f'"{key}" stands beside "sni": nodes have ports or names, not both'
        if "tls" not in listener:
            yield (*at, "sni"), '"sni" needs "tls" on the listener: a server name is asked for there alone'
        return
    if "port" in brokers:
        yield (*at, "port"), '"port" goes with "sni" alone; the ports of nodes are "ports"'
    yield from _ports(listener, brokers, loc)
    yield from _advertised(listener, brokers, loc)


def _ports(listener: dict[str, Any], brokers: dict[str, Any], loc: Loc) -> Told:
    listen = _read(read_address, listener.get("listen"))
    if "ports" in brokers or listen is None:
        return
    where = (*loc, "brokers" if brokers else "listen")
    if listen.port == 0:
        yield where, "`brokers: {ports: …}` is needed, since the listener has no port of its own to count from"
    elif default_ports(listen).stop - 1 > LAST_PORT:
        yield where, f"`brokers: {{ports: …}}` is needed, since there are not {DEFAULT_PORTS} ports behind {listen.port}"


def _advertised(listener: dict[str, Any], brokers: dict[str, Any], loc: Loc) -> Told:
    where, host = (*loc, "brokers", "advertise"), _read(read_host, brokers.get("advertise"))
    if "advertise" not in brokers and "listen" in brokers:
        where, host = (*loc, "brokers", "listen"), _read(read_host, brokers["listen"])
    elif "advertise" not in brokers:
        listen = _read(read_address, listener.get("listen"))
        where, host = (*loc, "listen"), None if listen is None else listen.host
    if host is not None and _is_wildcard(host):
        yield where, f"`brokers: {{advertise: HOST}}` is needed: readers cannot be told to connect to {quote(host)}"


def span_of(listener: dict[str, Any], loc: Loc, protocol: ProtocolEntry | None) -> Span | None:
    """The ports that nodes behind the listener have; None where there are none, or none that can be read."""
    brokers = listener.get("brokers", {})
    listen = _read(read_address, listener.get("listen"))
    if protocol is None or not protocol.has_nodes or not isinstance(brokers, dict) or "sni" in brokers or listen is None:
        return None
    host = _read(read_host, brokers["listen"]) if "listen" in brokers else listen.host
    if "ports" in brokers:
        ports, where = _read(read_ports, brokers["ports"]), (*loc, "brokers", "ports")
    else:
        ports, where = (default_ports(listen) if listen.port else None), (*loc, "listen")
    return None if host is None or ports is None else Span(where, host, ports)


def overlaps(spans: Sequence[Span], listening: Sequence[Address]) -> Told:
    """Ports of nodes that something else listens on, each range once."""
    for number, span in enumerate(spans):
        others = [Address(span.host, each.port) for each in listening if span.meets(each)]
        others += [each for earlier in spans[:number] if (each := span.overlap(earlier)) is not None]
        if others:
            first = min(others, key=lambda each: each.port)
            yield span.loc, f"{first}, a port for nodes ({span.ports.start}-{span.ports.stop - 1}), is listened on already"


def _read(reader: Callable[[object], T], value: object) -> T | None:
    try:
        return reader(value)
    except ValueError:
        return None  # its shape is told by the model


def node_settings(configuration: Configuration, connection: ConnectionSection, listener: ListenerSection) -> NodeSettings:
    """How the nodes behind a listener are reached, of a config that was found good."""
    brokers = listener.brokers or BrokersSection()
    table = table_path(configuration, connection, listener)
    if brokers.sni is not None:
        return NodeSettings(table, sni=brokers.sni, sni_port=brokers.port or 0)
    host = brokers.listen or listener.listen.host
    ports = brokers.ports or default_ports(listener.listen)
    return NodeSettings(table, host, ports, brokers.advertise or host)


def table_path(configuration: Configuration, connection: ConnectionSection, listener: ListenerSection) -> Path:
    """The file that keeps which node has which port: what lies beside it is Veil's own as well."""
    if listener.brokers is not None and listener.brokers.table is not None:
        return configuration.file.parent / listener.brokers.table
    audit = configuration.settings.audit.file
    folder = configuration.file.parent if audit is None else configuration.audit_path.parent
    name = connection.name
    if not TABLE_NAME.fullmatch(name):
        name = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return folder / f"nodes-{name}-{listener.listen.port}.json"


def tables(configuration: Configuration, has_nodes: Callable[[str], bool]) -> Told:
    """Tables that can never be written, or that two listeners would share: each has ports of its own."""
    seen: set[Path] = set()
    for number, connection in enumerate(configuration.settings.connections):
        for count, listener in enumerate(connection.listeners):
            if not has_nodes(listener.protocol):
                continue
            path = table_path(configuration, connection, listener)
            loc: Loc = ("connections", number, "listeners", count, "brokers", "table")
            try:
                if path.is_dir():
                    yield loc, f"{quote(str(path))} is a directory; name a file"
                elif not path.parent.is_dir():
                    yield loc, f"the directory {quote(str(path.parent))} does not exist"
            except (OSError, ValueError):
                yield loc, f"{quote(str(path))} cannot be looked at"
            if path in seen:
                yield loc, f"the table {quote(str(path))} is another listener's already"
            seen.add(path)
