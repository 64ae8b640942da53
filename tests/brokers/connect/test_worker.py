"""The fixture itself: a worker that asks for logins, and one that does not."""

from __future__ import annotations

from tests.brokers.kafka_connect import ConnectServer


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
