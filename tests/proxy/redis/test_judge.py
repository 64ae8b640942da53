"""Verdicts of every row, and what holds for any arguments whatever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.protocols.redis.surface import ROWS, Row, Treatment, find
from proxy.protocols.redis.surface.exceptions import CREDENTIALS
from proxy.protocols.redis.surface.judge import Forward, Refused, judge
from proxy.protocols.redis.surface.keys import keys_of

from .eyes import Covering, Eyes, words

CONTAINERS = {row.command for row in ROWS if row.subcommand}
PLAIN = [row for row in ROWS if "*" not in row.name]
BEHIND = {
    "streams": b"STREAMS %b 0",
    "xreadgroup": b"GROUP g n STREAMS %b >",
    "migrate": b"h 1 %b 0 9",
    "1,sort": b"%b",
    "1,georadius:6": b"%b 1 2 3 m",
    "1,georadius:5": b"%b e 3 m",
    "#1": b"1 %b x",
    "#2": b"x 1 %b x",
    "#1/2": b"1 %b x",
    "1,#2": b"%b 1 o",
    "2": b"%b x",
    "2,3..-1": b"NOT o %b",
    "1,2": b"o %b",
    "1,2..-1": b"o %b",
    "1..-2": b"o %b 0",
    "1..-1": b"o %b",
    "1..-1/2": b"o x %b x",
    "1": b"%b x x x",
    "-": b"x",
}


def example(row: Row, key: bytes) -> tuple[bytes, ...]:
    """A command of the row with the key at a place of a key, if it has any."""
    name = tuple(row.name.encode().split())
    spec = BEHIND[row.keys]
    argv = spec % key if b"%b" in spec else spec
    if row.command in CONTAINERS and not row.subcommand:
        return name
    rest = tuple(argv.split(b" "))
    return (*name, *rest)


@pytest.mark.parametrize("row", [row for row in PLAIN if row.unless == "-"], ids=lambda row: row.name)
def test_a_row_is_treated_as_it_says(row: Row) -> None:
    eyes = Eyes()
    covered, uncovered = judge(example(row, b"c"), eyes), judge(example(row, b"o"), eyes)
    lifted = judge(example(row, b"c"), Eyes(lifted=frozenset({b"c", b"*"})))
    ruleless = judge(example(row, b"c"), Eyes(rules=False))

    assert isinstance(lifted, Forward)
    assert isinstance(ruleless, Forward)
    match row.treatment:
        case Treatment.PASS:
            assert isinstance(covered, Forward)
            assert (covered.shape, covered.argv) == (None, example(row, b"c"))
        case Treatment.MASK_REPLY | Treatment.MASK_WHOLE | Treatment.MASK_ARGS:
            assert isinstance(covered, Forward)
            assert covered.shape == (None if row.shape == "-" else row.shape)
            assert covered.by_anything is (row.keys == "-" and row.shape != "-")
            assert covered.keys == (() if row.keys == "-" else covered.keys)
            assert row.keys == "-" or b"c" in covered.keys
        case Treatment.REFUSE_IF_COVERED:
            assert isinstance(covered, Refused)
            assert (covered.key, covered.refusal.rule) == (b"c", "R")
            assert [view.resource.name for view in covered.views] == [b"c"]
            assert isinstance(uncovered, Forward)
        case Treatment.REFUSE_IF_ANY_RULE:
            assert isinstance(uncovered, Refused)
            assert uncovered.key is None
            assert uncovered.views == (eyes.anything,)


@pytest.mark.parametrize(
    "row", [row for row in PLAIN if row.category in ("write_add", "write_over") and row.keys != "-"], ids=lambda r: r.name
)
def test_strict_writes_refuse_every_write_to_a_covered_key(row: Row) -> None:
    assert isinstance(judge(example(row, b"c"), Eyes(writes_strict=True)), Refused)


@pytest.mark.parametrize("said", ["SET c v NX", "HSET c name v", "LPUSH c v", "XADD c * f v", "PUBLISH c text", "SETNX c v"])
def test_strict_writes_leave_no_way_round(said: str) -> None:
    strict = Eyes(Covering(frozenset({b"secret"})), writes_strict=True)

    assert isinstance(judge(words(said), strict), Refused)
    assert isinstance(judge(words(said.replace(" c ", " o ")), strict), Forward)


@pytest.mark.parametrize("said", ["DEL c", "HDEL c f", "SREM c m", "XDEL c 1-1", "LTRIM c 0 1", "FLUSHALL"])
def test_deleting_stays_free_under_strict_writes(said: str) -> None:
    assert isinstance(judge(words(said), Eyes(writes_strict=True)), Forward)


@pytest.mark.parametrize(
    "said",
    [
        "RENAME {} {}",
        "RENAMENX {} {}",
        "COPY {} {}",
        "LMOVE {} {} LEFT LEFT",
        "BLMOVE {} {} LEFT LEFT 0",
        "RPOPLPUSH {} {}",
        "BRPOPLPUSH {} {} 0",
        "LMOVEM {} {} LEFT LEFT",
        "BLMOVEM {} {} LEFT LEFT 0",
        "SMOVE {} {} m",
        "SDIFFSTORE {} {}",
        "ZRANGESTORE {} {} 0 1",
        "ZUNIONSTORE {} 1 {}",
        "BITOP NOT {} {}",
        "PFMERGE {} {}",
        "GEOSEARCHSTORE {} {} x",
        "CMS.MERGE {} 1 {}",
        "TDIGEST.MERGE {} 1 {}",
        "GEORADIUS {} 1 2 3 m STORE {}",
    ],
)
def test_a_copy_is_refused_when_either_name_is_covered(said: str) -> None:
    assert isinstance(judge(words(said.format("o", "o")), Eyes()), Forward)
    assert isinstance(judge(words(said.format("c", "o")), Eyes()), Refused)
    assert isinstance(judge(words(said.format("o", "c")), Eyes()), Refused)
    assert isinstance(judge(words(said.format("c", "c")), Eyes()), Refused)


@pytest.mark.parametrize(
    "said", ["GET", "MSET c", "ZUNION 9 o", "XREAD NOSUCH STREAMS c 0", "SORT o NOSUCH STORE c", "ACL NOSUCH", "NOSUCH"]
)
def test_what_is_not_understood_is_refused_while_any_rule_masks(said: str) -> None:
    eyes = Eyes()
    verdict, ruleless = judge(words(said), eyes), judge(words(said), Eyes(rules=False))

    assert isinstance(verdict, Refused)
    assert (verdict.key, verdict.views) == (None, (eyes.anything,))
    assert isinstance(ruleless, Forward)
    assert (ruleless.shape, ruleless.by_anything) == ("whole", True)  # a rule may come before the reply


def test_a_reader_of_everything_still_lifts_the_keys_of_a_sort_by_pattern() -> None:
    verdict = judge(words("SORT c BY w_*"), Eyes(lifted=frozenset({b"*"})))

    assert isinstance(verdict, Refused)
    assert verdict.key == b"c"


def test_a_refusal_names_the_first_covered_key_and_waits_for_all_of_them() -> None:
    verdict = judge(words("MSET o 1 c1 2 c2 3 c1 4"), Eyes())
    half = judge(words("MSET o 1 c1 2 c2 3"), Eyes(lifted=frozenset({b"c1"})))

    assert isinstance(verdict, Refused)
    assert (verdict.key, [view.resource.name for view in verdict.views]) == (b"c1", [b"c1", b"c2"])
    assert isinstance(half, Refused)
    assert (half.key, len(half.views)) == (b"c2", 1)


def test_what_a_later_rule_would_refuse_has_its_reply_hidden() -> None:
    for said in (
        "STRLEN o",
        "GETBIT o 5",
        "DUMP o",
        "LPOS o x",
        "SISMEMBER o m",
        "GETSET o v",
        "INCR o",
        "LMOVE o o LEFT LEFT",
    ):
        verdict = judge(words(said), Eyes())
        assert isinstance(verdict, Forward)
        assert (verdict.shape, verdict.keys[:1]) == ("hidden", (b"o",))


WORDS = sorted(
    set(
        b"c c1 o secret 0 1 2 -1 NX XX GET EX IFEQ KEEPTTL STORE BY nosort # * LIMIT COUNT MATCH NOVALUES NOSCORES STREAMS GROUP "
        b"KEYS COPY REPLACE MAXLEN ~ FIELDS FNX BYSCORE BYLEX WITHSCORES WITHVALUES SETATTR FP32 VALUES REDUCE ITEMS RESET "
        b"CH INCR GT REDIRECT PREFIX IDMPAUTO STOREDIST JUSTID".split()
    )
    | {b"", "••••".encode(), b"NX\0", *CREDENTIALS}
)
NAMES = st.sampled_from(ROWS).map(lambda row: tuple(row.name.encode().split()))
COMMANDS = st.builds(
    lambda name, rest: (*name, *rest),
    NAMES | st.lists(st.binary(max_size=5), max_size=2).map(tuple),
    st.lists(st.sampled_from(WORDS) | st.binary(max_size=4), max_size=9),
)
EYES = st.builds(
    Eyes,
    st.sampled_from([Covering(), Covering(whole=False), Covering(frozenset({b"secret"}))]),
    st.sets(st.sampled_from([b"c", b"c1", b"*"])).map(frozenset),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=200)
@given(COMMANDS, EYES)
def test_a_refusal_gives_way_when_all_its_views_are_lifted(argv: tuple[bytes, ...], eyes: Eyes) -> None:
    """Also: the verdict never raises. A session lifts what a refusal names and asks again, until it ends."""
    lifted = eyes.lifted
    for _ in range(len(argv) + 2):
        verdict = judge(argv, Eyes(eyes.plan, lifted, eyes.writes_strict))
        if isinstance(verdict, Forward):
            return
        assert verdict.views
        assert all(view.masks for view in verdict.views)
        assert verdict.key is None or verdict.key in argv
        lifted |= {view.resource.name for view in verdict.views}
    pytest.fail("lifting everything that is asked for does not help")


# Of a covered key: names and counts alone, or fields that no rule covers.
HARMLESS = {"HRANDFIELD", "HSCAN", "HSTRLEN", "PFCOUNT", "SINTERCARD", "SUNIONCARD", "SDIFFCARD", "ZINTERCARD", "DELEX"}


@pytest.mark.slow
@settings(max_examples=200)
@given(COMMANDS)
def test_contents_of_a_covered_key_never_pass_as_they_are(argv: tuple[bytes, ...]) -> None:
    row, eyes = find(argv), Eyes()
    keys = keys_of(row.keys, argv) or ()
    covered = any(eyes.view(key).masks for key in keys)

    verdict = judge(argv, eyes)

    if covered and row.category in ("read", "oracle", "copy") and row.name not in HARMLESS:
        assert isinstance(verdict, Refused) or verdict.shape is not None
    if covered and row.category == "copy":
        assert isinstance(verdict, Refused) or (row.name == "SORT" and verdict.shape == "set_members")
    if isinstance(verdict, Forward) and verdict.argv != argv:
        assert (row.name, verdict.argv[0]) in {("GETRANGE", b"GET"), ("SUBSTR", b"GET"), ("HVALS", b"HGETALL")}


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.binary(max_size=6)).map(tuple))
def test_without_rules_everything_goes_as_it_came(argv: tuple[bytes, ...]) -> None:
    verdict = judge(argv, Eyes(rules=False))

    assert isinstance(verdict, Forward)
    assert verdict.argv == argv
