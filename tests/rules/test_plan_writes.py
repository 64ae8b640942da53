from __future__ import annotations

import itertools

import pytest

from rules.model import Field, Hit, Limits, Method, Platform, Redact

from .making import MASK, hash_field, header, partial, path, plan, whole_value

pytestmark = pytest.mark.usefixtures("scanner")

M = "••••"
VALUE = Hit("value", "redact", "R")

X = Hit("$.x", "redact", "R")
XP = Hit("$.x", "partial", "R")
VP = Hit("value", "partial", "R")
F = Hit("field:f", "redact", "R")


@pytest.mark.parametrize(
    ("fields", "text", "hit"),
    [
        ([path("$.x")], f'{{"x":"{M}"}}', X),
        ([path("$.x")], f'{{"x":"say {M}!"}}', X),
        ([path("$.x")], r'{"x":"\u2022•\u2022\u2022"}', X),
        ([path("$.x")], '{"x":"•••"}', None),
        ([path("$.x")], f'{{"y":"{M}","{M}":1,"x":"z"}}', None),
        ([path("$.x")], f'{{"x":[{{"y":"{M}"}}]}}', X),
        ([path("$.x")], f"{{{M}", X),
        ([path("$.x")], r"{\u2022\u2022\u2022\u2022", X),
        ([path("$.x")], M, X),
        ([path("$.x")], f'"{M}"', X),
        ([path("$.x")], "text", None),
        ([path("$.x")], "null", None),
        ([path("$.x")], '{"x":0}', None),
        ([path("$.x.y")], f'{{"x":"{M}"}}', Hit("$.x.y", "redact", "R")),
        ([path("$.x.y")], f'{{"x":"{{\\"y\\":\\"{M}\\"}}"}}', Hit("$.x.y", "redact", "R")),
        ([path("$.x.y")], f'{{"x":"{{\\"z\\":\\"{M}\\"}}"}}', None),
        ([path("$.x.y")], r'{"x":"{\"y\":\"\\u2022\u2022\\u2022\\u2022\"}"}', Hit("$.x.y", "redact", "R")),
        ([path("$.x", partial(1, 1))], '{"x":"h•••o"}', XP),
        ([path("$.x", partial(1, 1))], r'{"x":"h\u2022o"}', XP),
        ([path("$.x", partial(1, 1))], '{"x":"h•l•o"}', None),
        ([path("$.x", partial(1, 1))], '{"y":"h•••o"}', None),
        ([path("$.x", partial(1, 1))], '{"x":["h•••o"]}', None),
        ([path("$.x", partial(1, 1)), path("$.x")], '{"x":"h•••o"}', XP),
        ([path("$.x"), whole_value(partial(1))], f"{{{M}", X),
        ([path("$.x"), whole_value(partial(1))], "h••", VP),
        ([whole_value()], f'{{"y":["{M}"]}}', VALUE),
        ([whole_value()], f"text {M}", VALUE),
        ([whole_value()], "text", None),
        ([whole_value(partial(1, 1))], "h•••o", VP),
        ([whole_value(partial(1, 1))], "h•l•o", None),
        ([whole_value(partial(3, 1)), whole_value(partial(1, 3))], "h•o", VP),
        ([hash_field("f")], f"text {M}", F),
        ([hash_field("f")], "text", None),
        ([header("h")], M, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("platform", [Platform.KAFKA, Platform.REDIS])
def test_a_mask_being_written_back_is_known(fields: list[Field], text: str, hit: Hit | None, platform: Platform) -> None:
    assert plan(*fields, platform=platform).value_holds_mask(text.encode()) == hit


def test_a_mask_is_known_in_bytes_that_are_too_deep_or_too_large_or_no_text() -> None:
    limits = Limits(max_value_bytes=30, max_depth=2)

    assert plan(path("$.x"), limits=limits).value_holds_mask(b"[[[" + MASK) == X
    assert plan(path("$.x"), limits=limits).value_holds_mask(b"x" * 30 + MASK) == X
    assert plan(whole_value(partial(1)), limits=limits).value_holds_mask(b"\xff" + MASK) == VP
    assert plan(whole_value(partial(1)), limits=limits).value_holds_mask("\xffa••".encode("latin-1", "replace")) is None


def test_a_mask_being_written_to_a_hash_field_is_known() -> None:
    one = plan(hash_field("f", partial(1, 1)), platform=Platform.REDIS)
    both = plan(hash_field("f", partial(1, 1)), path("$.x"), platform=Platform.REDIS)
    written = "h•••o".encode()

    assert one.field_holds_mask(b"f", written) == Hit("field:f", "partial", "R")
    assert one.field_holds_mask(b"g", written) is None
    assert one.field_holds_mask(b"f", b"hello") is None
    assert both.field_holds_mask(b"g", f'{{"x":"{M}"}}'.encode()) == X
    assert both.field_holds_mask(b"g", b"null") is None
    assert both.field_holds_mask(b"f", f'{{"y":"{M}"}}'.encode()) == Hit("field:f", "partial", "R")


def test_what_a_plan_shows_is_known_when_it_comes_back() -> None:
    methods: list[Method] = [Redact(), partial(1, 1), partial(0, 4), partial(3)]
    texts = [
        '{"x":"4111111111","y":"z"}',
        '{"x":["long enough"]}',
        "plain text",
        '"a JSON string"',
        '{"x":"{\\"x\\":\\"secret!\\"}"}',
    ]
    for one, other, platform in itertools.product(methods, methods, (Platform.KAFKA, Platform.REDIS)):
        for fields in ((path("$.x", one), path("$.x", other)), (whole_value(one), whole_value(other)), (path("$..x", one),)):
            made = plan(*fields, platform=platform)
            for text in texts:
                assert made.value_holds_mask(made.value(text.encode()).data) is not None
                assert made.value_holds_mask(text.encode()) is None
