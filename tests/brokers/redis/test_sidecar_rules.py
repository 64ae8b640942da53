"""Rule files that change under load, in every way that an operator's tools change them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory, write_whole
from tests.canary import Canary

from .load import masked_readers
from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, entries, names, put_secret

OTHER = SECRET.replace("Secrets", "Others").replace("secret:*", "s*")
FLIPS = 300


@pytest.mark.slow
def test_rules_that_replace_one_another_under_load_leave_no_moment_without_either(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with masked_readers(running, canary):
        for flip in range(FLIPS):
            write_whole(running.rules_dir / "rules.yaml", SECRET if flip % 2 else OTHER)
            running.signal(signal.SIGHUP)
            running.page("/livez")
    running.write_rules(SECRET + "\n")
    running.wait_rules()
    canary.assert_nowhere(running)
    running.stop()
    assert running.log().count("rules-in-force") > 20
    assert_sound(running)


@pytest.mark.slow
def test_a_file_written_in_place_never_puts_a_half_of_it_in_force(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    whole = SECRET.encode()
    with masked_readers(running, canary):
        for length in range(len(whole)):
            with (running.rules_dir / "rules.yaml").open("wb") as file:
                file.write(whole[:length])
                file.flush()
                running.page("/livez")
                file.write(whole[length:])
    canary.assert_nowhere(running)
    assert {rule for entry in running.audit() for rule in _rules(entry)} == {"Secrets"}
    assert entries(running, "configuration.masking-rule.delete") == []


def _rules(entry: object) -> list[str]:
    assert isinstance(entry, dict)
    return [rule["name"] for rule in entry["rules"]]


def vast(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 * 1024**3)


ODD: list[Callable[[Path], object]] = [
    Path.mkdir,
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("nowhere"),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"[" * 100_000),
    lambda path: path.write_bytes(b"? " * 50_000),
    vast,
    lambda path: [path.with_name(f"many{number}.yaml").write_text("rules: []\n") for number in range(1001)],
]


@pytest.mark.slow
def test_odd_things_among_the_rule_files_leave_the_rules_in_force_and_the_process_serving(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once)
    with running.client() as client:
        for make in ODD:
            made = running.rules_dir / "odd.yaml"
            make(made)
            running.signal(signal.SIGHUP)
            wait_until(lambda: running.metric("veil_rules_last_reload_successful") == 0.0, "it is refused", 5)

            assert client.call("GET", "secret:1") == MASK
            assert running.page("/readyz")[0] == 200

            for each in running.rules_dir.iterdir():
                if each.name == "rules.yaml":
                    continue
                each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()
            running.signal(signal.SIGHUP)
            wait_until(lambda: running.metric("veil_rules_last_reload_successful") == 1.0, "it is healed", 5)
        canary.assert_nowhere(running, [client])


@pytest.mark.slow
def test_a_permission_taken_back_takes_the_next_read_and_leaves_the_record(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    redis_once.add_user("alice", PASSWORD)
    value = canary.text().encode()
    put_secret(redis_once, value)
    running = veil(SECRET, ALICE, upstream=redis_once)
    for access in (
        "users: {alice: {disabled: true}}\n" + ALICE,
        ALICE.replace("alice", "Alice"),
        ALICE.replace("allow", "deny"),
    ):
        running.write_rules(ALICE, "access.yaml")
        running.wait_rules()
        with running.client() as alice:
            alice.login("alice", PASSWORD)
            assert alice.call("GET", "secret:1") == value
            running.write_rules(access, "access.yaml")
            running.wait_rules()

            start = len(alice.received)
            assert alice.call("GET", "secret:1") == MASK
            canary.assert_not_in(bytes(alice.received[start:]), "what came after the permission was taken")
    canary.assert_nowhere(running)
    assert len(names(running, UNMASKED)) == 3
    assert_sound(running)
