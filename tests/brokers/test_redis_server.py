"""The fixtures against real servers: what a test leaves behind is gone, and disturbing a server disturbs it."""

from __future__ import annotations

import pytest

from .redis_cli import RedisCli
from .redis_server import RedisServer
from .resp_client import Fault, Pairs, RespSet


@pytest.mark.parametrize("number", [1, 2])
def test_a_server_is_empty_and_open_whatever_the_test_before_left(redis_server: RedisServer, number: int) -> None:
    with redis_server.client() as client:
        assert client.call("DBSIZE") == 0
        assert client.call("ACL", "WHOAMI") == b"default"
        assert client.call("CONFIG", "GET", "maxmemory-policy") == [b"maxmemory-policy", b"noeviction"]

        client.call("SET", "left", "behind")
    redis_server.add_user("alice", "pw", "~*", "+get")
    redis_server.config_set("maxmemory-policy", "allkeys-lru")
    redis_server.close_default()


def test_settings_come_back_after_a_test(redis_server: RedisServer) -> None:
    redis_server.config_set("maxmemory-policy", "allkeys-lru")
    redis_server.reset()

    with redis_server.client() as client:
        assert client.call("CONFIG", "GET", "maxmemory-policy") == [b"maxmemory-policy", b"noeviction"]


def test_a_user_has_the_rights_given_and_needs_its_password(redis_server: RedisServer) -> None:
    redis_server.add_user("alice", "pw", "~a:*", "+get")
    redis_server.close_default()
    with redis_server.client() as client:
        assert isinstance(client.call("GET", "a:1"), Fault)
        assert isinstance(client.call("AUTH", "alice", "wrong"), Fault)
        assert client.call("AUTH", "alice", "pw") == b"OK"
        assert client.call("GET", "a:1") is None
        assert isinstance(client.call("GET", "b:1"), Fault)


def test_a_paused_server_is_silent_and_a_resumed_one_answers(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        assert client.call("PING") == b"PONG"
        redis_server.pause()
        client._socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.call("PING")
        redis_server.resume()
        client._socket.settimeout(5)
        assert client.read() == b"PONG"


def test_a_killed_server_hangs_up_and_starts_again_on_its_port(redis_server: RedisServer) -> None:
    port = redis_server.port
    with redis_server.client() as client:
        client.call("PING")
        redis_server.kill()
        assert client.at_end()
    with pytest.raises(ConnectionRefusedError):
        redis_server.client()
    redis_server.start()

    assert redis_server.port == port
    with redis_server.client() as client:
        assert client.call("PING") == b"PONG"


def test_types_of_the_third_protocol_are_kept(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        assert isinstance(client.call("HELLO", 3), Pairs)
        client.call("HSET", "h", "f", "v")
        client.call("SADD", "s", "a")
        assert client.call("HGETALL", "h") == Pairs([(b"f", b"v")])
        assert type(client.call("SMEMBERS", "s")) is RespSet
        assert client.call("DEBUG", "PROTOCOL", "true") is True
        assert client.call("GET", "absent") is None
        assert client.received.endswith(b"_\r\n")


def test_a_pipeline_answers_in_order(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        replies = client.pipeline(("SET", "k", "v"), ("GET", "k"), ("NOSUCH",), ("PING",))

    assert replies[:2] == [b"OK", b"v"]
    assert isinstance(replies[2], Fault)
    assert replies[3] == b"PONG"


@pytest.mark.parametrize("resp3", [False, True])
def test_redis_cli_shows_what_is_there(redis_server: RedisServer, resp3: bool) -> None:
    redis_server.add_user("alice", "pw")
    cli = RedisCli(redis_server.host, redis_server.port, user="alice", password="pw", resp3=resp3)
    cli.run("HSET", "h", "f", "é")

    assert cli.run("HGETALL", "h").split() == ["f", "é"]
    assert cli.run(stdin=b"PING\nECHO hi\n") == "PONG\nhi"
    assert b"PONG" in cli.seen


def test_version_and_flavour_are_told(redis_server: RedisServer) -> None:
    assert redis_server.version[0].isdigit()
    assert redis_server.flavour in {"redis-process", "valkey-process", "redis-container"}
