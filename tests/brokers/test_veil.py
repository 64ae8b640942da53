"""Veil as a process: starts, reads rules again, keeps the old ones when the new are broken, and stops cleanly."""

from __future__ import annotations

from pathlib import Path

import pytest

from .redis_server import RedisServer
from .veil import VeilFactory, write_whole

OPEN = "rules: []\n"
COVERED = """
rules:
  - name: All of it
    platform: redis
    resources: ["secret:*"]
    mask_all: true
"""


def test_a_rule_written_while_it_runs_is_in_force_for_a_connection_that_is_open(
    redis_once: RedisServer, veil: VeilFactory
) -> None:
    running = veil(OPEN, upstream=redis_once)
    with running.client() as client:
        client.call("SET", "secret:1", "shown")
        assert client.call("GET", "secret:1") == b"shown"

        running.write_rules(COVERED)
        running.wait_rules()

        assert client.call("GET", "secret:1") == "••••".encode()


def test_broken_rules_leave_the_old_ones_in_force_and_readyz_names_the_place(
    redis_once: RedisServer, veil: VeilFactory
) -> None:
    running = veil(COVERED, upstream=redis_once)
    with redis_once.client() as direct:
        direct.call("SET", "secret:1", "hidden")

    running.write_rules("rules: [\n")
    running.wait_rules(broken=True)

    status, page = running.page("/readyz")
    assert status == 200
    assert "rules.yaml" in page
    with running.client() as client:
        assert client.call("GET", "secret:1") == "••••".encode()


def test_without_readable_rules_it_lives_but_is_not_ready_and_everything_is_masked(
    redis_once: RedisServer, veil: VeilFactory
) -> None:
    with redis_once.client() as direct:
        direct.call("SET", "any", "hidden")
    running = veil("rules: [\n", upstream=redis_once, start=False)
    running.start(ready=False)

    assert running.page("/readyz")[0] == 503
    with running.client() as client:
        assert client.call("GET", "any") == "••••".encode()
        assert b"hidden" not in client.received


def test_it_stops_with_zero_at_sigterm_while_a_reader_is_connected(redis_once: RedisServer, veil: VeilFactory) -> None:
    running = veil(OPEN, upstream=redis_once)
    with running.client() as client:
        client.call("PING")

        assert running.stop() == 0
        assert client.at_end()


def test_a_config_that_cannot_be_carried_out_ends_with_two_and_names_the_key(
    redis_once: RedisServer, veil: VeilFactory
) -> None:
    running = veil(OPEN, upstream=redis_once, start=False, nonsense=True)

    with pytest.raises(ConnectionRefusedError, match=r"ended with 2: .*nonsense"):
        running.start()
    running.kill()


def test_a_file_written_whole_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "rules.yaml"
    target.write_text("old")

    write_whole(target, "new")

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("rules.yaml", "new")]
