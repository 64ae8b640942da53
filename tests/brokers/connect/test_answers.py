"""What a real worker tells of records and secrets, and what of it comes through Veil."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.kafka_connect import ConnectServer
from tests.brokers.processes import wait_until
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .scenery import ACCESS, MASK, RULES, SOURCE, holds, new_topic, reader, refused, settled, sink, whole_trail

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
THROWN = "org.apache.kafka.connect.errors.ConnectException: "


def test_a_trace_that_quotes_a_record_shows_nothing_of_it(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    secret = canary.text()
    cards = new_topic(connect_server, "cards", secret.encode())
    config = sink(tmp_path / "copy.txt", cards, value__converter=JSON_CONVERTER, errors__log__include__messages="true")
    connect_server.create("failing", **config)
    connect_server.wait_state("failing", "FAILED")
    assert secret in connect_server.status("failing")["tasks"][0]["trace"]
    one = veil(RULES, ACCESS, upstream=connect_server)
    with reader(one) as bob, reader(one, "alice") as alice:
        told = bob.ask("GET", "/connectors/failing/status").json()
        assert told["tasks"][0]["state"] == "FAILED"
        assert told["tasks"][0]["trace"] == THROWN + MASK
        for path in (
            "/connectors/failing/tasks/0/status",
            "/connectors?expand=status",
            "/connectors?expand=info&expand=status",
            "/connectors/?expand=status",
            "/connectors/failing/tasks",
            "/connectors/failing",
        ):
            answer = bob.ask("GET", path)
            assert answer.status == 200, path
            assert bob.ask("HEAD", path).status == 200
            canary.assert_not_in(answer.body, path)
            assert b"worker_id" not in answer.body or b'"worker_id":"' + MASK.encode() in answer.body
        assert bob.ask("GET", "/connectors/failing/status").headers["veil-masked"] == "Cards"
        assert refused(bob.ask("POST", "/connectors/failing/restart?includeTasks=true&onlyFailed=true"))
        assert not any(where in bob.received for where in connect_server.secrets)

        clear = alice.ask("GET", "/connectors/failing/status")
        assert secret in clear.json()["tasks"][0]["trace"]
        assert clear.headers["veil-unmasked"] == "Cards"
        assert settled(alice, "POST", "/connectors/failing/restart?includeTasks=true").status == 202
        whole_trail(one, canary, bob)
    unmasked = [entry for entry in one.audit() if entry["event"] == "broker.message.read-unmasked"]
    assert {entry["who"] for entry in unmasked} == {"alice"}


def test_a_trace_of_a_connector_on_another_topic_is_hidden_as_well(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    """Where its records came from is not known: they may be a copy."""
    free = new_topic(connect_server, "free", canary.text().encode())
    connect_server.create("failing", **sink(tmp_path / "copy.txt", free, value__converter=JSON_CONVERTER))
    connect_server.wait_state("failing", "FAILED")
    one = veil(RULES, upstream=connect_server)
    with reader(one) as bob:
        restarted = settled(bob, "POST", "/connectors/failing/restart?includeTasks=true&onlyFailed=true")
        assert restarted.status == 202

        seen: list[object] = []

        def has_failed() -> bool:
            seen.append(bob.ask("GET", "/connectors/failing/tasks/0/status").json().get("trace"))
            return seen[-1] is not None

        wait_until(has_failed, "it has failed again")  # the worker starts it some time after it has said yes
        assert seen[-1] == THROWN + MASK
        whole_trail(one, canary, bob)


def test_secrets_of_configs_are_hidden_and_their_masks_are_not_taken_back(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    secret = canary.text()
    free = new_topic(connect_server, "free")
    config = {"connector.class": SOURCE, "topic": free, "file": str(tmp_path / "in.txt"), "tasks.max": "1"}
    config |= {"db.password": secret, "connection.url": f"jdbc:x://u:{secret}@db/x", "sasl.jaas.config": secret}
    (tmp_path / "in.txt").write_text("line\n")
    one = veil(RULES, upstream=connect_server)
    with reader(one) as bob:
        made = settled(bob, "PUT", "/connectors/from/config", config)
        assert made.status == 201
        connect_server.wait_state("from", "RUNNING")
        for path in ("/connectors/from", "/connectors/from/config", "/connectors/from/tasks", "/connectors?expand=info"):
            answer = bob.ask("GET", path)
            assert MASK in answer.body.decode(), path
        shown = bob.ask("GET", "/connectors/from/config").json()
        assert shown["topic"] == free
        back = bob.ask("PUT", "/connectors/from/config", shown)
        assert back.status == 403
        assert "mask" in back.json()["message"]
        assert settled(bob, "PATCH", "/connectors/from/config", {"db.password": MASK}).status == 403
        assert connect_server.ask("GET", "/connectors/from/config").json()["db.password"] == secret
        assert settled(bob, "PATCH", "/connectors/from/config", {"tasks.max": "2"}).status == 200
        offsets = bob.ask("GET", "/connectors/from/offsets")
        assert offsets.status == 200
        assert str(tmp_path) not in offsets.body.decode()
        whole_trail(one, canary, bob)


def test_what_a_worker_looks_up_elsewhere_is_not_told_by_validation(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    secret = canary.text()
    (tmp_path / "kept.properties").write_text(f"x={secret}\n")
    elsewhere = f"${{file:{tmp_path}/kept.properties:x}}"
    config = sink(tmp_path / "out.txt", "free-topic", errors__retry__timeout=elsewhere) | {"file": elsewhere}
    path = "/connector-plugins/FileStreamSink/config/validate"
    assert secret in connect_server.ask("PUT", path, config).body.decode()
    one = veil(RULES, upstream=connect_server)
    with reader(one) as bob:
        answer = bob.ask("PUT", path, config)
        assert answer.status == 200
        assert answer.json()["error_count"] > 0
        assert bob.ask("POST", "/connectors", {"name": "x", "config": config}).status == 400
        whole_trail(one, canary, bob)


def test_what_is_wrong_with_a_config_is_told_as_the_worker_tells_it(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    new_topic(connect_server, "cards", canary.text().encode())
    one = veil(RULES, upstream=connect_server)
    wrong = sink(tmp_path / "out.txt", "free-topic", tasks__max="many")
    with reader(one) as bob, connect_server.client() as direct:
        for method, path, body in (
            ("PUT", "/connectors/x/config", wrong),
            ("PUT", "/connector-plugins/FileStreamSink/config/validate", wrong),
            ("GET", "/connectors/none", None),
            ("GET", "/connectors/none/status", None),
            ("GET", "/connector-plugins", None),
            *(
                ("GET", f"/connector-plugins/{name}/config", None)
                for name in ("FileStreamSink", "MirrorSource", "MirrorCheckpoint")
            ),
            ("GET", "/", None),
            ("GET", "/health", None),
            ("GET", "/admin/loggers", None),
            ("GET", "/admin/loggers/root", None),
        ):
            answer, as_it_is = bob.ask(method, path, body), direct.ask(method, path, body)
            assert (answer.status, answer.json()) == (as_it_is.status, as_it_is.json()), path
        assert bob.ask("OPTIONS", "/connectors").status == 200
        assert refused(bob.ask("GET", "/application.wadl"))
        whole_trail(one, canary, bob)


def test_without_rules_everything_is_as_it_is(connect_server: ConnectServer, veil: VeilFactory, tmp_path: Path) -> None:
    free = new_topic(connect_server, "free", b"a-record")
    one = veil("rules: []\n", upstream=connect_server)
    out = tmp_path / "out.txt"
    with reader(one) as bob:
        config = {key: value for key, value in sink(out, "").items() if key != "topics"} | {"topics.regex": free}
        assert settled(bob, "PUT", "/connectors/to/config", config).status == 201
        wait_until(lambda: holds(out, "a-record"), "it is copied", 60)
        assert bob.ask("GET", "/connectors/to/config").json() == connect_server.ask("GET", "/connectors/to/config").json()


def test_a_wrong_login_is_the_workers_to_refuse(
    connect_server: ConnectServer, veil: VeilFactory, canary: Canary, tmp_path: Path
) -> None:
    cards = new_topic(connect_server, "cards", canary.text().encode())
    one = veil(RULES, ACCESS, upstream=connect_server)
    config = sink(tmp_path / "out.txt", cards)
    for name, password in (("alice", "wrong"), ("nobody", "x"), (None, None)):
        with reader(one, name, password) as stranger:
            assert stranger.ask("GET", "/connectors").status == 401
            assert stranger.ask("PUT", "/connectors/x/config", config).status in (401, 403)
            whole_trail(one, canary, stranger)
    assert connect_server.names() == set()
    assert [entry for entry in one.audit() if entry["event"] == "broker.message.read-unmasked"] == []
