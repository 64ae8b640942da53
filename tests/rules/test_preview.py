"""What a reader would see, as `veil preview` shows it."""

from __future__ import annotations

import pytest

from rules.cut import Cut
from rules.model import Kind, Limits, Platform, RuleBook
from rules.preview import PreviewError, as_json, preview
from rules.store.book import bind
from rules.view import Shown

TEXT = """\
rules:
  - name: Everywhere
    platform: redis
    resources: ["customer:*"]
    fields:
      - {kind: json_path, path: $.email, method: redact}
  - name: Hash
    platform: redis
    resources: ["hash:*"]
    fields: [{kind: field, name: phone, method: partial, keep_last: 2}]
  - name: Production
    platform: redis
    scope: {environment: production}
    resources: ["order:*"]
    fields: [{kind: whole_value, method: redact}]
  - name: Shop
    platform: redis
    scope: {connection: shop}
    resources: ["cart:*"]
    fields: [{kind: whole_value, method: redact}]
  - name: Topic
    platform: kafka
    resources: [orders]
    fields:
      - {kind: header, name: X-Token, method: redact}
      - {kind: record_key, method: partial, keep_first: 1}
grants:
  - {allow: messages.read.unmasked, to: {user: root}, on: installation}
  - {allow: messages.read.unmasked, to: {user: all-keys}, on: {platform: redis, key: ["*"]}}
  - {allow: messages.read.unmasked, to: {user: prod}, on: {environment: production}}
  - {allow: messages.read.unmasked, to: {user: shop}, on: {connection: shop}}
  - {allow: messages.read.unmasked, to: {user: barred}, on: installation}
  - {deny: messages.read.unmasked, to: {user: barred}, on: {environment: production}}
  - {allow: messages.read.unmasked, to: {user: bared}, on: installation}
  - {deny: messages.read.unmasked, to: {user: bared}, on: {connection: shop, platform: redis}}
"""
VALUE = b'{"email":"a@b.c","n":1}'


@pytest.fixture
def book() -> RuleBook:
    bound = bind([("f.yaml", TEXT.encode())])
    assert bound.book is not None, bound.problems
    return bound.book


def shown(book: RuleBook, name: str = "customer:1", data: bytes = VALUE, **more: str) -> bytes:
    masked = preview(
        book,
        Limits(),
        platform=Platform.REDIS,
        kind=Kind.KEY,
        name=name.encode(),
        data=data,
        connection=more.get("connection"),
        environment=more.get("environment"),
        part=more.get("part", "value"),
        who=more.get("who"),
    )
    return bytes(masked.data)


def of_topic(book: RuleBook, part: str, data: bytes) -> bytes:
    asked = preview(book, Limits(), platform=Platform.KAFKA, kind=Kind.TOPIC, name=b"orders", part=part, data=data)
    return bytes(asked.data)


def test_an_ordinary_reader_sees_the_value_masked(book: RuleBook) -> None:
    assert shown(book) == '{"email":"••••","n":1}'.encode()
    assert shown(book, who="nobody") == '{"email":"••••","n":1}'.encode()


def test_an_uncovered_value_comes_back_byte_for_byte(book: RuleBook) -> None:
    assert shown(book, "other:1", b'\xff {"email":1}') == b'\xff {"email":1}'


def test_every_part_has_its_own_rendition(book: RuleBook) -> None:
    assert shown(book, "hash:1", b"12345", part="field:phone") == "•••45".encode()
    assert of_topic(book, "header:x-token", b"abc") == "••••".encode()
    assert of_topic(book, "header:other", b"abc") == b"abc"
    assert of_topic(book, "key", b"abc") == "a••".encode()


@pytest.mark.parametrize("name", ["order:1", "cart:1"])
def test_rules_of_every_scope_apply_where_the_connection_is_left_out(book: RuleBook, name: str) -> None:
    assert shown(book, name) != VALUE


def test_a_scope_that_is_given_is_looked_at(book: RuleBook) -> None:
    assert shown(book, "order:1", environment="test") == VALUE
    assert shown(book, "order:1", environment="production") != VALUE
    assert shown(book, "order:1", connection="shop") != VALUE
    assert shown(book, "cart:1", connection="other") == VALUE
    assert shown(book, "cart:1", connection="shop") != VALUE
    assert shown(book, "cart:1", environment="test") != VALUE


@pytest.mark.parametrize("who", ["root", "all-keys"])
def test_who_may_read_unmasked_everywhere_sees_the_original(book: RuleBook, who: str) -> None:
    assert shown(book, who=who) == VALUE


def test_a_scoped_grant_applies_only_where_its_scope_is_given(book: RuleBook) -> None:
    assert shown(book, who="prod") != VALUE
    assert shown(book, who="prod", environment="production") == VALUE
    assert shown(book, who="shop") != VALUE
    assert shown(book, who="shop", connection="shop") == VALUE
    assert shown(book, who="shop", environment="production") != VALUE


def test_a_scoped_deny_applies_unless_another_scope_is_given(book: RuleBook) -> None:
    assert shown(book, who="barred") != VALUE
    assert shown(book, who="barred", environment="production") != VALUE
    assert shown(book, who="barred", environment="test") == VALUE
    assert shown(book, who="bared") != VALUE
    assert shown(book, who="bared", connection="other") == VALUE


@pytest.mark.parametrize("part", ["", "values", "value:x", "key:x", "header", "header:", "field:", "field", "header:x", "key"])
def test_a_part_that_is_not_there_is_refused(book: RuleBook, part: str) -> None:
    with pytest.raises(PreviewError, match="part"):
        shown(book, part=part)


def test_a_kind_that_the_platform_lacks_is_refused(book: RuleBook) -> None:
    with pytest.raises(PreviewError, match="there is no topic on redis"):
        preview(book, Limits(), platform=Platform.REDIS, kind=Kind.TOPIC, name=b"x", data=b"")


def test_limits_hold(book: RuleBook) -> None:
    masked = preview(
        book, Limits(max_value_bytes=3), platform=Platform.REDIS, kind=Kind.KEY, name=b"customer:1", data=b'{"a":1}'
    )

    assert as_json(masked)["whole"] == "too large"


def test_the_json_form_tells_what_was_masked(book: RuleBook) -> None:
    masked = preview(book, Limits(), platform=Platform.REDIS, kind=Kind.KEY, name=b"customer:1", data=VALUE)

    assert as_json(masked) == {
        "after": '{"email":"••••","n":1}',
        "masked": [{"field": "$.email", "method": "redact", "rule": "Everywhere"}],
        "whole": None,
    }


def test_the_json_form_tells_why_a_value_is_masked_whole(book: RuleBook) -> None:
    masked = preview(book, Limits(), platform=Platform.REDIS, kind=Kind.KEY, name=b"customer:1", data=b"no json")
    told = as_json(masked)

    assert (told["after"], told["whole"]) == ("••••", "not JSON")


def test_the_json_form_of_bytes_is_base64() -> None:
    assert as_json(Cut(Shown(b"\xff\x00"))) == {"after_base64": "/wA=", "masked": [], "whole": None}
