"""Two data sets that differ in masked values and their lengths alone read the same, whatever a masked reader asks.

Each is loaded into a server that was started for it, so that everything else that a server counts has one history.
"""

from __future__ import annotations

import difflib
import re
import shutil

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .walk import Data, Example, examples, in_step, rules

ALL = rb"(?s).+"
NUMBERS = rb":[0-9]+"
CLIENTS = rb"\b(?:id|addr|age|idle|fd)=\S*"
INFO = (
    rb"(?m)^(?:\$[0-9]+|(?:process_id|run_id|server_time_usec|uptime_in_\w+|lru_clock|master_replid|instantaneous_\w+|used_cpu_\w+"
    rb"|rdb_last_\w+|rdb_current_\w+|latest_fork_usec|aof_last_\w+|aof_current_\w+|io_threads_\w+|eventloop_\w+|active_\w+"
    rb"|used_active_\w+|monotonic_clock|acl_access_\w+|current_\w+_time|rdb_bgsave_in_progress|aof_rewrite_in_progress|total_forks"
    rb"|latency_percentiles_usec_[^:]+|rdb_changes_since_last_save|async_loading|lazyfree_pending_objects|lazyfreed_objects):.*|.*\busec=[0-9]+,usec_per_call=[0-9.]+)"
)

DIFFERENT_EVERY_TIME: dict[str, tuple[bytes, str]] = {
    "ACL GENPASS": (ALL, "chance"),
    "CLIENT ID": (ALL, "a count of connections"),
    "CLIENT INFO": (CLIENTS, "ids, ports, descriptors and ages of connections"),
    "CLIENT LIST": (CLIENTS, "ids, ports, descriptors and ages of connections"),
    "COMMANDLOG GET": (
        ALL,
        "times; that a command is in the log of large replies tells that its reply was larger than a setting",
    ),
    "COMMANDLOG LEN": (ALL, "how many commands took longer than a setting"),
    "HRANDFIELD": (ALL, "chance"),
    "INFO": (INFO, "times, processor time, ids, what a thread has freed by then; how often each command was called stays"),
    "LASTSAVE": (ALL, "time"),
    "LATENCY HISTOGRAM": (ALL, "times"),
    "LOLWUT": (ALL, "chance"),
    "PFADD": (NUMBERS, "an add says whether it changed anything, and a guess may share its register with what is there"),
    "RANDOMKEY": (ALL, "chance"),
    "SLOWLOG GET": (ALL, "times"),
    "SPOP": (ALL, "chance"),
    "SRANDMEMBER": (ALL, "chance"),
    "TIME": (ALL, "time"),
    "XADD": (rb"[0-9]{13}", "an id that is a time"),
    "XINFO CONSUMERS": (NUMBERS, "times since the consumer was last seen"),
    "XINFO STREAM": (rb":[0-9]{13}", "times of deliveries"),
    "XPENDING": (NUMBERS, "times since the delivery"),
    "ZRANDMEMBER": (ALL, "chance"),
}
"""Row -> what of its reply is left out of the comparison, and why."""

IN_ANY_ORDER = {
    **dict.fromkeys(
        ("ACL CAT", "COMMAND", "COMMAND LIST", "CONFIG GET", "KEYS", "SCAN", "INFO"), "a table with a seed of chance"
    ),
    **dict.fromkeys(
        ("HGETALL", "HKEYS", "HVALS", "HSCAN", "SSCAN", "ZSCAN"),
        "a compact value keeps the order of writing, a table has a seed of chance: which of them it is tells whether the longest "
        "value is longer than a setting, 64 bytes by default",
    ),
}
"""Row -> why its lines are sorted before they are compared."""


def _answers(server: RedisServer, veil: VeilFactory, canary: Canary, kind: str, length: int) -> dict[str, bytes]:
    """What a masked reader gets for each example, in a server that is started for this."""
    server.kill()
    for saved in ("dump.rdb", "appendonlydir"):  # by SAVE of the walk before
        shutil.rmtree(server.folder / saved, ignore_errors=True)
        (server.folder / saved).unlink(missing_ok=True)
    server.start()
    data = Data(server, canary, length=length)
    data.load(scripts=True)
    running = veil(rules(kind), upstream=server)
    found: dict[str, bytes] = {}
    with running.client() as client:
        for example in examples(data.sha):
            if example.alone:
                continue
            data.load()
            start = len(client.received)
            client.send(*example.argv)
            in_step(client)
            found[str(example).replace(data.sha, "sha")] = _steady(example, bytes(client.received[start:]))
    data.close()
    return found


def _steady(example: Example, reply: bytes) -> bytes:
    pattern, _ = DIFFERENT_EVERY_TIME.get(example.row.name, (rb"(?!)", ""))
    reply = re.sub(pattern, b"", reply)
    return b"\r\n".join(sorted(reply.split(b"\r\n"))) if example.row.name in IN_ANY_ORDER else reply


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole_value", "json_path", "field"])
def test_nothing_tells_one_masked_value_from_another(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, kind: str
) -> None:
    short = _answers(redis_server, veil, canary, kind, 1)
    long = _answers(redis_server, veil, canary, kind, 6)

    assert list(short) == list(long)
    assert not (told := [name for name in short if short[name] != long[name]]), "\n".join(
        f"{name}: {line}" for name in told for line in _difference(short[name], long[name])
    )


def _difference(one: bytes, other: bytes) -> list[str]:
    before, after = (each.decode(errors="replace").splitlines() for each in (one, other))
    found = difflib.unified_diff(before, after, lineterm="", n=0)
    return [line[:200] for line in found if not line.startswith(("---", "+++", "@@"))]
