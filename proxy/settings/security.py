"""What the config says of TLS and of readers who are known by a certificate: what makes no sense, what the files
hold, and what is allowed and yet not safe."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from proxy.runtime.clock import utc_seconds
from proxy.runtime.tls import Loaded, Part, TlsError, load_client, load_server

from .model import Configuration, ListenerSection

Loc = tuple[str | int, ...]
Told = Iterator[tuple[Loc, str]]


def meaning(connection: dict[str, Any], loc: Loc) -> Told:
    """What does not fit together in one connection, whether or not the shape was right."""
    reader = connection.get("reader")
    listed = connection.get("listeners")
    listeners = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if isinstance(reader, dict):
        yield from _reader(reader, (*loc, "reader"), listeners)
    for number, listener in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(listener, dict):
            yield from _tls(listener.get("tls"), (*loc, "listeners", number, "tls"))
            yield from _both(listener.get("upstream_tls"), (*loc, "listeners", number, "upstream_tls"))


def _reader(reader: dict[str, Any], loc: Loc, listeners: list[dict[str, Any]]) -> Told:
    source = reader.get("from", "protocol")
    if source not in ("certificate", "header") and "name" in reader:
        yield (*loc, "name"), '"name" goes with `from: certificate` or `from: header` alone'
    if source != "certificate":
        return
    for each in listeners:
        tls = each.get("tls")
        if not isinstance(tls, dict) or "client_ca" not in tls:
            listen = each.get("listen")
            which = f"the one at {listen} has none" if isinstance(listen, str) else "one has none"
            yield (*loc, "from"), f"a reader from a certificate needs `tls: {{client_ca: …}}` on every listener, and {which}"


def _tls(tls: object, loc: Loc) -> Told:
    if not isinstance(tls, dict):
        return
    if "certificates" in tls:
        for key in ("certificate", "key"):
            if key in tls:
                yield (*loc, key), f'"{key}" stands beside "certificates": give one or the other'
    else:
        for key in ("certificate", "key"):
            if key not in tls:
                yield loc, f'"{key}" is missing'
    if "key_password" in tls and "key" not in tls:
        yield (*loc, "key_password"), '"key_password" needs "key" beside it'
    if "client_certificates" in tls and "client_ca" not in tls:
        yield (*loc, "client_certificates"), '"client_certificates" needs "client_ca"'


def _both(tls: object, loc: Loc) -> Told:
    if not isinstance(tls, dict):
        return
    for key, other in (("certificate", "key"), ("key", "certificate")):
        if key in tls and other not in tls:
            yield loc, f'"{other}" is missing'
    if "key_password" in tls and "key" not in tls:
        yield (*loc, "key_password"), '"key_password" needs "key" beside it'


def problems(configuration: Configuration) -> Told:
    """What is wrong with the files of TLS. Reads them."""
    for at, listener in _listeners(configuration):
        server, client = configuration.server_files(listener), configuration.client_files(listener)
        try:
            if server is not None:
                load_server(server)
        except TlsError as bad:
            for problem in bad.problems:
                yield (*at, "tls", *_key(problem.part, listener)), str(problem)
        try:
            if client is not None:
                load_client(client)
        except TlsError as bad:
            for problem in bad.problems:
                yield (*at, "upstream_tls", *_key(problem.part, listener)), str(problem)


def _key(part: Part, listener: ListenerSection) -> Loc:
    """The key of the config that named a file."""
    match part:
        case ("pairs", int() as number, key):
            in_list = listener.tls is not None and listener.tls.certificates is not None
            return ("certificates", number, key) if in_list else (key,)
        case _:
            return (part[-1],)


def warnings(configuration: Configuration) -> Told:
    """What `veil check` warns of."""
    for at, listener in _listeners(configuration):
        server, client = configuration.server_files(listener), configuration.client_files(listener)
        if client is not None and not client.verify:
            message = "the upstream's certificate is not verified, so that anybody can pass for it and read what is sent"
            yield (*at, "upstream_tls", "verify"), message
        try:
            if server is not None:
                yield from _expired(load_server(server), (*at, "tls"))
            if client is not None:
                yield from _expired(load_client(client), (*at, "upstream_tls"))
        except TlsError:
            continue  # a problem, and told as one


def _expired(loaded: Loaded, loc: Loc) -> Told:
    for path, until_s in loaded.expiries:
        if until_s <= utc_seconds():
            yield loc, f"the certificate {path} expired on {datetime.fromtimestamp(until_s, UTC):%Y-%m-%d}"


def _listeners(configuration: Configuration) -> Iterator[tuple[Loc, ListenerSection]]:
    for number, connection in enumerate(configuration.settings.connections):
        for count, listener in enumerate(connection.listeners):
            yield ("connections", number, "listeners", count), listener
