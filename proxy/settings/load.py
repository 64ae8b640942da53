"""Reads veil.yaml: strict YAML, then `VEIL_…` overrides, then the shape, then what only makes sense together.

Every problem is told, each with its place in the file or with the variable it came from.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from proxy.core.errors import ConfigError
from proxy.core.session import ProtocolEntry
from proxy.runtime.upstream import Address, meant
from rules.model import Place, Problem
from rules.platforms import PLATFORMS
from rules.store import document
from rules.store.document import Node, Scalar, Sequence, Unread, quote
from rules.store.redis import Location
from rules.store.values import near

from . import brokers, security, web
from .model import Admin, Configuration, Settings
from .values import REFERENCE, FromEnvironment, Odd, read_address, read_upstream, secrets_from

EMPTY = "empty: taken for a half-finished write"
PREFIX = "VEIL_"
NOT_FOR_US = frozenset({"VEIL_BROKERS", "VEIL_REQUIRE"})  # they steer the test run, in whose environment Veil is started
PROTOCOLS: Mapping[str, tuple[str, ...]] = {str(platform): row.protocols for platform, row in PLATFORMS.items()}
_HOLDS_MORE = re.compile("[:@$/]")  # of a key: it is a value, perhaps a URL with its password, whose key is missing
_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,17}")

Loc = tuple[str | int, ...]


@dataclass(slots=True)
class _Origins:
    """Where each value and key came from: a place in the file or the name of a variable."""

    values: dict[Loc, Place | str] = field(default_factory=dict)
    keys: dict[Loc, Place | str] = field(default_factory=dict)

    def of_value(self, loc: Loc) -> Place | str:
        """The value's origin, or of what is nearest around it."""
        while loc and loc not in self.values:
            loc = loc[:-1]
        return self.values[loc]


class _Told:
    def __init__(self) -> None:
        self.problems: list[Problem | str] = []

    def tell(self, origin: Place | str, message: str) -> None:
        self.problems.append(Problem(origin, message) if isinstance(origin, Place) else f"{origin}: {message}")

    def warn(self, origin: Place | str, message: str) -> None:
        told = Problem(origin, message, warning=True) if isinstance(origin, Place) else f"{origin}: warning: {message}"
        self.problems.append(told)


def load_configuration(
    given: Path | str, environment: Mapping[str, str], carried_out: Collection[str], data: bytes | None = None
) -> Configuration:
    """The configuration of a file; `carried_out` names the protocols that this version speaks. Those of a mapping to
    entries may have nodes and tokens, others have none.

    Places spell the file as it was given. `data` is what stands in it where that was read before.

    Raises:
        ConfigError: with every problem, each one line.
    """
    path = Path(given)
    if data is None:
        data = read_file(given)
    told = _Told()
    loaded = document.load(data, str(given))
    for each in loaded.problems:  # the hint of an empty file is for rule files
        told.tell(each.place, EMPTY if each.message == document.EMPTY else each.message)
    if loaded.root is None:
        raise ConfigError(told.problems)
    origins = _Origins()
    merged = _plain(loaded.root, (), origins)
    if not isinstance(merged, dict):
        told.tell(loaded.root.place, "a config is a mapping of keys and values")
        raise ConfigError(told.problems)
    _override(merged, environment, origins, told, _references(data))
    with secrets_from(environment, path.parent):
        settings = _validate(merged, origins, told)
    for loc, message in _meaning(merged, carried_out):
        told.tell(origins.of_value(loc), message)
    if settings is not None:
        for loc, message in _paths(Configuration(settings, path)):
            told.tell(origins.of_value(loc), message)
        for loc, message in brokers.tables(Configuration(settings, path), lambda name: _has_nodes(carried_out, name)):
            told.tell(origins.of_value(loc), message)
    warned = _Told()
    if settings is not None and not told.problems:
        for loc, message in security.problems(Configuration(settings, path)):
            told.tell(origins.of_value(loc), message)
        for loc, message in (*security.warnings(Configuration(settings, path)), *web.warnings(Configuration(settings, path))):
            warned.warn(origins.of_value(loc), message)
    if told.problems or settings is None:
        raise ConfigError(_in_order(told.problems))
    return Configuration(settings, path, tuple(_in_order(warned.problems)))


def read_file(given: Path | str) -> bytes:
    """
    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return Path(given).read_bytes()
    except OSError as failed:
        reason = f"cannot be read: {failed.strerror or type(failed).__name__}"
        raise ConfigError([Problem(Place(str(given), 1, 1), reason)]) from None


def _in_order(problems: list[Problem | str]) -> list[Problem | str]:
    """By place, those of variables last; each once."""

    def key(problem: Problem | str) -> tuple[int, int, int]:
        return (1, 0, 0) if isinstance(problem, str) else (0, problem.place.line, problem.place.column)

    return sorted(dict.fromkeys(problems), key=key)


def _plain(node: Node, loc: Loc, origins: _Origins) -> Any:
    origins.values[loc] = node.place
    match node:
        case document.Mapping():
            told: dict[str, Any] = {}
            for entry in node.entries:
                at = (*loc, entry.key.text)
                origins.keys[at] = entry.key.place
                told[entry.key.text] = _plain(entry.value, at, origins)
            return told
        case Sequence():
            return [_plain(item, (*loc, number), origins) for number, item in enumerate(node.items)]
        case Unread():
            return Odd("")
        case Scalar():
            return _scalar(node)


def _scalar(node: Scalar) -> str | int | bool | Odd:
    if node.is_text:
        return node.text
    if node.text in ("true", "false"):
        return node.text == "true"
    return int(node.text) if _WHOLE_NUMBER.fullmatch(node.text) else Odd(node.text)


def _references(data: bytes) -> frozenset[str]:
    """Variables that the file itself names as `${NAME}`: secrets, which are no overrides."""
    return frozenset(REFERENCE.findall(data.decode("utf-8", "replace")))


def _override(
    merged: dict[str, Any], environment: Mapping[str, str], origins: _Origins, told: _Told, references: frozenset[str]
) -> None:
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in references | NOT_FOR_US:
            continue
        parts = variable.removeprefix(PREFIX).lower().split("__")
        if parts[0] not in Settings.model_fields:
            told.tell(variable, f"no key {quote(parts[0])} in the config{near(parts[0], Settings.model_fields)}")
            continue
        problem = _put(merged, parts, environment[variable], variable, origins)
        if problem:
            told.tell(variable, problem)


def _put(merged: dict[str, Any], parts: list[str], value: str, variable: str, origins: _Origins) -> str:
    """Puts one override in its place; comes back with what is wrong, or an empty text."""
    here: Any = merged
    loc: Loc = ()
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        key: str | int = part
        if isinstance(here, list):
            if not re.fullmatch("[0-9]{1,4}", part) or int(part) > len(here):
                return f"{quote(part)} is no place in a list of {len(here)} (they count from 0)"
            key = int(part)
        loc = (*loc, key)
        inside: Any = FromEnvironment(value) if last else _empty(parts[number + 1])
        if isinstance(here, list) and key == len(here):
            here.append(inside)
            origins.values[loc] = variable
        elif isinstance(here, dict) and (last or not isinstance(here.get(key), dict | list)):
            here[key] = inside
            origins.values[loc] = origins.keys[loc] = variable
        elif isinstance(here, list) and last:
            here[int(key)] = inside
            origins.values[loc] = variable
        here = here[key]
    return ""


def _empty(following: str) -> dict[str, Any] | list[Any]:
    return [] if following.isdigit() else {}


def _validate(merged: dict[str, Any], origins: _Origins, told: _Told) -> Settings | None:
    try:
        return Settings(**merged)
    except ValidationError as failed:
        for error in failed.errors(include_url=False, include_input=False):
            origin, message = _word(error, origins)
            told.tell(origin, message)
        return None


def _word(error: ErrorDetails, origins: _Origins) -> tuple[Place | str, str]:
    """The origin and the sentence of one of pydantic's errors."""
    loc = error["loc"]
    key = next((quote(part) for part in reversed(loc) if isinstance(part, str)), "the config")
    if isinstance(loc[-1], int):
        key = f"an entry of {key}"
    origin = origins.of_value(loc)
    match error["type"]:
        case "missing":
            return origins.of_value(loc[:-1]), f"{quote(str(loc[-1]))} is missing"
        case "extra_forbidden":
            said = "such key" if _HOLDS_MORE.search(str(loc[-1])) else f"key {key}"
            return origins.keys.get(loc, origin), f"no {said} here{near(str(loc[-1]), _known(loc[:-1]))}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return origin, f"{key} must be a mapping of keys and values"
        case "list_type":
            return origin, f"{key} must be a list"
        case "value_error":
            return origin, f"{key} {error['ctx']['error']}"
        case _:
            return origin, f"{key} is not understood"


def _known(loc: Loc) -> list[str]:
    """The keys of the section at a place, as files spell them."""
    model: type[BaseModel] = Settings
    for part in loc:
        if isinstance(part, int):
            continue
        for name, each in model.model_fields.items():
            if (each.alias or name) == part:
                found = each.annotation
                inner = [arg for arg in get_args(found) if isinstance(arg, type) and issubclass(arg, BaseModel)]
                if inner:
                    found = inner[0]
                if isinstance(found, type) and issubclass(found, BaseModel):
                    model = found
    return [each.alias or name for name, each in model.model_fields.items()]


def _entry(carried_out: Collection[str], name: object) -> ProtocolEntry | None:
    found = carried_out.get(name) if isinstance(carried_out, Mapping) else None
    return found if isinstance(found, ProtocolEntry) else None


def _has_headers(carried_out: Collection[str], name: object) -> bool:
    found = _entry(carried_out, name) if isinstance(name, str) else None
    return found is not None and found.has_headers


def _has_nodes(carried_out: Collection[str], name: str) -> bool:
    found = _entry(carried_out, name)
    return found is not None and found.has_nodes


def _meaning(merged: dict[str, Any], carried_out: Collection[str]) -> Iterator[tuple[Loc, str]]:
    """What only makes sense together, looked at whether or not the shape was right."""
    store = merged.get("store")
    if isinstance(store, dict) and len([key for key in ("files", "redis") if key in store]) != 1:
        yield ("store",), '"store" needs exactly one of "files" and "redis"'
    audit = merged.get("audit")
    if isinstance(audit, dict) and ("file" in audit) == ("redis" in audit):
        yield ("audit",), '"audit" needs exactly one of "file" and "redis"'
    names: set[str] = set()
    bound = dict.fromkeys(_addresses(merged.get("admin"), ("admin",)), "admin")
    listening: dict[Address, Loc] = {address: loc for (loc, address) in bound}
    upstreams: list[tuple[Loc, Address]] = []
    spans: list[brokers.Span] = []
    for loc, connection in _items(merged.get("connections"), ("connections",)):
        name = connection.get("name")
        if isinstance(name, str):
            if name in names:
                yield (*loc, "name"), f"a connection {quote(name)} is there already"
            names.add(name)
        yield from _reader(connection.get("reader"), (*loc, "reader"))
        yield from security.meaning(connection, loc)
        yield from web.meaning(connection, loc, lambda name: _has_headers(carried_out, name))
        for at, listener in _items(connection.get("listeners"), (*loc, "listeners")):
            yield from _protocol(connection.get("platform"), listener.get("protocol"), (*at, "protocol"), carried_out)
            for where, address in _addresses(listener, at):
                if address.port and address in listening:
                    yield where, f"{address} is listened on already"
                listening[address] = where
            protocol = _entry(carried_out, listener.get("protocol"))
            if listener.get("protocol") in carried_out:
                yield from brokers.meaning(listener, at, protocol)
            span = brokers.span_of(listener, at, protocol)
            spans += [] if span is None else [span]
            try:
                upstreams += [((*at, "upstream"), each) for each in read_upstream(listener.get("upstream"))]
            except ValueError:
                continue  # its shape is told by the model
    admin = [] if "admin" in merged else [Admin().listen]
    yield from brokers.overlaps(spans, [*listening, *admin])
    for where, address in upstreams:
        if any(_leads_to(address, own) for own in listening) or any(span.is_upstream(address) for span in spans):
            yield where, f"{address} is Veil itself"


def _leads_to(upstream: Address, listening: Address) -> bool:
    """Whether a connection to one would arrive at the other, as far as their spelling tells. It would go round until
    nothing more can be opened."""
    return upstream.port == listening.port and not meant(upstream.host).isdisjoint(meant(listening.host))


def _items(listed: object, loc: Loc) -> Iterator[tuple[Loc, dict[str, Any]]]:
    if isinstance(listed, list):
        for number, item in enumerate(listed):
            if isinstance(item, dict):
                yield (*loc, number), item


def _addresses(section: object, loc: Loc) -> Iterator[tuple[Loc, Address]]:
    if isinstance(section, dict) and "listen" in section:
        try:
            yield (*loc, "listen"), read_address(section["listen"])
        except ValueError:
            return  # its shape is told by the model


def _reader(reader: object, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if not isinstance(reader, dict):
        return
    source = reader.get("from", "protocol")
    if source == "fixed" and "user" not in reader:
        yield loc, 'a fixed reader needs "user"'
    if source != "fixed" and "user" in reader:
        yield (*loc, "user"), '"user" goes with `from: fixed` alone'


def _protocol(platform: object, protocol: object, loc: Loc, carried_out: Collection[str]) -> Iterator[tuple[Loc, str]]:
    if not isinstance(platform, str) or not isinstance(protocol, str) or platform not in PROTOCOLS:
        return
    if protocol not in PROTOCOLS[platform]:
        listed = ", ".join(PROTOCOLS[platform])
        yield loc, f"{quote(protocol)} is no protocol of the platform {platform} (it has: {listed})"
    elif protocol not in carried_out:
        yield loc, f"the protocol {quote(protocol)} is not carried out by this version"


def is_directory(path: Path) -> bool | None:
    """None where there is nothing, or nothing that can be looked at: `Path.is_dir` raises where a folder may not be
    entered or a name is too long."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return None


def _paths(configuration: Configuration) -> Iterator[tuple[Loc, str]]:
    """Paths that can never do. A directory of rules may come later; a folder for the audit file may not."""
    location = configuration.rules_location
    if location is not None:
        yield from _store(configuration, location)
    rules = configuration.rules_directory
    if rules is not None and is_directory(rules) is False:
        yield ("store", "files", "directory"), f"{quote(str(rules))} is not a directory"
    redis = configuration.settings.audit.redis
    if redis is not None:
        yield from _trusted(("audit", "redis"), configuration.redis_at(redis).ca, tls=redis.url.tls)
    if configuration.settings.audit.file is None:
        return
    audit = configuration.audit_path
    if is_directory(audit):
        yield ("audit", "file", "path"), f"{quote(str(audit))} is a directory; name a file"
    elif not is_directory(audit.parent):
        yield ("audit", "file", "path"), f"the directory {quote(str(audit.parent))} does not exist"


def _trusted(loc: Loc, ca: str | None, *, tls: bool) -> Iterator[tuple[Loc, str]]:
    """A file of certificates beside the URL of a Redis of Veil's own."""
    if ca is not None and not tls:
        yield (*loc, "ca"), '"ca" goes with a rediss:// url alone'
    elif ca is not None and is_directory(Path(ca)) is not False:
        yield (*loc, "ca"), f"{quote(ca)} is no file"


def _store(configuration: Configuration, location: Location) -> Iterator[tuple[Loc, str]]:
    """What a store in a Redis cannot be. Whether the server is a broker's under another name is asked when it is
    reached."""
    loc = ("store", "redis")
    yield from _trusted(loc, location.ca, tls=location.tls)
    own = Address(location.host, location.port)
    upstreams = [
        each for connection in configuration.settings.connections for one in connection.listeners for each in one.upstream
    ]
    for address in dict.fromkeys(upstreams):
        if _leads_to(address, own):
            yield (*loc, "url"), f"{address} is an upstream too: whoever writes there could write the rules"
