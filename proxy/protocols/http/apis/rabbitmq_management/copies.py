"""What carries messages from one place to another, decided before it is set up: by the source it names plainly, and
refused where it names it in any other way while any rule masks for the reader.

Source: RabbitMQ, "Shovel", "Federation", "Policies", "Dead Letter Exchanges", "Alternate Exchanges".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from proxy.core.steps import Steps
from proxy.core.viewer import Read
from rules.model import Kind, Rule
from rules.patterns import glob_matches
from rules.view import View

from ...api import Desk, Refuse
from ...documents import Value
from .contents import FIREHOSE
from .graph import DEFAULT, DEFAULT_IN_PATHS, Graph, Node, exchange, object_of, policies_of, queue, read_graph, stored
from .lifting import anything, of_kind, of_queue, over, unless_lifted

KNOWN_GLOBALS = frozenset(
    {"cluster_name", "cluster_tags", "internal_cluster_id", "mqtt_default_vhosts", "mqtt_port_to_vhost_mapping"}
)
SOURCES = {"src-queue": Kind.QUEUE, "src-exchange": Kind.EXCHANGE}
PROPERTIES = ("publish-properties", "dest-publish-properties", "dest-properties")
PLAIN_PROTOCOLS = frozenset({"amqp091", "local"})
COPYING = ("dead-letter-", "alternate-exchange", "federation-", "remote-dc-replicate", "shards-per-node", "x-dead-letter-")
REPLAYING = frozenset({"x-recent-history", "x-jms-topic"})
MEETS_EXCHANGES = "exchanges"
_LITERAL = re.compile(r"\^([A-Za-z0-9_:-]|\\[.]){0,1000}\$?")
_ADDRESS = re.compile(r"amqps?://[^/?#\s]*(?:/([^/?#\s]*))?(?:\?[^#\s]*)?")
MOST_VHOSTS = 2
_UNESCAPED = re.compile(r"\\(.)")


@dataclass(slots=True)
class Scene:
    """One call's look at a virtual host: its graph is read once, when it is first wanted."""

    desk: Desk
    operation: str
    _graphs: dict[str, Graph | None] = field(default_factory=dict)
    _policies: dict[str, dict[str, Value] | None] = field(default_factory=dict)
    _beside: dict[tuple[str, Node], list[tuple[Node, set[str]]]] = field(default_factory=dict)
    _read: Read = field(init=False)

    def __post_init__(self) -> None:
        self._read = self.desk.viewer.begin()

    def guard(self) -> Steps[Refuse | None]:
        """The refusal of what names no resource plainly, while any rule masks for the reader."""
        return (yield from self._unless_lifted(anything(self.desk), named=False))

    def _unless_lifted(self, view: View, *, named: bool = True) -> Steps[Refuse | None]:
        return (yield from unless_lifted(self.desk, view, self.operation, self._read, named=named))

    @property
    def _is_closed(self) -> bool:
        """No rule is known, and so none says what it covers."""
        return self.desk.viewer.policy.is_closed

    def graph(self, vhost: str) -> Steps[Graph | None]:
        if vhost not in self._graphs:
            self._graphs[vhost] = yield from read_graph(self.desk, vhost)
        return self._graphs[vhost]

    # Shovels and federation

    def parameter(self, component: str, vhost: str, value: Value | None) -> Steps[Refuse | None]:
        match component:
            case "shovel":
                return (yield from self.shovel(vhost, value))
            case "federation-upstream":
                return (yield from self.upstream(vhost, value))
            case "vhost-limits" | "user-limits":
                return None
            case _:
                return (yield from self.guard())

    def shovel(self, vhost: str, value: Value | None) -> Steps[Refuse | None]:
        """Exactly one source, named by a text; everything else names none."""
        if value is None or not value.is_object:
            return (yield from self.guard())
        protocol = value.member("src-protocol")
        named = {key: value.member(key) for key in SOURCES if value.member(key) is not None}
        is_plain = protocol is None or (protocol.is_text and protocol.inside in PLAIN_PROTOCOLS)
        # New headers in place of those that tell where a message has been: nothing of it could be known any more.
        is_plain = is_plain and not any(_any_key(value.member(key), lambda name: name == "headers") for key in PROPERTIES)
        if not is_plain or value.member("src-address") is not None or len(named) != 1:
            return (yield from self.guard())
        ((key, told),) = named.items()
        return (yield from self.source(vhost, SOURCES[key], told, value.member("src-uri")))

    def upstream(self, vhost: str, value: Value | None) -> Steps[Refuse | None]:
        """Each of what is named; what names neither takes the name of wherever a policy puts it."""
        told = {} if value is None or not value.is_object else value.inside
        named = {kind: told[str(kind)] for kind in (Kind.QUEUE, Kind.EXCHANGE) if str(kind) in told}
        if not named:
            return (yield from self.guard())
        for kind, each in named.items():
            refused = yield from self.source(vhost, kind, each, told.get("uri"))
            if refused is not None:
                return refused
        return None

    def source(self, vhost: str, kind: Kind, told: Value | None, address: Value | None) -> Steps[Refuse | None]:
        """A queue or exchange that is read from. Rules on the other kind count too: what is bound to what, on the
        virtual host that an address names, cannot be told here for good. What feeds it as it is now counts as well, on each
        of the virtual hosts that it may be of: where nobody can look, anything may."""
        if told is None or not told.is_text or not told.inside:
            return (yield from self.guard())
        node = (kind, told.inside)
        refused = yield from self._unless_lifted(over(self.desk, node))
        if refused is not None:
            return refused
        other = Kind.EXCHANGE if kind is Kind.QUEUE else Kind.QUEUE
        refused = yield from self._unless_lifted(of_kind(self.desk, other), named=False)
        if refused is not None or not anything(self.desk).masks:
            return refused
        # Dead letters of a covered queue lie in queues that no rule names, and an exchange passes on what another gets.
        meant = vhosts(vhost, address)
        if meant is None:
            return (yield from self.guard())
        for each in sorted(meant):
            graph = yield from self.graph(each)
            if graph is None:
                return (yield from self.guard())
            refused = yield from self._unless_lifted(over(self.desk, node, graph.upstream(node)))
            if refused is not None:
                return refused
        return None

    # Policies

    def policy(self, definition: Value | None, pattern: str | None, apply_to: str | None) -> Steps[Refuse | None]:
        """One that is put or taken away: refused with a key that copies, or where its pattern can meet what is covered."""
        if not anything(self.desk).masks:
            return None
        known = definition is not None and definition.is_object and pattern is not None and not self._is_closed
        copies = definition is None or not definition.is_object or any(map(_copies, definition.inside))
        if not known or copies or self._can_meet(pattern or "", apply_to):
            return (yield from self.guard())
        return None

    def put_policy(self, kind: str, vhost: str, name: str, told: Value) -> Steps[Refuse | None]:
        """The one that comes, and the one that it takes the place of."""
        refused = yield from self._of_policy(told)
        return refused or (yield from self.stored_policy(kind, vhost, name))

    def stored_policy(self, kind: str, vhost: str, name: str) -> Steps[Refuse | None]:
        """What the policy says that there is now: it goes with the call."""
        if not anything(self.desk).masks:
            return None
        answer = yield from stored(self.desk, kind, vhost, name)
        if answer is not None and answer.status == 404:
            return None
        told = object_of(answer)
        return (yield from self.guard() if told is None else self._of_policy(told))

    def _replaced(self, vhost: str, name: str) -> Steps[Refuse | None]:
        """As `stored_policy`; the policies are read once for all that a call brings."""
        if vhost not in self._policies:
            self._policies[vhost] = policies_of((yield from stored(self.desk, "policies", vhost)))
        known = self._policies[vhost]
        if known is None:
            return (yield from self.guard())
        return (yield from self._of_policy(known[name])) if name in known else None

    def _of_policy(self, told: Value) -> Steps[Refuse | None]:
        return (yield from self.policy(told.member("definition"), told.text("pattern"), told.text("apply-to")))

    def _can_meet(self, pattern: str, apply_to: str | None) -> bool:
        on_queues, on_exchanges = of_kind(self.desk, Kind.QUEUE), of_kind(self.desk, Kind.EXCHANGE)
        if apply_to == MEETS_EXCHANGES:
            return on_exchanges.masks and meets(pattern, on_exchanges.rules, Kind.EXCHANGE)
        # Which queues a rule on exchanges covers depends on bindings that are still to come.
        return on_exchanges.masks or (on_queues.masks and meets(pattern, on_queues.rules, Kind.QUEUE))

    # Queues, exchanges, bindings

    def queue(self, vhost: str, name: str, arguments: Value | None) -> Steps[Refuse | None]:
        if not _any_key(arguments, _copies) or not anything(self.desk).masks:
            return None
        graph = (yield from self.graph(vhost)) if of_kind(self.desk, Kind.EXCHANGE).masks else None
        return (yield from self._unless_lifted(of_queue(self.desk, name, graph)))

    def exchange(self, name: str, kind: object, arguments: Value | None) -> Steps[Refuse | None]:
        replays = (isinstance(kind, str) and kind in REPLAYING) or _any_key(
            arguments, lambda key: key == "alternate-exchange" or key.startswith(("x-recent-history", "x-jms"))
        )
        if _any_key(arguments, lambda key: key.startswith("hash-")):  # sorts messages by what may be masked
            return (yield from self.guard())
        if not replays:
            return None
        return (yield from self._unless_lifted(over(self.desk, exchange(name))))

    def exchange_delete(self, vhost: str, name: str) -> Steps[Refuse | None]:
        """Takes its bindings along."""
        node = exchange(_own_name(name))
        return (yield from self._parted(vhost, node, node))

    def binding_delete(self, vhost: str, source: str, destination: Node) -> Steps[Refuse | None]:
        return (yield from self._parted(vhost, exchange(_own_name(source)), destination))

    def queue_delete(self, vhost: str, name: str) -> Steps[Refuse | None]:
        """Deleting shows nothing; but that messages elsewhere are its dead letters, nobody could tell any more."""
        if not anything(self.desk).masks:
            return None
        graph = yield from self.graph(vhost)
        if graph is not None and name not in graph.dead_lettering:
            return None
        return (yield from self._unless_lifted(of_queue(self.desk, name, graph)))

    def _parted(self, vhost: str, source: Node, destination: Node) -> Steps[Refuse | None]:
        """What tells which rules cover what the destination holds: it is fed by exchanges that a rule names, or by dead
        letters of a queue that one does. And a queue that a rule names must not be parted from what feeds it: that
        would be free then to be bound elsewhere."""
        if not anything(self.desk).masks:
            return None
        graph = yield from self.graph(vhost)
        if graph is None:
            return (yield from self.guard())
        fed_by = graph.upstream(source)
        leads = [each for each in graph.downstream(destination) if each[0] is Kind.QUEUE]
        return (yield from self._unless_lifted(over(self.desk, source, {*fed_by, *leads} - {source})))

    def binding(self, vhost: str, source: str, kind: str, destination: str, arguments: Value | None) -> Steps[Refuse | None]:
        """A second place for what the source bears: refused unless whatever covers the one covers the other."""
        view = anything(self.desk)
        if not view.masks:
            return None
        name = _own_name(source)
        if name == FIREHOSE or self._is_closed or _compares(arguments, view.rules):
            return (yield from self.guard())
        if not of_kind(self.desk, Kind.QUEUE).masks:
            return None  # rules on exchanges follow the binding
        graph = yield from self.graph(vhost)
        if graph is None:
            return (yield from self.guard())
        covered: set[str] = set()
        if kind == "q":
            covered = {rule.name for rule in over(self.desk, queue(destination)).rules}
        for each, by in self._covered_beside(vhost, graph, exchange(name)):
            if each == queue(destination) or by <= covered:
                continue
            refused = yield from self._unless_lifted(over(self.desk, each))
            if refused is not None:
                return refused
        return None

    def _covered_beside(self, vhost: str, graph: Graph, source: Node) -> list[tuple[Node, set[str]]]:
        """The queues that get what the source does, and the rules that name them; looked for once, however many bindings an
        import brings."""
        found = self._beside.get((vhost, source))
        if found is None:
            reached = sorted(each for each in graph.downstream(*graph.upstream(source)) if each[0] is Kind.QUEUE)
            named = ((each, {rule.name for rule in over(self.desk, each).rules}) for each in reached)
            found = self._beside[vhost, source] = [(each, by) for each, by in named if by]
        return found

    # Definitions

    def definitions(self, told: Value, vhost: str | None) -> Steps[Refuse | None]:
        """Each section as its own calls would be."""
        if not anything(self.desk).masks:
            return None
        for section, listed in told.inside.items():
            if section in _NAMES_OF_SERVERS:
                continue
            if section not in _SECTIONS or not listed.is_array or not all(each.is_object for each in listed.inside):
                return (yield from self.guard())
            for each in listed.inside:
                refused = yield from self._defined(section, each, vhost)
                if refused is not None:
                    return refused
        return None

    def _defined(self, section: str, each: Value, vhost: str | None) -> Steps[Refuse | None]:
        at = vhost or each.text("vhost")
        name = each.text("name")
        match section:
            case "vhosts":
                return (yield from self.vhost(each))
            case "parameters" if at is not None:
                component = each.text("component") or ""
                return (yield from self.parameter(component, at, each.member("value")))
            case "global_parameters" if name is not None:
                return (yield from self.global_parameter(name))
            case "policies" if at is not None and name is not None:
                refused = yield from self._of_policy(each)
                return refused or (yield from self._replaced(at, name))
            case "queues" if at is not None and name is not None:
                return (yield from self.queue(at, name, each.member("arguments")))
            case "exchanges" if name is not None:
                return (yield from self.exchange(name, each.text("type"), each.member("arguments")))
            case "bindings" if at is not None:
                source, destination = each.text("source"), each.text("destination")
                kind = {"queue": "q", "exchange": "e"}.get(each.text("destination_type") or "")
                if source is not None and destination is not None and kind is not None:
                    return (yield from self.binding(at, source, kind, destination, each.member("arguments")))
        return (yield from self.guard())

    def vhost(self, told: Value) -> Steps[Refuse | None]:
        tracing = told.member("tracing")
        if tracing is None or tracing.inside is False:
            return None
        return (yield from self.guard())

    def global_parameter(self, name: str) -> Steps[Refuse | None]:
        return None if name in KNOWN_GLOBALS else (yield from self.guard())


_SECTIONS = frozenset(
    {
        "bindings", "exchanges", "global_parameters", "parameters", "permissions", "policies", "queues", "topic_permissions",
        "users", "vhosts",
    }
)  # fmt: skip
_NAMES_OF_SERVERS = frozenset(
    {
        "original_cluster_name",
        "original_vhost_name",
        "explanation",
        "metadata",
        "product_name",
        "product_version",
        "rabbit_version",
        "rabbitmq_definition_format",
        "rabbitmq_version",
    }
)


def _own_name(name: str) -> str:
    return DEFAULT if name == DEFAULT_IN_PATHS else name


def _copies(key: str) -> bool:
    return key.startswith(COPYING)


def _any_key(told: Value | None, bad: Callable[[str], bool]) -> bool:
    """Whether a table has such a key; what is no table may have any."""
    if told is None or (told.is_array and not told.inside):
        return False
    return not told.is_object or any(map(bad, told.inside))


def _compares(arguments: Value | None, rules: Iterable[Rule]) -> bool:
    """Whether a binding's arguments ask of a message what a rule hides: how many it lets through would tell."""
    if arguments is None or (arguments.is_array and not arguments.inside):
        return False
    if not arguments.is_object:
        return True
    asked = {name.casefold() for name in arguments.inside if name not in {"x-match", "x-weight"}}
    if not asked:
        return False
    if any("selector" in name for name in asked):
        return True
    named = {each.name.casefold() for rule in rules for each in rule.fields if each.name}
    return not asked.isdisjoint(named) or any(rule.mask_all for rule in rules)


def vhosts(own: str, address: Value | None) -> set[str] | None:
    """The virtual hosts that an address may be of; None where that cannot be told. One that names none means the virtual
    host that its shovel is of, or the broker's first."""
    if address is None:
        return {own}
    listed = address.inside if address.is_array else [address]
    meant: set[str] = set()
    for each in listed:
        found = _ADDRESS.fullmatch(each.inside) if each.is_text else None
        if found is None:
            return None
        meant |= {unquote(found[1])} if found[1] else {own, "/"}
    if not 0 < len(meant) <= MOST_VHOSTS or any("\ufffd" in each for each in meant):
        return None
    return meant


def meets(pattern: str, rules: Iterable[Rule], kind: Kind) -> bool:
    """Whether a regular expression can fit a name that one of the globs fits too. A yes may be one too many: only what
    is anchored and spelled out is told apart."""
    if not _LITERAL.fullmatch(pattern):
        return True
    whole = pattern.endswith("$")
    start = _UNESCAPED.sub(r"\1", pattern[1:].removesuffix("$"))
    globs = [glob for rule in rules for named, listed in rule.resources if named is kind for glob in listed]
    if whole:  # `$` fits before a last line end as well
        return any(glob_matches(glob, f"{start}{end}".encode(), strict=False) for glob in globs for end in ("", "\n"))
    return any(_may_start(glob, start) for glob in globs)


def _may_start(glob: str, start: str) -> bool:
    """Whether some name that the glob fits begins so."""
    for wanted, given in zip(glob, start, strict=False):
        if wanted == "*":
            return True
        if wanted not in ("?", given):
            return False
    return len(glob) >= len(start) or "*" in glob
