"""What arguments change: said as commands on `c` (covered) and `o` (open), judged for a reader without rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.protocols.redis.surface import Treatment, options
from proxy.protocols.redis.surface.exceptions import EXCEPTIONS, Case
from proxy.protocols.redis.surface.judge import Forward, Refused, Verdict, judge
from rules.model import Refusal

from .eyes import MASK, Covering, Eyes, words
from .live import Ask, server

MASKED = MASK.decode()
READABLE = Covering(whole=False)  # a plan under which parts of a value are shown
ONE_FIELD = Covering(frozenset({b"secret"}))


def told(verdict: Verdict) -> str:
    """A verdict in a word: `refused`, `passes`, or the shape of the reply."""
    return "refused" if isinstance(verdict, Refused) else verdict.shape or "passes"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        # strings
        ("SET c v", "refused"),
        ("SET c v NX", "passes"),
        ("SET c v nx EX 5", "passes"),
        ("SET c v KEEPTTL NX", "passes"),
        ("SET c v NX GET", "value"),
        ("SET c v XX", "refused"),
        ("SET c v GET", "refused"),
        ("SET c v NX XX", "refused"),
        ("SET c v NX IFEQ v", "refused"),
        ("SET c v IFEQ NX", "refused"),
        ("SET c NX", "refused"),
        ("SET c NX EX NX", "refused"),
        ("SET c v EX NX", "refused"),  # NX is the value of EX
        ("SET c v NX NOSUCH", "refused"),
        ("SET c v NX\0", "refused"),
        ("SET c v NX EX", "refused"),
        ("SET o v GET", "value"),
        ("SET o v IFEQ w", "hidden"),
        ("SET o v XX", "passes"),
        ("SET o v NOSUCH", "hidden"),
        ("SETNX c v", "passes"),
        ("MSETNX c v o w", "passes"),
        ("MSET o v c w", "refused"),
        ("MSETEX 2 o v c w", "refused"),
        ("MSETEX 2 o v c w NX EX 5", "passes"),
        ("MSETEX 2 o v c w XX", "refused"),
        ("MSETEX 2 o v c NX", "refused"),  # NX is the value of c
        ("MSETEX 1 c v NX NOSUCH", "refused"),
        ("MSETEX 1 o v", "passes"),
        ("RESTORE c 0 dump", "passes"),
        ("RESTORE c 0 dump ABSTTL IDLETIME 5", "passes"),
        ("RESTORE c 0 dump REPLACE", "refused"),
        ("RESTORE c 0 dump FREQ REPLACE", "passes"),
        ("RESTORE c 0 dump NOSUCH", "refused"),
        ("RESTORE c 0", "refused"),
        ("DELEX c", "passes"),
        ("DELEX c IFEQ v", "refused"),
        ("GETRANGE c 0 5", "slice"),
        ("SUBSTR c 0 5", "slice"),
        ("GETRANGE c 0", "hidden"),
        ("GETRANGE o 0 5", "hidden"),
        # hashes
        ("HSET c f v", "refused"),
        ("HMSET c f v", "refused"),
        ("HSETNX c f v", "passes"),
        ("HSETNX c f", "refused"),
        ("HINCRBY c f 0", "refused"),
        ("HSTRLEN c f", "refused"),
        ("HSETEX c FIELDS 1 f v", "refused"),
        ("HSETEX c FNX FIELDS 1 f v", "passes"),
        ("HSETEX c NX EX 5 FIELDS 1 f v", "passes"),
        ("HSETEX c FNX XX FIELDS 1 f v", "refused"),
        ("HSETEX c FIELDS 1 FNX v", "refused"),
        ("HSETEX c FNX FIELDS 2 f v", "refused"),
        ("HSETEX c FNX FIELDS 1 f v FIELDS 1 g w", "refused"),
        ("HSETEX c FIELDS 1 f v FNX", "refused"),
        ("HVALS c", "values_of_hash"),
        ("HVALS o", "hidden"),
        ("HRANDFIELD c", "passes"),
        ("HRANDFIELD c 5", "passes"),
        ("HRANDFIELD c 5 WITHVALUES", "hash_random"),
        ("HRANDFIELD c 5 WITHVALUES x", "refused"),
        ("HSCAN c 0 MATCH n* COUNT 5", "hash_scan"),
        ("HSCAN c 0 NOVALUES", "passes"),
        ("HSCAN c 0 MATCH NOVALUES", "hash_scan"),
        ("HSCAN c 0 NOVALUES NOSUCH", "refused"),
        ("HSCAN c", "refused"),
        # sets
        ("SSCAN c 0", "set_scan"),
        ("SSCAN c 0 MATCH * COUNT 5", "set_scan"),
        ("SSCAN c 0 MATCH a*", "refused"),
        ("SSCAN c 0 MATCH * MATCH a*", "refused"),
        ("SSCAN c 0 COUNT MATCH MATCH a", "refused"),
        ("SSCAN c 0 MATCH\0 a*", "refused"),
        ("SSCAN o 0 MATCH a*", "hidden"),
        ("SDIFF c", "set_members"),
        ("SINTER o c", "refused"),
        ("SUNION c c", "refused"),
        ("SINTERCARD 1 c LIMIT 2", "passes"),
        ("SINTERCARD 2 c o", "refused"),
        ("PFCOUNT c", "passes"),
        ("PFCOUNT o c", "refused"),
        # sorted sets
        ("ZRANGE c 0 -1", "zset_members"),
        ("ZRANGE c 0 -1 REV WITHSCORES", "zset_members"),
        ("ZRANGE c 0 5 BYSCORE", "refused"),
        ("ZRANGE c [a [b bylex LIMIT 0 1", "refused"),
        ("ZRANGE c 0 5 NOSUCH", "refused"),
        ("ZRANGE c 0", "refused"),
        ("ZRANGEBYSCORE c 0 5", "refused"),
        ("ZCOUNT c 0 5", "refused"),
        ("ZSCAN c 0", "zset_scan"),
        ("ZSCAN c 0 NOSCORES", "set_scan"),
        ("ZSCAN c 0 MATCH a*", "refused"),
        ("ZUNION 1 c", "hidden"),
        ("ZDIFF 1 c", "hidden"),
        ("ZUNION 1 c WITHSCORES", "refused"),
        ("ZUNION 1 c WEIGHTS 0", "refused"),
        ("ZINTER 2 c o", "refused"),
        ("ZINTERCARD 1 c", "passes"),
        ("ZADD c NX 1 m", "passes"),
        ("ZADD c nx 1 m 2 n", "passes"),
        ("ZADD c 1 m", "refused"),
        ("ZADD c NX CH 1 m", "refused"),
        ("ZADD c NX INCR 1 m", "refused"),
        ("ZADD c XX 1 m", "refused"),
        ("ZADD c GT 1 m", "refused"),
        ("ZADD c LT NX 1 m", "refused"),
        ("ZADD c NX 1", "refused"),
        ("ZADD o INCR 1 m", "hidden"),
        ("GEOADD c NX 1 2 m", "passes"),
        ("GEOADD c 1 2 m", "refused"),
        ("GEOADD c NX CH 1 2 m", "refused"),
        ("GEOADD c XX 1 2 m", "refused"),
        ("GEOADD c NX 1 m", "refused"),
        # streams
        ("XADD c * f v", "passes"),
        ("XADD c NOMKSTREAM MAXLEN ~ 5 LIMIT 3 1-* f v", "passes"),
        ("XADD c KEEPREF IDMP p i MINID = 5 5-1 f v", "passes"),
        ("XADD c IDMPAUTO p * f v", "refused"),
        ("XADD c IDMP p IDMPAUTO * f v", "passes"),
        ("XADD c NOSUCH * f v", "refused"),
        ("XADD c MAXLEN", "refused"),
        ("XADD c *", "refused"),
        ("XADD c * f", "refused"),
        ("XADD o IDMPAUTO p * f v", "hidden"),
        # sorting
        ("SORT c", "refused"),
        ("SORT c BY nosort", "set_members"),
        ("SORT c BY NOSORT GET # GET # DESC ALPHA", "set_members"),
        ("SORT c BY nosort LIMIT 0 1", "refused"),
        ("SORT c BY nosort STORE o", "refused"),
        ("SORT o STORE c", "refused"),
        ("SORT o STORE c STORE o", "refused"),
        ("SORT o BY nosort STORE c", "refused"),
        ("SORT o BY w_*", "refused"),
        ("SORT o GET c", "refused"),
        ("SORT o GET # GET v_*", "refused"),
        ("SORT o BY constant", "refused"),
        ("SORT o BY nosort BY w_*", "refused"),
        ("SORT_RO c", "refused"),
        ("SORT o ALPHA", "hidden"),
        # vectors and arrays
        ("VADD c VALUES 2 1 2 e", "passes"),
        ("VADD c REDUCE 5 FP32 blob e CAS Q8 EF 5 M 3", "passes"),
        ("VADD c FP32 blob e SETATTR {}", "refused"),
        ("VADD c FP32 blob SETATTR", "passes"),
        ("VADD c FP32 blob e NOSUCH", "refused"),
        ("VADD c VALUES x 1 e", "refused"),
        ("VADD c VALUES 5 1 e", "refused"),
        ("VADD c NOSUCH 1 e", "refused"),
        ("VADD c", "refused"),
        ("ARINFO c", "passes"),
        ("ARINFO c FULL", "refused"),
        # no keys
        ("CLIENT TRACKING ON BCAST PREFIX REDIRECT", "passes"),
        ("CLIENT TRACKING ON REDIRECT 5", "refused"),
        ("CLIENT TRACKING ON REDIRECT\0 5", "refused"),
        ("CLIENT TRACKING", "refused"),
        ("CONFIG GET *", "config"),
        ("CONFIG GET maxmemory requirepas?", "config"),
        ("CONFIG GET maxmemory RequirePass", "refused"),
        ("CONFIG GET masterauth\0x", "refused"),
        ("ACL LOG", "whole"),
        ("ACL LOG RESET", "passes"),
        ("ACL LOG 10", "whole"),
    ],
)
def test_arguments_decide(said: str, verdict: str) -> None:
    assert told(judge(words(said), Eyes())) == verdict


@pytest.mark.parametrize("said", ["ZADD c NX 1 m", "GEOADD c NX 1 2 m"])
def test_what_order_could_tell_is_refused_unless_members_are_hidden_whole(said: str) -> None:
    assert told(judge(words(said), Eyes(READABLE))) == "refused"


def test_options_that_are_not_understood_never_soften_a_row() -> None:
    """Where keys.py finds no keys the command gets no further; these functions do not count on that."""
    unknown = {
        "sort": "SORT c NOSUCH",
        "several": "MSETEX x c v NX",
        "set": "SET c",
        "entry": "XADD c",
        "vector": "VADD c VALUES",
        "sorted_set_scan": "ZSCAN c",
        "set_scan": "SSCAN c",
    }
    for name, said in unknown.items():
        change = EXCEPTIONS[name](Case(words(said), {b"c": Eyes().view(b"c")}))
        assert change is None or change.treatment is Treatment.REFUSE_IF_COVERED, name


def test_a_slice_and_the_values_of_a_hash_are_asked_for_as_the_whole() -> None:
    assert judge(words("GETRANGE c 0 5"), Eyes()).argv == (b"GET", b"c")  # type: ignore[union-attr]
    assert judge(words("HVALS c"), Eyes()).argv == (b"HGETALL", b"c")  # type: ignore[union-attr]
    assert judge(words("HVALS o"), Eyes()).argv == (b"HVALS", b"o")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("HSET c name v", "passes"),
        ("HSET c name v secret w", "refused"),
        ("HSET c name secret", "passes"),
        ("HSET c name v secret", "refused"),
        ("HINCRBY c count 1", "passes"),
        ("HINCRBYFLOAT c secret 0", "refused"),
        ("HSTRLEN c name", "passes"),
        ("HSTRLEN c secret", "refused"),
        ("HSTRLEN c", "refused"),
        ("HSETEX c EX 5 FIELDS 1 name v", "passes"),
        ("HSETEX c FIELDS 2 name v secret w", "refused"),
    ],
)
def test_a_write_to_a_hash_is_refused_for_the_fields_that_it_names(said: str, verdict: str) -> None:
    assert told(judge(words(said), Eyes(ONE_FIELD))) == verdict


def test_a_refused_field_is_named() -> None:
    verdict = judge(words("HSET c name v secret w"), Eyes(ONE_FIELD))

    assert isinstance(verdict, Refused)
    assert verdict.refusal == Refusal("R", "field:secret")
    assert verdict.key == b"c"


@pytest.mark.parametrize(
    "said",
    [
        "SET c {} NX",
        "SET c {} NX GET",
        "SETNX c {}",
        "MSETNX o v c {}",
        "MSETEX 2 o v c {} NX",
        "HSETNX c f {}",
        "HSETEX c FNX FIELDS 2 f v g {}",
        "XADD c * f v g {}",
        "LPUSH c v {}",
        "RPUSHX c {}",
        "SADD c {}",
        "ZADD c NX 1 {}",
        "GEOADD c NX 1 2 {}",
        "PFADD c {}",
        "BF.ADD c {}",
        "BF.INSERT c CAPACITY 5 ITEMS {}",
        "TOPK.ADD c {}",
        "VADD c FP32 blob {}",
        "RESTORE c 0 {}",
        "PUBLISH c {}",
        "SPUBLISH c {}",
    ],
)
def test_a_masked_item_cannot_be_written_back(said: str) -> None:
    masked, open_key = words(said.format(f"<{MASKED}>")), words(said.replace(" c ", " o ").format(MASKED))

    verdict = judge(masked, Eyes())

    assert isinstance(verdict, Refused)
    assert (verdict.key, verdict.refusal.rule, len(verdict.views)) == (b"c", "R", 1)
    assert isinstance(judge(open_key, Eyes()), Forward)
    assert isinstance(judge(words(said.format("plain")), Eyes()), Forward)


def test_mask_text_in_a_field_that_no_rule_covers_is_text() -> None:
    assert told(judge(words(f"XADD c * name {MASKED}"), Eyes(ONE_FIELD))) == "passes"
    assert told(judge(words(f"XADD c * secret {MASKED}"), Eyes(ONE_FIELD))) == "refused"
    assert told(judge(words(f"XADD c * {MASKED} v"), Eyes(ONE_FIELD))) == "passes"


def test_only_the_keys_that_a_value_is_refused_for_need_be_lifted() -> None:
    verdict = judge(words(f"MSETNX c1 plain c2 {MASKED} c3 {MASKED}"), Eyes())

    assert isinstance(verdict, Refused)
    assert [view.resource.name for view in verdict.views] == [b"c2", b"c3"]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with server() as asking:
        yield asking


def lists_of(text: str) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.sampled_from(words(text)), max_size=7)


@pytest.mark.broker
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        lists_of("v NX XX GET EX 100 KEEPTTL IFEQ old NX\0 nx").map(lambda rest: [b"SET", b"c:string", *rest]),
        lists_of("1 c:string v NX XX EX 100 KEEPTTL").map(lambda rest: [b"MSETEX", *rest]),
        lists_of("c:string v c:new w").map(lambda rest: [b"MSETNX", *rest]),
        lists_of("FIELDS 1 2 f g v FNX FXX NX XX EX 100 KEEPTTL").map(lambda rest: [b"HSETEX", b"c:hash", *rest]),
        lists_of("NX XX GT LT CH INCR 5 7 m n").map(lambda rest: [b"ZADD", b"c:zset", *rest]),
        lists_of("NX XX CH 5 7 m n").map(lambda rest: [b"GEOADD", b"c:zset", *rest]),
        lists_of("0 dump REPLACE ABSTTL FREQ 5").map(lambda rest: [b"RESTORE", b"c:string", *rest]),
    )
)
def test_what_passes_as_an_add_never_writes_over_nor_answers_with_contents(ask: Ask, argv: list[bytes]) -> None:
    ask(b"FLUSHALL")
    ask(b"SET", b"c:string", b"old")
    ask(b"HSET", b"c:hash", b"f", b"old")
    ask(b"ZADD", b"c:zset", b"3", b"m")
    verdict = judge(tuple(argv), Eyes())
    if isinstance(verdict, Refused):
        return

    reply = ask(*argv)

    assert ask(b"GET", b"c:string") == b"old"
    assert ask(b"HGET", b"c:hash", b"f") == b"old"
    assert ask(b"ZSCORE", b"c:zset", b"m") == b"3"
    assert not isinstance(reply, bytes) or reply != b"old" or verdict.shape == "value"  # a count is no value


def test_every_credential_of_the_server_is_refused_by_name() -> None:
    names = b"requirepass masterauth masteruser primaryauth primaryuser tls-key-file-pass tls-client-key-file-pass".split()

    assert [name for name in names if isinstance(judge((b"CONFIG", b"GET", name), Eyes()), Forward)] == []


@pytest.mark.parametrize(
    ("word", "number"),
    [(b"0", 0), (b"17", 17), (b"2147483647", 2147483647)]
    + [(word, None) for word in (b"", b"+1", b"-1", b" 1", b"01", b"1.0", b"2147483648", b"1" * 400, "٣".encode(), b"1\0")],
)
def test_a_count_is_spelled_in_one_way(word: bytes, number: int | None) -> None:
    assert options.decimal(word) == number


@given(
    st.lists(st.one_of(st.binary(max_size=3), st.sampled_from(sorted(options.SET)), st.sampled_from([b"MAXLEN", b"~", b"1"])))
)
def test_options_end_where_something_else_stands(rest: list[bytes]) -> None:
    argv = (b"XADD", *rest)
    for grammar in (options.SET, options.XADD, options.HSETEX):
        found = options.leading(argv, 1, grammar)

        assert found is None or found.end == len(argv) or argv[found.end].upper() not in grammar
