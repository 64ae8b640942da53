"""Connectors that read what is masked, in every form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.protocols.http.api import Forward, Refuse
from proxy.protocols.http.apis.kafka_connect import DOES, ROUTES, KafkaConnect
from rules.model import AccessList, Extent, Grant, Kind, RuleBook, Whom
from tests.proxy.kafka.desk import CARDS, ORDERS

from .bench import Judge
from .connectors import CHECKPOINTS, HEARTBEATS, MIRROR, PLUGINS, REPLICATOR, SINK, SOURCE, TABLES, config, judge

COPIES = {
    "a masked topic": config(topics="orders"),
    "a masked topic among others": config(topics="public, orders ,more"),
    "a masked topic behind what Java trims": config(topics="\x01orders"),
    "a masked topic before what Java trims": config(topics="public,orders\x00\t"),
    "a masked topic between lines": config(topics="public\n,\x0borders"),
    "a masked topic by another key": config(topics="public", kafka__topic="orders"),
    "a masked topic in a list of another form": config(topics="public", topic__map='["a:orders"]'),
    "a masked topic behind more than is looked through": config(topics="public," * 10_000 + "orders"),
    "a masked topic behind more than is looked up": config(topics=",".join(f"t{each}" for each in range(2000)) + ",orders"),
    "a masked topic for what failed": config(topics="public", errors__deadletterqueue__topic__name="orders"),
    "a masked topic by the alias of a sink": config(topics="orders") | {"connector.class": "FileStreamSink"},
    "a pattern": config(topics__regex="pub.*"),
    "a pattern beside a plain topic": config(topics="public", topics__regex="pub.*"),
    "a pattern as if it were a name": config(topics="pub*"),
    "a placeholder": config(topics="${file:/x:topic}"),
    "a placeholder among plain topics": config(topics="public,${file:/x:topic}"),
    "a placeholder for what failed": config(topics="public", errors__deadletterqueue__topic__name="${env:TOPIC}"),
    "a placeholder in a transform": config(topics="public", transforms__a__replacement="${env:TOPIC}"),
    "a placeholder in what its consumer goes by": config(topics="public", consumer__override__client__id="${env:X}"),
    "a placeholder in a source": {"connector.class": TABLES, "query": "${env:X}"},
    "a class by placeholder": config(topics="public") | {"connector.class": "${env:CLASS}"},
    "no topic at all": config(),
    "no class": {"topics": "public"} | {"connector.class": ""},
    "a class in another case": config(topics="public") | {"connector.class": SINK.lower()},
    "a class with a blank": config(topics="public") | {"connector.class": f" {SINK}"},
    "a name that two classes have": config(topics="public") | {"connector.class": "Twin"},
    "an unknown class": {"connector.class": "com.example.Strange"},
    "an unknown class with plain topics": {"connector.class": "com.example.Strange", "topics": "public"},
    "a source with topics": {"connector.class": TABLES, "topics": "public"},
    "a source from another cluster": {"connector.class": TABLES, "kafka.bootstrap.servers": "b:9092", "topic": "public"},
    "a source from brokers": {"connector.class": TABLES, "camel.source.bootstrapServers": "b:9092"},
    "a source of a pattern": {"connector.class": TABLES, "camel.source.topic": "ord.*"},
    "a source that keeps its offsets in a masked topic": {"connector.class": SOURCE, "offsets.storage.topic": "orders"},
    "a mirror": {"connector.class": MIRROR, "topics": "public"},
    "a mirror without topics": {"connector.class": MIRROR},
    "a mirror by its short name": {"connector.class": "MirrorSourceConnector", "topics": "public"},
    "a mirror by its shortest name": {"connector.class": "MirrorSource", "topics": "ord.*"},
    "checkpoints that keep their offsets in a masked topic": {
        "connector.class": CHECKPOINTS,
        "offsets.storage.topic": "orders",
    },
    "a replicator's pattern": {"connector.class": REPLICATOR, "topic.regex": "p.*"},
    "a replicator's masked topic": {"connector.class": REPLICATOR, "topic.whitelist": "orders"},
    "a white list that is no replicator's": {"connector.class": TABLES, "topic.whitelist": "orders"},
    "another cluster": config(topics="public", consumer__override__bootstrap__servers="elsewhere:9092"),
}
FINE = {
    "a topic that no rule covers": config(topics="public,more"),
    "topics that no rule covers, with blanks": config(topics=" public , more "),
    "a sink by its short name": config(topics="public") | {"connector.class": "FileStreamSink"},
    "a sink with a password from elsewhere": config(topics="public", db__password="${file:/x:p}", file="${env:FILE}"),
    "a sink that notes what failed": config(topics="public", errors__deadletterqueue__topic__name="failed"),
    "a source of a file": {"connector.class": SOURCE, "topic": "public", "file": "/tmp/x"},
    "a source by its short name": {"connector.class": "FileStreamSource", "topic": "public"},
    "a source with a login from elsewhere": {"connector.class": TABLES, "db.user": "${env:U}", "db.password": "${env:P}"},
    "a source with a history": {"connector.class": TABLES, "schema.history.internal.kafka.bootstrap.servers": "b:9092"},
    "a source that has topics made": {"connector.class": TABLES, "topic.creation.default.include": ".*"},
    "a replicator's plain topics": {
        "connector.class": REPLICATOR,
        "topic.whitelist": "public, more",
        "src.kafka.bootstrap.servers": "b",
    },
    "heartbeats": {"connector.class": HEARTBEATS},
    "checkpoints": {
        "connector.class": CHECKPOINTS,
        "groups": ".*",
        "topics": ".*",
        "source.cluster.bootstrap.servers": "b:9092",
    },
}
FORMS = ("create", "create stopped", "configure", "validate", "patch", "resume", "restart", "restart task", "rewind", "reset")


def attempt(told: Judge, form: str, wanted: dict[str, Any]) -> Any:
    stored = {key: value for key, value in wanted.items() if key != "topics"} if form == "patch" else wanted
    told.knows["/connectors/c/config"] = (200, stored)
    match form:
        case "create":
            return told.call("POST", "/connectors", {"name": "c", "config": wanted})
        case "create stopped":
            return told.call("POST", "/connectors", {"name": "c", "config": wanted, "initial_state": "STOPPED"})
        case "configure":
            return told.call("PUT", "/connectors/c/config", wanted)
        case "validate":
            return told.call("PUT", "/connector-plugins/x/config/validate", wanted)
        case "patch":
            patch = {"topics": wanted["topics"]} if "topics" in wanted else {"tasks.max": "2"}
            return told.call("PATCH", "/connectors/c/config", patch)
        case "resume":
            return told.call("PUT", "/connectors/c/resume")
        case "restart":
            return told.call("POST", "/connectors/c/restart?includeTasks=true")
        case "restart task":
            return told.call("POST", "/connectors/c/tasks/0/restart")
        case "rewind":
            return told.call("PATCH", "/connectors/c/offsets", {"offsets": []})
        case _:
            return told.call("DELETE", "/connectors/c/offsets")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", COPIES.values(), ids=COPIES.keys())
def test_a_connector_that_may_read_a_masked_topic_is_refused(form: str, wanted: dict[str, Any]) -> None:
    verdict = attempt(judge(CARDS), form, wanted)

    assert isinstance(verdict, Refuse)
    assert verdict.status == 403
    told = json.loads(verdict.content)
    assert told["error_code"] == 403
    assert "Cards" in told["message"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", FINE.values(), ids=FINE.keys())
def test_a_connector_that_reads_no_masked_topic_is_let_through(form: str, wanted: dict[str, Any]) -> None:
    assert isinstance(attempt(judge(CARDS), form, wanted), Forward)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", COPIES.values(), ids=COPIES.keys())
def test_without_rules_every_connector_is_let_through(form: str, wanted: dict[str, Any]) -> None:
    assert isinstance(attempt(judge(), form, wanted), Forward)


@pytest.mark.parametrize("form", FORMS)
def test_whoever_may_read_unmasked_may_copy_once_that_is_recorded(form: str) -> None:
    told = judge(CARDS, who="alice")
    assert isinstance(attempt(told, form, config(topics="orders")), Forward)
    assert [(entry.who, entry.resource and entry.resource.name) for entry in told.recorded] == [("alice", b"orders")]

    told = judge(CARDS, who="alice")
    told.journal_works = False
    assert isinstance(attempt(told, form, config(topics="orders")), Refuse)


@pytest.mark.parametrize("form", ["resume", "restart", "restart task", "rewind", "reset", "patch"])
@pytest.mark.parametrize("found", [(404, {}), (500, b""), (200, b"{"), (200, []), (200, {"topics": ["orders"]})])
def test_a_connector_whose_config_cannot_be_read_is_refused(form: str, found: tuple[int, Any]) -> None:
    told = judge(CARDS)
    told.knows["/connectors/c/config"] = found
    verdict = {
        "resume": lambda: told.call("PUT", "/connectors/c/resume"),
        "restart": lambda: told.call("POST", "/connectors/c/restart"),
        "restart task": lambda: told.call("POST", "/connectors/c/tasks/0/restart"),
        "rewind": lambda: told.call("PATCH", "/connectors/c/offsets", {"offsets": []}),
        "reset": lambda: told.call("DELETE", "/connectors/c/offsets"),
        "patch": lambda: told.call("PATCH", "/connectors/c/config", {"tasks.max": "2"}),
    }[form]()

    assert isinstance(verdict, Refuse)


def test_a_patch_that_takes_a_masked_topic_out_is_let_through() -> None:
    told = judge(CARDS)
    told.knows["/connectors/c/config"] = (200, config(topics="orders"))

    assert isinstance(told.call("PATCH", "/connectors/c/config", {"topics": "public"}), Forward)


def test_what_goes_up_is_written_anew_with_every_number_in_its_spelling() -> None:
    told = judge(CARDS)
    verdict = told.call("POST", "/connectors", b' { "name":"c", "config": {"connector.class":"FileStreamSource","a":1.10} } ')

    assert isinstance(verdict, Forward)
    assert verdict.content == b'{"name":"c","config":{"connector.class":"FileStreamSource","a":1.10}}'


@pytest.mark.parametrize(
    "content",
    [
        b'{"name":"c","config":{"topics":"public","topics":"orders"}}',
        b'{"name":"c","config":{"topics":["orders"]}}',
        b'{"name":"c"}',
        b"[]",
        b'{"config":{}}x',
        b'\xef\xbb\xbf{"config":{}}',
        b'{"config":{/**/}}',
        b"",
    ],
)
def test_a_config_that_two_readers_could_read_in_two_ways_is_refused(content: bytes) -> None:
    verdict = judge(CARDS).call("POST", "/connectors", content)

    assert isinstance(verdict, Refuse)
    assert verdict.status == 400


def test_a_mask_does_not_become_a_secret() -> None:
    verdict = judge(CARDS).call("PUT", "/connectors/c/config", {"connector.class": SOURCE, "database.password": "••••"})

    assert isinstance(verdict, Refuse)


@pytest.mark.parametrize(
    ("path", "is_listed"),
    [("/connectors", True), ("/connectors/", True), ("/connectors/c/tasks", True), ("/extension", False)],
)
def test_the_methods_of_a_place_are_told_if_it_is_listed(path: str, is_listed: bool) -> None:
    assert isinstance(judge(CARDS).call("OPTIONS", path), Forward if is_listed else Refuse)


def test_a_head_is_judged_as_its_get() -> None:
    assert isinstance(judge(CARDS).call("HEAD", "/connectors/c/status"), Forward)
    assert isinstance(judge(CARDS).call("HEAD", "/extension"), Refuse)


@pytest.mark.parametrize("path", ["/connectors/?forward=false", "/connectors?forward=true"])
def test_neither_a_last_slash_nor_a_query_makes_another_place(path: str) -> None:
    assert isinstance(judge(CARDS).call("POST", path, {"name": "c", "config": config(topics="orders")}), Refuse)


def test_a_permission_on_one_topic_lets_it_be_copied_and_no_pattern() -> None:
    erin = Grant(True, "messages.read.unmasked", Whom.USER, "erin", Extent(resources=((Kind.TOPIC, ("orders.eu",)),)))

    def asked(**keys: str) -> tuple[Any, list[bytes]]:
        told = Judge(KafkaConnect(), ORDERS, RuleBook("1", (CARDS,), AccessList(grants=(erin,))), who="erin")
        told.knows["/connector-plugins"] = (200, PLUGINS)
        verdict = told.call("PUT", "/connectors/c/config", config(**keys))
        return verdict, [entry.resource.name for entry in told.recorded if entry.resource is not None]

    verdict, recorded = asked(topics="orders.eu,public")
    assert isinstance(verdict, Forward)
    assert recorded == [b"orders.eu"]
    for keys in ({"topics": "orders.eu,orders.us"}, {"topics.regex": "orders[.]eu"}):
        verdict, recorded = asked(**{key.replace(".", "__"): value for key, value in keys.items()})
        assert isinstance(verdict, Refuse)
        assert recorded == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/connectors/c/tasks"), ("PUT", "/connectors/c/fence")],
)
def test_what_workers_say_to_each_other_is_refused_without_rules_as_well(method: str, path: str) -> None:
    assert isinstance(judge().call(method, path, {}), Refuse)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/admin/loggers/root"), ("GET", "/extension"), ("GET", "/connectors/c/x"), ("POST", "/")]
)
def test_what_is_not_listed_is_refused_while_any_rule_masks(method: str, path: str) -> None:
    assert isinstance(judge(CARDS).call(method, path, {}), Refuse)
    assert isinstance(judge().call(method, path, {}), Forward)


def test_the_table_names_each_act() -> None:
    assert {row.act for row in ROUTES.rows} == set(DOES)
