"""The shape of veil.yaml. Reading it, with places, is `load`.

A key that is known but not carried out by this version is `NotYet`: giving it is an error that says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from proxy.runtime.upstream import Address
from rules.model import Platform
from rules.store.document import quote
from rules.store.values import near

from .values import Count, Duration, Flag, Listen, Name, NotYet, RedisAt, Size, Switch, Text, Upstreams, read_text

MIB = 1024 * 1024
READERS = ("protocol", "fixed")
READERS_NOT_YET = ("certificate", "header")
WRITES = ("adds", "strict")


def within(low: int, high: int) -> AfterValidator:
    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return AfterValidator(check)


def _choice(known: tuple[str, ...], not_yet: tuple[str, ...] = ()) -> BeforeValidator:
    def read(value: object) -> str:
        text = read_text(value)
        if text in not_yet:
            raise ValueError(f"cannot be {quote(text)}, which is not carried out by this version")
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


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True)


class StoreFiles(Section):
    directory: Text


class Store(Section):
    files: StoreFiles
    redis: NotYet = None


class AuditFile(Section):
    path: Text


class AuditRedis(Section):
    url: RedisAt
    stream: Name = "veil:audit"


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
    source: Annotated[str, _choice(READERS, READERS_NOT_YET), WithJsonSchema({"enum": list(READERS)})] = Field(
        default="protocol", alias="from"
    )
    user: Name | None = None
    name: NotYet = None
    trusted: NotYet = None


class ListenerSection(Section):
    protocol: Name
    listen: Listen
    upstream: Upstreams
    verify_names: Switch = True
    writes: Annotated[str, _choice(WRITES), WithJsonSchema({"enum": list(WRITES)})] = "adds"
    tls: NotYet = None
    upstream_tls: NotYet = None
    brokers: NotYet = None
    deliver: NotYet = None
    login: NotYet = None
    strict_membership: NotYet = None


class ConnectionSection(Section):
    name: Name
    platform: Annotated[str, _choice(tuple(map(str, Platform))), WithJsonSchema({"enum": list(map(str, Platform))})]
    environment: Name | None = None
    reader: ReaderSettings = ReaderSettings()
    listeners: Annotated[list[ListenerSection], AfterValidator(_not_empty)]
    schema_registry: NotYet = None
    management: NotYet = None


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

    def __init__(self, settings: Settings, file: Path, warnings: tuple[str, ...] = ()) -> None:
        self.settings = settings
        self.file = file
        self.warnings = warnings

    @property
    def rules_directory(self) -> Path:
        return self._from_file(self.settings.store.files.directory)

    @property
    def audit_path(self) -> Path:
        """Of the audit file; only where the trail is one."""
        assert self.settings.audit.file is not None
        return self._from_file(self.settings.audit.file.path)

    def _from_file(self, path: str) -> Path:
        return self.file.parent / path
