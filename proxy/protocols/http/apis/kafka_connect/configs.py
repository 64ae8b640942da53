"""What a connector's config says that it reads: names of topics, and whether it names all of them plainly.

Knows texts and the worker's own way to read them. Does not know rules: those are the judge's.
Source: Kafka 4.2, ConfigDef.parseType, SinkConnectorConfig, Plugins.connectorClass, PluginUtils.prunedName; KIP-618.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...documents import NotStrict, Value

CONFIG_CHARACTERS = 64 * 1024
MOST_NAMES = 1000
"""Of a longer value, and of more names, it is not looked for what they name: such a config names nothing plainly."""
SINK, SOURCE = "sink", "source"
_MIRROR = "org.apache.kafka.connect.mirror."
NO_COPIES = frozenset({f"{_MIRROR}MirrorCheckpointConnector", f"{_MIRROR}MirrorHeartbeatConnector"})
"""Groups and heartbeats, no records: theirs are patterns of what they tell the offsets of."""
_OF_OFFSETS = frozenset({"topics", "topics.exclude", "groups", "groups.exclude"})
REPLICATOR = "io.confluent.connect.replicator.ReplicatorSourceConnector"
WHITELIST = "topic.whitelist"
_TRIMMED = "".join(map(chr, range(0x21)))  # what Java's String.trim takes away
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_CLASSES = re.compile(
    r"name|connector\.class|tasks\.max|(?:key|value|header)\.converter|(?:transforms|predicates)\.[^.]+\.type"
)
"""What stands under these is no topic. The worker takes none of them but for what it is."""
_PATTERN = re.compile(r"regex|pattern|exclude|include|blacklist|filter")
"""Behind `topic`, in lower case: as one expression, that would take long in a key that says it a thousand times."""
_CREATION = re.compile(r"topic\.creation\.")
_OVERRIDE = re.compile(r"(?:consumer|producer|admin)\.override\.bootstrap\.servers|(?:.*\.)?source\.cluster\..*")
_BROKERS = re.compile(r"bootstrap|broker[._-]?list|(?:^|[._-])brokers?$", re.IGNORECASE)
_HISTORY = re.compile(r"(?:schema|database)\.history\..*")
PLACEHOLDER = "${"
SECRET = re.compile(
    r"passw(or)?d|secret|token|credential|jaas|api[._-]?key|private[._-]?key|(^|[._-])sas([._-]|$)|access[._-]?key|passphrase",
    re.IGNORECASE,
)
_NAMING = re.compile(r"topic|connector\.class|^transforms|^predicates|^(?:consumer|producer|admin)\.|bootstrap", re.IGNORECASE)
_OF_LOGINS = re.compile(r"user|account|url|uri|host|port$|database|endpoint|region", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class of connectors that the worker has, and whether it is a sink or a source."""

    name: str
    kind: str

    @property
    def aliases(self) -> frozenset[str]:
        simple = self.name.rpartition(".")[2]
        return frozenset({simple, simple.removesuffix("Connector")}) - {""}


@dataclass(frozen=True, slots=True)
class Reads:
    """What a config could read. `is_plain`: all that it reads is among `topics`, or it reads none."""

    topics: tuple[str, ...]
    is_plain: bool


def flat(told: Value) -> dict[str, str | None]:
    """A config as the worker reads it: every value a text, or null.

    Raises:
        NotStrict: it is anything else.
    """
    if not isinstance(told.inside, dict):
        raise NotStrict("a config is an object")
    found: dict[str, str | None] = {}
    for key, value in told.inside.items():
        if value.is_object or value.is_array:
            raise NotStrict("a value of a config is a text")
        if value.inside is None:
            found[key] = None
        elif isinstance(value.inside, bool):
            found[key] = "true" if value.inside else "false"
        else:
            found[key] = str(value.inside)
    return found


def plugins(told: Value) -> frozenset[Plugin]:
    """The worker's list of plugins."""
    listed = told.inside if told.is_array else ()
    each_one = (Plugin(each.text("class") or "", each.text("type") or "") for each in listed)
    return frozenset(each for each in each_one if each.name)


def plugin(name: str, known: Collection[Plugin]) -> Plugin | None:
    """Which one the worker takes by this name: in full, or by an alias that no other has."""
    found = {each for each in known if each.name == name} or {each for each in known if name in each.aliases}
    return found.pop() if len(found) == 1 else None


def reads(config: Mapping[str, str], known: Collection[Plugin]) -> Reads:
    """What a connector of this config could read, on a worker that has these plugins."""
    made = plugin(config.get("connector.class", ""), known)
    is_quiet = made is not None and made.name in NO_COPIES
    named: dict[str, None] = {}
    is_plain = made is not None and _reads_plainly(config, made)
    for key, value in config.items():
        if is_quiet and key in _OF_OFFSETS:
            continue
        if PLACEHOLDER in value and not _may_be_elsewhere(key, made):
            is_plain = False
        if _CLASSES.fullmatch(key):
            continue
        if len(value) > CONFIG_CHARACTERS:
            is_plain = False
            continue
        named |= dict.fromkeys(_named(key, value))
    if len(named) > MOST_NAMES:
        is_plain = False
    return Reads(tuple(named)[:MOST_NAMES], is_plain)


def _reads_plainly(config: Mapping[str, str], made: Plugin) -> bool:
    if made.name in NO_COPIES:
        return True
    for key in config:
        if _names_a_pattern(key) and not _CREATION.match(key) and not (made.name == REPLICATOR and key == WHITELIST):
            return False
        if _OVERRIDE.fullmatch(key):
            return False
    if made.name == REPLICATOR:
        return _are_names(config.get(WHITELIST, ""))
    if made.kind == SINK:
        return _are_names(config.get("topics", ""))
    # A source reads no topic, but for what copies from cluster to cluster: that takes patterns, under names of its own.
    if made.kind != SOURCE or "topics" in config or "Mirror" in made.name:
        return False
    for key, value in config.items():
        if _BROKERS.search(key) and not _HISTORY.fullmatch(key):
            return False
        if "topic" in key.lower() and not _CREATION.match(key) and value and not _are_names(value):
            return False
    return True


def _are_names(value: str) -> bool:
    """Whether the value is names of topics and nothing else, with commas between them."""
    return all(_NAME.fullmatch(each.strip(" \t")) for each in value.split(","))


def _names_a_pattern(key: str) -> bool:
    _, topic, behind = key.lower().partition("topic")
    return bool(topic) and _PATTERN.search(behind) is not None


def _may_be_elsewhere(key: str, made: Plugin | None) -> bool:
    """Whether a value that the worker alone knows, from a file of its own, may stand there: it names no topic."""
    if SECRET.search(key):
        return True
    if _NAMING.search(key):
        return False
    return (made is not None and made.kind == SINK) or _OF_LOGINS.search(key) is not None


def _named(key: str, value: str) -> list[str]:
    """What of a value could be a name of a topic."""
    found = value.split(",")
    if "topic" in key.lower():
        found += _LEGAL.findall(value)
    return [name for each in found if (name := each.strip(_TRIMMED).strip())]
