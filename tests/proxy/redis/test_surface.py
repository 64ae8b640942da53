"""The table is closed, whole and readable."""

from __future__ import annotations

import pytest

from proxy.protocols.redis import surface
from proxy.protocols.redis.surface import ROWS, Row, Treatment, find
from proxy.protocols.redis.surface.exceptions import EXCEPTIONS
from proxy.protocols.redis.surface.keys import compiled

from .eyes import words
from .live import server

SHAPES = frozenset(
    words(
        "value members set_members by_key hash_field hash_fields fields_after_word hash_pairs values_of_hash hash_random "
        "hash_scan set_scan zset_scan zset_members key_zset_members key_member_score key_element key_elements stream_entries "
        "streams stream_claim stream_autoclaim stream_info slice hidden index_value_pairs expelled topk_list config "
        "function_list function_stats slowlog monitor info client_list memory_stats role whole"
    )
)
SEALED = ("FT.", "_FT.", "JSON.", "TS.", "SENTINEL", "EVAL", "FCALL", "AI.", "RG.", "GRAPH.", "TF", "MODULE LOAD", "DEBUG")


def test_every_command_of_a_running_valkey_has_a_row() -> None:
    with server() as ask:
        names = ask(b"COMMAND", b"LIST")

    assert isinstance(names, list)
    missing = [
        name for name in names if find(tuple(name.upper().split(b"|"))).name.encode() != name.upper().replace(b"|", b" ")
    ]
    assert len(names) > 390
    assert missing == []


def test_no_row_was_lost_and_none_is_there_twice() -> None:
    assert len(ROWS) == 759
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_found_by_its_name_in_either_case(row: Row) -> None:
    if "*" in row.name:
        return
    name = tuple(row.name.encode().split())

    assert find(name) is row
    assert find(tuple(word.lower() for word in name)) is row


def test_every_row_speaks_of_what_exists() -> None:
    for row in ROWS:
        compiled(row.keys)
        assert row.unless == "-" or row.unless in EXCEPTIONS, row.name
        assert row.shape == "-" or row.shape.encode() in SHAPES, row.name
        assert row.category in surface._EXPOSES, row.name
    assert {row.unless for row in ROWS} == {*EXCEPTIONS, "-"}


def test_no_exception_is_in_the_table_for_nothing_and_no_read_is_without_a_shape() -> None:
    masked = (Treatment.MASK_REPLY, Treatment.MASK_ARGS, Treatment.MASK_WHOLE)
    subscribing = {"SUBSCRIBE", "SSUBSCRIBE", "PSUBSCRIBE"}  # messages are masked one by one

    assert [row.name for row in ROWS if row.treatment in masked and row.shape == "-" and row.name not in subscribing] == []


def test_contents_never_pass_by_their_row_alone() -> None:
    telling = ("read", "oracle", "copy", "script", "diagnostic", "unknown")

    assert [
        row.name for row in ROWS if row.category in telling and row.treatment is Treatment.PASS and row.name != "COMMAND"
    ] == []


def test_what_is_not_judged_in_this_version_is_refused_while_any_rule_masks() -> None:
    sealed = [row for row in ROWS if row.name.startswith(SEALED)]

    assert len(sealed) > 200
    assert {row.treatment for row in sealed} == {Treatment.REFUSE_IF_ANY_RULE}


def test_every_reason_is_one_sentence_of_its_own() -> None:
    for row in ROWS:
        assert row.why.endswith(".")
        assert row.why[0].isupper()
        assert not any(word in row.why.lower() for word in ("ruling", "specification", "measured", ".md", "see ")), row.why


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("NOSUCH k", "*"),
        ("GET\0 k", "*"),  # the server may compare names up to a NUL
        ("GEỐ k", "*"),
        ("* k", "*"),
        ("AI.TENSORGET k", "AI.*"),
        ("ai.x", "AI.*"),
        ("AI x", "*"),
        ("AIR.x", "*"),
        ("GRAPH.QUERY g q", "GRAPH.*"),
        ("TFUNCTION LOAD x", "TFUNCTION *"),
        ("TFUNCTION", "*"),
        ("CONFIG", "CONFIG"),
        ("CONFIG ''", "CONFIG"),
        ("CONFIG NOSUCH", "CONFIG"),
        ("config get maxmemory", "CONFIG GET"),
        ("CONFIG|GET x", "*"),
        ("COMMAND", "COMMAND"),
        ("COMMAND NOSUCH", "*"),
        ("COMMAND ''", "*"),
        ("''", "*"),
    ],
)
def test_a_name_leads_to_its_row(said: str, row: str) -> None:
    assert find(words(said)).name == row


def test_nothing_at_all_is_the_unknown_command() -> None:
    assert find(()) is surface.DEFAULT


def test_only_ascii_letters_are_folded() -> None:
    assert find((b"\xe9val",)) is surface.DEFAULT
    assert find(("ſet".encode(), b"k", b"v")) is surface.DEFAULT  # str.upper would make SET of it


def test_a_table_with_other_columns_is_not_read() -> None:
    with pytest.raises(ValueError, match="columns"):
        surface._read("# a comment\ncommand\tkeys\n")


def test_the_text_tells_each_operation_in_aligned_columns() -> None:
    lines = surface.as_text().splitlines()

    assert len(lines) == 760
    at = lines[0].index("WHY")
    assert all(line[at - 2 : at] == "  " and line[at] != " " for line in lines)
    assert any(line.startswith("GETRANGE ") and "masks the reply, by its arguments" in line for line in lines)
