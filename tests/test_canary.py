"""The search must find what it is for: each form of a leak is planted and found."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.canary import WINDOW, Canary, CanaryFound, assert_no_canary

VALUE = "Xq7TbWz0LkPd93RmVhYc5NgA1JsE"

FORMS: dict[str, Callable[[str], bytes]] = {
    "plain": lambda v: f"a {v} b".encode(),
    "another case": lambda v: v.upper().encode(),
    "JSON escapes": lambda v: json.dumps({"a": "".join(f"\\u{ord(c):04x}" for c in v)}).replace("\\\\", "\\").encode(),
    "JSON escapes in JSON": lambda v: json.dumps({"a": "".join(f"\\u{ord(c):04x}" for c in v)}).encode(),
    "percent": lambda v: "".join(f"%{ord(c):02X}" for c in v).encode(),
    "redis-cli escapes": lambda v: "".join(f"\\x{ord(c):02x}" for c in v).encode(),
    "HTML": lambda v: "".join(f"&#{ord(c)};" for c in v).encode(),
    "hexadecimal": lambda v: v.encode().hex().upper().encode(),
    "reversed": lambda v: v[::-1].encode(),
    "UTF-16 LE": lambda v: v.encode("utf-16-le"),
    "UTF-16 BE": lambda v: v.encode("utf-16-be"),
    "base64": lambda v: base64.b64encode(v.encode()),
    "base64, one byte in front": lambda v: base64.b64encode(b"." + v.encode()),
    "base64, two bytes in front": lambda v: base64.b64encode(b".." + v.encode()),
    "base64 for URLs": lambda v: base64.urlsafe_b64encode(v.encode()),
    "a part": lambda v: v[5 : 5 + WINDOW].encode(),
    "a part in base64": lambda v: base64.b64encode(v[5 : 5 + WINDOW + 2].encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_canary_is_found_in_every_form(form: str) -> None:
    with pytest.raises(CanaryFound):
        assert_no_canary(b"before " + FORMS[form](VALUE) + b" behind", VALUE)


@given(st.binary(max_size=5), st.integers(0, len(VALUE) - WINDOW))
def test_a_part_in_base64_is_found_at_any_alignment(front: bytes, at: int) -> None:
    with pytest.raises(CanaryFound):
        assert_no_canary(base64.b64encode(front + VALUE[at : at + WINDOW].encode() + b"!"), VALUE)


def test_a_masked_value_is_no_canary() -> None:
    assert_no_canary('{"a":"••••","b":"Xq7T••••••••1JsE"}', VALUE)


def test_a_search_for_nothing_is_an_error() -> None:
    class Silent:
        def log(self) -> str:
            return ""

        def page(self, path: str) -> tuple[int, str]:
            return 200, ""

        def audit_bytes(self) -> bytes:
            return b""

    with pytest.raises(AssertionError, match="proves nothing"):
        Canary("t").assert_nowhere(Silent())


def test_two_canaries_of_a_test_are_different(canary: Canary) -> None:
    assert canary.text() != canary.text()
    assert len(str(canary.number())) == 16
