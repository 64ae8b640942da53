"""Why a reader sees a resource the way it is seen."""

from __future__ import annotations

import pytest

from rules.access import Reader
from rules.explain import NAME_LIMIT, explain, explain_view
from rules.model import Connection, Kind, Platform, Resource, RuleBook
from rules.policy import Policy
from rules.preview import PreviewError
from rules.store.book import bind

TEXT = """\
rules:
  - name: Contact
    platform: redis
    resources: ["customer:*"]
    fields:
      - {kind: json_path, path: $.email, method: partial, keep_first: 1}
      - {kind: whole_value, method: redact}
  - {name: Idle, enabled: false, platform: redis, resources: ["*"], mask_all: true}
  - {name: Excepting, platform: redis, resources: ["*"], except: ["customer:?"], mask_all: true}
  - {name: Scoped, platform: redis, scope: {environment: production}, resources: ["customer:*"], mask_all: true}
  - {name: Elsewhere, platform: kafka, resources: ["*"], mask_all: true}
grants:
  - {allow: messages.read.unmasked, to: {user: alice}, on: {key: ["customer:*"]}}
  - {allow: messages.read.unmasked, to: {user: bob}, on: {connection: shop}}
"""


@pytest.fixture
def book() -> RuleBook:
    bound = bind([("f.yaml", TEXT.encode())])
    assert bound.book is not None, bound.problems
    return bound.book


def lines(book: RuleBook, name: bytes = b"customer:1", who: str | None = None, **at: str) -> list[str]:
    return explain(
        book,
        platform=Platform.REDIS,
        kind=Kind.KEY,
        name=name,
        who=who,
        connection=at.get("connection"),
        environment=at.get("environment"),
    )


def test_every_rule_whose_patterns_fit_is_told_with_its_reason(book: RuleBook) -> None:
    assert lines(book, connection="shop", environment="test") == [
        'key "customer:1" on redis ("shop", "test"), read by a reader who is not logged in',
        'rule "Contact" (f.yaml:2:11) covers it: key "customer:*" fits, everywhere',
        "  $.email: partial, keeps the first 1 and the last 0",
        "  value: redact",
        "  masks: nobody is logged in",
        'rule "Idle" (f.yaml:8:12) does not cover it: it is not enabled',
        'rule "Excepting" (f.yaml:9:12) does not cover it: its exception "customer:?" fits',
        'rule "Scoped" (f.yaml:10:12) does not cover it: it is for the environment "production"',
        "a reader who is not logged in sees it masked",
    ]


def test_a_grant_that_lifts_is_named_with_its_place(book: RuleBook) -> None:
    told = lines(book, who="alice")

    assert told.count("  lifted: granted to user alice at f.yaml:13:5") == 2
    assert told[-1] == "alice may read it unmasked, once the read is recorded"


def test_what_is_left_out_is_told_and_every_scope_applies(book: RuleBook) -> None:
    told = lines(book, who="bob")

    assert "connection and environment left out" in told[0]
    assert 'rule "Scoped" (f.yaml:10:12) covers it: key "customer:*" fits, for the environment "production"' in told
    assert "  mask_all: redact" in told
    assert told[-1] == "bob sees it masked"
    assert lines(book, who="bob", connection="shop")[-1] == "bob may read it unmasked, once the read is recorded"


def test_an_uncovered_resource_is_told_as_such(book: RuleBook) -> None:
    empty = RuleBook("", ())

    assert lines(empty, b"x", environment="test")[1:] == ["no rule covers it: it is shown as it is"]


def test_names_cannot_forge_a_line(book: RuleBook) -> None:
    told = lines(book, b"customer:a\nrule \xff", who="a\x1b[2Jb\n")

    assert all(line.isprintable() for line in told)


def test_a_kind_that_the_platform_lacks_is_refused(book: RuleBook) -> None:
    with pytest.raises(PreviewError):
        explain(book, platform=Platform.REDIS, kind=Kind.QUEUE, name=b"x")


def test_a_rule_for_a_connection_says_so() -> None:
    text = "rules: [{name: r, platform: redis, scope: {connection: shop}, resources: [x], mask_all: true}]"
    bound = bind([("f", text.encode())])
    assert bound.book is not None

    assert lines(bound.book, b"x")[1].endswith('fits, for the connection "shop"')
    assert lines(bound.book, b"x", connection="other")[1].endswith('it is for the connection "shop"')


def test_a_rule_whose_patterns_do_not_fit_is_not_told(book: RuleBook) -> None:
    assert not any("Contact" in line for line in lines(book, b"order:1"))


def seen(policy: Policy, name: bytes = b"customer:1", who: str | None = None, doubt: str = "") -> list[str]:
    resource = Resource(Connection("shop", Platform.REDIS, "test"), Kind.KEY, name)
    return explain_view(policy.view(Reader(who), resource), doubt=doubt)


def test_a_reader_is_told_in_the_same_words_what_covers_and_nothing_of_the_rest(book: RuleBook) -> None:
    every = lines(book, connection="shop", environment="test", who="carol")

    assert seen(Policy(book), who="carol") == [line for line in every if "does not cover it" not in line]


def test_a_reader_is_told_the_own_grant(book: RuleBook) -> None:
    told = seen(Policy(book), who="bob")

    assert "  lifted: granted to user bob at f.yaml:14:5" in told
    assert told[-1] == "bob may read it unmasked, once the read is recorded"
    assert not any("alice" in line for line in told)


def test_a_reader_is_not_told_where_the_files_lie() -> None:
    bound = bind([("/etc/veil at home/rules.d/f.yaml", TEXT.encode())])
    assert bound.book is not None

    told = seen(Policy(bound.book), who="bob")

    assert "  lifted: granted to user bob at f.yaml:14:5" in told
    assert told[1].startswith('rule "Contact" (f.yaml:2:11) covers it')
    assert not any("home" in line for line in told)


def test_a_doubt_takes_a_grant_and_changes_nothing_for_others(book: RuleBook) -> None:
    assert seen(Policy(book), who="bob", doubt="no proof")[-2:] == ["  masks: no proof", "bob sees it masked"]
    assert seen(Policy(book), who="carol", doubt="no proof") == seen(Policy(book), who="carol")


def test_a_reader_is_told_that_nothing_covers_or_that_the_rules_were_not_read(book: RuleBook) -> None:
    assert seen(Policy(RuleBook("", ())))[1:] == ["no rule covers it: it is shown as it is"]
    assert seen(Policy.closed())[1:] == [
        "the masking rules could not be read: it is masked whole",
        "a reader who is not logged in sees it masked",
    ]


def test_a_long_name_is_cut_in_what_a_reader_is_told(book: RuleBook) -> None:
    head = seen(Policy(book), b"customer:" + b"x" * 100_000)[0]

    assert len(head) < NAME_LIMIT + 100
    assert "x…" in head
