"""proxy.protocols.redis.contents.lens: every type of node is masked, null stays, what was touched is remembered."""

from __future__ import annotations

import pytest

from proxy.protocols.redis import wire
from proxy.protocols.redis.contents.lens import Lens, flat_pairs, name_of, nested_pairs, passing, shown
from rules.cut import Cut

from .lenses import CANARY, MASK, BlindPlan, Keeping, lens, of, tree_of, view

MASKED = b"$12\r\n" + MASK + b"\r\n"

VALUES = [
    (b"$11\r\nS3CR3T-4711\r\n", MASKED),
    (b"$0\r\n\r\n", MASKED),
    (b"+S3CR3T\r\n", MASKED),
    (b"-ERR S3CR3T\r\n", MASKED),
    (b"!10\r\nERR S3CR3T\r\n", b"!12\r\n" + MASK + b"\r\n"),
    (b"=15\r\ntxt:S3CR3T-4711\r\n", b"=16\r\ntxt:" + MASK + b"\r\n"),
    (b"=6\r\nS3CR3T\r\n", b"=16\r\ntxt:" + MASK + b"\r\n"),
    (b"=3\r\nabc\r\n", b"=16\r\ntxt:" + MASK + b"\r\n"),
    (b":4711\r\n", b":0\r\n"),
    (b"(47110000000000000000000\r\n", b":0\r\n"),
    (b",47.11\r\n", b",0\r\n"),
    (b"#t\r\n", b"#f\r\n"),
    (b"*2\r\n+S3CR3T\r\n:4711\r\n", b"*2\r\n" + MASKED + b":0\r\n"),
    (b"%1\r\n+S3CR3T\r\n~1\r\n,4.7\r\n", b"%1\r\n" + MASKED + b"~1\r\n,0\r\n"),
]


@pytest.mark.parametrize(("reply", "expected"), VALUES)
def test_a_value_of_any_type_is_masked(reply: bytes, expected: bytes) -> None:
    assert wire.encode(lens().value(b"k", tree_of(reply))) == expected
    assert wire.encode(lens().field(b"k", b"f", tree_of(reply))) == expected


@pytest.mark.parametrize(("reply", "expected"), VALUES)
def test_hiding_leaves_no_leaf(reply: bytes, expected: bytes) -> None:
    hidden = wire.encode(lens().hide(tree_of(reply)))

    assert b"S3CR3T" not in hidden
    assert b"47" not in hidden
    assert b"#t" not in hidden


@pytest.mark.parametrize("null", [b"$-1\r\n", b"*-1\r\n", b"_\r\n", b"~-1\r\n"])
def test_null_stays_null_and_touches_nothing(null: bytes) -> None:
    through = lens()
    node = tree_of(null)

    for passed in (
        through.value(b"k", node),
        through.field(b"k", b"f", node),
        through.score(b"k", node),
        through.hide(node),
        through.opaque((b"k",), node),
        through.opaque((), node),
    ):
        assert wire.encode(passed) == null
    assert (through.touched, through.wholes) == (set(), {})


def test_a_free_key_is_neither_masked_nor_touched() -> None:
    through, node = lens(), of(CANARY)

    assert through.value(b"free", node) is node
    assert through.score(b"free", node) is node
    assert through.opaque((b"free",), node) is node
    assert through.touched == set()


def test_a_lifted_key_is_shown_and_touched() -> None:
    through, node = lens(lifted=True), of(CANARY)

    assert through.value(b"k", node) is node
    assert through.opaque((b"k2",), node) is node
    assert through.score(b"k3", node) is node
    assert through.touched == {b"k", b"k2", b"k3"}
    assert not through.masks_anything


def test_all_views_of_a_key_mask() -> None:
    last, first = Keeping(lambda data: data[:-1]), Keeping(lambda data: data[1:])
    through = Lens(lambda key: (view(key, first), view(key, last)), lambda: ())

    assert through.value(b"k", of(b"abc")).body == b"b"


def test_a_dropped_blob_reads_as_masked_for_whoever_asks() -> None:
    large = wire.Node(wire.BULK, b"999999", large=True)

    assert wire.encode(lens().value(b"k", large)) == MASKED
    assert wire.encode(lens().value(b"free", large)) == MASKED
    assert wire.encode(lens().hide(large)) == MASKED
    assert not large.is_null


def test_what_is_not_changed_is_the_node_that_came() -> None:
    node = of(b"{}")

    assert lens(Keeping(lambda data: data)).value(b"k", node) is node


def test_hits_and_reasons_are_counted() -> None:
    class NotJson(BlindPlan):
        def value(self, data: bytes) -> Cut[bytes]:
            return Cut(MASK, (), "not JSON", "R")

    counted = lens()
    counted.value(b"k", of(CANARY))
    whole = lens(NotJson())
    whole.value(b"k", of(CANARY))
    whole.hide(of([CANARY, CANARY]))

    assert counted.hits == {("R", "redact"): 1}
    assert whole.wholes == {"not JSON": 1, "unexpected reply": 1}


@pytest.mark.parametrize(
    ("score", "expected"),
    [(b"$4\r\n47.1\r\n", b"$1\r\n0\r\n"), (b",47.1\r\n", b",0\r\n"), (b":47\r\n", b":0\r\n"), (b"+47\r\n", b":0\r\n")],
)
def test_a_score_reads_zero_in_its_own_form(score: bytes, expected: bytes) -> None:
    assert wire.encode(lens().score(b"k", tree_of(score))) == expected


def test_an_opaque_reply_is_hidden_if_any_of_its_keys_is_masked() -> None:
    through = lens(anything=False)

    assert through.opaque((b"free", b"k"), of([CANARY])) == of([MASK])
    assert through.touched == {b"k"}


def test_an_opaque_reply_without_keys_is_hidden_while_anything_is_masked() -> None:
    node = of([CANARY])

    assert lens().opaque((), node) == of([MASK])
    assert lens(anything=False).opaque((), node) is node


def test_a_field_that_no_rule_covers_is_shown_and_not_touched() -> None:
    through, node = lens(), of(CANARY)

    assert through.field(b"k", b"open", node) is node
    assert through.touched == set()


def test_a_tree_in_the_place_of_any_field_is_hidden() -> None:
    through = lens()

    assert through.field(b"k", b"open", of([CANARY])) == of([MASK])
    assert through.touched == {b"k"}


def test_only_bulks_and_simple_strings_are_names() -> None:
    assert name_of(of(b"f")) == b"f"
    assert name_of(tree_of(b"+f\r\n")) == b"f"
    for other in (b"-f\r\n", b":1\r\n", b"*1\r\n+f\r\n", b"$-1\r\n", b"_\r\n", b"=5\r\ntxt:f\r\n", b"!1\r\nf\r\n"):
        assert name_of(tree_of(other)) is None
    assert name_of(wire.Node(wire.BULK, b"9", large=True)) is None


def test_a_piece_passes_only_where_nothing_masks() -> None:
    plan = BlindPlan()

    assert passing(b"piece", ()) == b"piece"
    assert passing(b"piece", (view(b"k", None), view(b"k", plan, lifted=True))) == b"piece"
    with pytest.raises(PermissionError):
        passing(b"piece", (view(b"k", None), view(b"k", plan)))


def test_what_went_through_a_lens_is_shown_as_its_bytes() -> None:
    assert shown(lens().value(b"k", of(CANARY))) == MASKED


def test_pairs_are_found_flat_nested_or_not_at_all() -> None:
    one, two = of(b"1"), of(b"2")

    assert flat_pairs(of([b"1", b"2"])) == [(one, two)] == flat_pairs(of({b"1": b"2"}, 3))
    assert flat_pairs(of([b"1"])) is None
    assert flat_pairs(one) is None
    assert flat_pairs(of({b"1", b"2"}, 3)) is None
    assert nested_pairs(of([[b"1", b"2"]])) == [(of([b"1", b"2"]), one, two)]
    assert nested_pairs(of([[b"1", b"2"], [b"1"]])) is None
    assert nested_pairs(of({b"1": b"2"}, 3)) is None
