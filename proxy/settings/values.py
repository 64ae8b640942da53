"""The kinds of value a config holds, each with its reader.

A value comes as YAML gave it (text, a number, true or false), as `Odd` where YAML's readers disagree on what
it is, or as `FromEnvironment`, which is text whatever it looks like. What is raised completes a sentence that
begins with the key: "listen" + "must be …".
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from proxy.runtime.upstream import Address
from rules.store.document import quote

NAME_LIMIT = 256
LAST_PORT = 65535
_SIZE = re.compile(r"([0-9]{1,12})\s?(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_SPANS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")


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
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise bad from None
    elif not _HOST.fullmatch(host):
        raise bad
    elif re.fullmatch("[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise bad from None
    return Address(host, int(port))


def read_upstream(value: object) -> tuple[Address, ...]:
    """Addresses, comma separated."""
    addresses = tuple(read_address(part) for part in read_text(value).split(","))
    for address in addresses:
        if address.port == 0:
            raise ValueError("needs a port above 0")
    return addresses


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
    tuple[Address, ...], BeforeValidator(read_upstream), WithJsonSchema({"type": "string", "pattern": ":[0-9]+$"})
]
NotYet = Annotated[
    None, BeforeValidator(refuse_not_yet), WithJsonSchema({"not": {}, "description": "Not carried out by this version."})
]
