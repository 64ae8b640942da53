"""Connectors that read what is masked, in every form; and what answers tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.protocols.http.api import Forward, Refuse
from proxy.protocols.http.apis.kafka_connect import ROUTES, KafkaConnect
from rules.model import AccessList, Extent, Grant, Rule, RuleBook, Whom
from tests.canary import assert_no_canary
from tests.proxy.kafka.desk import CANARY, CARDS, ORDERS

from .bench import Judge

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
PLUGINS = [{"class": SINK, "type": "sink", "version": "4"}, {"class": SOURCE, "type": "source", "version": "4"}]
ALICE = Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True))


def judge(*rules: Rule, who: str | None = None) -> Judge:
    told = Judge(KafkaConnect(), ORDERS, RuleBook("1", rules, AccessList(grants=(ALICE,))), who=who)
    told.knows["/connector-plugins"] = (200, PLUGINS)
    return told


def config(**keys: Any) -> dict[str, Any]:
    return {"connector.class": SINK, "tasks.max": "1", "file": "/tmp/x"} | {
        key.replace("__", "."): value for key, value in keys.items()
    }


COPIES = {
    "a masked topic": config(topics="orders"),
    "a masked topic among others": config(topics="public, orders ,more"),
    "a masked topic by another key": config(topics="public", kafka__topic="orders"),
    "a pattern": config(topics__regex="pub.*"),
    "a pattern beside a plain topic": config(topics="public", topics__regex="pub.*"),
    "a placeholder": config(topics="${file:/x:topic}"),
    "a class by placeholder": config(topics="public") | {"connector.class": "${env:CLASS}"},
    "no topic at all": config(),
    "no class": {"topics": "public"} | {"connector.class": ""},
    "an unknown class": {"connector.class": "com.example.Strange"},
    "a mirror": {"connector.class": MIRROR, "topics": "public"},
    "a mirror by its short name": {"connector.class": "MirrorSourceConnector", "topics": "public"},
    "a replicator's pattern": {
        "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
        "topic.regex": "p.*",
    },
    "a replicator's masked topic": {
        "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
        "topic.whitelist": "orders",
    },
    "another cluster": config(topics="public", consumer__override__bootstrap__servers="elsewhere:9092"),
}
FINE = {
    "a topic that no rule covers": config(topics="public,more"),
    "a source of a file": {"connector.class": SOURCE, "topic": "public", "file": "/tmp/x"},
    "a source by its short name": {"connector.class": "FileStreamSource", "topic": "public"},
    "heartbeats": {"connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"},
    "checkpoints": {"connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector", "groups": ".*"},
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


def test_traces_and_secrets_are_hidden_while_any_rule_masks() -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    answer = {
        "c": {
            "info": {"config": {"database.password": canary, "topics": "public", "sasl.jaas.config": canary}},
            "status": {"connector": {"state": "FAILED", "trace": canary}, "tasks": [{"id": 0, "trace": f"x {canary}"}]},
        }
    }
    shown = told.shows(told.call("GET", "/connectors?expand=info&expand=status"), answer)

    assert_no_canary(shown.content, canary)
    assert json.loads(shown.content)["c"]["info"]["config"]["topics"] == "public"
    assert shown.marks == [(b"veil-masked", b"Cards")]
    assert judge().shows(judge().call("GET", "/connectors/c/status"), answer).content == json.dumps(answer).encode()


def test_secrets_that_validation_echoes_are_hidden() -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    verdict = told.call("PUT", "/connector-plugins/x/config/validate", {"connector.class": SOURCE, "topic": "public"})
    shown = told.shows(verdict, {"configs": [{"value": {"name": "db.password", "value": canary}}]})

    assert_no_canary(shown.content, canary)


def test_the_text_of_an_error_is_hidden_while_any_rule_masks() -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    shown = told.shows(told.call("GET", "/connectors/c/status"), {"error_code": 500, "message": canary}, status=500)

    assert_no_canary(shown.content, canary)
    assert shown.status == 500


def test_a_mask_does_not_become_a_secret() -> None:
    verdict = judge(CARDS).call("PUT", "/connectors/c/config", {"connector.class": SOURCE, "database.password": "••••"})

    assert isinstance(verdict, Refuse)


def test_offsets_are_told_of_sinks_alone() -> None:
    told = judge(CARDS)
    told.knows["/connectors/c/config"] = (200, config(topics="public"))
    assert isinstance(told.call("GET", "/connectors/c/offsets"), Forward)
    told.knows["/connectors/c/config"] = (200, {"connector.class": SOURCE})
    assert isinstance(told.call("GET", "/connectors/c/offsets"), Refuse)


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
    from proxy.protocols.http.apis.kafka_connect import DOES

    assert {row.act for row in ROUTES.rows} == set(DOES)
