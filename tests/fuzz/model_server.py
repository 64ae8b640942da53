"""A Redis that holds canaries: answers any command in its known shape, with a canary wherever contents stand.

It keeps what decides how many answers there are (RESP version, transaction, subscriptions) and nothing else, and puts
pushes and attributes wherever a server of some version has put them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from proxy.core.buffer import Buffer
from proxy.protocols.redis import wire
from proxy.protocols.redis.wire import Node, bulk, integer, simple, tree

CANARY = b"c4n4ryQZXJV7391"
ID = bulk(b"1700000000000-0")


def error(text: bytes) -> Node:
    return Node(wire.ERROR, text)


class ModelServer:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._buffer = Buffer()
        self._command = wire.command(self._buffer)
        self.version = 2
        self._queued: list[tuple[bytes, ...]] | None = None
        self._channels: dict[bytes, list[bytes]] = {b"SUBSCRIBE": [], b"PSUBSCRIBE": []}

    def feed(self, data: bytes) -> bytes:
        """The bytes it answers to all that is whole by now."""
        self._buffer.feed(data)
        return b"".join(self._answered(argv) for argv in self._commands())

    def _commands(self) -> Iterator[tuple[bytes, ...]]:
        while True:
            try:
                next(self._command)
            except StopIteration as done:
                self._command = wire.command(self._buffer)
                yield done.value
            else:
                return

    # --- contents ----------------------------------------------------------------------------------------------------

    def value(self, key: bytes) -> Node:
        """Contents of a key: whole where the rule hides all, under the path where it hides a path."""
        if key.startswith(b"doc:"):
            card = self._chance.choice([b'"%b"' % CANARY, b'["%b",{"n":"%b"}]' % (CANARY, CANARY), b'{"a":"%b"}' % CANARY])
            whole = self._chance.choice(
                [b'{"id":7,"card":%b}', b'[{"\\u0063ard":%b}]', b' {"card":1,"card":%b}', b'{"card":%b']
            )
            return bulk(whole % card)
        if key.startswith((b"secret:", b"user:")):
            kinds = [bulk(CANARY), bulk(b'{"a":"%b"}' % CANARY), bulk(b"\xff" + CANARY), Node(wire.BULK, b"-1")]
            return self._chance.choice(kinds)
        return bulk(b"open")

    def score(self, key: bytes) -> Node:
        text = b"7391739173917391" if key.startswith((b"secret:", b"user:", b"doc:")) else b"2"
        return Node(wire.DOUBLE, text) if self.version == 3 else bulk(text)

    def _many(self, key: bytes) -> list[Node]:
        return [self.value(key) for _ in range(self._chance.randrange(4))]

    def _fields(self, key: bytes) -> list[tuple[Node, Node]]:
        name = b"email" if key.startswith(b"user:") else b"f"
        pairs = [(bulk(name), self.value(key)) for _ in range(self._chance.randrange(3))]
        return [*pairs, (bulk(b"name"), bulk(b"Ada"))] if key.startswith(b"user:") else pairs

    def _flat(self, pairs: list[tuple[Node, Node]], kind: int = wire.ARRAY) -> Node:
        return tree(kind, [each for pair in pairs for each in pair])

    def _map(self, pairs: list[tuple[Node, Node]]) -> Node:
        return self._flat(pairs, wire.MAP if self.version == 3 else wire.ARRAY)

    def _set(self, kids: list[Node]) -> Node:
        return tree(wire.SET if self.version == 3 else wire.ARRAY, kids)

    def _scored(self, key: bytes) -> Node:
        pairs = [(self.value(key), self.score(key)) for _ in range(self._chance.randrange(3))]
        if self.version == 3:
            return tree(wire.ARRAY, [tree(wire.ARRAY, list(pair)) for pair in pairs])
        return self._flat(pairs)

    def _entries(self, key: bytes) -> Node:
        rows = [tree(wire.ARRAY, [ID, self._flat(self._fields(key))]) for _ in range(self._chance.randrange(3))]
        return tree(wire.ARRAY, rows)

    # --- answers -----------------------------------------------------------------------------------------------------

    def reply(self, argv: tuple[bytes, ...]) -> Node:
        verb, key = argv[0].upper(), argv[1] if len(argv) > 1 else b""
        roll = 1.0 if verb == b"ECHO" else self._chance.random()
        if roll < 0.02:
            return error(b"WRONGTYPE Operation against a key holding the wrong kind of value")
        if roll < 0.04:
            return Node(wire.NULL, b"") if self.version == 3 else Node(wire.BULK, b"-1")
        shape = SHAPES.get(verb)
        return simple(b"OK") if shape is None else shape(self, argv, key)

    def _answered(self, argv: tuple[bytes, ...]) -> bytes:
        verb = argv[0].upper()
        if verb in (b"SUBSCRIBE", b"PSUBSCRIBE", b"UNSUBSCRIBE", b"PUNSUBSCRIBE"):
            return self._between() + self._subscribed(argv, verb)
        if self.version == 2 and any(self._channels.values()) and verb not in (b"PING", b"RESET"):
            return self._between() + wire.encode(error(b"ERR Can't execute '%b' in this context" % argv[0]))
        return self._between() + self._written(self._state_reply(argv, verb))

    def _state_reply(self, argv: tuple[bytes, ...], verb: bytes) -> Node:
        if verb == b"RESET":
            self.version, self._queued = 2, None
            self._channels = {b"SUBSCRIBE": [], b"PSUBSCRIBE": []}
            return simple(b"RESET")
        if verb == b"DISCARD" or (verb == b"EXEC" and self._queued is None):
            was, self._queued = self._queued, None
            return error(b"ERR without MULTI") if was is None else simple(b"OK")
        if verb == b"EXEC":
            queued, self._queued = self._queued or [], None
            return tree(wire.ARRAY, [self.reply(each) for each in queued])
        if verb == b"MULTI" and self._queued is None:
            self._queued = []
            return simple(b"OK")
        if self._queued is not None:
            self._queued.append(argv)
            return simple(b"QUEUED")
        if verb == b"HELLO" and len(argv) > 1:
            self.version = int(argv[1])
            return self._map([(bulk(b"proto"), integer(self.version))])
        if verb == b"PING" and self.version == 2 and any(self._channels.values()):
            return tree(wire.ARRAY, [bulk(b"pong"), bulk(b"")])
        return self.reply(argv)

    def _subscribed(self, argv: tuple[bytes, ...], verb: bytes) -> bytes:
        known = self._channels[verb.replace(b"UNSUB", b"SUB")]
        names: list[bytes | None] = [*argv[1:]] or [*known] or [None]
        out = b""
        for name in names:
            if b"UNSUB" not in verb and name is not None and name not in known:
                known.append(name)
            elif b"UNSUB" in verb and name in known:
                known.remove(name)
            shown = Node(wire.BULK, b"-1") if name is None else bulk(name)
            count = integer(sum(map(len, self._channels.values())))
            out += wire.encode(tree(self._push_kind, [bulk(verb.lower()), shown, count])) + self._between()
        return out

    # --- what comes between ------------------------------------------------------------------------------------------

    @property
    def _push_kind(self) -> int:
        return wire.PUSH if self.version == 3 else wire.ARRAY

    def _push(self) -> bytes:
        heard = self._channels[b"SUBSCRIBE"]
        kind = self._push_kind
        if heard and (self.version == 2 or self._chance.random() < 0.7):
            channel = self._chance.choice(heard)
            return wire.encode(tree(kind, [bulk(b"message"), bulk(channel), self.value(channel)]))
        if self.version == 3:
            return wire.encode(tree(kind, [bulk(b"invalidate"), tree(wire.ARRAY, [bulk(b"k")])]))
        return b""

    def _between(self) -> bytes:
        return self._push() if self._chance.random() < 0.15 else b""

    def _written(self, node: Node) -> bytes:
        """The reply, in RESP3 with pushes and attributes between its elements."""
        if self.version == 2 or self._chance.random() < 0.5:
            return wire.encode(node)
        out = b""
        todo = [(node, True)]
        while todo:
            each, is_root = todo.pop()
            if self._chance.random() < 0.1:
                out += wire.encode(tree(wire.ATTRIBUTE, [bulk(b"ttl"), bulk(CANARY)]))
            elif not is_root and self._chance.random() < 0.2:
                out += self._push()
            out += wire.encode(Node(each.kind, each.line, each.body, None if each.kids is None else []))
            todo.extend((kid, False) for kid in reversed(each.kids or ()))
        return out


Shape = Callable[[ModelServer, tuple[bytes, ...], bytes], Node]


def _in_turn(server: ModelServer, argv: tuple[bytes, ...], key: bytes) -> Node:
    """One value, or with a count several."""
    return tree(wire.ARRAY, server._many(key)) if len(argv) > 2 else server.value(key)


SHAPES: dict[bytes, Shape] = {
    b"ECHO": lambda _, argv, key: bulk(key),
    b"PING": lambda *_: simple(b"PONG"),
    b"GET": lambda server, argv, key: server.value(key),
    b"GETDEL": lambda server, argv, key: server.value(key),
    b"GETEX": lambda server, argv, key: server.value(key),
    b"GETRANGE": lambda server, argv, key: server.value(key),
    b"SET": lambda server, argv, key: server.value(key) if b"GET" in argv else simple(b"OK"),
    b"MGET": lambda server, argv, key: tree(wire.ARRAY, [server.value(each) for each in argv[1:]]),
    b"LRANGE": lambda server, argv, key: tree(wire.ARRAY, server._many(key)),
    b"LINDEX": lambda server, argv, key: server.value(key),
    b"LPOP": _in_turn,
    b"SPOP": _in_turn,
    b"SRANDMEMBER": _in_turn,
    b"SMEMBERS": lambda server, argv, key: server._set(server._many(key)),
    b"SINTER": lambda server, argv, key: server._set(server._many(key)),
    b"SSCAN": lambda server, argv, key: tree(wire.ARRAY, [bulk(b"0"), tree(wire.ARRAY, server._many(key))]),
    b"BLPOP": lambda server, argv, key: tree(wire.ARRAY, [bulk(key), server.value(key)]),
    b"LMPOP": lambda server, argv, key: tree(wire.ARRAY, [bulk(argv[2]), tree(wire.ARRAY, server._many(argv[2]))]),
    b"SORT": lambda server, argv, key: tree(wire.ARRAY, server._many(key)),
    b"HGET": lambda server, argv, key: server.value(key) if argv[2] != b"name" or key[:5] != b"user:" else bulk(b"Ada"),
    b"HMGET": lambda server, argv, key: tree(wire.ARRAY, [server.value(key) for _ in argv[2:]]),
    b"HGETALL": lambda server, argv, key: server._map(server._fields(key)),
    b"HSCAN": lambda server, argv, key: tree(wire.ARRAY, [bulk(b"0"), server._flat(server._fields(key))]),
    b"ZRANGE": lambda server, argv, key: server._scored(key) if b"WITHSCORES" in argv else tree(wire.ARRAY, server._many(key)),
    b"ZPOPMIN": lambda server, argv, key: server._scored(key),
    b"ZSCAN": lambda server, argv, key: tree(
        wire.ARRAY,
        [
            bulk(b"0"),
            server._flat([(each, bulk(server.score(key).body or server.score(key).line)) for each in server._many(key)]),
        ],
    ),
    b"XRANGE": lambda server, argv, key: server._entries(key),
    b"XREAD": lambda server, argv, key: (
        tree(wire.MAP, [bulk(argv[-2]), server._entries(argv[-2])])
        if server.version == 3
        else tree(wire.ARRAY, [tree(wire.ARRAY, [bulk(argv[-2]), server._entries(argv[-2])])])
    ),
    b"STRLEN": lambda server, argv, key: integer(4 if key.startswith(b"open:") else 7391739173917391),
    b"DUMP": lambda server, argv, key: server.value(key),
    b"EVAL": lambda *_: bulk(CANARY),
    b"NOSUCH": lambda *_: error(b"ERR unknown command"),
}
