"""Whom a request names, and by which hosts it may call Veil."""

from __future__ import annotations

import base64
import ipaddress

import pytest

from proxy.core.session import HeaderReader
from proxy.protocols.http import logins
from proxy.protocols.http.errors import BadRequest

SOURCE = HeaderReader("X-Forwarded-User", (ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("::1/128")))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"Basic " + base64.b64encode(b"alice:pw"), "alice"),
        (b"bAsIc " + base64.b64encode("jürgen:p:w".encode()), "jürgen"),
        (b"Basic " + base64.b64encode(b"alice"), None),
        (b"Basic " + base64.b64encode(b":pw"), None),
        (b"Basic " + base64.b64encode(b"\xff:pw"), None),
        (b"Basic YWxpY2U6cHc!", None),
        (b"Basic", None),
        (b"Bearer abc", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_basic_login_names_its_user_and_nothing_else_names_anybody(given: bytes | None, expected: str | None) -> None:
    assert logins.basic_name(given) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"mq.local", True), (b"MQ.LOCAL:15674", True), (b"127.0.0.1", True), (b"10.0.0.9:80", True), (b"[::1]:80", True), (b"localhost:1", True),
        (b"only.with:81", True), (b"only.with:82", False), (b"evil.example", False), (b"evil.example:15674", False), (b"mq.local.evil.example", False),
        (b"127.0.0.1.evil.example", False), (b"", False), (b":80", False), (b"mq.local:80@evil", False), (b"mq.local:x", False), (b"[evil]", False),
        (b"mq.local,evil", False), (b"m\xe4", False), (b"localhost.evil", False),
    ],
)  # fmt: skip
def test_a_host_is_a_number_this_machine_or_a_name_of_the_config(host: bytes, expected: bool) -> None:
    assert logins.is_own(host, ("mq.local", "only.with:81")) is expected


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("10.1.2.3:5", "alice"),
        ("[::1]:5", "alice"),
        ("[::ffff:10.1.2.3]:5", "alice"),
        ("10.2.0.1:5", None),
        ("[::2]:5", None),
        ("?", None),
    ],
)
def test_a_header_names_the_reader_where_a_trusted_peer_sends_it(peer: str, expected: str | None) -> None:
    assert logins.header_name([(b"x-forwarded-user", b"alice")], SOURCE, peer) == expected


@pytest.mark.parametrize("name", [b"x_forwarded_user", b"x-forwarded-users", b"remote-user"])
def test_another_spelling_names_nobody(name: bytes) -> None:
    assert logins.header_name([(name, b"alice")], SOURCE, "10.1.2.3:5") is None


@pytest.mark.parametrize("values", [[b"alice", b"bob"], [b"alice", b"alice"], [b""], [b"\xff"], [b"a\tb"], [b"a" * 257]])
def test_a_trusted_peer_that_names_two_or_what_is_no_name_is_refused(values: list[bytes]) -> None:
    with pytest.raises(BadRequest):
        logins.header_name([(b"x-forwarded-user", each) for each in values], SOURCE, "10.1.2.3:5")
