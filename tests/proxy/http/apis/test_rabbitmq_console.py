"""What the console's own calls have beside a path and a body: logins in addresses, a virtual host in the head."""

from __future__ import annotations

import pytest

from proxy.protocols.http import targets
from proxy.protocols.http.api import Call, Forward
from proxy.protocols.http.apis.rabbitmq_management import API

from .test_rabbitmq_contents import CARDS, judge

LOGIN = (b"authorization", b"Basic Ym9iOnB3")


@pytest.mark.parametrize("path", ["/api/definitions", "/api/definitions/%2F", "/api/trace-files", "/api/whoami"])
@pytest.mark.parametrize("fields", [[LOGIN], []])
def test_a_login_in_an_address_goes_up_only_if_it_is_the_only_one(path: str, fields: list[tuple[bytes, bytes]]) -> None:
    one = judge(CARDS)
    call = Call("GET", targets.parse(f"{path}?download=a.json&auth=YWxpY2U6cHc%3D&token=t".encode()), fields)

    verdict = one.carried_out(API.judge(call, one))

    assert isinstance(verdict, Forward)
    sent = verdict.target or call.target
    assert [name for name, _ in sent.query] == (["download"] if fields else ["download", "auth", "token"])


def test_a_list_is_of_the_virtual_host_that_is_chosen_and_an_import_of_none() -> None:
    assert API.fields == {"GET": {b"x-vhost"}, "DELETE": {b"x-reason"}}


def test_errors_have_the_form_that_the_console_shows() -> None:
    assert API.error(400, "no") == b'{"error":"bad_request","reason":"veil: no"}'
    assert API.error(502, "no") == b'{"error":"bad_gateway","reason":"veil: no"}'
