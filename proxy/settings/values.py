"""The kinds of value a config holds, each with its reader.

A value comes as YAML gave it (text, a number, true or false), as `Odd` where YAML's readers disagree on what
it is, or as `FromEnvironment`, which is text whatever it looks like. What is raised completes a sentence that
begins with the key: "listen" + "must be …".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated
from urllib import parse

from pydantic import BeforeValidator, WithJsonSchema

from proxy.runtime.nodetable import HOST_LIMIT, LAST_ID, LAST_PORT, MOST_NODES
from proxy.runtime.secret import RedisUrl, Secret
from proxy.runtime.upstream import Address
from rules.store.document import quote

NAME_LIMIT = 256
_SIZE = re.compile(r"([0-9]{1,12})\s?(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_SPANS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")  # a variable that a secret is taken from
_FROM_FILE = "file:"
_SECRET_BYTES = 64 * 1024  # a longer file is none
REDIS_PORT = 6379
_LAST_DATABASE = 2**31 - 1
_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")

_WEB_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*(?::[0-9]{1,5})?")
_WEB_PORTS = {"http": 80, "https": 443}
_PORTS = re.compile("([0-9]{1,5})(?:-([0-9]{1,5}))?")


class Odd:
    """A scalar without quotes that some reader of YAML takes for something else than text."""

    def __init__(self, text: str) -> None:
        self.text = text


class FromEnvironment(str):
    """A value of an environment variable."""

    __slots__ = ()


def _said(value: object) -> str:
    match value:
        case Odd():
            return f", and {quote(value.text)} is text only when quoted" if value.text else ", and there is nothing"
        case bool():
            return f", not {str(value).lower()}"
        case int():
            return f", not {value}"
        case str():
            return f", not {quote(value)}"
        case list():
            return ", not a list"
        case _:
            return ", not a mapping"


def read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text" + _said(value))
    if not value.strip():
        raise ValueError("is empty")
    return str(value)


def read_name(value: object) -> str:
    text = read_text(value)
    if not text.isprintable():
        raise ValueError("holds a character that no name may hold")
    if len(text) > NAME_LIMIT:
        raise ValueError(f"is longer than {NAME_LIMIT} characters")
    return text


def read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, FromEnvironment) and value in ("true", "false"):
        return value == "true"
    raise ValueError("must be true or false" + _said(value))


def read_switch(value: object) -> bool:
    """A flag that may be written `on` and `off` too."""
    text = value.text if isinstance(value, Odd) else value
    if text in ("on", "off") and not isinstance(text, bool):
        return text == "on"
    return read_flag(value)


def read_count(value: object) -> int:
    if isinstance(value, FromEnvironment) and re.fullmatch("[0-9]{1,12}", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a number" + _said(value))
    return value


def read_size(value: object) -> int:
    """Bytes."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a size such as 64MiB" + _said(value))
    return int(found[1]) * _UNITS[found[2]]


def read_duration(value: object) -> float:
    """Seconds; 0 is never."""
    if (isinstance(value, int) and not isinstance(value, bool) and value == 0) or value == "0":
        return 0.0
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration such as 30s or 10m, or 0" + _said(value))
    return int(found[1]) * _SPANS_S[found[2]]


def read_address(value: object) -> Address:
    """`host:port`, `[::1]:port`."""
    text = read_text(value).strip()
    bad = ValueError(f"must be host:port, such as 127.0.0.1:6379 or [::1]:6379, not {quote(text)}")
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > LAST_PORT:
        raise bad
    try:
        return Address(_host(host), int(port))
    except ValueError:
        raise bad from None


def _host(text: str) -> str:
    """
    Raises:
        ValueError: neither a name nor an address; one of IPv6 stands in brackets.
    """
    if text.startswith("[") and text.endswith("]"):
        ipaddress.IPv6Address(text[1:-1])
        return text[1:-1]
    if not _HOST.fullmatch(text):
        raise ValueError
    if re.fullmatch("[0-9.]+", text):
        ipaddress.IPv4Address(text)
    return text


def read_host(value: object) -> str:
    """`kafka.example`, `127.0.0.1`, `::1` or `[::1]`."""
    text = read_text(value).strip()
    try:
        return _host(f"[{text}]" if ":" in text and not text.startswith("[") else text)
    except ValueError:
        raise ValueError(f"must be a host, such as 127.0.0.1 or kafka.example, not {quote(text)}") from None


def read_ports(value: object) -> range:
    """`19100-19149`, or one port."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    found = _PORTS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("must be a range of ports such as 19100-19149" + _said(value))
    first, last = int(found[1]), int(found[2] or found[1])
    if not 0 < first <= last <= LAST_PORT:
        raise ValueError(f"must be ports from 1 to {LAST_PORT}, the lower one first" + _said(value))
    if last - first >= MOST_NODES:
        raise ValueError(f"must be at most {MOST_NODES} ports" + _said(value))
    return range(first, last + 1)


def read_sni(value: object) -> str:
    """A host with `{id}` in it, where the number of a node stands."""
    text = read_text(value).strip()
    if text.count("{id}") != 1:
        raise ValueError("must hold {id} once, such as b{id}.kafka.example" + _said(value))
    longest = text.replace("{id}", str(LAST_ID))
    if not _HOST.fullmatch(longest) or re.fullmatch("[0-9.]+", longest) or len(longest) > HOST_LIMIT:
        raise ValueError("must be a host name, such as b{id}.kafka.example" + _said(value))
    return text


class Servers(tuple[Address, ...]):  # noqa: SLOT001 - a tuple can have no slots
    """Addresses of one broker, in the order in which they are tried; `scheme` is http or https where they are URLs."""

    scheme = ""


def read_upstream(value: object) -> Servers:
    """Addresses or URLs, comma separated."""
    parts = read_text(value).split(",")
    found = [_server(part) if "://" in part else ("", read_address(part)) for part in parts]
    servers = Servers(address for _, address in found)
    servers.scheme = found[0][0]
    if any(scheme != servers.scheme for scheme, _ in found):
        raise ValueError("must be all of http://, all of https://, or all of host:port")
    if any(address.port == 0 for address in servers):
        raise ValueError("needs a port above 0")
    return servers


def read_url(value: object) -> Servers:
    """One URL of an HTTP server."""
    servers = read_upstream(value)
    if not servers.scheme or len(servers) != 1:
        raise _NO_URL
    return servers


_NO_URL = ValueError("must be http://host:port or https://host:port, without a user, path or query")


def _server(text: str) -> tuple[str, Address]:
    """The scheme and the address of an HTTP server; what is wrong is told without repeating it: it may hold a password."""
    try:
        told = parse.urlsplit(text.strip())
        host, port = told.hostname, told.port
    except ValueError:
        raise _NO_URL from None
    spelled = told.netloc.rpartition("]")[2] if told.netloc.startswith("[") else told.netloc
    if told.scheme not in _WEB_PORTS or not host or told.path not in ("", "/") or "?" in text or "#" in text or "@" in text:
        raise _NO_URL
    if spelled.endswith(":"):
        raise _NO_URL
    port = _WEB_PORTS[told.scheme] if port is None else port
    try:
        return told.scheme, read_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except ValueError:
        raise _NO_URL from None


def read_web_host(value: object) -> str:
    """A name that readers call Veil by, with or without its port."""
    text = read_text(value).strip()
    if not _WEB_HOST.fullmatch(text):
        raise ValueError("must be a host, such as veil.example or veil.example:15674" + _said(value))
    return text


def read_network(value: object) -> IPv4Network | IPv6Network:
    """`10.0.0.0/8`, or one address."""
    text = read_text(value).strip()
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"must be addresses such as 10.0.0.0/8 or 127.0.0.1/32, not {quote(text)}") from None


@dataclass(frozen=True, slots=True)
class SecretSources:
    """Where secrets are taken from while a config is read: its variables, and the folder its paths start from."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path = Path()


_SOURCES: ContextVar[SecretSources] = ContextVar("sources of secrets", default=SecretSources())  # noqa: B039 - frozen


@contextmanager
def secrets_from(environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    """What `read_secret` resolves with, inside the block."""
    token = _SOURCES.set(SecretSources(environment, folder))
    try:
        yield
    finally:
        _SOURCES.reset(token)


def _from_file(path: str) -> str:
    """The text of a secret's file without its last line end. What is wrong is told without what it holds."""
    if not path.strip():
        raise ValueError("names no file after file:")
    try:
        with (_SOURCES.get().folder / path).open("rb") as opened:
            data = opened.read(_SECRET_BYTES + 1)
    except (OSError, ValueError) as failed:
        reason = failed.strerror if isinstance(failed, OSError) else None
        raise ValueError(f"is to be read from a file that cannot be read: {reason or type(failed).__name__}") from None
    if len(data) > _SECRET_BYTES:
        raise ValueError("is to be read from a file that is too long for a secret")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("is to be read from a file that is not text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _from_environment(name: str) -> str:
    value = _SOURCES.get().environment.get(name)
    if not value:
        raise ValueError(f"refers to the variable {name}, which is {'empty' if value == '' else 'not set'}")
    return value


def _resolved(value: object, *, inside_url: bool) -> str:
    """The text with its references replaced.

    Inside a URL what a variable holds is escaped, so that a password cannot end the part it stands in; a URL that
    comes from one variable or file as a whole is taken as it is.
    """
    if not isinstance(value, str):
        raise ValueError("must be text")  # never with what it is: it may be half a secret
    if not value.strip():
        raise ValueError("is empty")
    text = str(value)
    whole = REFERENCE.fullmatch(text)
    if text.startswith(_FROM_FILE):
        found = _from_file(text.removeprefix(_FROM_FILE))
    elif whole is not None:
        found = _from_environment(whole[1])
    elif inside_url:
        found = REFERENCE.sub(lambda match: parse.quote(_from_environment(match[1]), safe=""), text)
    else:
        found = REFERENCE.sub(lambda match: _from_environment(match[1]), text)
    if not found.strip():
        raise ValueError("is empty")
    if not found.isprintable():
        raise ValueError("holds a character that no secret or URL may hold")
    return found


def read_secret(value: object) -> Secret:
    """A text, `${NAME}` for a variable's or `file:PATH` for a file's."""
    return Secret(_resolved(value, inside_url=False))


def read_redis_url(value: object) -> RedisUrl:
    """`redis://user:password@host:port/database`; what is wrong is told without repeating any of it."""
    text = _resolved(value, inside_url=True)
    bad = ValueError("must be redis://host:port/database or rediss://…, with user:password@ before the host where needed")
    try:
        told = parse.urlsplit(text)
        host, port = told.hostname, told.port
        user, password = (
            None if each is None else parse.unquote(each, errors="strict") for each in (told.username, told.password)
        )
    except ValueError:
        raise bad from None
    if told.scheme not in ("redis", "rediss") or not host or told.query or told.fragment:
        raise bad
    database = told.path.removeprefix("/") or "0"
    if not re.fullmatch("[0-9]{1,10}", database) or int(database) > _LAST_DATABASE:
        raise bad
    try:
        address = read_address(f"[{host}]:{port or REDIS_PORT}" if ":" in host else f"{host}:{port or REDIS_PORT}")
    except ValueError:
        raise bad from None
    if port == 0 or (user and password is None):
        raise bad
    return RedisUrl(address, int(database), user or None, Secret(password) if password else None, tls=told.scheme == "rediss")


def refuse_not_yet(_value: object) -> None:
    raise ValueError("is not carried out by this version")


_TEXT = WithJsonSchema({"type": "string", "minLength": 1})
Text = Annotated[str, BeforeValidator(read_text), _TEXT]
Name = Annotated[str, BeforeValidator(read_name), _TEXT]
Flag = Annotated[bool, BeforeValidator(read_flag), WithJsonSchema({"type": "boolean"})]
Switch = Annotated[
    bool, BeforeValidator(read_switch), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["on", "off"]}]})
]
Count = Annotated[int, BeforeValidator(read_count), WithJsonSchema({"type": "integer"})]
Size = Annotated[int, BeforeValidator(read_size), WithJsonSchema({"type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB)$"})]
Duration = Annotated[
    float,
    BeforeValidator(read_duration),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d)|0)$"}, {"const": 0}]}),
]
Listen = Annotated[Address, BeforeValidator(read_address), WithJsonSchema({"type": "string", "pattern": ":[0-9]+$"})]
Upstreams = Annotated[
    Servers, BeforeValidator(read_upstream), WithJsonSchema({"type": "string", "pattern": "^https?://|:[0-9]+$"})
]
Url = Annotated[Servers, BeforeValidator(read_url), WithJsonSchema({"type": "string", "pattern": "^https?://"})]
WebHost = Annotated[str, BeforeValidator(read_web_host), _TEXT]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(read_network), _TEXT]
Host = Annotated[str, BeforeValidator(read_host), _TEXT]
Ports = Annotated[
    range,
    BeforeValidator(read_ports),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
                {"type": "integer", "minimum": 1, "maximum": LAST_PORT},
            ]
        }
    ),
]
Sni = Annotated[str, BeforeValidator(read_sni), WithJsonSchema({"type": "string", "pattern": r"^[^{}]*\{id\}[^{}]*$"})]
SecretText = Annotated[Secret, BeforeValidator(read_secret), _TEXT]
RedisAt = Annotated[
    RedisUrl, BeforeValidator(read_redis_url), WithJsonSchema({"type": "string", "pattern": r"^(rediss?://|file:|\$\{)"})
]
NotYet = Annotated[
    None, BeforeValidator(refuse_not_yet), WithJsonSchema({"not": {}, "description": "Not carried out by this version."})
]
