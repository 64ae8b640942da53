"""Who a request says its reader is, and by which hosts readers may call Veil."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re

from proxy.core.session import HeaderReader

from .errors import BadRequest
from .wire import Fields

NAME_CHARACTERS = 256
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")
_NUMBER = re.compile(r"[0-9.]+|\[.*\]")


def basic(name: str, password: str) -> bytes:
    """The Authorization of a Basic login."""
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


def basic_name(given: bytes | None) -> str | None:
    """The user of a Basic login; None for any other."""
    scheme, _, coded = (given or b"").partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, _ = base64.b64decode(coded.strip(), validate=True).partition(b":")
        return name.decode("utf-8") or None if colon else None
    except (binascii.Error, ValueError):
        return None


def header_name(fields: Fields, source: HeaderReader, peer: str) -> str | None:
    """Whom the header names, if it is a peer's that may say so; its spelling is the config's in any case and no other.

    Raises:
        BadRequest: a trusted peer names two, or what is no name.
    """
    if not is_trusted(peer, source):
        return None
    told = [value for name, value in fields if name == source.name.lower().encode()]
    if not told:
        return None
    try:
        name = told[0].decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if len(told) > 1 or not name.isprintable() or not 0 < len(name) <= NAME_CHARACTERS:
        raise BadRequest(400, "the header that names the reader does not name one")
    return name


def is_trusted(peer: str, source: HeaderReader) -> bool:
    """Whether the peer (`127.0.0.1:5`, `[::1]:5`) is one of those that may name readers."""
    try:
        address = ipaddress.ip_address(peer.rpartition(":")[0].strip("[]").partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in source.trusted)


def is_own(host: bytes, names: tuple[str, ...]) -> bool:
    """Whether a Host is one by which readers call Veil: a number, this machine, or a name that the config lists. A page of
    a stranger can have its own name lead here, and no number."""
    matched = _HOST.fullmatch(host.decode("latin-1").lower())
    if matched is None:
        return False
    name = matched[1]
    return name == "localhost" or _NUMBER.fullmatch(name) is not None or name in names or matched[0] in names
