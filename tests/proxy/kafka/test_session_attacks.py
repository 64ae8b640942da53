"""What was tried against a session by whoever may send any frame, and by whoever writes records; each must stay without
effect."""

from __future__ import annotations

import base64
import json

import pytest

from proxy.core.session import SessionSettings

from .desk import Desk
from .test_session_login import reads_unmasked, say, shake

# Names


def jwt(**claims: object) -> bytes:
    return b"e30.%b.c2ln" % base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")


ALICE, BOB = jwt(sub="alice"), jwt(sub="bob")


@pytest.mark.parametrize(
    "said",
    [
        b"n,,\x01auth=Bearer %b\x01auth=Bearer %b\x01\x01" % (ALICE, BOB),
        b"n,,\x01auth=Bearer %b\x01x=%b\x01auth=Bearer %b\x01\x01" % (ALICE, b"y" * 70_000, BOB),
        b"n,,\x01auth=Bearer %b\x01AUTH=Bearer %b\x01\x01" % (ALICE, BOB),
        b"n,a=\x01auth=Bearer %b,\x01auth=Bearer %b\x01\x01" % (ALICE, BOB),
        b"n,,\x01auth=Bearer %b\x01auth=Basic x\x01\x01" % ALICE,
    ],
)
def test_two_bearer_tokens_in_one_login_name_nobody(said: bytes) -> None:
    desk = Desk(settings=SessionSettings(token_claim="sub"))
    shake(desk, b"OAUTHBEARER")
    say(desk, said)

    assert (desk.viewer.who, reads_unmasked(desk)) == ("", False)


def test_a_name_in_a_token_that_is_no_text_names_nobody() -> None:
    desk = Desk(settings=SessionSettings(token_claim="sub"))
    shake(desk, b"OAUTHBEARER")
    say(desk, b"n,,\x01auth=Bearer %b\x01\x01" % jwt(sub="\ud800"))

    assert desk.viewer.who == ""
