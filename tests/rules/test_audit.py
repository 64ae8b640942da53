"""Audit entries: their canonical line and the chain of their hashes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from rules.audit import FIRST_PREVIOUS, NAME_LIMIT, READ_UNMASKED, REFUSED, Entry, RuleTag, broken_links, chain, spell_name
from rules.model import Connection, Kind, Place, Platform, Resource, Rule

TIME = "2026-11-30T10:15:00.123Z"
ORDERS = Connection("orders-kafka", Platform.KAFKA, "production")
ENTRY = Entry(
    READ_UNMASKED,
    "alice",
    "127.0.0.1:51234",
    ORDERS,
    "kafka",
    Resource(ORDERS, Kind.TOPIC, b"orders.eu"),
    (RuleTag("Customer contact", ("GDPR",), "contact", "high"),),
)


def trail(*entries: Entry) -> list[bytes]:
    lines: list[bytes] = []
    previous = FIRST_PREVIOUS
    for seq, entry in enumerate(entries, 1):
        line, previous = chain(entry, TIME, seq, previous)
        lines.append(line.encode("ascii") + b"\n")
    return lines


def broken(lines: list[bytes]) -> list[int]:
    return [number for number, _ in broken_links(lines)]


def test_a_line_has_its_keys_in_order_and_no_blanks() -> None:
    line, digest = chain(ENTRY, TIME, 42, "ab")

    body = (
        '{"time":"2026-11-30T10:15:00.123Z","event":"broker.message.read-unmasked","who":"alice",'
        '"peer":"127.0.0.1:51234","connection":"orders-kafka","environment":"production","platform":"kafka",'
        '"protocol":"kafka","resource":{"topic":"orders.eu"},"rules":[{"name":"Customer contact",'
        '"compliance":["GDPR"],"information_kind":"contact","risk":"high"}],"seq":42,"previous":"ab"'
    )
    assert line == f'{body},"hash":"{digest}"}}'
    assert digest == hashlib.sha256(f"{body}}}".encode("ascii")).hexdigest()


def test_what_an_entry_does_not_have_is_left_out() -> None:
    line, _ = chain(Entry(REFUSED, "", operation="EVAL", field="$.a", rules=(RuleTag("R"),)), TIME, 1, FIRST_PREVIOUS)

    expected = ["time", "event", "who", "rules", "rule", "operation", "field", "seq", "previous", "hash"]
    assert list(json.loads(line)) == expected
    assert json.loads(line)["rules"] == [{"name": "R"}]


def test_a_refusal_tells_its_rule_by_name_and_an_unmasked_read_its_rules() -> None:
    refused, _ = chain(Entry(REFUSED, "a", rules=(RuleTag("R", ("GDPR",)),)), TIME, 1, FIRST_PREVIOUS)
    unread, _ = chain(Entry(REFUSED, "a"), TIME, 1, FIRST_PREVIOUS)
    read, _ = chain(ENTRY, TIME, 1, FIRST_PREVIOUS)

    assert json.loads(refused)["rule"] == "R"
    assert "rule" not in json.loads(unread)
    assert "rule" not in json.loads(read)


def test_a_line_is_one_line_of_ascii_whatever_the_names_are() -> None:
    odd = replace(
        ENTRY,
        who='a\n"é\udcff',
        resource=Resource(ORDERS, Kind.TOPIC, b"x\xff\n\xc3\xa9"),
        operation='x","hash":"y"}',
    )
    line, _ = chain(odd, TIME, 1, FIRST_PREVIOUS)

    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["resource"] == {"topic": "x\\xff\né"}
    assert broken(trail(odd)) == []


def test_a_long_name_is_cut_and_told_apart_by_its_digest() -> None:
    one, other = (chain(replace(ENTRY, who="x" * NAME_LIMIT + end), TIME, 1, "")[0] for end in "ab")

    assert len(json.loads(one)["who"]) < NAME_LIMIT + 120
    assert json.loads(one)["who"] != json.loads(other)["who"]
    assert json.loads(chain(replace(ENTRY, who="x" * NAME_LIMIT), TIME, 1, "")[0])["who"] == "x" * NAME_LIMIT


def test_a_name_is_spelled_as_text_where_it_is_text() -> None:
    assert spell_name("ä".encode()) == "ä"
    assert spell_name(b"\xe4") == "\\xe4"
    assert spell_name(b"\\xe4") == "\\\\xe4"


def test_a_tag_says_what_the_rule_says() -> None:
    rule = Rule("R", Platform.REDIS, (), compliance=("PCI",), information_kind="card", risk="low", place=Place("f", 1, 1))

    assert RuleTag.of(rule) == RuleTag("R", ("PCI",), "card", "low")


def test_a_sound_trail_has_no_broken_link() -> None:
    assert broken(trail(ENTRY, ENTRY, replace(ENTRY, who="bob"))) == []
    assert broken([]) == []


def test_a_changed_line_is_told() -> None:
    lines = trail(ENTRY, ENTRY)
    lines[1] = lines[1].replace(b"alice", b"mally")

    assert broken(lines) == [2]


def test_what_stands_behind_the_hash_is_told() -> None:
    lines = trail(ENTRY)
    lines[0] = lines[0].replace(b'"}\n', b'","who":"mally"}\n')

    assert json.loads(lines[0])["who"] == "mally"
    assert broken(lines) == [1]


@pytest.mark.parametrize("change", [lambda line: b" " + line, lambda line: line[:-1] + b" \n", lambda line: line + b"\n"])
def test_blanks_around_a_line_are_told(change: object) -> None:
    assert callable(change)

    assert broken([change(trail(ENTRY)[0])]) == [1]


def test_a_lost_line_and_a_swap_are_told() -> None:
    lines = trail(ENTRY, ENTRY, ENTRY)

    assert broken([lines[0], lines[2]]) == [2]
    assert broken(lines[1:]) == [1]
    assert broken([lines[1], lines[0], lines[2]]) == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b"\xff\n",
        b"null\n",
        b'{"hash":1,"previous":"","seq":1}\n',
        b'{"seq":"1","previous":"x","hash":"y"}\n',
        b'{"seq":true,"previous":"x","hash":"y"}\n',
        b'{"seq":1,"previous":"x","hash":["y"]}\n',
        b'{"seq":1.0,"previous":"x","hash":"y"}\n',
        b"[" * 100_000,
        b'{"seq":1,"previous":"x","hash":"y"',
    ],
)
def test_what_is_no_entry_is_told_and_the_rest_is_still_looked_at(line: bytes) -> None:
    lines = trail(ENTRY, ENTRY)

    assert broken([lines[0], line, lines[1]]) == [2]
