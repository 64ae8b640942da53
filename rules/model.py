"""What rules talk about: connections, resources, rules, access. Plain frozen data.

Nothing here decides anything: matching is `patterns`, masking is `plan`, permission is `access`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Platform(StrEnum):
    KAFKA = "kafka"
    RABBITMQ = "rabbitmq"
    ARTEMIS = "artemis"
    REDIS = "redis"
    MEMCACHED = "memcached"


class Kind(StrEnum):
    """What a resource pattern names."""

    TOPIC = "topic"
    QUEUE = "queue"
    EXCHANGE = "exchange"
    ADDRESS = "address"
    KEY = "key"


class FieldKind(StrEnum):
    JSON_PATH = "json_path"
    HEADER = "header"
    RECORD_KEY = "record_key"
    WHOLE_VALUE = "whole_value"
    FIELD = "field"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a file; line and column count from 1, columns in code points."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def short(self) -> str:
        """Without folders, for readers elsewhere: where the files lie is the operator's business."""
        return f"{self.file.rpartition('/')[2]}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about a file, for a person: `file:line:column: message`."""

    place: Place
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {'warning: ' if self.warning else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Redact:
    """Hide a value and its length; keep a JSON value's type."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Keep the first and the last code points, one `•` for each other one. 0 to 64 each, one above 0."""

    keep_first: int = 0
    keep_last: int = 0


Method = Redact | Partial


@dataclass(frozen=True, slots=True)
class Name:
    """Path step `.name` or `['name']`: the member of that name (decoded, not escaped)."""

    name: str


@dataclass(frozen=True, slots=True)
class Every:
    """Path step `.*` or `[*]`: every member of an object, every element of an array."""


@dataclass(frozen=True, slots=True)
class Descend:
    """Path step `..name`: a member of that name at any depth."""

    name: str


PathStep = Name | Every | Descend


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A JSON path of the accepted subset. `text` is its spelling in the rule."""

    text: str
    steps: tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a rule. `path` is set for json_path alone, `name` for header and field alone."""

    kind: FieldKind
    method: Method
    path: JsonPath | None = None
    name: str = ""

    @property
    def spelling(self) -> str:
        """How marks, audit and refusals spell it: the path, `key`, `header:NAME`, `field:NAME` or `value`."""
        match self.kind:
            case FieldKind.JSON_PATH:
                assert self.path is not None
                return self.path.text
            case FieldKind.RECORD_KEY:
                return "key"
            case FieldKind.WHOLE_VALUE:
                return "value"
            case FieldKind.HEADER | FieldKind.FIELD:
                return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a rule applies: one environment, one connection, or (both None) everywhere."""

    environment: str | None = None
    connection: str | None = None


Patterns = tuple[tuple[Kind, tuple[str, ...]], ...]
"""Globs by kind, in the order of the file."""


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    platform: Platform
    resources: Patterns
    excepted: Patterns = ()
    scope: Scope = Scope()
    mask_all: bool = False
    fields: tuple[Field, ...] = ()
    enabled: bool = True
    description: str = ""
    compliance: tuple[str, ...] = ()
    information_kind: str | None = None
    risk: str | None = None
    place: Place = field(default=Place("-", 1, 1), compare=False)
    field_places: tuple[Place, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """One broker system, as the config names it."""

    name: str
    platform: Platform
    environment: str | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """What a pattern matches. The name is the broker's own bytes (UTF-8 where the broker has text)."""

    connection: Connection
    kind: Kind
    name: bytes

    def __hash__(self) -> int:
        return hash(self.name)  # looked up several times a command; the name tells nearly all of them apart


@dataclass(frozen=True, slots=True)
class Extent:
    """What a grant or a role reaches. Every key that is set must hold; `installation` is everything."""

    installation: bool = False
    platform: Platform | None = None
    environment: str | None = None
    connection: str | None = None
    resources: Patterns = ()


class Whom(StrEnum):
    USER = "user"
    TEAM = "team"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Grant:
    allow: bool
    permission: str
    whom: Whom
    name: str
    on: Extent
    place: Place = field(default=Place("-", 1, 1), compare=False)


@dataclass(frozen=True, slots=True)
class User:
    name: str
    teams: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Team:
    name: str
    roles: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """`on` None: the role's permissions hold everywhere."""

    name: str
    permissions: tuple[str, ...] = ()
    on: Extent | None = None


@dataclass(frozen=True, slots=True)
class AccessList:
    """Everything the access keys of the rule files say, in the order of the files."""

    users: tuple[User, ...] = ()
    teams: tuple[Team, ...] = ()
    roles: tuple[Role, ...] = ()
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleBook:
    """One whole state of a store: every rule and all access. `version` is a digest of its contents."""

    version: str
    rules: tuple[Rule, ...]
    access: AccessList = AccessList()


@dataclass(frozen=True, slots=True)
class Limits:
    """Above these a covered value is masked whole."""

    max_value_bytes: int = 64 * 1024 * 1024
    max_depth: int = 512


@dataclass(frozen=True, slots=True)
class Hit:
    """One field of one rule that decided what is shown. Spelled for marks: field, method, rule."""

    field: str
    method: str
    rule: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an operation may not go on: the first rule (by file name, then order) and its field.

    `reason` is set instead of a rule when there are no rules to name (they could not be read).
    """

    rule: str | None
    field: str = ""
    reason: str = ""
