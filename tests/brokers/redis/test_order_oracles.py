"""Reading masked values out by the order of members among probes: real programs, which learn nothing through Veil.

Each program looks at its own probes and at what of the victim is shown, never at what a rule hides. It is run
against two secrets: what it sees must be the same for both. Without a rule it must find the secret, or it proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Reply, RespClient, Word
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
OPEN = "rules: []\n"
RULE = """
rules:
  - name: The rule
    platform: redis
    resources: ["s:*"]
    {what}
"""
INSIDE = RULE.format(what="fields: [{kind: json_path, path: $.email, method: redact}]")
WHOLE = RULE.format(what="fields: [{kind: whole_value, method: redact}]")
LAST_FOUR = RULE.format(what="fields: [{kind: whole_value, method: partial, keep_last: 4}]")


@dataclass
class Attacker:
    """A reader with a note of all that it saw."""

    client: RespClient
    seen: list[str] = field(default_factory=list)

    def ask(self, *words: Word) -> Reply:
        reply = self.client.call(*words)
        self.seen.append(repr(reply))
        return reply

    def members(self, *words: Word) -> list[bytes]:
        reply = self.ask(*words)
        if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], list):
            reply = reply[1]  # of a scan
        return [each for each in reply if isinstance(each, bytes)] if isinstance(reply, list) else []


Place = Callable[[Attacker, str], Reply]
"""Puts a member beside the victim's."""

PLACES: dict[str, Place] = {
    "ZADD": lambda who, member: who.ask("ZADD", "s:z", "3479099956230698", member),
    "ZADD NX": lambda who, member: who.ask("ZADD", "s:z", "NX", "3479099956230698", member),
    "ZADD NX CH": lambda who, member: who.ask("ZADD", "s:z", "NX", "CH", "3479099956230698", member),
    "ZADD GT": lambda who, member: who.ask("ZADD", "s:z", "GT", "3479099956230698", member),
    "ZADD NX INCR": lambda who, member: who.ask("ZADD", "s:z", "NX", "INCR", "3479099956230698", member),
    "GEOADD": lambda who, member: who.ask("GEOADD", "s:z", "13.361389", "38.115556", member),
    "GEOADD NX": lambda who, member: who.ask("GEOADD", "s:z", "NX", "13.361389", "38.115556", member),
}


def _letter_by_letter(who: Attacker, place: Place, length: int) -> str:
    """Halves the alphabet at each letter by whether the probe stands before the victim, whose id is shown."""
    found = ""
    for _ in range(length):
        low, high = 0, len(LETTERS)
        while high - low > 1:
            middle = (low + high) // 2
            probe = f'{{"email":"{found}{LETTERS[middle]}","id":"probe"}}'
            place(who, probe)
            shown = who.members("ZRANGE", "s:z", 0, -1)
            order = [b'"id":"probe"' in each for each in shown if b'"id"' in each]
            low, high = (middle, high) if order[:1] == [True] else (low, middle)
            who.ask("ZREM", "s:z", probe)
        found += LETTERS[low]
    return found


def _sorted_set_attack(server: RedisServer, veil: Veil, place: Place, secret: str) -> Attacker:
    with server.admin() as admin:
        admin.call("DEL", "s:z")
        admin.call("GEOADD", "s:z", "13.361389", "38.115556", f'{{"email":"{secret}","id":"victim"}}')
    with veil.client() as client:
        who = Attacker(client)
        who.seen.append(f"learnt {_letter_by_letter(who, place, len(secret))}")
    return who


@pytest.mark.parametrize("rule", [INSIDE, WHOLE], ids=["inside", "whole"])
@pytest.mark.parametrize("place", PLACES)
def test_members_of_a_sorted_set_cannot_be_read_out_letter_by_letter(
    redis_once: RedisServer, veil: VeilFactory, place: str, rule: str
) -> None:
    running = veil(rule, upstream=redis_once)

    first = _sorted_set_attack(redis_once, running, PLACES[place], "kzqw")
    second = _sorted_set_attack(redis_once, running, PLACES[place], "tbyx")

    assert first.seen == second.seen
    assert not {"learnt kzqw", "learnt tbyx"} & {*first.seen, *second.seen}


@pytest.mark.parametrize("place", ["ZADD", "ZADD NX", "GEOADD", "GEOADD NX"])
def test_the_program_reads_members_out_where_no_rule_is(redis_once: RedisServer, veil: VeilFactory, place: str) -> None:
    running = veil(OPEN, upstream=redis_once)

    assert _sorted_set_attack(redis_once, running, PLACES[place], "kzqw").seen[-1] == "learnt kzqw"


LOOKS: dict[str, Sequence[Word]] = {
    "SMEMBERS": ("SMEMBERS", "s:i"),
    "SSCAN": ("SSCAN", "s:i", 0, "COUNT", 100),
    "SRANDMEMBER": ("SRANDMEMBER", "s:i", 100),
    "SUNION": ("SUNION", "s:i"),
    "SDIFF": ("SDIFF", "s:i"),
    "SINTER": ("SINTER", "s:i"),
    "SORT": ("SORT", "s:i", "BY", "nosort"),
    "SORT with a window": ("SORT", "s:i", "BY", "nosort", "LIMIT", 0, 1),
    "ZDIFF": ("ZDIFF", 1, "s:i"),
    "ZUNION": ("ZUNION", 1, "s:i"),
    "ZINTER": ("ZINTER", 1, "s:i"),
}
DIGITS = 16


def _by_halving(who: Attacker, look: Sequence[Word], tail: int) -> int:
    """Halves the numbers that end in what is shown of the victim, by whether a probe stands before it."""
    low, high = 100_000_000_000, 1_000_000_000_000  # of sixteen digits the first twelve
    while high - low > 1:
        middle = (low + high) // 2
        probe = middle * 10_000  # ends in 0000, and the victim does not
        who.ask("SADD", "s:i", probe)
        ends = [each[-4:] for each in who.members(*look)]
        is_before = b"%04d" % tail in ends[1:] and ends[0] == b"0000"
        low, high = (middle, high) if is_before else (low, middle)
        who.ask("SREM", "s:i", probe)
    return low * 10_000 + tail


def _set_attack(server: RedisServer, veil: Veil, look: Sequence[Word], secret: int) -> Attacker:
    with server.admin() as admin:
        admin.call("DEL", "s:i")
        admin.call("SADD", "s:i", secret)
    with veil.client() as client:
        who = Attacker(client)
        who.seen.append(f"learnt {_by_halving(who, look, secret % 10_000)}")
    return who


@pytest.mark.parametrize("look", LOOKS)
def test_numbers_of_a_set_cannot_be_read_out_by_halving(redis_server: RedisServer, veil: VeilFactory, look: str) -> None:
    running = veil(LAST_FOUR, upstream=redis_server)

    first = _set_attack(redis_server, running, LOOKS[look], 4111_2222_3333_7777)
    second = _set_attack(redis_server, running, LOOKS[look], 9876_5432_1012_7777)

    assert first.seen == second.seen


@pytest.mark.parametrize("look", ["SMEMBERS", "SSCAN", "SRANDMEMBER", "SUNION", "SORT"])
def test_the_program_reads_numbers_out_where_no_rule_is(redis_once: RedisServer, veil: VeilFactory, look: str) -> None:
    running = veil(OPEN, upstream=redis_once)

    who = _set_attack(redis_once, running, LOOKS[look], 4111_2222_3333_7777)

    assert who.seen[-1] == "learnt 4111222233337777"


def test_what_is_popped_off_a_set_of_numbers_comes_in_an_order_that_tells_nothing(
    redis_server: RedisServer, veil: VeilFactory, canary: Canary
) -> None:
    running = veil(LAST_FOUR, upstream=redis_server)
    number = canary.number(DIGITS)
    with running.client() as reader, redis_server.admin() as admin:
        orders = []
        for probe in (10**11, 10**12 - 1):  # as long as the number, so that no length tells them apart
            admin.call("SADD", "s:i", number)
            reader.call("SADD", "s:i", probe * 10_000, probe * 10_000 + 5)
            popped = reader.call("SPOP", "s:i", 3)
            assert isinstance(popped, list)
            orders.append([each[-4:] for each in popped if isinstance(each, bytes)])

        assert sorted(orders[0]) == sorted([b"0000", b"0005", b"%04d" % (number % 10_000)])
        assert orders[0] == orders[1]
        canary.assert_nowhere(running, [reader])
