"""Keys are found by position, as the server finds them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.protocols.redis.surface import ROWS, find
from proxy.protocols.redis.surface.keys import compiled, keys_of

from .eyes import words
from .live import Ask, server

AS_THE_SERVER = """
GET k|SET k v NX EX 10|MGET a b c|MSET a 1 b 2|MSETNX a 1 b 2|DEL a b|EXISTS a b|APPEND k v|GETRANGE k 0 1|SETRANGE k 0 v
GETEX k PERSIST|GETDEL k|STRLEN k|LCS a b LEN|BITOP AND d a b|BITCOUNT k|BITFIELD k GET u8 0|OBJECT ENCODING k
MEMORY USAGE k|LPUSH l a b|LMOVE a b LEFT RIGHT|BLMOVE a b LEFT RIGHT 0|RPOPLPUSH a b|BRPOPLPUSH a b 0|LMPOP 2 a b LEFT
BLMPOP 0 2 a b LEFT COUNT 3|BLPOP a b 0|BRPOP a 0|LPOS l x RANK 1|LINSERT l BEFORE p v|SADD s a b|SMOVE a b m|SINTER a b
SINTERCARD 2 a b LIMIT 1|SINTERSTORE d a b|SDIFFSTORE d a|SUNION a b|SISMEMBER s m|SSCAN s 0 MATCH x|ZADD z 1 m
ZUNION 2 a b WEIGHTS 1 2|ZUNIONSTORE d 2 a b AGGREGATE MAX|ZINTERSTORE d 1 a|ZDIFF 1 a WITHSCORES|ZDIFFSTORE d 2 a b
ZINTERCARD 2 a b|ZMPOP 1 a MIN|BZMPOP 0 2 a b MAX|BZPOPMIN a b 0|ZRANGESTORE d s 0 1|ZRANGE z 0 1|ZRANDMEMBER z
HSET h f v|HGETALL h|HMGET h f g|HSETEX h FNX FIELDS 1 f v|HGETEX h FIELDS 1 f|XADD s MAXLEN ~ 5 * f v
XREAD COUNT 1 BLOCK 0 STREAMS a b 0 0|XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a >
XCLAIM s g c 0 1-1 JUSTID|XAUTOCLAIM s g c 0 0|XINFO STREAM s FULL|XGROUP CREATE s g $|XRANGE s - +|XPENDING s g
SORT l|SORT l STORE d|SORT l BY nosort GET # LIMIT 0 1 ALPHA STORE d|SORT_RO l|GEOADD g 1 2 m|GEOSEARCHSTORE d s FROMLONLAT 1 2 BYRADIUS 3 m
GEORADIUS g 1 2 3 m STORE d|GEORADIUS g 1 2 3 m COUNT 1 ANY STOREDIST d|GEORADIUSBYMEMBER g m 3 m STORE d|GEORADIUS_RO g 1 2 3 m
PFADD p a|PFCOUNT a b|PFMERGE d a b|COPY a b REPLACE|RENAME a b|RENAMENX a b|MOVE a 1|DUMP k|RESTORE k 0 x REPLACE
MIGRATE h 1 k 0 9 COPY|MIGRATE h 1 '' 0 9 COPY REPLACE AUTH2 u p KEYS a b|MIGRATE h 1 '' 0 9 AUTH KEYS KEYS a
WATCH a b|TOUCH a b|TYPE k|EXPIRE k 1|PERSIST k|DELIFEQ k v|MSETEX 2 a 1 b 2 NX EX 9
"""
EXAMPLES = [words(each) for line in AS_THE_SERVER.split("\n") if line for each in line.split("|")]


def test_keys_are_those_that_the_server_names() -> None:
    wrong = []
    with server() as ask:
        for argv in EXAMPLES:
            expected = ask(b"COMMAND", b"GETKEYS", *argv)
            if keys_of(find(argv).keys, argv) != (tuple(expected) if isinstance(expected, list) else expected):
                wrong.append((argv, expected))

    assert wrong == []


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        # every STORE target counts, although the last one wins
        ("SORT l STORE BY STORE d", "l BY d"),
        ("SORT l BY STORE STORE d", "l d"),
        ("SORT l GET STORE", "l"),
        ("SORT l LIMIT STORE d STORE e", "l e"),
        ("sort l store d", "l d"),
        ("GEORADIUS g 1 2 3 m STORE a STOREDIST b", "g a b"),
        ("GEORADIUS g 1 2 3 m COUNT STORE", "g"),
        ("GEORADIUSBYMEMBER g STORE 3 m STORE d", "g d"),
        # option words as names
        ("XREADGROUP GROUP STREAMS c STREAMS s >", "s"),
        ("XREADGROUP GROUP GROUP STREAMS COUNT 1 STREAMS s t > >", "s t"),
        ("XREADGROUP COUNT 1 GROUP g c CLAIM 5 STREAMS s >", "s"),
        ("XREAD STREAMS STREAMS 0", "STREAMS"),
        ("XREAD COUNT 1 STREAMS a b 0 0", "a b"),
        ("xread streams a 0", "a"),
        # where MIGRATE has its keys
        ("MIGRATE h 1 '' 0 9 KEYS a b", "a b"),
        ("MIGRATE h 1 '' 0 9 AUTH KEYS KEYS a", "a"),
        ("MIGRATE h 1 '' 0 9 KEYS KEYS COPY", "KEYS COPY"),
        ("MIGRATE h 1 '' 0 9 COPY", "''"),
        ("MIGRATE h 1 k 0 9 AUTH KEYS", "k"),
        ("BITOP NOT d s", "d s"),
        ("PFMERGE d", "d"),
        ("MGET a a", "a a"),
        ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
        ("MSETEX 1 a NX", "a"),
        ("SUBSCRIBE a b", "a b"),
        ("PUBLISH ch text", "ch"),
    ],
)
def test_a_key_is_told_from_an_option_word_by_its_place(said: str, keys: str) -> None:
    argv = words(said)

    assert keys_of(find(argv).keys, argv) == words(keys)


@pytest.mark.parametrize(
    "said",
    [
        "GET",
        "MGET",
        "MSET a",
        "MSET a 1 b",
        "BLPOP",
        "BLPOP 0",
        "COPY a",
        "OBJECT ENCODING",
        "PFMERGE",
        "BITOP AND d",
        # counts as the server would not take them, and such as do not fit
        *(
            f"ZUNION {count} a b"
            for count in ("0", "-1", "+1", "01", "1.0", "x", "''", "3", "99999999999", "4294967297", "٣", "1\0")
        ),
        "ZUNION",
        "ZUNIONSTORE d",
        "ZUNIONSTORE d 2 a",
        "MSETEX 2 a 1 b",
        "BLMPOP 0",
        "SINTERCARD 0 a",
        # words that are not understood, before or behind which a key may stand
        "SORT",
        "SORT l STORE",
        "SORT l NOSUCH STORE d",
        "SORT l STORE\0 d",
        "GEORADIUS g 1 2 3 m STORE",
        "GEORADIUS g 1 2 3 m NOSUCH",
        "GEORADIUS g 1 2 3",
        "XREAD STREAMS",
        "XREAD STREAMS a",
        "XREAD STREAMS a b 0",
        "XREAD COUNT STREAMS a 0",
        "XREAD NOSUCH STREAMS a 0",
        "XREAD GROUP g c STREAMS a 0",
        "XREAD STREAMS\0 a 0",
        "XREADGROUP STREAMS a >",
        "XREADGROUP GROUP g STREAMS a >",
        "MIGRATE h 1 k 0",
        "MIGRATE h 1 k 0 9 KEYS a",
        "MIGRATE h 1 '' 0 9 KEYS",
        "MIGRATE h 1 '' 0 9 NOSUCH KEYS a",
        "MIGRATE h 1 '' 0 9 AUTH2 u",
    ],
)
def test_arguments_that_do_not_fit_have_no_keys(said: str) -> None:
    argv = words(said)

    assert keys_of(find(argv).keys, argv) is None


def test_a_count_with_a_blank_is_none() -> None:
    assert keys_of("#1", (b"ZUNION", b" 1", b"a")) is None
    assert keys_of("#1", (b"ZUNION", b"1 ", b"a")) is None


@pytest.mark.parametrize("spec", ["", "one", "1,", "#", "1..x", "georadius:"])
def test_a_spec_outside_the_grammar_is_an_error(spec: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        compiled(spec)


@given(
    st.sampled_from(ROWS),
    st.lists(st.one_of(st.binary(max_size=4), st.sampled_from([b"1", b"2", b"STORE", b"KEYS", b"STREAMS"]))),
)
def test_keys_are_arguments_in_their_order(row: object, rest: list[bytes]) -> None:
    assert isinstance(row, type(ROWS[0]))
    argv = (row.command.encode(), *rest)

    found = keys_of(row.keys, argv)

    at = iter(argv[1:])
    assert found is None or all(key in at for key in found)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with server() as asking:
        yield asking


def lists_of(text: str) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.sampled_from(words(text)), max_size=9)


@pytest.mark.broker
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        lists_of("STORE BY GET LIMIT 0 1 ALPHA ASC a b STORE\0 #").map(lambda rest: [b"SORT", b"list", *rest]),
        lists_of("STORE STOREDIST COUNT 1 ANY ASC WITHDIST a b STORE\0").map(
            lambda rest: [*words("GEORADIUS geo 1 1 900 km"), *rest]
        ),
        lists_of("STORE STOREDIST COUNT 1 ANY DESC WITHCOORD a b").map(
            lambda rest: [*words("GEORADIUSBYMEMBER geo m 900 km"), *rest]
        ),
        lists_of("set list 0 1 2 a b WEIGHTS AGGREGATE MAX").map(lambda rest: [b"ZUNIONSTORE", *rest]),
        lists_of("set a b NOT AND OR").map(lambda rest: [b"BITOP", *rest]),
    )
)
def test_no_key_is_written_that_was_not_found(ask: Ask, argv: list[bytes]) -> None:
    ask(b"FLUSHALL")
    ask(*words("RPUSH list 1 2"))
    ask(*words("GEOADD geo 1 1 m"))
    ask(*words("SADD set 1 2"))

    ask(*argv)

    names = ask(b"KEYS", b"*")
    found = keys_of(find(tuple(argv)).keys, tuple(argv))
    assert isinstance(names, list)
    assert found is None or set(names) - {b"list", b"geo", b"set"} <= set(found)


@pytest.mark.broker
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        lists_of("COUNT 1 STREAMS s t 0 GROUP g n STREAMS\0").map(lambda rest: [b"XREAD", *rest]),
        lists_of("COUNT 1 NOACK GROUP g n STREAMS s t 0").map(
            lambda rest: [*words("XREADGROUP GROUP g n"), *rest, *words("STREAMS s >")]
        ),
    )
)
def test_no_stream_is_read_that_was_not_found(ask: Ask, argv: list[bytes]) -> None:
    ask(b"FLUSHALL")
    for name in (b"s", b"t", b"STREAMS", b"0", b"n"):
        ask(b"XADD", name, b"1-1", b"f", b"v")
        ask(b"XGROUP", b"CREATE", name, b"g", b"0")

    reply = ask(*argv)

    found = keys_of(find(tuple(argv)).keys, tuple(argv))
    read = {entry[0] for entry in reply} if isinstance(reply, list) else set()
    assert found is None or read <= set(found)
