"""Two data sets that differ in masked values and their lengths alone read the same, whatever a masked reader asks.

Each is loaded into a server that was started for it, so that everything else that a server counts has one history.
"""

from __future__ import annotations

import difflib
import re

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import VeilFactory
from tests.canary import Canary

from .walk import Data, Example, examples, in_step, rules

DIFFERENT_EVERY_TIME = {
    "ACL GENPASS": (rb"(?s).+", "chance"),
}
"""Row -> what of its reply is left out of the comparison, and why."""


def _answers(server: RedisServer, veil: VeilFactory, canary: Canary, kind: str, length: int) -> dict[str, bytes]:
    """What a masked reader gets for each example, in a server that is started for this."""
    server.kill()
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
            found[str(example)] = _steady(example, bytes(client.received[start:]))
    data.close()
    return found


def _steady(example: Example, reply: bytes) -> bytes:
    pattern, _ = DIFFERENT_EVERY_TIME.get(example.row.name, (rb"(?!)", ""))
    return re.sub(pattern, b"", reply)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole_value", "json_path", "field"])
def test_nothing_tells_one_masked_value_from_another(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary, kind: str
) -> None:
    short = _answers(redis_server, veil, canary, kind, 1)
    long = _answers(redis_server, veil, canary, kind, 6)

    differing = {
        name: "\n".join(list(difflib.unified_diff(repr(short[name])[:30000].split("\\r\\n"), repr(long[name])[:30000].split("\\r\\n"), "short", "long", lineterm="", n=0))[2:])
        for name in short
        if short[name] != long.get(name)
    }
    assert differing == {}
