"""Which fields pass, and what of them is written anew."""

from __future__ import annotations

import pytest

from proxy.protocols.http import fields

from .desk import UPSTREAM


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"/a/b?c=d#e", b"/a/b?c=d#e"),
        (b"http://broker.internal:15672/a", b"/a"),
        (b"https://BROKER.internal:15672/a", b"/a"),
        (b"http://10.0.0.9:15672/a", None),
        (b"//evil.example/a", None),
        (b"///evil.example/a", None),
        (b"/\\evil.example/a", None),
        (b"\\\\evil.example", None),
        (b"/a\tb", None),
        (b"javascript:alert(1)", None),
        (b"ftp://broker.internal:15672/a", None),
        (b"http://user@broker.internal:15672/a", None),
        (b"relative", b"relative"),
        (b"../#/import-succeeded", b"../#/import-succeeded"),
        (b"../?a=b#/c:d", b"../?a=b#/c:d"),
        (b"#/here", b"#/here"),
        (b"..//evil.example/a", None),
        (b"a//evil.example", None),
        (b"./a:b", None),
        (b"..\\evil.example", None),
        (b"", None),
        (b"http://[::1/a", None),
        (b"/\xe4", None),
    ],
)
def test_a_location_leads_back_through_veil_or_nowhere(given: bytes, expected: bytes | None) -> None:
    assert fields.location(given, UPSTREAM) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"m=1; Domain=broker.internal; Path=/", b"m=1; Path=/"),
        (b"m=1;domain = broker.internal;HttpOnly", b"m=1;HttpOnly"),
        (b"m=1; DOMAIN", b"m=1"),
        (b"domainish=1; Path=/", b"domainish=1; Path=/"),
    ],
)
def test_a_cookie_belongs_to_the_host_that_the_browser_asked(given: bytes, expected: bytes) -> None:
    assert fields.cookie(given) == expected


def test_only_what_is_listed_goes_up_and_host_and_coding_are_veils() -> None:
    given = [
        (b"host", b"mq.local"),
        (b"accept-encoding", b"gzip, br"),
        (b"x-forwarded-user", b"admin"),
        (b"x_forwarded_user", b"admin"),
        (b"x-original-url", b"/"),
        (b"x-http-method-override", b"DELETE"),
        (b"if-none-match", b'"a"'),
        (b"range", b"bytes=0-1"),
        (b"te", b"trailers"),
        (b"accept", b"*/*"),
        (b"authorization", b"Basic eA=="),
    ]

    expected = [
        (b"host", UPSTREAM),
        (b"accept", b"*/*"),
        (b"authorization", b"Basic eA=="),
        (b"accept-encoding", b"identity"),
        (b"connection", b"keep-alive"),
    ]
    assert fields.to_server(given, UPSTREAM) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"text/plain;charset=UTF-8", b"application/json"),
        (b"text/plain", b"application/json"),
        (b"application/json; charset=utf-8", b"application/json; charset=utf-8"),
        (b"multipart/form-data; boundary=x", b"multipart/form-data; boundary=x"),
    ],
)
def test_a_text_that_was_judged_as_json_goes_up_under_that_name(given: bytes, expected: bytes) -> None:
    assert (b"content-type", expected) in fields.to_server([(b"content-type", given)], UPSTREAM)


@pytest.mark.parametrize(
    ("origin", "stays"),
    [
        (b"http://mq.local:15674", False),
        (b"https://MQ.local:15674", False),
        (b"http://mq.local", True),
        (b"http://evil.example", True),
        (b"null", True),
        (b"ftp://mq.local:15674", True),
    ],
)
def test_a_page_of_veils_own_has_no_origin_to_the_server_and_a_strangers_keeps_it(origin: bytes, stays: bool) -> None:
    sent = fields.to_server([(b"host", b"mq.local:15674"), (b"origin", origin)], UPSTREAM)

    assert ((b"origin", origin) in sent) is stays


def test_what_tells_about_contents_stays_behind() -> None:
    telling = [
        (b"etag", b'"a"'), (b"last-modified", b"now"), (b"content-md5", b"x"), (b"digest", b"x"), (b"content-encoding", b"gzip"),
        (b"content-length", b"9"), (b"accept-ranges", b"bytes"), (b"content-range", b"bytes 0-1/2"), (b"age", b"1"), (b"link", b"</a>"),
        (b"transfer-encoding", b"chunked"), (b"keep-alive", b"timeout=5"), (b"trailer", b"x"), (b"strict-transport-security", b"max-age=1"),
        (b"alt-svc", b'h2="evil:443"'), (b"refresh", b"0; url=http://evil"), (b"content-location", b"http://10.0.0.9/"), (b"x-request-id", b"1"),
        (b"veil-masked", b"forged"), (b"veil-refused", b"forged"),
    ]  # fmt: skip

    assert fields.to_reader([*telling, (b"content-type", b"application/json")], UPSTREAM, holds_contents=True) == [
        (b"content-type", b"application/json")
    ]
    assert [name for name, _ in fields.to_reader(telling, UPSTREAM, holds_contents=False)] == [
        b"etag",
        b"last-modified",
        b"content-encoding",
    ]
