"""The shape of veil.yaml. Reading it, with places, is `load`.

A key that is known but not carried out by this version is `NotYet`: giving it is an error that says so.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from proxy.runtime.secret import RedisUrl, Secret
from proxy.runtime.tls import SOURCES, ClientFiles, Pair, ServerFiles
from proxy.runtime.upstream import Address
from rules.model import Platform, Problem
from rules.store.document import quote
from rules.store.files import FileStore
from rules.store.manifest import KEY_BYTES
from rules.store.reading import Store as RuleStore
from rules.store.redis import Admit, Location, RedisStore
from rules.store.values import near

from .values import (
    Count,
    Duration,
    Flag,
    Host,
    Listen,
    Name,
    Network,
    NotYet,
    Ports,
    RedisAt,
    SecretText,
    Size,
    Sni,
    Switch,
    Text,
    Upstreams,
    Url,
    WebHost,
    read_text,
)

MIB = 1024 * 1024
PREFIX_LIMIT = 200
READERS = ("protocol", "fixed", "certificate", "header")
CLIENT_CERTIFICATES = ("required", "optional")
WRITES = ("adds", "strict")


def within(low: int, high: int) -> AfterValidator:
    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return AfterValidator(check)


def _choice(known: tuple[str, ...]) -> BeforeValidator:
    def read(value: object) -> str:
        text = read_text(value)
        if text not in known:
            raise ValueError(f"cannot be {quote(text)}{near(text, known)}")
        return text

    return BeforeValidator(read)


def _not_empty(items: list[Any]) -> list[Any]:
    if not items:
        raise ValueError("is empty: at least one is needed")
    return items


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("must be above 0")
    return seconds


def _prefix(text: str) -> str:
    if len(text) > PREFIX_LIMIT:
        raise ValueError(f"is longer than {PREFIX_LIMIT} characters")
    return text


def _long_enough(key: Secret) -> Secret:
    if len(key.reveal().encode()) < KEY_BYTES:
        raise ValueError(f"must have at least {KEY_BYTES} characters")
    return key


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True)


class StoreFiles(Section):
    directory: Text


class StoreRedis(Section):
    url: RedisAt
    prefix: Annotated[Name, AfterValidator(_prefix)] = "veil:"
    key: Annotated[SecretText, AfterValidator(_long_enough)] | None = None
    ca: Text | None = None


class Store(Section):
    """Exactly one is given, which `load` looks after."""

    files: StoreFiles | None = None
    redis: StoreRedis | None = None


class AuditFile(Section):
    path: Text


class AuditRedis(Section):
    url: RedisAt
    stream: Name = "veil:audit"
    ca: Text | None = None


class Audit(Section):
    """Exactly one of them; `load` says so."""

    file: AuditFile | None = None
    redis: AuditRedis | None = None


class Admin(Section):
    listen: Listen = Address("127.0.0.1", 9480)
    tokens: NotYet = None


class LimitSettings(Section):
    max_value: Annotated[Size, within(1, 1024 * MIB)] = 64 * MIB
    max_depth: Annotated[Count, within(1, 512)] = 512
    max_connections: Annotated[Count, within(1, 1_000_000)] = 10_000
    login_timeout: Duration = 30.0
    idle_timeout: Duration = 0.0


class ReaderSettings(Section):
    source: Annotated[str, _choice(READERS), WithJsonSchema({"enum": list(READERS)})] = Field(default="protocol", alias="from")
    user: Name | None = None
    name: Name | None = None
    trusted: Annotated[list[Network], AfterValidator(_not_empty)] | None = None

    @property
    def named_by(self) -> str | None:
        """Where in a certificate the reader's name is, where that says who reads."""
        return (self.name or SOURCES[0]) if self.source == "certificate" else None


class PairSection(Section):
    certificate: Text
    key: Text
    key_password: SecretText | None = None


class TlsSection(Section):
    """Either one certificate with its key, or a list of them, the first for whoever asks for no name of another."""

    certificate: Text | None = None
    key: Text | None = None
    key_password: SecretText | None = None
    certificates: Annotated[list[PairSection], AfterValidator(_not_empty)] | None = None
    client_ca: Text | None = None
    client_certificates: (
        Annotated[str, _choice(CLIENT_CERTIFICATES), WithJsonSchema({"enum": list(CLIENT_CERTIFICATES)})] | None
    ) = None


class UpstreamTlsSection(Section):
    ca: Text | None = None
    certificate: Text | None = None
    key: Text | None = None
    key_password: SecretText | None = None
    server_name: Name | None = None
    verify: Switch = True


class BrokersSection(Section):
    """How readers reach the nodes of a cluster; what goes with what, `brokers` says."""

    listen: Host | None = None
    ports: Ports | None = None
    advertise: Host | None = None
    table: Text | None = None
    sni: Sni | None = None
    port: Annotated[Count, within(1, 65535)] | None = None


class ListenerSection(Section):
    protocol: Name
    listen: Listen
    upstream: Upstreams
    verify_names: Switch = True
    writes: Annotated[str, _choice(WRITES), WithJsonSchema({"enum": list(WRITES)})] = "adds"
    tls: TlsSection | None = None
    upstream_tls: UpstreamTlsSection | None = None
    brokers: BrokersSection | None = None
    token_claim: Name | None = None
    hosts: Annotated[list[WebHost], AfterValidator(_not_empty)] | None = None
    deliver: NotYet = None
    login: NotYet = None
    strict_membership: NotYet = None


class ManagementSection(Section):
    """A login of Veil's own at a broker's HTTP API."""

    url: Url
    user: Name
    password: SecretText


class ConnectionSection(Section):
    name: Name
    platform: Annotated[str, _choice(tuple(map(str, Platform))), WithJsonSchema({"enum": list(map(str, Platform))})]
    environment: Name | None = None
    reader: ReaderSettings = ReaderSettings()
    listeners: Annotated[list[ListenerSection], AfterValidator(_not_empty)]
    schema_registry: NotYet = None
    management: ManagementSection | None = None


class Settings(BaseSettings):
    """All of veil.yaml with its overrides, read and found possible."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=False)

    store: Store
    audit: Audit
    admin: Admin = Admin()
    limits: LimitSettings = LimitSettings()
    unmasked_lapse: Annotated[Duration, AfterValidator(_positive)] = 600.0
    markers: Flag = True
    connections: Annotated[list[ConnectionSection], AfterValidator(_not_empty)]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` has merged: its overrides reach into lists, and each problem knows its variable."""
        return (init_settings,)


class Configuration:
    """Settings with the folder that their relative paths start from."""

    def __init__(self, settings: Settings, file: Path, warnings: tuple[Problem | str, ...] = ()) -> None:
        self.settings = settings
        self.file = file
        self.warnings = warnings

    @property
    def rules_directory(self) -> Path | None:
        """None where the rules are not in a directory."""
        files = self.settings.store.files
        return None if files is None else self._from_file(files.directory)

    @property
    def rules_location(self) -> Location | None:
        """None where the rules are not in a Redis."""
        told = self.settings.store.redis
        return None if told is None else _located(told, self.file.parent)

    def store(self, admit: Admit) -> RuleStore:
        """Where the rules come from; `admit` is asked about each server that is reached for them."""
        location = self.rules_location
        if location is not None:
            return RedisStore(location, admit)
        directory = self.rules_directory
        assert directory is not None
        return FileStore(directory)

    @property
    def audit_path(self) -> Path:
        """Of the audit file; only where the trail is one."""
        assert self.settings.audit.file is not None
        return self._from_file(self.settings.audit.file.path)

    def redis_at(self, told: AuditRedis) -> RedisUrl:
        """The server of the trail, with what it is trusted by."""
        return told.url if told.ca is None else replace(told.url, ca=str(self._from_file(told.ca)))

    def server_files(self, listener: ListenerSection, protocols: tuple[str, ...] = ()) -> ServerFiles | None:
        """What the listener's TLS is made of; None where it has none, or none that is whole."""
        tls = listener.tls
        if tls is None:
            return None
        pairs = tuple(self._pair(each.certificate, each.key, each.key_password) for each in tls.certificates or ())
        if tls.certificate is not None and tls.key is not None:
            pairs = (self._pair(tls.certificate, tls.key, tls.key_password), *pairs)
        client_ca = None if tls.client_ca is None else self._from_file(tls.client_ca)
        return ServerFiles(pairs, client_ca, tls.client_certificates != "optional", protocols)

    def client_files(self, listener: ListenerSection) -> ClientFiles | None:
        """What the TLS to the listener's upstream is made of; None where it has none."""
        tls = listener.upstream_tls
        if tls is None:
            return ClientFiles(None, None, None, True) if listener.upstream.scheme == "https" else None
        ca = None if tls.ca is None else self._from_file(tls.ca)
        pair = None
        if tls.certificate is not None and tls.key is not None:
            pair = self._pair(tls.certificate, tls.key, tls.key_password)
        return ClientFiles(ca, pair, tls.server_name, tls.verify)

    def _pair(self, certificate: str, key: str, password: Secret | None) -> Pair:
        return Pair(self._from_file(certificate), self._from_file(key), "" if password is None else password.reveal())

    def _from_file(self, path: str) -> Path:
        return self.file.parent / path


def _located(told: StoreRedis, folder: Path) -> Location:
    return Location(
        told.url.address.host,
        told.url.address.port,
        told.prefix,
        told.url.database,
        told.url.user,
        None if told.url.password is None else told.url.password.reveal(),
        told.url.tls,
        None if told.ca is None else str(folder / told.ca),
        None if told.key is None else told.key.reveal().encode(),
    )


def location_of(given: dict[str, str], folder: Path) -> Location:
    """The store that arguments of a command line name, in the words of the config.

    Raises:
        ValueError: with a line for each problem.
    """
    try:
        return _located(StoreRedis(**given), folder)  # type: ignore[arg-type]  # read by the section itself
    except ValidationError as failed:
        told = [f"{'.'.join(map(str, each['loc']))} {each['ctx']['error']}" for each in failed.errors() if "ctx" in each]
        raise ValueError("\n".join(told)) from None
