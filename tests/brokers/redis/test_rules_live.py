"""Rules that change while readers are connected: edits, broken states, swaps, deletions, and a bad start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault, Push, RespClient
from tests.brokers.veil import VeilFactory, write_whole
from tests.canary import Canary

from .scenery import ELSEWHERE, MASK, OPEN, SECRET, assert_sound, names, put_secret

AT_ONCE_S = 2.0
BROKEN = "rules:\n  - name: Secrets\n    platfrom: redis\n"


def soon(client: RespClient, expected: bytes) -> None:
    wait_until(lambda: client.call("GET", "secret:1") == expected, "the next GET shows the new rules", AT_ONCE_S)


def put(server: RedisServer, value: str) -> bytes:
    put_secret(server, value)
    return value.encode()


def test_an_edit_shows_in_the_next_get_of_an_open_connection(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    value = put(redis_server, canary.text())
    running = veil(OPEN, upstream=redis_server)
    with running.client() as client:
        assert client.call("GET", "secret:1") == value
        running.write_rules(SECRET)
        soon(client, MASK)
        start = len(client.received)
        assert client.pipeline(*[("GET", "secret:1")] * 50) == [MASK] * 50
        canary.assert_not_in(bytes(client.received[start:]))

        running.write_rules(SECRET.replace("method: redact", "method: partial, keep_first: 2"))

        soon(client, value[:2] + "•".encode() * (len(value) - 2))
    canary.assert_nowhere(running)


def test_a_broken_edit_changes_nothing_but_readyz_and_the_log_until_it_is_healed(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    value = put(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client:
        running.write_rules(BROKEN)
        running.wait_rules(broken=True)

        assert client.call("GET", "secret:1") == MASK
        status, page = running.page("/readyz")
        assert status == 200
        assert '"line": 3' in page
        assert '"column": 5' in page
        assert "rules.yaml:3:5" in running.log()
        canary.assert_nowhere(running, [client])

        running.write_rules(OPEN)

        soon(client, value)
        assert '"problems": []' in running.page("/readyz")[1]


def test_a_deleted_rule_file_takes_its_rules_with_it_and_an_empty_directory_does_not(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    value = put(redis_once, canary.text())
    running = veil(ELSEWHERE, upstream=redis_once, start=False)
    write_whole(running.rules_dir / "more.yaml", SECRET)
    running.start()
    with running.client() as client:
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])
        (running.rules_dir / "more.yaml").unlink()
        soon(client, value)
        wait_until(lambda: len(names(running, "configuration.masking-rule.delete")) == 1, "the deletion is on record")

        write_whole(running.rules_dir / "rules.yaml", SECRET)
        soon(client, MASK)
        (running.rules_dir / "rules.yaml").unlink()
        running.wait_rules(broken=True)

        assert client.call("GET", "secret:1") == MASK
    assert_sound(running)


def test_a_config_map_is_swapped_as_one(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    value = put(redis_once, canary.text())
    running = veil(OPEN, upstream=redis_once, start=False)
    mounted(running.rules_dir, "..2026_1", SECRET)
    (running.rules_dir / "rules.yaml").unlink()
    (running.rules_dir / "rules.yaml").symlink_to("..data/rules.yaml")
    running.start()
    with running.client() as client:
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])

        mounted(running.rules_dir, "..2026_2", OPEN)

        soon(client, value)


def mounted(folder: Path, name: str, rules: str) -> None:
    """As the kubelet does it: a new folder, and the link `..data` moved over to it by a rename."""
    (folder / name).mkdir()
    (folder / name / "rules.yaml").write_text(rules)
    (folder / "..data_tmp").symlink_to(name)
    (folder / "..data_tmp").replace(folder / "..data")


def test_no_rules_at_all_open_everything_and_every_change_is_on_record(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    value = put(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client:
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])
        running.write_rules(SECRET.replace("high", "low"))
        running.wait_rules()
        running.write_rules(OPEN)

        soon(client, value)
        assert client.call("EVAL", "return redis.call('GET', 'secret:1')", 0) == value

    running.stop()
    for what in ("create", "update", "delete"):
        assert names(running, f"configuration.masking-rule.{what}") == [("store", None, ["Secrets"])]
    assert_sound(running)


def test_before_the_first_good_read_everything_is_masked_with_the_reason_and_it_heals_within_two_seconds(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    value = put(redis_server, canary.text())
    with redis_server.admin() as direct:
        direct.call("SET", "open", canary.text())
        direct.call("HSET", "hash", "field", canary.text())
    running = veil(BROKEN, upstream=redis_server, start=False)
    running.start(ready=False)
    with running.client() as client:
        assert client.call("GET", "open") == MASK
        assert client.call("HGETALL", "hash") == [b"field", MASK]
        refused = client.call("EVAL", "return redis.call('GET', 'open')", 0)
        assert isinstance(refused, Fault)
        assert refused.endswith(b"the masking rules could not be read")
        wait_until(lambda: "rules.yaml" in running.page("/readyz")[1], "/readyz names the broken file")
        assert running.page("/readyz")[0] == 503
        assert running.metric("veil_values_masked_whole_total", reason="rules could not be read")
        canary.assert_nowhere(running, [client])

        running.write_rules(ELSEWHERE)

        soon(client, value)
        assert running.page("/readyz")[0] == 200


def test_a_lost_directory_keeps_the_rules_in_force(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> None:
    put(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client:
        running.rules_dir.rename(running.folder / "away")
        running.wait_rules(broken=True)

        assert client.call("GET", "secret:1") == MASK
        (running.folder / "away").rename(running.rules_dir)
        wait_until(lambda: running.metric("veil_rules_last_reload_successful") == 1.0, "read again", AT_ONCE_S)
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [client])


@pytest.mark.parametrize("version", [2, 3])
def test_a_reader_that_is_subscribed_or_blocked_gets_the_new_rule(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, version: int
) -> None:
    running = veil(OPEN, upstream=redis_server)
    value = canary.text()
    with (
        running.client() as subscriber,
        running.client() as pattern,
        running.client() as blocked,
        redis_server.admin() as direct,
    ):
        for client in (subscriber, pattern, blocked):
            client.call("HELLO", version)
        subscriber.call("SUBSCRIBE", "secret:news")
        pattern.call("PSUBSCRIBE", "secret:*")
        blocked.send("BLPOP", "secret:list", 0)
        wait_until(lambda: b"blocked_clients:1" in _info(direct), "the reader is blocked")
        direct.call("PUBLISH", "secret:news", "shown")
        assert _payload(subscriber) == _payload(pattern) == b"shown"

        running.write_rules(SECRET)
        running.wait_rules()
        direct.call("PUBLISH", "secret:news", value)
        direct.call("RPUSH", "secret:list", value)

        assert _payload(subscriber) == _payload(pattern) == MASK
        assert blocked.read() == [b"secret:list", MASK]
        canary.assert_nowhere(running, [subscriber, pattern, blocked])


def _info(direct: RespClient) -> bytes:
    info = direct.call("INFO", "clients")
    assert isinstance(info, bytes)
    return info


def _payload(client: RespClient) -> object:
    message = client.read()
    assert isinstance(message, (list, Push))
    return message[-1]


def test_a_caching_reader_is_told_to_forget_when_rules_change(redis_server: RedisServer, veil: VeilFactory) -> None:
    running = veil(OPEN, upstream=redis_server)
    with running.client() as client:
        client.call("HELLO", 3)
        client.call("CLIENT", "TRACKING", "ON")
        client.call("GET", "secret:1")

        running.write_rules(SECRET)

        assert client.read() == [b"invalidate", None]


def test_a_transaction_that_was_queued_before_the_rule_came_is_judged_by_it(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put(redis_once, canary.text())
    running = veil(OPEN, upstream=redis_once)
    with running.client() as reads, running.client() as copies:
        reads.pipeline(("MULTI",), ("GET", "secret:1"))
        copies.pipeline(("MULTI",), ("RENAME", "secret:1", "open"))
        running.write_rules(SECRET)
        running.wait_rules()

        assert reads.call("EXEC") == [MASK]
        assert copies.call("EXEC") == Fault(b"EXECABORT Transaction discarded because of previous errors.")
        assert copies.call("GET", "secret:1") == MASK
        canary.assert_nowhere(running, [reads, copies])


@pytest.mark.slow
def test_readers_under_load_see_each_rule_within_two_seconds_and_never_a_torn_state(
    redis_once: RedisServer, veil: VeilFactory
) -> None:
    value = put(redis_once, "original")
    running = veil(OPEN, upstream=redis_once)
    with running.client() as client:
        for rules, expected in ((SECRET, MASK), (OPEN, value), (SECRET, MASK)):
            running.write_rules(rules)
            start = time.monotonic()
            seen: list[object] = []
            while not seen or seen[-1] != expected:
                assert time.monotonic() - start < AT_ONCE_S
                seen += client.pipeline(*[("GET", "secret:1")] * 20)

            turn = seen.index(expected)
            assert set(seen[turn:]) == {expected}, "it never turns back"
