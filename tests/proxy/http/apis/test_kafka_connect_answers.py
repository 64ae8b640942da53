"""What the answers of Kafka Connect tell, and what of it is hidden."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from proxy.protocols.http import wire
from proxy.protocols.http.api import Refuse
from rules.policy import Policy
from tests.canary import assert_no_canary
from tests.proxy.kafka.desk import CANARY, CARDS

from .connectors import SOURCE, config, judge


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


def test_offsets_of_sinks_are_told_and_those_of_sources_are_hidden() -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    sinks = {"offsets": [{"partition": {"kafka_topic": "public", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]}
    sources = {"offsets": [{"partition": {"file": canary}, "offset": {"position": 7, "at": canary}}]}
    verdict = told.call("GET", "/connectors/c/offsets")

    assert json.loads(told.shows(verdict, sinks).content) == sinks
    assert json.loads(told.shows(verdict, sources).content) == {
        "offsets": [{"partition": {"file": "••••"}, "offset": {"position": 0, "at": "••••"}}]
    }
    odd = {"offsets": [{"partition": {"kafka_topic": "public", "kafka_partition": canary}, "offset": {"kafka_offset": canary}}]}
    assert_no_canary(told.shows(verdict, odd).content, canary)


def test_a_restart_answers_without_its_traces() -> None:
    told = judge(CARDS)
    told.knows["/connectors/c/config"] = (200, config(topics="public"))
    canary = CANARY.decode()
    shown = told.shows(told.call("POST", "/connectors/c/restart"), {"tasks": [{"id": 0, "trace": canary}]}, status=202)

    assert_no_canary(shown.content, canary)


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("org.apache.kafka.connect.errors.DataException: C\n\tat x", "org.apache.kafka.connect.errors.DataException: ••••"),
        ("java.lang.NullPointerException", "java.lang.NullPointerException: ••••"),
        ("com.example.OddException: C", "••••"),
        ("C\norg.apache.kafka.common.KafkaException: x", "••••"),
        ("org.apache.kafka.C", "••••"),
        ("", ""),
    ],
)
def test_of_a_trace_stays_the_class_of_what_was_thrown(trace: str, expected: str) -> None:
    told = judge(CARDS)
    shown = told.shows(told.call("GET", "/connectors/c/status"), {"trace": trace})

    assert json.loads(shown.content) == {"trace": expected}


def test_where_a_worker_listens_is_told_to_nobody_whom_rules_are_for_and_is_not_recorded() -> None:
    told = judge(CARDS, who="alice")
    shown = told.shows(told.call("GET", "/connectors/c/status"), {"connector": {"worker_id": "10.0.0.9:8083"}})

    assert b"10.0.0.9" not in shown.content
    assert told.recorded == []


def test_whoever_may_read_unmasked_sees_traces_once_that_is_recorded() -> None:
    canary = CANARY.decode()
    told = judge(CARDS, who="alice")
    shown = told.shows(told.call("GET", "/connectors/c/status"), {"trace": canary})
    assert json.loads(shown.content) == {"trace": canary}
    assert shown.marks == [(b"veil-unmasked", b"Cards")]
    assert [(entry.who, entry.resource and entry.resource.name) for entry in told.recorded] == [("alice", b"*")]

    told = judge(CARDS, who="alice")
    told.journal_works = False
    assert_no_canary(told.shows(told.call("GET", "/connectors/c/status"), {"trace": canary}).content, canary)


def test_a_rule_that_comes_before_the_answer_counts() -> None:
    told = judge()
    canary = CANARY.decode()
    verdicts = [told.call("GET", "/connectors/c/status"), told.call("GET", "/extension")]
    told.policy = judge(CARDS).policy
    told.viewer.look()

    for verdict in verdicts:
        assert_no_canary(
            told.shows(verdict, {"trace": canary, "x": canary} if verdict is verdicts[1] else {"trace": canary}).content, canary
        )


def test_a_rule_that_goes_before_the_answer_counts_still() -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    verdict = told.call("GET", "/connectors/c/status")
    told.policy = judge().policy
    told.viewer.look()

    assert_no_canary(told.shows(verdict, {"trace": canary}).content, canary)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("connection.url", "jdbc:x://u:C@host/d"),
        ("connection.url", "jdbc:x://host/d?user=u&password=C"),
        ("aws.secret.access.key", "C"),
        ("azure.sas", "C"),
    ],
)
def test_a_secret_is_hidden_by_its_name_or_its_form(key: str, value: str) -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    shown = told.shows(told.call("GET", "/connectors/c/config"), {key: value.replace("C", canary)})

    assert json.loads(shown.content) == {key: "••••"}


def test_the_place_of_a_secret_is_no_secret() -> None:
    told = judge(CARDS)
    answer = {"db.password": "${file:/etc/x:password}", "tasks.max": "1"}

    assert json.loads(told.shows(told.call("GET", "/connectors/c/config"), answer).content) == answer


def test_what_validation_looks_up_is_hidden_with_its_errors() -> None:
    told = judge(CARDS)
    canary = CANARY.decode()
    verdict = told.call("PUT", "/connector-plugins/x/config/validate", config(topics="public", file="${file:/x:y}"))
    answer = {"configs": [{"value": {"name": "file", "value": canary, "errors": [f"Invalid value {canary}"]}}]}

    assert_no_canary(told.shows(verdict, answer).content, canary)
    assert_no_canary(told.shows(verdict, {"error_code": 400, "message": canary}, status=400).content, canary)


def test_what_is_wrong_with_a_config_of_the_readers_own_is_told() -> None:
    told = judge(CARDS)
    wrong = {"error_code": 400, "message": "Connector configuration is invalid"}
    verdict = told.call("PUT", "/connectors/c/config", config(topics="public"))
    assert json.loads(told.shows(verdict, wrong, status=400).content) == wrong

    told.knows["/connectors/c/config"] = (200, config(topics="public"))
    patch = told.call("PATCH", "/connectors/c/config", {"tasks.max": "2"})
    assert json.loads(told.shows(patch, wrong, status=400).content)["message"] == "veil: the text of this error is hidden"


@pytest.mark.parametrize(
    "answer",
    [
        {"error_code": 404, "message": "Connector c not found"},
        {"error_code": 409, "message": "Connector c already exists"},
        {"status": "starting", "message": "Worker is still starting up."},
    ],
)
def test_an_error_that_quotes_nothing_is_told(answer: dict[str, Any]) -> None:
    told = judge(CARDS)
    shown = told.shows(told.call("GET", "/connectors/c/status"), answer, status=404)

    assert json.loads(shown.content) == answer


@pytest.mark.parametrize("content", [b"<html>C</html>", b'{"servlet":"x","message":"C"}', b'{"error_code":500}', b'"C"', b"{"])
def test_an_error_of_another_form_is_replaced(content: bytes) -> None:
    told = judge(CARDS)
    shown = told.shows(told.call("GET", "/connectors/c/status"), content.replace(b"C", CANARY), status=500)

    assert json.loads(shown.content) == {"error_code": 500, "message": "veil: the text of this error is hidden"}
    assert shown.fields == [(b"content-type", b"application/json")]


def test_before_the_rules_are_read_nothing_is_made_and_no_trace_shown() -> None:
    told = judge()
    told.policy = Policy.closed()
    told.viewer.look()
    for wanted in (config(topics="public"), config(topics__regex=".*")):
        verdict = told.call("PUT", "/connectors/c/config", wanted)
        assert isinstance(verdict, Refuse)
        assert b"could not be read" in verdict.content
    assert b"C4n" not in told.shows(told.call("GET", "/connectors/c/status"), {"trace": "C4n"}).content


@pytest.mark.parametrize("trace", [[CANARY.decode()], {"worker_id": CANARY.decode(), "trace": CANARY.decode()}])
def test_a_trace_is_hidden_whatever_it_is(trace: Any) -> None:
    told = judge(CARDS)
    shown = told.shows(told.call("GET", "/connectors/c/status"), {"connector": {"trace": trace, "worker_id": "w:1"}})

    assert_no_canary(shown.content, CANARY.decode())


@pytest.mark.parametrize("extra", range(4))
def test_names_of_rules_that_are_cut_still_make_a_field_of_a_head(extra: int) -> None:
    rules = [dataclasses.replace(CARDS, name=f"{number:0>96}" + "x" * extra) for number in range(9)]
    told = judge(*rules)
    shown = told.shows(told.call("GET", "/connectors/c/status"), {"trace": "x"})

    assert wire.response_head(200, shown.marks)
