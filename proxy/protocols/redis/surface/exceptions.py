"""What changes a row's treatment for some arguments.

Each function reads the arguments by position and gives a Change, or None: the row's own treatment stands. A form that
is not understood never gets less than the row's treatment, and where that would let it pass, it gets a refusal.
Only keys that a rule covers are looked at closely; for the rest a Change at most names the shape of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rules.model import Hit, Refusal
from rules.view import View

from . import Treatment, options

CREDENTIALS = frozenset(
    {
        b"requirepass",
        b"masterauth",
        b"masteruser",
        b"primaryauth",
        b"primaryuser",
        b"sentinel-pass",
        b"sentinel-user",
        b"tls-key-file-pass",
        b"tls-client-key-file-pass",
    }
)
"""Settings that log in somewhere, as CONFIG names them."""

_STREAM_ID = re.compile(rb"\*|[0-9]+(-([0-9]+|\*))?")


@dataclass(frozen=True, slots=True)
class Case:
    """A command with the views of its keys, in the order of the arguments."""

    argv: tuple[bytes, ...]
    views: Mapping[bytes, View]

    @property
    def masks(self) -> bool:
        return any(view.masks for view in self.views.values())

    @property
    def hides_whole(self) -> bool:
        """Every covered key shows nothing but masks, so that order and position of its members tell nothing."""
        return all(view.plan is not None and view.plan.hides_whole for view in self.views.values() if view.masks)


@dataclass(frozen=True, slots=True)
class Change:
    """What holds in place of the row's treatment.

    `argv`: what to send instead. `shape`: for MASK_REPLY, and for what is refused only when covered, of the reply
    where it is not. `culprits`: for REFUSE_IF_COVERED the keys that are refused and why, where these are not simply
    all covered keys.
    """

    treatment: Treatment
    shape: str = "-"
    argv: tuple[bytes, ...] | None = None
    culprits: tuple[tuple[bytes, Refusal], ...] = ()


PASS = Change(Treatment.PASS)
REFUSE = Change(Treatment.REFUSE_IF_COVERED, "hidden")
ALONE = Change(Treatment.REFUSE_IF_ANY_RULE)

Written = tuple[bytes, bytes | None, bytes]
"""A value that is added: key, name of the field or None, value."""


def _adding(case: Case, written: Iterable[Written]) -> Change:
    """Passes, unless a value bears mask text where a rule covers it: a masked item that is written back."""
    culprits: dict[bytes, Refusal] = {}
    if case.masks:
        for key, name, data in written:
            hit = None if key in culprits else _mask_in(case.views[key], name, data)
            if hit is not None:
                culprits[key] = Refusal(hit.rule, hit.field)
    if culprits:
        return Change(Treatment.REFUSE_IF_COVERED, culprits=tuple(culprits.items()))
    return PASS


def _mask_in(view: View, name: bytes | None, data: bytes) -> Hit | None:
    if view.plan is None or not view.masks:
        return None
    return view.plan.value_holds_mask(data) if name is None else view.plan.field_holds_mask(name, data)


# --- adds ------------------------------------------------------------------------------------------------------------


def adds_values(case: Case) -> Change | None:
    """Everything behind the key may be a value; that option words are searched too does no harm."""
    found = _adding(case, ((case.argv[1], None, each) for each in case.argv[2:]))
    return found if found.culprits else None


def adds_pairs(case: Case) -> Change | None:
    return _adding(case, _pairs(case.argv, 1))


def _pairs(argv: tuple[bytes, ...], first: int) -> Iterable[Written]:
    return ((key, None, data) for key, data in zip(argv[first::2], argv[first + 1 :: 2], strict=False))


def adds_field(case: Case) -> Change | None:
    """HSETNX key field value."""
    key, rest = case.argv[1], case.argv[2:]
    if len(rest) != 2:
        return REFUSE
    return _adding(case, [(key, rest[0], rest[1])])


def string(case: Case) -> Change | None:
    """SET: with NX nothing is written over, and with NX and GET at most the old value comes back."""
    argv = case.argv
    given = options.all_of(argv, 3, options.SET) if len(argv) >= 3 else None
    if given is None:
        return REFUSE
    if b"NX" not in given or given.has_any(b"XX", b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"):
        # A condition is hidden wherever a rule covers the key by the time of the reply.
        shape = "value" if b"GET" in given else "-" if not given.has_any(b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE") else "hidden"
        return Change(Treatment.REFUSE_IF_COVERED, shape)
    added = _adding(case, [(argv[1], None, argv[2])])
    if added is PASS and b"GET" in given:
        return Change(Treatment.MASK_REPLY, "value")
    return added


def several(case: Case) -> Change | None:
    """MSETEX count key value … [NX]."""
    argv = case.argv
    behind = 2 + 2 * (options.decimal(argv[1]) or 0)
    given = options.all_of(argv, behind, options.MSETEX)
    if given is None or b"NX" not in given or b"XX" in given:
        return None
    return _adding(case, _pairs(argv[:behind], 2))


def restore(case: Case) -> Change | None:
    """RESTORE key ttl value, without REPLACE."""
    given = options.all_of(case.argv, 4, options.RESTORE) if len(case.argv) >= 4 else None
    if given is None or b"REPLACE" in given:
        return None
    return _adding(case, [(case.argv[1], None, case.argv[3])])


def entry(case: Case) -> Change | None:
    """XADD key [options] id field value …"""
    argv = case.argv
    given = options.leading(argv, 2, options.XADD)
    if given is None or b"IDMPAUTO" in given or given.end >= len(argv) or not _STREAM_ID.fullmatch(argv[given.end]):
        return REFUSE
    fields = argv[given.end + 1 :]
    if not fields or len(fields) % 2:
        return REFUSE
    return _adding(case, ((argv[1], name, data) for name, data in zip(fields[::2], fields[1::2], strict=True)))


def scored(case: Case) -> Change | None:
    """ZADD key [options] score member …"""
    return _placed(case, options.ZADD, 2)


def located(case: Case) -> Change | None:
    """GEOADD key [options] longitude latitude member …"""
    return _placed(case, options.GEOADD, 3)


def _placed(case: Case, grammar: options.Grammar, width: int) -> Change | None:
    """Adding to an order: only where nothing is written over and the order shows nothing but masks."""
    given = options.leading(case.argv, 2, grammar)
    if given is None or not case.hides_whole or {word for word, _ in given.given} != {b"NX"}:
        return None
    rest = case.argv[given.end :]
    if not rest or len(rest) % width:
        return None
    return _adding(case, ((case.argv[1], None, each) for each in rest[width - 1 :: width]))


def vector(case: Case) -> Change | None:
    """VADD key [REDUCE n] (FP32 blob | VALUES n number …) element [options], without SETATTR."""
    argv = case.argv
    at = 4 if len(argv) > 2 and argv[2].upper() == b"REDUCE" else 2
    form = argv[at].upper() if at + 1 < len(argv) else b""
    count = 1 if form == b"FP32" else options.decimal(argv[at + 1]) if form == b"VALUES" else None
    if not count:
        return REFUSE
    element = at + (2 if form == b"FP32" else 2 + count)
    given = options.all_of(argv, element + 1, options.VADD) if element < len(argv) else None
    if given is None or b"SETATTR" in given:
        return REFUSE
    return _adding(case, [(argv[1], None, argv[element])])


# --- fields of hashes ------------------------------------------------------------------------------------------------


def _over_fields(case: Case, names: Iterable[bytes]) -> Change | None:
    """Passes where no named field is covered; else refused for the first that is."""
    if not case.masks:
        return None
    key = case.argv[1]
    plan = case.views[key].plan
    assert plan is not None, "a view that masks has a plan"
    for name in names:
        covering = plan.covers_field(name)
        if covering is not None:
            return Change(Treatment.REFUSE_IF_COVERED, culprits=((key, covering),))
    return PASS


def fields(case: Case) -> Change | None:
    """HSET and HMSET key field value …"""
    rest = case.argv[2:]
    return _over_fields(case, rest[::2]) if rest and len(rest) % 2 == 0 else None


def one_field(case: Case) -> Change | None:
    """HINCRBY, HINCRBYFLOAT key field n; HSTRLEN key field."""
    return _over_fields(case, case.argv[2:3]) if len(case.argv) > 2 else None


def fields_expiring(case: Case) -> Change | None:
    """HSETEX key [options] FIELDS n field value …; FNX and NX add only."""
    argv = case.argv
    given = options.all_of(argv, 2, options.HSETEX)
    if given is None or len(given.values(b"FIELDS")) != 1 or given.given[-1][0] != b"FIELDS":
        return None  # what stands behind the fields is an option to some servers and an error to others
    pairs = given.values(b"FIELDS")[0][1:]
    if given.has_any(b"NX", b"FNX") and not given.has_any(b"XX", b"FXX"):
        return _adding(case, ((argv[1], name, data) for name, data in zip(pairs[::2], pairs[1::2], strict=True)))
    return _over_fields(case, pairs[::2])


def hash_values(case: Case) -> Change | None:
    """HVALS is answered from HGETALL, where the names are."""
    if not case.masks or len(case.argv) != 2:
        return None
    return Change(Treatment.MASK_REPLY, "values_of_hash", (b"HGETALL", case.argv[1]))


def hash_random(case: Case) -> Change | None:
    """HRANDFIELD key [count [WITHVALUES]]."""
    if len(case.argv) <= 3:
        return PASS
    return None if len(case.argv) == 4 and case.argv[3].upper() == b"WITHVALUES" else REFUSE


def hash_scan(case: Case) -> Change | None:
    given = options.all_of(case.argv, 3, options.HSCAN) if len(case.argv) >= 3 else None
    if given is None:
        return REFUSE
    return PASS if b"NOVALUES" in given else None


# --- reads that may be questions -------------------------------------------------------------------------------------


def slice_of(case: Case) -> Change | None:
    """GETRANGE and SUBSTR are cut from the masked whole."""
    if not case.masks or len(case.argv) != 4:
        return None
    return Change(Treatment.MASK_REPLY, "slice", (b"GET", case.argv[1]))


def set_scan(case: Case) -> Change | None:
    given = options.all_of(case.argv, 3, options.SCAN) if len(case.argv) >= 3 else None
    return None if given is not None and _matches_all(given) else REFUSE


def sorted_set_scan(case: Case) -> Change | None:
    given = options.all_of(case.argv, 3, options.ZSCAN) if len(case.argv) >= 3 else None
    if given is None or not _matches_all(given):
        return REFUSE
    return Change(Treatment.MASK_REPLY, "set_scan") if b"NOSCORES" in given else None


def _matches_all(given: options.Options) -> bool:
    return all(values == (b"*",) for values in given.values(b"MATCH"))


def by_rank(case: Case) -> Change | None:
    """ZRANGE key start stop, neither by score nor by text."""
    given = options.all_of(case.argv, 4, options.ZRANGE) if len(case.argv) >= 4 else None
    return REFUSE if given is None or given.has_any(b"BYSCORE", b"BYLEX") else None


def sort(case: Case) -> Change | None:
    """SORT: patterns read keys that cannot be known; as it lies and in one piece, a list may be shown masked."""
    given = options.all_of(case.argv, 2, options.SORT)
    if given is None:
        return REFUSE
    unsorted = {values[0].lower() for values in given.values(b"BY")}
    if unsorted - {b"nosort"} or any(values != (b"#",) for values in given.values(b"GET")):
        return ALONE
    if not unsorted or given.has_any(b"STORE", b"LIMIT"):
        # The server keeps sets of numbers in their order, so that a window shows which of them are smaller.
        return None
    return Change(Treatment.MASK_REPLY, "set_members")


def one_set(case: Case) -> Change | None:
    """SDIFF, SINTER and SUNION of one key are SMEMBERS."""
    return Change(Treatment.MASK_REPLY, "set_members") if len(case.argv) == 2 else None


def one_sorted_set(case: Case) -> Change | None:
    """ZDIFF, ZINTER and ZUNION of one key, without options.

    They take a plain set too and give its members in the order of their bytes, which adding a guess to the set reads
    out wherever anything of a member is shown. So all of it is hidden, and options (scores among them) are refused.
    """
    return Change(Treatment.MASK_REPLY, "hidden") if len(case.argv) == 3 else None


def one_count(case: Case) -> Change | None:
    """The cardinality of a single set, sorted set or HyperLogLog."""
    one = len(case.argv) == 2 if case.argv[0].upper() == b"PFCOUNT" else case.argv[1] == b"1"
    return PASS if one else None


def unconditional(case: Case) -> Change | None:
    """DELEX key is DEL."""
    return PASS if len(case.argv) == 2 else None


def array_info(case: Case) -> Change | None:
    return None if len(case.argv) == 2 else REFUSE


# --- what names no key -----------------------------------------------------------------------------------------------


def tracking(case: Case) -> Change | None:
    """CLIENT TRACKING ON|OFF without REDIRECT."""
    given = options.all_of(case.argv, 3, options.TRACKING) if len(case.argv) >= 3 else None
    return ALONE if given is None or b"REDIRECT" in given else None


def credentials(case: Case) -> Change | None:
    """CONFIG GET of a credential by its own name; a glob that meets one finds it masked."""
    named = {each.partition(b"\0")[0].lower() for each in case.argv[2:]}  # the server's names end at a NUL
    return ALONE if named & CREDENTIALS else None


def acl_log(case: Case) -> Change | None:
    return PASS if len(case.argv) == 3 and case.argv[2].upper() == b"RESET" else None


EXCEPTIONS: dict[str, Callable[[Case], Change | None]] = {
    "acl_log": acl_log,
    "adds_field": adds_field,
    "adds_pairs": adds_pairs,
    "adds_values": adds_values,
    "array_info": array_info,
    "credentials": credentials,
    "entry": entry,
    "fields": fields,
    "fields_expiring": fields_expiring,
    "hash_random": hash_random,
    "hash_scan": hash_scan,
    "hash_values": hash_values,
    "located": located,
    "one_count": one_count,
    "one_field": one_field,
    "one_set": one_set,
    "one_sorted_set": one_sorted_set,
    "range": by_rank,
    "restore": restore,
    "scored": scored,
    "set": string,
    "set_scan": set_scan,
    "several": several,
    "slice": slice_of,
    "sort": sort,
    "sorted_set_scan": sorted_set_scan,
    "tracking": tracking,
    "unconditional": unconditional,
    "vector": vector,
}
"""By the name in the table's `unless` column."""
