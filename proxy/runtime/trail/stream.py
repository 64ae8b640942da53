"""The hash-chained trail as a stream of Redis, which many processes on many machines may append to.

    veil:audit        entries, each with one field `entry`, whose value is the line as a file would hold it
    veil:audit:head   seq and hash of the last of them
    veil:audit:rules  what the trail has told of the rules

One script appends only if the head is as it was when the lines were chained, and moves it. What it wrote counts
once the server says that its append-only file is synced. Nothing is ever trimmed. Whoever had an entry confirmed
looks for it at each append: a server that lost it may have been given others in its place, on a chain that holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from proxy.runtime.redis_link import AnswerError, LinkError, LoginError, RedisLink, fields_of
from proxy.runtime.sameserver import Brokers, ids_of
from proxy.runtime.secret import RedisUrl
from rules.audit import FIRST_PREVIOUS, HASH_KEY, InForce

from .base import Item, RulesOf, TrailError
from .base import lines_of as made_of

CONNECT_S = 0.8
ANSWER_S = 1.6  # below the time that a read may wait for its record
SYNC_MS = 1400
ASK_S = 0.4  # the upstreams, twice at most; part of the time that a read may wait
LOOK_AGAIN_S = 5.0  # at settings that may have been changed, and at upstreams that were not there
RACES = 50  # each lost one is an entry that another process has written
PAGE = 500
AFTER_LOSS = "bring the data back, or start Veil anew to go on from there"

APPEND = """
local stated = redis.call('HMGET', KEYS[2], 'seq', 'hash')
local seq, hash = stated[1] or '0', stated[2] or ARGV[1]
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if #last > 0 then
  local ending = ARGV[2] .. hash .. '"}'
  if string.sub(last[1][2][2] or '', -string.len(ending)) ~= ending then return {'changed', seq, hash} end
end
if ARGV[8] ~= '' then
  local own = redis.call('XREVRANGE', KEYS[1], ARGV[8], '-', 'COUNT', 1)
  if #own > 0 then
    local ending = ARGV[2] .. ARGV[9] .. '"}'
    if own[1][1] ~= ARGV[8] or string.sub(own[1][2][2] or '', -string.len(ending)) ~= ending then
      return {'lost', seq, hash}
    end
  end
end
if seq ~= ARGV[3] or hash ~= ARGV[4] then return {'moved', seq, hash} end
local id = ''
for number = 10, #ARGV do id = redis.call('XADD', KEYS[1], '*', 'entry', ARGV[number]) end
redis.call('HSET', KEYS[2], 'seq', ARGV[5], 'hash', ARGV[6])
if ARGV[7] ~= '' then redis.call('SET', KEYS[3], ARGV[7]) end
return {'written', ARGV[5], ARGV[6], id}
"""


class StreamTrail:
    """The trail in a stream. See `Trail`."""

    what = "stream"
    may_come_later = True
    cut_bytes = 0

    def __init__(self, url: RedisUrl, stream: str, brokers: Brokers) -> None:
        self._url = url
        self._keys = (stream, f"{stream}:head", f"{stream}:rules")
        self._brokers = brokers
        self.where = f"{url}/{stream}"
        self._link: RedisLink | None = None
        self._has_waitaof = False
        self._looked_s = 0.0
        self._seq, self._hash = 0, FIRST_PREVIOUS
        self._confirmed = 0  # what this process knows to be durable
        self._own = ("", "")  # the id and hash of that entry

    def open(self) -> None:
        self._linked()

    def append(self, batch: Sequence[tuple[Item, str]]) -> list[int]:
        link = self._linked()
        try:
            if any(isinstance(item, RulesOf) for item, _ in batch):
                self._read_head(link)
            return self._append(link, batch)
        except AnswerError as answered:
            raise TrailError(f"cannot be written: {answered}") from None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _append(self, link: RedisLink, batch: Sequence[tuple[Item, str]]) -> list[int]:
        with_rules = any(isinstance(item, RulesOf) for item, _ in batch)
        for _ in range(RACES):
            told = self._read_rules(link) if with_rules else None
            made = made_of(batch, self._seq, self._hash, told)
            if not made.lines:
                return made.numbers
            stated: list[str | int] = [FIRST_PREVIOUS, f'{HASH_KEY}"', self._seq, self._hash, made.seq, made.digest]
            rules = "" if made.in_force is None else made.in_force.as_text()
            keys: list[str | int] = [len(self._keys), *self._keys]
            durable: list[str | int] = ["WAITAOF", 1, 0, SYNC_MS] if self._has_waitaof else ["CONFIG", "GET", "append*"]
            written, synced = link.pipeline(["EVAL", APPEND, *keys, *stated, rules, *self._own, *made.lines], durable)
            if isinstance(written, AnswerError):
                raise written
            outcome, seq, digest, *ids = (bytes(each).decode("ascii", "replace") for each in written)
            self._take_head(seq, digest)
            if outcome == "changed":
                raise TrailError("does not end with the entry that its head names: entries were removed or changed")
            if outcome == "lost":
                raise TrailError(f"has lost entries: entry {self._confirmed} was confirmed and is not there; {AFTER_LOSS}")
            if outcome == "written":
                if isinstance(synced, AnswerError):
                    raise synced
                self._look_at_sync(synced)
                self._confirmed, self._own = self._seq, (ids[0], self._hash)
                return made.numbers
        raise TrailError("is written by too many at once")

    def _look_at_sync(self, synced: object) -> None:
        if not isinstance(synced, list):
            raise TrailError("gave no answer about its disk that can be read")
        if self._has_waitaof:
            if not (synced and type(synced[0]) is int and synced[0] >= 1):
                raise LinkError("is not synced to the disk in time")
        elif not _always(synced):
            raise TrailError("is no longer synced with every write: appendonly yes and appendfsync always are needed")

    # The head

    def _read_head(self, link: RedisLink) -> None:
        seq, digest = link.call("HMGET", self._keys[1], "seq", "hash")
        self._take_head(
            (seq or b"0").decode("ascii", "replace"), (digest or FIRST_PREVIOUS.encode()).decode("ascii", "replace")
        )

    def _take_head(self, seq: str, digest: str) -> None:
        if not (seq.isascii() and seq.isdigit() and len(digest) == len(FIRST_PREVIOUS)):
            raise TrailError("has a head that cannot be read")
        if int(seq) < self._confirmed:
            raise TrailError(f"has lost entries: it is at entry {int(seq)}, and {self._confirmed} was confirmed; {AFTER_LOSS}")
        self._seq, self._hash = int(seq), digest

    def _read_rules(self, link: RedisLink) -> InForce | None:
        text = link.call("GET", self._keys[2])
        return None if text is None else InForce.from_text(bytes(text).decode("utf-8", "replace"))

    # The server

    def _linked(self) -> RedisLink:
        """A link to a server that will do, looked at anew every few seconds."""
        now_s = time.monotonic()
        try:
            if self._link is None:
                self._link = RedisLink(self._url, connect_s=CONNECT_S, answer_s=ANSWER_S)
                self._admit(self._link)
                self._read_head(self._link)
                self._looked_s = now_s
            elif now_s - self._looked_s >= LOOK_AGAIN_S:
                self._admit(self._link)
                self._looked_s = now_s
        except LoginError as refused:
            self.close()
            raise TrailError(str(refused)) from None
        except AnswerError as answered:
            self.close()
            if answered.code in ("LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN"):
                raise LinkError(str(answered)) from None
            raise TrailError(f"cannot be used: {answered}") from None
        except (TrailError, OSError):
            self.close()
            raise
        return self._link

    def _admit(self, link: RedisLink) -> None:
        """Refuses a server that could lose an entry, or that readers can write to.

        Raises:
            TrailError: it will not do.
        """
        info = link.info()
        told = fields_of(info)
        if told.get("role") != "master":
            raise TrailError("is on a replica; name the master")
        if told.get("redis_mode", told.get("server_mode")) == "cluster":
            raise TrailError("is on a cluster, where its keys would be apart; name a single server")
        if told.get("maxmemory_policy") != "noeviction":
            raise TrailError("is on a server that may evict it: maxmemory-policy noeviction is needed")
        if told.get("aof_enabled") != "1":
            raise TrailError("is on a server that keeps nothing: appendonly yes is needed")
        (asked,) = link.pipeline(["WAITAOF", 0, 0, 1])
        self._has_waitaof = not isinstance(asked, AnswerError)
        if not self._has_waitaof and not _always(link.call("CONFIG", "GET", "append*")):
            raise TrailError("is on a server without WAITAOF (before Redis 7.2): there appendfsync always is needed")
        own = (self._url.address, *link.reached())
        same = self._brokers.among(own, ids_of(info), lambda: _clients(link), ASK_S)
        if same is not None:
            raise TrailError(f"is on the upstream {same.broker}, whose readers could write it; name another server")


def _clients(link: RedisLink) -> bytes:
    listed = link.call("CLIENT", "LIST")
    if not isinstance(listed, bytes):
        raise AnswerError("ERR")
    return listed


def _always(told: object) -> bool:
    """Whether what CONFIG GET told says that each write is synced before it is answered."""
    if not isinstance(told, list):
        return False
    pairs = dict(zip(told[::2], told[1::2], strict=False))
    return (pairs.get(b"appendonly"), pairs.get(b"appendfsync")) == (b"yes", b"always")


@contextmanager
def _reading(url: RedisUrl) -> Iterator[RedisLink]:
    """A link for one errand; an answer that is an error is a `LinkError` as well."""
    link = RedisLink(url, connect_s=5, answer_s=30)
    try:
        yield link
    except AnswerError as answered:
        raise LinkError(str(answered)) from None
    finally:
        link.close()


def head_of(url: RedisUrl, stream: str) -> tuple[int, str] | None:
    """What the head says of the last entry, or None where there is none.

    Raises:
        LinkError: it cannot be read.
    """
    with _reading(url) as link:
        seq, digest = link.call("HMGET", f"{stream}:head", "seq", "hash")
    try:
        return None if seq is None or digest is None else (int(seq), digest.decode("ascii", "replace"))
    except ValueError:
        raise LinkError("its head cannot be read") from None


def lines_of(url: RedisUrl, stream: str) -> Iterator[tuple[str, bytes]]:
    """Every entry with its id, page by page.

    Raises:
        LinkError: it cannot be read.
    """
    with _reading(url) as link:
        after = "-"
        while page := link.call("XRANGE", stream, after, "+", "COUNT", PAGE):
            for identity, fields in page:
                line = fields[1] if fields and len(fields) == 2 and fields[0] == b"entry" else b""
                yield identity.decode("ascii", "replace"), line
            after = "(" + page[-1][0].decode("ascii", "replace")
