"""Connectors that copy what is masked, made and set going through Veil: none is, and what copies anything else is."""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.brokers.kafka_connect import ConnectServer
from tests.brokers.kafka_server import SASL, KafkaServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ACCESS, MIRROR, RULES, SINK, SOURCE, card, holds, new_topic, reader, refused, settled, sink, whole_trail


def test_no_form_of_a_connector_that_reads_a_masked_topic_is_made(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    cards = new_topic(connect_server, "cards", card(canary.text()))
    free = new_topic(connect_server, "free", b"free-record")
    one = veil(RULES, ACCESS, upstream=connect_server)
    out = tmp_path / "copy.txt"
    forms = {
        "plain": sink(out, cards),
        "among others": sink(out, f"{free} , {cards}"),
        "behind what Java trims": sink(out, f"\x01{cards}"),
        "an alias": sink(out, cards, connector__class="FileStreamSink"),
        "a short name": sink(out, cards, connector__class="FileStreamSinkConnector"),
        "a pattern": {key: value for key, value in sink(out, "").items() if key != "topics"} | {"topics.regex": "card.*"},
        "a pattern that names none": sink(out, free) | {"topics.regex": "free.*"},
        "a placeholder": sink(out, f"${{file:{tmp_path}/topic.properties:topic}}"),
        "another cluster": sink(out, free, consumer__override__bootstrap__servers=connect_server.kafka.address),
        "for what failed": sink(out, free, errors__deadletterqueue__topic__name=cards),
        "a mirror": {"connector.class": MIRROR, "topics": free, "source.cluster.alias": "a", "target.cluster.alias": "b"},
        "a mirror by its alias": {"connector.class": "MirrorSource", "topics": "card.*", "source.cluster.alias": "a"},
        "an unknown class": sink(out, free, connector__class="com.example.Strange"),
    }
    (tmp_path / "topic.properties").write_text(f"topic={cards}\n")
    with reader(one) as bob:
        assert settled(bob, "PUT", "/connectors/works/config", sink(tmp_path / "free.txt", free)).status == 201
        before = connect_server.names()
        for name, config in forms.items():
            body = {"name": "copy", "config": config}
            path = f"/connector-plugins/{config['connector.class'].rpartition('.')[2]}/config/validate"
            for method, at, told in (
                ("POST", "/connectors", body),
                ("POST", "/connectors/?forward=true", body),
                ("POST", "/connectors", body | {"initial_state": "STOPPED"}),
                ("POST", "/connectors", body | {"initial_state": "PAUSED"}),
                ("PUT", "/connectors/copy/config", config),
                ("PUT", "/connectors/copy/config/", config),
                ("PUT", "/connectors/works/config", config),
                ("PATCH", "/connectors/works/config", config),
                ("PUT", path, config),
            ):
                assert refused(bob.ask(method, at, told)), (name, method, at)
        for patch in ({"topics": cards}, {"topics.regex": "c.*"}, {"connector.class": MIRROR}, {"topics": None}):
            assert refused(bob.ask("PATCH", "/connectors/works/config", patch)), patch

        assert connect_server.names() == before == {"works"}
        assert connect_server.ask("GET", "/connectors/works/config").json()["topics"] == free
        wait_until(lambda: holds(tmp_path / "free.txt", "free-record"), "what no rule covers is copied", 60)
        assert not out.exists()
        whole_trail(one, canary, bob)
    assert {entry["who"] for entry in one.audit() if entry["event"] == "masking.refused"} == {"bob"}


def test_a_connector_from_before_the_rule_can_be_stopped_and_not_set_going(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    secret = canary.text()
    cards = new_topic(connect_server, "cards", card(secret))
    out = tmp_path / "copy.txt"
    config = sink(out, cards)
    assert connect_server.ask("PUT", "/connectors/old/config", config).status == 201
    wait_until(lambda: holds(out, secret), "it copied before", 60)
    one = veil(RULES, ACCESS, upstream=connect_server)
    with reader(one) as bob:
        assert settled(bob, "PUT", "/connectors/old/pause").status == 202
        connect_server.wait_state("old", "PAUSED")
        assert refused(bob.ask("PUT", "/connectors/old/resume"))
        assert settled(bob, "PUT", "/connectors/old/stop").status == 204
        wait_until(lambda: connect_server.status("old")["connector"]["state"] == "STOPPED", "it is stopped", 60)
        out.unlink()
        offset = {"partition": {"kafka_topic": cards, "kafka_partition": 0}, "offset": {"kafka_offset": 0}}
        for method, path, body in (
            ("PUT", "/connectors/old/resume", None),
            ("POST", "/connectors/old/restart", None),
            ("POST", "/connectors/old/restart?includeTasks=true&onlyFailed=false", None),
            ("POST", "/connectors/old/tasks/0/restart", None),
            ("PATCH", "/connectors/old/offsets", {"offsets": [offset]}),
            ("DELETE", "/connectors/old/offsets", None),
            ("PATCH", "/connectors/old/config", {"tasks.max": "1"}),
            ("PUT", "/admin/loggers/org.apache.kafka.connect.runtime", {"level": "TRACE"}),
            ("POST", "/connectors/old/tasks", [{}]),
            ("PUT", "/connectors/old/fence", None),
        ):
            answer = bob.ask(method, path, body)
            assert answer.status == 403, (method, path, answer)
        assert bob.ask("GET", "/connectors/old/status").json()["connector"]["state"] == "STOPPED"
        assert bob.ask("GET", "/connectors/old/offsets").status == 200
        assert connect_server.status("old")["connector"]["state"] == "STOPPED"
        assert settled(bob, "DELETE", "/connectors/old").status == 204
        assert connect_server.names() == set()
        assert not out.exists()
        whole_trail(one, canary, bob)


def test_what_no_rule_covers_is_copied_from_end_to_end_by_anybody(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    new_topic(connect_server, "cards", card(canary.text()))
    free = new_topic(connect_server, "free")
    one = veil(RULES, ACCESS, upstream=connect_server)
    into, out = tmp_path / "in.txt", tmp_path / "out.txt"
    into.write_text("a line\n")
    source = {"connector.class": SOURCE, "topic": free, "file": str(into)}
    with reader(one) as bob:
        assert settled(bob, "POST", "/connectors", {"name": "from", "config": source}).status == 201
        assert settled(bob, "POST", "/connectors", {"name": "to", "config": sink(out, free)}).status == 201
        wait_until(lambda: holds(out, "a line"), "the line went through the topic", 60)
        assert set(bob.ask("GET", "/connectors").json()) == {"from", "to"}
        assert bob.ask("GET", "/connectors/to/topics").json()["to"]["topics"] == [free]
        assert settled(bob, "PUT", "/connectors/to/stop").status == 204
        wait_until(lambda: connect_server.status("to")["connector"]["state"] == "STOPPED", "it is stopped", 60)
        assert settled(bob, "DELETE", "/connectors/to/offsets").status == 200
        out.unlink()
        assert settled(bob, "PUT", "/connectors/to/resume").status == 202
        wait_until(lambda: holds(out, "a line"), "it read again from the start", 60)
        assert settled(bob, "PATCH", "/connectors/to/config", {"tasks.max": "2"}).json()["config"]["tasks.max"] == "2"
        assert settled(bob, "DELETE", "/connectors/to").status == 204
        assert not any(secret in bob.received for secret in connect_server.secrets)
        whole_trail(one, canary, bob)


def test_whoever_may_read_unmasked_may_copy_and_is_on_record(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    secret = canary.text()
    cards = new_topic(connect_server, "cards", card(secret))
    eu = new_topic(connect_server, "cards-eu", card(secret))
    one = veil(RULES, ACCESS, upstream=connect_server)
    out, other = tmp_path / "copy.txt", tmp_path / "other.txt"
    with reader(one, "alice") as alice, reader(one, "carol") as carol:
        assert settled(alice, "POST", "/connectors", {"name": "copy", "config": sink(out, cards)}).status == 201
        wait_until(lambda: holds(out, secret), "it is copied", 60)
        assert refused(carol.ask("PUT", "/connectors/other/config", sink(other, cards)))
        assert refused(carol.ask("PUT", "/connectors/other/config", sink(other, f"{eu},{cards}")))
        assert settled(carol, "PUT", "/connectors/other/config", sink(other, eu)).status == 201
        wait_until(lambda: holds(other, secret), "the topic that she may read is copied", 60)
        assert settled(alice, "PUT", "/admin/loggers/org.apache.kafka.connect.mirror", {"level": "INFO"}).status in (200, 204)
        whole_trail(one, canary, alice, carol)
    unmasked = [entry for entry in one.audit() if entry["event"] == "broker.message.read-unmasked"]
    assert {(entry["who"], str(entry["resource"])) for entry in unmasked} >= {
        ("alice", str({"topic": cards})),
        ("carol", str({"topic": eu})),
        ("alice", str({"topic": "*"})),
    }
    assert ("carol", str({"topic": cards})) not in {(entry["who"], str(entry["resource"])) for entry in unmasked}


def test_a_name_proves_nothing_at_a_worker_that_answers_everybody(
    connect_open: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    cards = new_topic(connect_open, "cards", card(canary.text()))
    one = veil(RULES, ACCESS, upstream=connect_open)
    name = f"copy-{secrets.token_hex(4)}"
    with reader(one, "alice") as alice:
        assert refused(alice.ask("PUT", f"/connectors/{name}/config", sink(tmp_path / "copy.txt", cards)))
        assert connect_open.names() == set()
        whole_trail(one, canary, alice)
    assert "alice" in one.page("/readyz")[1] + one.log()


def test_a_rule_that_comes_while_a_connector_is_stopped_counts(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    cards = new_topic(connect_server, "cards", card(canary.text()))
    out = tmp_path / "copy.txt"
    one = veil("rules: []\n", ACCESS, upstream=connect_server)
    with reader(one) as bob:
        body = {"name": "copy", "config": sink(out, cards), "initial_state": "STOPPED"}
        assert settled(bob, "POST", "/connectors", body).status == 201
        one.write_rules(RULES)
        one.wait_rules()
        assert refused(bob.ask("PUT", "/connectors/copy/resume"))
        assert SINK in bob.ask("GET", "/connectors/copy").json()["config"]["connector.class"]
        assert not out.exists()
        whole_trail(one, canary, bob)


def test_a_worker_whose_brokers_are_veil_copies_what_a_reader_without_permission_sees(
    kafka_server: KafkaServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    brokers = veil(RULES, ACCESS, upstream=kafka_server.at(SASL), platform="kafka")
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="bob-password";'
    of_bob = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    settings = {f"{whose}{key}": value for whose in ("", "consumer.", "producer.", "admin.") for key, value in of_bob.items()}
    worker = ConnectServer(tmp_path, kafka_server, settings=settings | {"bootstrap.servers": brokers.address})
    secret = canary.text()
    cards = new_topic(worker, "cards", card(secret))
    try:
        worker.start()
        worker.create("copy", **sink(tmp_path / "copy.txt", cards))
        wait_until(lambda: holds(tmp_path / "copy.txt", "card"), "it is copied", 60)
    finally:
        worker.stop()
    assert (tmp_path / "copy.txt").read_text() == '{"card": "••••"}\n'
    canary.assert_nowhere(brokers)
