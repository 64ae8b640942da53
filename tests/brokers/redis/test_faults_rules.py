"""Rules that are swapped and flipped thousands of times under load: what both states mask is never seen, nor half a set."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory, write_whole
from tests.canary import Canary

from .load import masked_readers
from .scenery import SECRET, assert_sound, put_secret

pytestmark = pytest.mark.slow

NONE = "rules: []\n"
OTHER = SECRET.replace("Secrets", "Others").replace("secret:*", "s*")
HASH = """
rules:
  - name: Fields
    platform: redis
    resources: ["secret:*"]
    fields: [{kind: field, name: FIRST, method: redact}, {kind: field, name: both, method: METHOD}]
"""
FLIPS = [
    HASH.replace("FIRST", "left").replace("METHOD", "redact"),
    HASH.replace("FIRST", "right").replace("METHOD", "partial, keep_last: 2"),
]


def swapped(folder: Path, number: int, files: dict[str, str]) -> None:
    """As the kubelet does it: a new folder, the link `..data` moved over to it by a rename, the old folder removed."""
    new = folder / f"..{number}"
    new.mkdir()
    for name, text in files.items():
        (new / name).write_text(text)
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").replace(folder / "..data")
    shutil.rmtree(folder / f"..{number - 1}", ignore_errors=True)


@pytest.mark.parametrize("swaps", [150, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_folder_that_is_swapped_under_load_is_never_read_half(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, swaps: int
) -> None:
    put_secret(redis_once, canary.text())
    running = veil(SECRET, upstream=redis_once, start=False)
    # Each set masks by one file alone: half of the one and half of the other mask nothing, or by two rules.
    sets = [{"a.yaml": SECRET, "b.yaml": NONE}, {"a.yaml": NONE, "b.yaml": OTHER}]
    (running.rules_dir / "rules.yaml").unlink()
    swapped(running.rules_dir, 0, sets[0])
    for name in sets[0]:
        (running.rules_dir / name).symlink_to(f"..data/{name}")
    running.start()
    with masked_readers(running, canary):
        for number in range(1, swaps + 1):
            swapped(running.rules_dir, number, sets[number % 2])
            running.signal(signal.SIGHUP)
            running.page("/livez")
    canary.assert_nowhere(running)
    running.stop()
    in_force = [line for line in running.log().splitlines() if '"rules-in-force"' in line]
    assert len(in_force) > swaps / 20
    assert all('"rules":1,' in line for line in in_force), "no mixed set"
    assert_sound(running)


@pytest.mark.parametrize("flips", [120, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_field_that_both_states_mask_is_never_seen_while_they_take_turns_under_load(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, flips: int
) -> None:
    with redis_once.admin() as direct:
        direct.call("HSET", "secret:1", "left", "the-left-one", "both", canary.text(), "right", "the-right-one")
    running = veil(FLIPS[0], upstream=redis_once)
    wait_until(lambda: running.audit_path.exists() and running.audit_path.stat().st_size > 0, "the first rules are on record")
    asked = (
        ("HGETALL", "secret:1"),
        ("HMGET", "secret:1", "left", "both", "right"),
        ("HGET", "secret:1", "both"),
        ("HSCAN", "secret:1", 0),
        ("HVALS", "secret:1"),
        ("HRANDFIELD", "secret:1", 9, "WITHVALUES"),
        ("MULTI",),
        ("HGET", "secret:1", "both"),
        ("EXEC",),
    )
    with masked_readers(running, canary, asked) as last:
        for flip in range(1, flips + 1):
            size = running.audit_path.stat().st_size
            write_whole(running.rules_dir / "rules.yaml", FLIPS[flip % 2])
            running.signal(signal.SIGHUP)
            wait_until(lambda size=size: running.audit_path.stat().st_size > size, "the flip is in force")  # type: ignore[misc]
    seen = b"".join(last)
    assert b"the-left-one" in seen, "the one state was in force"
    assert b"the-right-one" in seen, "and so was the other"
    canary.assert_nowhere(running)
    running.stop()
    assert running.log().count('"rules-in-force"') == flips + 1
    assert_sound(running)
