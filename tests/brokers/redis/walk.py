"""What the walks share: the examples, the data behind their keys, the kinds of rule, a reader that keeps in step.

The data goes to the server directly. Every value of a key under s: holds a canary, every one under o: is plain.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path

from proxy.protocols.redis.surface import ROWS, Row, Treatment, find
from tests.brokers.redis_server import RedisServer
from tests.brokers.resp_client import Fault, Push, Reply, RespClient, encode
from tests.canary import Canary

Argv = tuple[bytes, ...]

RULE = """
rules:
  - name: The rule
    platform: redis
    resources: {{key: ["s:*"]}}
    {what}
"""
KINDS = {
    "whole_value": "fields: [{kind: whole_value, method: redact}]",
    "mask_all": "mask_all: true",
    "json_path": 'fields: [{kind: json_path, path: $.email, method: redact}, {kind: json_path, path: "$..n", method: redact}]',
    "field": "fields: [{kind: field, name: email, method: redact}, {kind: field, name: doc, method: redact}, "
    '{kind: field, name: "n", method: redact}]',
    "partial": "fields: [{kind: whole_value, method: partial, keep_first: 1, keep_last: 1}]",
}
"""Kind of rule -> the rest of a rule over s:* that hides every canary."""

NO_SERVER_HERE = ("FT.", "_FT.", "JSON.", "TS.", "SENTINEL", "SEARCH.", "TIMESERIES.", "AI.", "RG.", "GRAPH.", "TF")
"""Families that are refused as a whole while any rule masks: one made-up call a row is example enough."""

REFUSED = b"NOPERM veil: "


def rules(kind: str) -> str:
    return RULE.format(what=KINDS[kind])


@dataclass(frozen=True)
class Example:
    """`refused`: whether Veil must refuse it; None where that depends on the rule."""

    argv: Argv
    row: Row
    refused: bool | None
    alone: bool = False

    def __str__(self) -> str:
        return b" ".join(self.argv).decode(errors="replace")


def _made_up(row: Row) -> Argv:
    name = row.name.replace(".*", ".X").replace("*", "X")
    return (*(word.encode() for word in name.split()), b"s:str", b"1")


def _by_row(row: Row, argv: Argv) -> bool:
    if row.treatment is Treatment.REFUSE_IF_COVERED:
        return any(word.startswith(b"s:") for word in argv)
    return row.treatment is Treatment.REFUSE_IF_ANY_RULE


def _read(text: str, sha: str) -> list[Example]:
    found, alone = [], False
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line == "[alone]":
            alone = True
            continue
        mark = line[0] if line[:2] in ("! ", "= ", "? ") else ""
        words = shlex.split((line[2:] if mark else line).replace("\\0", "\0"))
        argv = tuple(word.replace("{sha}", sha).encode() for word in words)
        row = find(argv)
        if (row.unless != "-") != bool(mark):
            raise ValueError(f"{line}: whether it is refused is {'left out' if not mark else 'said, but the row decides'}")
        refused = {"!": True, "=": False, "?": None}[mark] if mark else _by_row(row, argv)
        found.append(Example(argv, row, refused, alone))
    return found


def examples(sha: str = "0" * 40) -> list[Example]:
    """Every example of the file, and a made-up call for each row of a family that no server here has."""
    found = _read(Path(__file__).with_name("examples.txt").read_text("utf-8"), sha)
    made_up = [Example(_made_up(row), row, refused=True) for row in ROWS if row.name.startswith(NO_SERVER_HERE)]
    return made_up + found


class Data:
    """The canaries of one test and how they get into the server."""

    def __init__(self, server: RedisServer, canary: Canary, *, length: int = 1) -> None:
        """`length`: how many times as long the texts are, and of how many digits the numbers; nothing else changes."""
        text, other = canary.text() * length, canary.text() * length
        number, another = sorted(canary.number(16 - length) for _ in range(2))
        east, north = f"13.{length}", f"38.{length}"
        document = json.dumps({"email": text, "n": number, "plain": "ok", "deep": [{"n": [another]}]})
        script, code = f"return '{text}'", f"-- {text}\nredis.register_function('walkf', function() return '{text}' end)"
        self.sha = hashlib.sha1(script.encode()).hexdigest()
        self._direct = server.admin()
        self._scripts = (
            encode("SCRIPT", "LOAD", script)
            + encode("FUNCTION", "LOAD", "REPLACE", f"#!lua name=walklib\n{code}")
            + encode("CONFIG", "SET", "masterauth", text)
            + encode("CONFIG", "SET", "slowlog-log-slower-than", "0")
        )
        members = (text, other, document)
        commands: list[tuple[str | int, ...]] = [
            ("FLUSHALL",),
            ("SET", "s:str", text),
            ("SET", "s:json", document),
            ("SET", "s:num", number),
            ("SET", "s:bits", other),
            ("HSET", "s:hash", "email", text, "doc", document, "n", number),
            ("RPUSH", "s:list", *members),
            ("SADD", "s:set", *members),
            ("SADD", "s:intset", number, another),
            ("ZADD", "s:zset", number, text, another, document, 1, other),
            ("GEOADD", "s:geo", east, north, text, "15.0", "37.5", other),
            ("XADD", "s:stream", "1-1", "email", text, "doc", document),
            ("XADD", "s:stream", "2-1", "email", other, "n", number),
            ("XGROUP", "CREATE", "s:stream", "g", "0"),
            ("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "s:stream", ">"),
            ("XADD", "s:stream", "3-1", "email", document),
            ("XGROUP", "CREATE", "s:stream", "STREAMS", "0"),
            ("PFADD", "s:hll", *members),
            ("PUBLISH", "s:chan", text),
            ("PUBLISH", "s:chan", document),
            ("SPUBLISH", "s:chan", text),
            ("SET", "o:str", "plain"),
            ("RPUSH", "o:list", "1", "2"),
            ("SADD", "o:set", "x", "y"),
            ("PFADD", "o:hll", "x"),
            ("GEOADD", "o:geo", "13.3", "38.1", "x"),
        ]
        self._load = b"".join(encode(*command) for command in commands)

    def close(self) -> None:
        self._direct.close()

    def load(self, *, scripts: bool = False) -> None:
        """The same data as ever, whatever a command has made of it."""
        done = secrets.token_hex(8).encode()
        self._direct.raw((self._scripts if scripts else b"") + self._load + encode("ECHO", done))
        while not self._direct.received.endswith(done + b"\r\n"):
            self._direct._more()
        del self._direct.received[:]
        self._direct._at = 0

    def counted(self) -> tuple[int, int]:
        """How many commands the server has carried out and how many it has answered with an error, this one included."""
        text = self._direct.call("INFO", "stats")
        assert isinstance(text, bytes)
        values = dict(line.split(b":", 1) for line in text.split(b"\r\n") if b":" in line)
        return int(values[b"total_commands_processed"]), int(values[b"total_error_replies"])


def in_step(client: RespClient) -> Reply:
    """The next reply that is no push."""
    reply = client.read()
    while isinstance(reply, Push):
        reply = client.read()
    return reply


def nonce() -> bytes:
    return b"step-" + secrets.token_hex(6).encode()


def is_refusal(reply: Reply) -> bool:
    return isinstance(reply, Fault) and reply.startswith(REFUSED)


def until(client: RespClient, *words: bytes) -> bytes:
    """All that came since the last reply, up to one of the words or the end of the connection."""
    start = client._at
    try:
        while not any(word in client.received[start:] for word in words):
            client._more()
    except EOFError:
        pass
    client._at = len(client.received)
    return bytes(client.received[start:])
