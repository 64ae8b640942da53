"""What the config says of HTTP: servers by their URL, the names of a listener, readers named by a header, and a login of
Veil's own. What makes no sense, and what is allowed and yet not safe.

A value is read by the model as well, which says what is wrong with its shape; here that is passed over.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from proxy.core.session import HeaderReader, SessionSettings
from proxy.runtime.tls import SOURCES
from rules.model import Platform
from rules.store.document import quote
from rules.store.values import near

from .model import Configuration, ConnectionSection, ListenerSection
from .values import read_upstream, read_url

Loc = tuple[str | int, ...]
Told = Iterator[tuple[Loc, str]]
HasHeaders = Callable[[object], bool]

_HEADER = re.compile("[A-Za-z0-9-]{1,64}")
TAKEN = frozenset(
    {
        "accept",
        "accept-language",
        "authorization",
        "connection",
        "cookie",
        "expect",
        "host",
        "origin",
        "te",
        "upgrade",
        "user-agent",
    }
)  # headers that mean something else already


def meaning(connection: dict[str, Any], loc: Loc, has_headers: HasHeaders) -> Told:
    """What does not fit together in one connection, whether or not the shape was right."""
    listed = connection.get("listeners")
    listeners = [
        ((*loc, "listeners", number), each)
        for number, each in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(each, dict)
    ]
    for at, listener in listeners:
        yield from _upstream(listener, at, has_headers)
        if "hosts" in listener and not has_headers(listener.get("protocol")):
            yield (*at, "hosts"), f'"hosts" goes with protocols over HTTP: {listener.get("protocol")} is none'
    if isinstance(connection.get("reader"), dict):
        yield from _reader(connection["reader"], (*loc, "reader"), [each for _, each in listeners], has_headers)
    if isinstance(connection.get("management"), dict):
        yield from _management(connection, (*loc, "management"), [each for _, each in listeners], has_headers)


def _upstream(listener: dict[str, Any], loc: Loc, has_headers: HasHeaders) -> Told:
    name = listener.get("protocol")
    try:
        servers = read_upstream(listener.get("upstream"))
    except ValueError:
        return
    if not has_headers(name):
        if servers.scheme:
            yield (*loc, "upstream"), f'"upstream" must be host:port: {name} is not spoken over HTTP'
    elif not servers.scheme:
        yield (*loc, "upstream"), f'"upstream" must be http://host:port or https://host:port: {name} is spoken over HTTP'
    elif servers.scheme == "http" and "upstream_tls" in listener:
        yield (*loc, "upstream_tls"), '"upstream_tls" needs an upstream of https://'


def _reader(reader: dict[str, Any], loc: Loc, listeners: list[dict[str, Any]], has_headers: HasHeaders) -> Told:
    if reader.get("from", "protocol") != "header":
        name = reader.get("name")
        if isinstance(name, str) and name not in SOURCES:
            yield (*loc, "name"), f'"name" cannot be {quote(name)}{near(name, SOURCES)}'
        if "trusted" in reader:
            yield (*loc, "trusted"), '"trusted" goes with `from: header` alone'
        return
    named = {each["protocol"] for each in listeners if isinstance(each.get("protocol"), str)}
    without = sorted(each for each in named if not has_headers(each))
    if without or not listeners:
        yield (*loc, "from"), f'"from" cannot be "header": {" and ".join(without) or "the protocol"} has no headers'
        return  # the keys that go with it are no mistakes of their own
    for key in ("name", "trusted"):
        if key not in reader:
            yield loc, f'a reader from a header needs "{key}"'
    name = reader.get("name")
    if isinstance(name, str) and not _HEADER.fullmatch(name):
        yield (*loc, "name"), '"name" must be a header, of letters, digits and -'
    elif isinstance(name, str) and (name.lower() in TAKEN or name.lower().startswith(("content-", "transfer-", "sec-"))):
        yield (*loc, "name"), f'"name" cannot be {quote(name)}, which means something else already'


def _management(connection: dict[str, Any], loc: Loc, listeners: list[dict[str, Any]], has_headers: HasHeaders) -> Told:
    platform = connection.get("platform")
    if platform != Platform.RABBITMQ:
        yield loc, f'"management" goes with the platform rabbitmq, not {quote(str(platform))}'
        return
    try:
        url = read_url(connection["management"].get("url"))
    except ValueError:
        return
    for listener in listeners:
        if not has_headers(listener.get("protocol")):
            continue
        try:
            servers = read_upstream(listener.get("upstream"))
        except ValueError:
            continue
        if servers.scheme and (url.scheme != servers.scheme or set(servers) - set(url)):
            told = "its login goes there as well, and must not go to another server"
            yield (*loc, "url"), f'"url" must be the upstream of the listener at {listener.get("listen")}: {told}'


def warnings(configuration: Configuration) -> Told:
    """What `veil check` warns of."""
    loopback = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
    for number, connection in enumerate(configuration.settings.connections):
        trusted = connection.reader.trusted or ()
        if not any(each.version == own.version and each.overlaps(own) for each in trusted for own in loopback):
            continue
        for listener in connection.listeners:
            if listener.tls is None:
                told = (
                    f"whoever is on this machine may name any reader at {listener.listen}, which has no TLS and trusts loopback"
                )
                yield ("connections", number, "reader", "trusted"), told


def session_settings(connection: ConnectionSection, listener: ListenerSection, given: SessionSettings) -> SessionSettings:
    """What the sessions of a listener are told of HTTP, added to what they are told of the rest."""
    servers = listener.upstream
    if not servers.scheme:
        return given
    names = dict.fromkeys([listener.listen.host.lower(), *(each.lower() for each in listener.hosts or ())])
    management, reader = connection.management, connection.reader
    return replace(
        given,
        upstream=str(servers[0]),
        names=tuple(names),
        login=None if management is None else (management.user, management.password.reveal()),
        header=None if reader.source != "header" else HeaderReader(reader.name or "", tuple(reader.trusted or ())),
    )
