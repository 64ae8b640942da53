"""redis-cli through Veil: what a person at a terminal sees, in both versions of the protocol."""

from __future__ import annotations

import json

import pytest

from tests.brokers.redis_cli import RedisCli
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

RULES = """
rules:
  - name: Customer contact
    platform: redis
    resources: {key: ["customer:*"]}
    fields:
      - {kind: json_path, path: $.email, method: redact}
  - name: Profiles
    platform: redis
    resources: {key: ["profile:*"]}
    fields:
      - {kind: field, name: email, method: partial, keep_first: 1}
"""
ACCESS = """
users:
  auditor: {roles: [pii-reader]}
roles:
  pii-reader: {permissions: [messages.read.unmasked]}
"""


@pytest.fixture
def masked(redis_server: RedisServer, veil: VeilFactory, canary: Canary) -> Veil:
    """Veil in front of a server that holds the canaries: a document, a hash."""
    redis_server.add_user("support", "demo")
    redis_server.add_user("auditor", "demo")
    redis_server.close_default()
    with redis_server.admin() as admin:
        admin.call("SET", "customer:1", json.dumps({"name": "Ada", "email": canary.text()}))
        admin.call("HSET", "profile:1", "email", canary.text(), "name", "Ada")
        admin.call("SET", "public:1", "plain to see")
        admin.call("RPUSH", "public:list", "1")
    return veil(RULES, ACCESS, upstream=redis_server)


@pytest.mark.parametrize("resp3", [False, True])
def test_support_sees_masks_and_the_rest_as_it_is(masked: Veil, canary: Canary, resp3: bool) -> None:
    cli = RedisCli(masked.host, masked.port, user="support", password="demo", resp3=resp3)

    assert json.loads(cli.run("GET", "customer:1")) == {"name": "Ada", "email": "••••"}
    assert cli.run("HGETALL", "profile:1").split() == ["email", canary.values[1][0] + "•" * 27, "name", "Ada"]
    assert cli.run("GET", "public:1") == "plain to see"
    canary.assert_not_in(bytes(cli.seen), "the terminal")
    canary.assert_nowhere(masked)


@pytest.mark.parametrize("resp3", [False, True])
def test_an_auditor_sees_the_value_and_is_on_record(masked: Veil, canary: Canary, resp3: bool) -> None:
    cli = RedisCli(masked.host, masked.port, user="auditor", password="demo", resp3=resp3)

    assert json.loads(cli.run("GET", "customer:1"))["email"] == canary.values[0]

    reads = [entry for entry in masked.audit() if entry["event"] == "broker.message.read-unmasked"]
    assert [(read["who"], read["resource"]) for read in reads] == [("auditor", {"key": "customer:1"})]
    canary.assert_nowhere(masked)


WOULD_TELL = (
    ("GETRANGE", "profile:1", "0", "-1"),
    ("DUMP", "customer:1"),
    ("GETBIT", "customer:1", "1"),
    ("EVAL", "return redis.call('get','customer:1')", "0"),
    ("COPY", "customer:1", "mine"),
    ("OBJECT", "FREQ", "customer:1"),
    ("DEBUG", "OBJECT", "customer:1"),
    ("SORT", "public:list", "BY", "nosort", "GET", "customer:*"),
    ("STRLEN", "customer:1"),
    ("HSTRLEN", "profile:1", "email"),
    ("SET", "customer:1", "over", "GET"),
    ("NOSUCHCOMMAND", "customer:1"),
)


@pytest.mark.parametrize("resp3", [False, True])
def test_a_command_that_would_tell_another_way_tells_nothing(masked: Veil, canary: Canary, resp3: bool) -> None:
    cli = RedisCli(masked.host, masked.port, user="support", password="demo", resp3=resp3)

    for words in WOULD_TELL:
        cli.run(*words)

    assert b'NOPERM veil: DUMP on "customer:1" is refused: the masking rule "Customer contact" covers it' in cli.seen
    canary.assert_not_in(bytes(cli.seen), "the terminal")
    canary.assert_nowhere(masked)


def test_a_wrong_password_is_the_brokers_own_no(masked: Veil) -> None:
    cli = RedisCli(masked.host, masked.port, user="auditor", password="wrong")

    assert "WRONGPASS" in cli.run("GET", "customer:1")
