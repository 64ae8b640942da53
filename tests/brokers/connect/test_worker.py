"""The fixture itself: a worker that asks for logins, and one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.kafka_connect import ConnectServer
from tests.brokers.processes import wait_until

from .scenery import MIRROR, holds, new_topic, sink


def test_a_worker_with_logins_answers_those_it_knows(connect_server: ConnectServer) -> None:
    for login, expected in ((("bob", "bob-password"), 200), (("bob", "wrong"), 401), (None, 401)):
        with connect_server.client(login) as client:
            assert client.ask("GET", "/").status == expected

    known = {each["class"].rpartition(".")[2]: each["type"] for each in connect_server.ask("GET", "/connector-plugins").json()}
    assert known["FileStreamSinkConnector"] == "sink"
    assert known["FileStreamSourceConnector"] == known["MirrorSourceConnector"] == "source"


def test_a_worker_without_logins_answers_everybody(connect_open: ConnectServer) -> None:
    with connect_open.client(("bob", "wrong")) as client:
        assert client.ask("GET", "/").status == 200


@pytest.mark.parametrize("form", ["\x01{}", "{}\x00", " \t{}\r\n", "none-such-topic\x0b,\x0c{}"])
def test_a_worker_trims_names_of_topics_as_java_does(connect_server: ConnectServer, form: str, tmp_path: Path) -> None:
    free = new_topic(connect_server, "free", b"a-record")
    connect_server.create("trimmed", **sink(tmp_path / "out.txt", form.format(free)))

    wait_until(lambda: holds(tmp_path / "out.txt", "a-record"), "it reads the topic", 60)


@pytest.mark.parametrize("alias", ["MirrorSource", "MirrorSourceConnector", MIRROR])
def test_a_worker_knows_a_mirror_by_its_aliases(connect_server: ConnectServer, alias: str) -> None:
    config = {"connector.class": alias, "name": "m", "topics": "x.*"}

    assert connect_server.ask("PUT", f"/connector-plugins/{alias}/config/validate", config).json()["name"] == alias


@pytest.mark.parametrize(
    "alias", ["FileStream", "filestreamsink", " FileStreamSink", "org.apache.kafka.connect.file.FileStreamSink"]
)
def test_a_worker_knows_no_class_by_anything_else(connect_server: ConnectServer, alias: str) -> None:
    answer = connect_server.ask(
        "PUT", "/connectors/none/config", {"connector.class": alias, "topics": "x", "file": "/dev/null"}
    )

    assert answer.status >= 400
