"""Rules as a file writes them: what is taken, and every problem at its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.model import Field, FieldKind, JsonPath, Kind, Name, Partial, Place, Platform, Redact, Rule, RuleBook, Scope
from rules.paths import PathError, parse_path
from rules.store.book import PROBLEM_LIMIT, bind

CORPUS = [json.loads(line) for line in (Path(__file__).parents[1] / "corpora" / "rule_files.jsonl").read_text().splitlines()]


def book(*texts: str) -> RuleBook:
    bound = bind([(f"{number}.yaml", text.encode()) for number, text in enumerate(texts)])
    assert [str(each) for each in bound.problems] == []
    assert bound.book is not None
    return bound.book


def told(*texts: str | bytes) -> list[str]:
    """Each problem as `file:line:column`."""
    files = [(f"{number}.yaml", text if isinstance(text, bytes) else text.encode()) for number, text in enumerate(texts)]
    bound = bind(files)
    assert (bound.book is None) is bool(bound.problems)
    return [str(each.place).removeprefix("0.yaml:") for each in bound.problems]


def rule(**changes: str | None) -> str:
    """A file with one rule, one key a line; the first is on line 2. None leaves a key out."""
    keys: dict[str, str | None] = {
        "name": "R",
        "platform": "kafka",
        "resources": '["a"]',
        "fields": "[{kind: whole_value, method: redact}]",
    }
    keys.update(changes)
    lines = [f"{key.rstrip('_')}: {value}" for key, value in keys.items() if value is not None]
    return "rules:\n- " + "\n  ".join(lines) + "\n"


@pytest.mark.parametrize("case", CORPUS, ids=[case["id"] for case in CORPUS])
def test_the_corpus_of_rule_files_gets_its_verdict(case: dict[str, str]) -> None:
    if case["verdict"] == "skip":
        case = {"yaml": "rules: []\n#\udcff\n", "verdict": "keep_old"}
    bound = bind([("r.yaml", case["yaml"].encode("utf-8", "surrogateescape"))])

    assert ("load" if bound.book is not None else "keep_old") == case["verdict"]
    assert bool(bound.problems) == (bound.book is None)


def path_column(path: str) -> int:
    """Where the path's grammar sees the problem: 0 for its first character."""
    with pytest.raises(PathError) as caught:
        parse_path(path)
    return caught.value.column


CORPUS_PLACES = {
    "empty": "1:1",
    "truncated": "5:10",
    "dup_key": "7:1",
    "unknown_key": "6:38",
    "norway": "2:9",
    "multi_doc": "7:1",
    "root_path": f"6:{30 + path_column('$')}",
    "index_path": f"6:{30 + path_column('$.a[0]')}",
    "big_partial": "6:67",
    "control": "2:9",
}


@pytest.mark.parametrize(("case", "expected"), CORPUS_PLACES.items())
def test_the_corpus_is_refused_at_the_right_place(case: str, expected: str) -> None:
    text = next(each["yaml"] for each in CORPUS if each["id"] == case)

    assert expected in told(text)


def test_every_key_of_a_rule_is_read() -> None:
    text = """\
rules:
  - name: Customer contact
    description: E-mail and phone
    enabled: false
    platform: kafka
    scope: {environment: production}
    resources: {topic: ["orders.*", "payments-?"]}
    except: {topic: ["orders.public"]}
    mask_all: true
    fields:
      - {kind: json_path, path: $.email, method: partial, keep_first: 1}
      - {kind: header, name: authorization, method: redact}
      - {kind: record_key, method: partial, keep_last: 4}
    compliance: [GDPR, PCI]
    information_kind: contact
    risk: high
"""
    expected = Rule(
        name="Customer contact",
        platform=Platform.KAFKA,
        resources=((Kind.TOPIC, ("orders.*", "payments-?")),),
        excepted=((Kind.TOPIC, ("orders.public",)),),
        scope=Scope(environment="production"),
        mask_all=True,
        fields=(
            Field(FieldKind.JSON_PATH, Partial(1, 0), JsonPath("$.email", (Name("email"),))),
            Field(FieldKind.HEADER, Redact(), name="authorization"),
            Field(FieldKind.RECORD_KEY, Partial(0, 4)),
        ),
        enabled=False,
        description="E-mail and phone",
        compliance=("GDPR", "PCI"),
        information_kind="contact",
        risk="high",
    )

    (read,) = book(text).rules

    assert read == expected
    assert read.place == Place("0.yaml", 2, 11)
    assert read.field_places == (Place("0.yaml", 11, 33), Place("0.yaml", 12, 30), Place("0.yaml", 13, 16))


def test_a_rule_is_enabled_everywhere_and_keeps_nothing_back_unless_it_says_so() -> None:
    (read,) = book(rule()).rules

    assert read.enabled
    assert not read.mask_all
    assert read.scope == Scope()
    assert read.excepted == ()


@pytest.mark.parametrize(
    ("platform", "kind"),
    [("kafka", "topic"), ("rabbitmq", "queue"), ("artemis", "queue"), ("redis", "key"), ("memcached", "key")],
)
def test_a_plain_list_means_the_first_kind_of_the_platform(platform: str, kind: str) -> None:
    (read,) = book(rule(platform=platform, except_="[b]")).rules

    assert read.resources == ((Kind(kind), ("a",)),)
    assert read.excepted == ((Kind(kind), ("b",)),)


def test_no_rules_is_a_decision() -> None:
    assert book("rules: []\n").rules == ()


def test_mask_all_needs_no_field() -> None:
    (read,) = book(rule(fields=None, mask_all="true")).rules

    assert read.mask_all


def test_a_quoted_name_may_look_like_anything() -> None:
    assert [each.name for each in book(rule(name='"no"'), rule(name="'12:30:45'")).rules] == ["no", "12:30:45"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "no"}, ["2:9"]),
        ({"name": "12:30:45"}, ["2:9"]),
        ({"name": "1_000"}, ["2:9"]),
        ({"name": "[x]"}, ["2:9"]),
        ({"name": '""'}, ["2:9"]),
        ({"name": '" "'}, ["2:9"]),
        ({"name": ""}, ["2:8"]),
        ({"name": None}, ["2:3"]),
        ({"name": '"a\\nb"'}, ["2:9"]),
        ({"name": '"a\\x9bb"'}, ["2:9"]),
        ({"name": '"a\\u2028b"'}, ["2:9"]),
        ({"name": '"a\u2028b"'}, ["2:11"]),
        ({"name": "a\u202eb"}, ["2:10"]),
        ({"name": "x" * 257}, ["2:9"]),
        ({"platform": "kafak"}, ["3:13"]),
        ({"platform": None}, ["2:3"]),
        ({"resources": None}, ["2:3"]),
        ({"resources": "{}"}, ["4:14"]),
        ({"resources": "[]"}, ["4:14"]),
        ({"resources": "a"}, ["4:14"]),
        ({"resources": ""}, ["4:13"]),
        ({"resources": "{topic: []}"}, ["4:22"]),
        ({"resources": "{topic: a}"}, ["4:22"]),
        ({"resources": "{topic: [1]}"}, ["4:23"]),
        ({"resources": "{topic: [a, a]}"}, ["4:26"]),
        ({"resources": '{topic: ["a\\u0000"]}'}, ["4:23"]),
        ({"resources": "{queue: [a]}"}, ["4:15"]),
        ({"resources": "{topics: [a]}"}, ["4:15"]),
        ({"except": "{key: [a]}"}, ["6:12"]),
        ({"except": "a"}, ["6:11"]),
        ({"fields": None}, ["2:3"]),
        ({"fields": "[]"}, ["5:11"]),
        ({"fields": ""}, ["5:10"]),
        ({"fields": "{kind: whole_value, method: redact}"}, ["5:11"]),
        ({"fields": "[x]"}, ["5:12"]),
        ({"fields": "[], mask_all: false"}, ["5:13"]),
        ({"mask_all": "yes"}, ["6:13"]),
        ({"mask_all": '"true"'}, ["6:13"]),
        ({"enabled": "True"}, ["6:12"]),
        ({"scope": "{}"}, ["6:10"]),
        ({"scope": "production"}, ["6:10"]),
        ({"scope": "{environment: a, connection: b}"}, ["6:10"]),
        ({"scope": "{environment: no}"}, ["6:24"]),
        ({"scope": "{env: a}"}, ["6:10", "6:11"]),
        ({"compliance": "GDPR"}, ["6:15"]),
        ({"compliance": "[GDPR, 2016]"}, ["6:22"]),
        ({"risk": "huge"}, ["6:9"]),
        ({"information_kind": "1"}, ["6:21"]),
        ({"description": "x" * 4097}, ["6:16"]),
        ({"description": "no"}, ["6:16"]),
        ({"mask_al": "true"}, ["6:3"]),
    ],
)
def test_a_problem_of_a_rule_is_told_at_its_value(changes: dict[str, str | None], expected: list[str]) -> None:
    assert told(rule(**changes)) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{kind: json_path, method: redact}", [1]),
        ("{kind: json_path, path: $.a, method: redact, name: x}", [52]),
        ("{kind: json_path, path: 7, method: redact}", [25]),
        ("{kind: json_path, path: '$.a[0]', method: redact}", [26 + path_column("$.a[0]")]),
        ("{kind: json_path, path: $.a.é b, method: redact}", [25 + path_column("$.a.é b")]),
        ('{kind: json_path, path: "$.a[0]", method: redact}', [26 + path_column("$.a[0]")]),
        ('{kind: json_path, path: "\\x24.a[0]", method: redact}', [25]),
        ("{kind: json_path, path: a.b, method: redact}", [25 + path_column("a.b")]),
        ("{kind: header, method: redact}", [1]),
        ("{kind: header, name: x, path: $.a, method: redact}", [31]),
        ("{kind: record_key, name: x, method: redact}", [26]),
        ("{kind: field, name: x, method: redact}", [8]),
        ("{kind: whole, method: redact}", [8]),
        ("{kind: whole_value}", [1]),
        ("{method: redact}", [1]),
        ("{kind: whole_value, method: partial}", [1]),
        ("{kind: whole_value, method: partial, keep_first: 0}", [50]),
        ("{kind: whole_value, method: partial, keep_last: 0}", [49]),
        ("{kind: whole_value, method: partial, keep_first: 65}", [50]),
        ("{kind: whole_value, method: partial, keep_first: -1}", [50]),
        ("{kind: whole_value, method: partial, keep_first: 010}", [50]),
        ("{kind: whole_value, method: partial, keep_first: 1_0}", [50]),
        ("{kind: whole_value, method: partial, keep_first: '1'}", [50]),
        ("{kind: whole_value, method: partial, keep_first: 0x1}", [50]),
        ("{kind: whole_value, method: partial, keep_first: 1.0}", [50]),
        ("{kind: whole_value, method: partial, keep_first: [1]}", [50]),
        ("{kind: whole_value, method: partial, keep_first: ١}", [50]),
        ("{kind: whole_value, method: redact, keep_first: 1}", [49]),
        ("{kind: whole_value, method: hash}", [29]),
        ("{kind: whole_value, methd: redact}", [1, 21]),
        ("{kind: nothing, path: '', name: no, method: none, keep_last: 99}", [8, 23, 33, 45, 62]),
    ],
)
def test_a_problem_of_a_field_is_told_at_its_value(field: str, expected: list[int]) -> None:
    assert told(rule(fields=f"[{field}]")) == [f"5:{11 + column}" for column in expected]


@pytest.mark.parametrize("field", ["{kind: record_key, method: redact}", "{kind: header, name: a, method: redact}"])
def test_a_kind_of_field_that_the_platform_lacks_is_refused(field: str) -> None:
    assert told(rule(platform="redis", fields=f"[{field}]")) == ["5:19"]


def test_names_are_guessed_when_nearly_right() -> None:
    bound = bind([("f", rule(platform="kafak", mask_al="true").encode())])

    assert ["did you mean kafka?" in each.message or "did you mean mask_all?" in each.message for each in bound.problems] == [
        True,
        True,
    ]


def test_all_problems_of_meaning_are_told_in_their_order() -> None:
    text = """\
rules:
- name: a
  platform: kafka
  resources: []
- {name: no, platform: kafka, resources: [x], fields: [{kind: record_key, method: redact}]}
- {name: b, platform: x, resources: [x], fields: [{kind: record_key, method: redact}]}
- 5
users: []
extra: 1
"""
    assert told(text) == ["2:3", "4:14", "5:10", "6:23", "7:3", "8:8", "9:1"]


def test_the_first_thousand_problems_of_a_file_are_told() -> None:
    assert len(told("rules: [" + "1, " * 2000 + "]")) == PROBLEM_LIMIT + 1


def test_an_alias_in_a_rule_never_makes_it_shorter() -> None:
    assert told("x: &x {kind: whole_value, method: redact}\n" + rule(fields="[*x]")) == ["1:1", "1:4", "6:12"]


def test_a_rule_name_stands_once_over_all_files() -> None:
    assert told(rule(), rule(), rule(name="S")) == ["1.yaml:2:9"]
    assert told(rule(enabled="1") + rule().removeprefix("rules:\n")) == ["6:12", "7:9"]


def test_rules_keep_the_order_of_files() -> None:
    assert [each.name for each in book(rule(name="b"), rule(name="a")).rules] == ["b", "a"]


def test_the_version_follows_names_and_bytes() -> None:
    def version(*files: tuple[str, bytes]) -> str:
        read = bind(files).book
        assert read is not None
        return read.version

    same = version(("a", b"rules: []"))
    assert same == version(("a", b"rules: []"))
    assert same != version(("b", b"rules: []"))
    assert same != version(("a", b"rules: [] "))
    assert version(("a", b"rules: []"), ("b", b"users: {}")) != same


@pytest.mark.parametrize("text", ["{}", "[]", "text", "rules", "rules: {}", "rules:", "rule: []"])
def test_a_file_that_says_nothing_is_refused(text: str) -> None:
    assert told(text) != []


words = st.sampled_from(
    [
        "rules",
        "users",
        "name",
        "platform",
        "kafka",
        "resources",
        "fields",
        "kind",
        "json_path",
        "path",
        "$.a",
        "method",
        "redact",
        "on",
        "no",
        "{",
        "}",
        "[",
        "]",
        ": ",
        ", ",
        "\n",
        "- ",
        "  ",
        "to",
        "user",
        "grants",
        "allow",
        "'",
        "*a",
        "&a ",
        "1",
        "roles",
        "permissions",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=40).map("".join))
def test_any_text_gives_a_book_or_problems(text: str) -> None:
    bound = bind([("f", text.encode())])

    assert (bound.book is None) is bool(bound.problems)


@pytest.mark.parametrize(
    "key",
    ["name", "platform", "resources", "except", "scope", "mask_all", "enabled", "fields", "description", "compliance", "risk"],
)
@pytest.mark.parametrize("value", ["!x y", "!x [y]", "!x {y: z}"])
def test_a_tagged_value_is_told_once_and_its_rule_is_left_out(key: str, value: str) -> None:
    text = rule(**{key: value})
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each[2:].startswith(f"{key}:"))

    assert told(text) == [f"{line}:{len(key) + 5}"]


@pytest.mark.parametrize(
    "field",
    [
        "!x y",
        "{kind: !x y, method: redact}",
        "{kind: whole_value, method: !x y}",
        "{kind: json_path, path: !x y, method: redact}",
        "{kind: whole_value, method: partial, keep_first: !x 1}",
    ],
)
def test_a_tagged_value_in_a_field_is_told_once(field: str) -> None:
    assert told(rule(fields=f"[{field}]")) == [f"5:{12 + field.index('!')}"]


def test_a_list_or_mapping_in_place_of_a_text_is_told() -> None:
    assert told(rule(name="{a: b}")) == ["2:9"]
    assert told(rule(resources="[[a]]")) == ["4:15"]
