"""Who reads: SASL as it passes, and what its names are worth."""

from __future__ import annotations

import base64
import json

import pytest

from proxy.core.session import SessionSettings
from proxy.core.steps import Ask
from proxy.protocols.kafka import schema, wire
from proxy.protocols.kafka.session.identity import prove

from .desk import CLIENT, FETCH, Desk, batch, card, fetch_request, framed, frames, record, records_of
from .test_session_fetch import opened

SHAKE, AUTH = 17, 36
OK = {"error_code": 0, "error_message": None, "session_lifetime": 0}


def shake(desk: Desk, mechanism: bytes, code: int = 0) -> None:
    desk.ask(SHAKE, 1, {"mechanism": mechanism})
    desk.answer({"error_code": code, "mechanisms": [mechanism]})


def say(desk: Desk, token: bytes, answer: bytes = b"", code: int = 0) -> None:
    assert [key for key, _, _ in desk.ask(AUTH, 2, {"auth_bytes": token})] == [AUTH]
    desk.answer(OK | {"error_code": code, "auth_bytes": answer})


def reads_unmasked(desk: Desk) -> bool:
    [(_, value, _)] = opened(records_of(desk.fetch(b"orders", batch(record(b"k", card())))))
    return value == card()


def token(**claims: object) -> bytes:
    coded = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    return b"n,,\x01auth=Bearer e30.%b.c2ln\x01\x01" % coded


def test_a_plain_login_names_its_reader_after_the_brokers_yes() -> None:
    desk = Desk()
    desk.log_in(b"alice")

    assert desk.viewer.who == "alice"
    assert reads_unmasked(desk)


@pytest.mark.parametrize("passed", [b"\0alice\0pw", b"alice\0alice\0pw"])
def test_a_plain_login_may_name_whom_it_acts_for_if_that_is_itself(passed: bytes) -> None:
    desk = Desk()
    shake(desk, b"PLAIN")
    say(desk, passed)

    assert desk.viewer.who == "alice"


@pytest.mark.parametrize("passed", [b"bob\0alice\0pw", b"alice\0pw", b"\0alice\0pw\0", b"\0\xff\0pw", b"\0\0pw", b""])
def test_another_plain_login_names_nobody(passed: bytes) -> None:
    desk = Desk()
    shake(desk, b"PLAIN")
    say(desk, passed)

    assert desk.viewer.who == ""


def test_a_login_that_the_broker_refuses_names_nobody() -> None:
    desk = Desk()
    shake(desk, b"PLAIN")
    say(desk, b"\0alice\0no", code=58)

    assert desk.viewer.who == ""
    assert not reads_unmasked(desk)


@pytest.mark.parametrize("mechanism", [b"SCRAM-SHA-256", b"SCRAM-SHA-512"])
def test_a_scram_login_names_its_reader_with_the_last_exchange_alone(mechanism: bytes) -> None:
    desk = Desk()
    shake(desk, mechanism)
    say(desk, b"n,,n=alice,r=abc", b"r=abcdef,s=c2FsdA==,i=4096")
    assert desk.viewer.who == ""
    assert not reads_unmasked(desk)
    say(desk, b"c=biws,r=abcdef,p=cHJvb2Y=", b"v=c2lnbmF0dXJl")

    assert desk.viewer.who == "alice"


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"n,,n=a=2Cb=3Dc,r=x", "a,b=c"),
        (b"y,,n=alice,r=x", "alice"),
        (b"n,a=alice,n=alice,r=x", "alice"),
        (b"n,a=bob,n=alice,r=x", ""),
        (b"n,,n=id,r=x,tokenauth=true", ""),
        (b"p=tls-unique,,n=alice,r=x", ""),
        (b"n,,r=x,n=alice", ""),
        (b"n,,n=\xff,r=x", ""),
    ],
)
def test_the_name_of_a_scram_login_is_unescaped_and_that_of_a_delegation_token_is_none(first: bytes, name: str) -> None:
    desk = Desk()
    shake(desk, b"SCRAM-SHA-256")
    say(desk, first, b"r=x,s=c2FsdA==,i=4096")
    say(desk, b"c=biws,r=x,p=x", b"v=x")

    assert desk.viewer.who == name


def test_a_bearer_token_names_nobody_unless_the_claim_is_configured() -> None:
    desk = Desk()
    shake(desk, b"OAUTHBEARER")
    say(desk, token(sub="alice"))

    assert desk.viewer.who == ""


@pytest.mark.parametrize(
    ("passed", "name"),
    [
        (token(sub="bob", upn="alice"), "alice"),
        (token(sub="alice"), ""),
        (token(upn=["alice"]), ""),
        (b"n,,\x01auth=Bearer x\x01", ""),
    ],
)
def test_a_bearer_token_names_its_reader_by_the_configured_claim(passed: bytes, name: str) -> None:
    desk = Desk(settings=SessionSettings(token_claim="upn"))
    shake(desk, b"OAUTHBEARER")
    say(desk, passed)

    assert desk.viewer.who == name


def test_a_bearer_token_that_is_challenged_names_nobody() -> None:
    desk = Desk(settings=SessionSettings(token_claim="sub"))
    shake(desk, b"OAUTHBEARER")
    say(desk, token(sub="alice"), b'{"status":"invalid_token"}')

    assert desk.viewer.who == ""


@pytest.mark.parametrize("mechanism", [b"GSSAPI", b"AWS_MSK_IAM", b"plain"])
def test_a_mechanism_that_cannot_be_read_names_nobody(mechanism: bytes) -> None:
    desk = Desk()
    shake(desk, mechanism)
    say(desk, b"\0alice\0pw")

    assert desk.viewer.who == ""


def test_a_login_without_a_handshake_names_nobody() -> None:
    desk = Desk()
    say(desk, b"\0alice\0pw")

    assert desk.viewer.who == ""


def test_nothing_is_judged_while_a_login_waits_for_its_answer() -> None:
    desk = Desk()
    shake(desk, b"PLAIN")
    desk.ask(AUTH, 2, {"auth_bytes": b"\0alice\0pw"})
    assert desk.ask(FETCH, 12, fetch_request(12, b"orders")) == []
    desk.answer(OK | {"auth_bytes": b""})

    assert [key for key, _, _ in desk.went_up()] == [FETCH]


def test_a_login_that_is_renewed_goes_on_and_renews_no_unmasked_read() -> None:
    desk = Desk()
    desk.log_in(b"alice")
    assert reads_unmasked(desk)
    desk.clock.now_s = 601.0
    desk.log_in(b"alice")

    assert not reads_unmasked(desk)
    assert desk.play.closed == ""


@pytest.mark.parametrize("second", [b"bob", b"\xff"])
def test_a_login_that_changes_its_name_ends_the_connection(second: bytes) -> None:
    desk = Desk()
    desk.log_in(b"alice")
    desk.log_in(second)

    assert desk.play.closed == "the login changed"


def test_a_fixed_reader_stays_who_it_is() -> None:
    desk = Desk(fixed="erin")
    desk.log_in(b"alice")

    assert desk.viewer.who == "erin"


def test_a_name_that_a_wrong_password_gets_as_well_lifts_nothing() -> None:
    desk = Desk()
    desk.play.proven = False
    desk.log_in(b"alice")

    assert not reads_unmasked(desk)
    assert desk.play.recorded == []


def test_the_first_version_of_the_handshake_is_refused_and_the_connection_ends() -> None:
    desk = Desk()
    desk.play.reader(wire.own_request(SHAKE, 0, 1, CLIENT, {"mechanism": b"PLAIN"}))

    assert (desk.play.sent_up(), bool(desk.play.closed)) == (b"", True)


def test_a_reader_counts_as_logged_in_with_the_first_answer_that_needs_a_login() -> None:
    desk = Desk()
    assert not desk.play.session.logged_in
    desk.fetch(b"public", b"")
    assert desk.play.session.logged_in


def test_a_connection_kept_for_later_is_no_strangers_where_nobody_logs_in() -> None:
    first = Desk()
    versions = schema.response(18, 3).blank()
    first.ask(18, 3, schema.request(18, 3).blank())
    first.answer(versions)
    assert not first.play.session.logged_in
    first.fetch(b"public", b"")

    second = Desk(settings=SessionSettings(shared=first.cluster))
    second.ask(18, 3, schema.request(18, 3).blank())
    assert not second.play.session.logged_in
    second.answer(versions)
    assert second.play.session.logged_in


def test_where_readers_log_in_a_connection_without_a_login_is_a_strangers() -> None:
    first = Desk()
    first.log_in(b"bob")
    first.fetch(b"public", b"")

    second = Desk(settings=SessionSettings(shared=first.cluster))
    second.ask(18, 3, schema.request(18, 3).blank())
    second.answer(schema.response(18, 3).blank())
    assert not second.play.session.logged_in


# The probe


def verdict(mechanism: bytes, *answers: tuple[int, dict[str, object]]) -> object:
    probe = prove("alice", mechanism, "sub")
    said = b"".join(framed(key, 1, key, dict(message)) for key, message in answers)
    return probe.verdict(said)


AGREED: tuple[int, dict[str, object]] = (SHAKE, {"error_code": 0, "mechanisms": []})


def answer(code: int, data: bytes = b"") -> tuple[int, dict[str, object]]:
    return AUTH, {"error_code": code, "error_message": None, "auth_bytes": data, "session_lifetime": 0}


def test_a_probe_asks_for_the_name_with_a_password_that_is_chance() -> None:
    probe = prove("alice", b"PLAIN", None)
    first, second = frames(probe.request("n0nce"))
    header = wire.request_header(second)

    assert wire.peek(first)[:2] == (SHAKE, 1)
    assert schema.request(AUTH, 1).read(second, header.body_at) == {"auth_bytes": b"\0alice\0n0nce"}


@pytest.mark.parametrize(
    ("mechanism", "answers", "expected"),
    [
        (b"PLAIN", [], None),
        (b"PLAIN", [AGREED], None),
        (b"PLAIN", [AGREED, answer(58)], True),
        (b"PLAIN", [AGREED, answer(0)], False),
        (b"PLAIN", [AGREED, answer(34)], False),
        (b"PLAIN", [(SHAKE, {"error_code": 33, "mechanisms": []})], False),
        (b"SCRAM-SHA-256", [AGREED, answer(58)], True),
        (b"SCRAM-SHA-256", [AGREED, answer(0, b"r=x"), answer(58)], True),
        (b"SCRAM-SHA-256", [AGREED, answer(0, b"r=x"), answer(0, b"v=x")], False),
        (b"OAUTHBEARER", [AGREED, answer(0)], False),
        (b"OAUTHBEARER", [AGREED, answer(0, b'{"status":"invalid_token"}')], True),
        (b"OAUTHBEARER", [AGREED, answer(58)], True),
        (b"GSSAPI", [AGREED, answer(0)], False),
    ],
)
def test_only_a_no_to_the_probe_proves_a_login(
    mechanism: bytes, answers: list[tuple[int, dict[str, object]]], expected: bool | None
) -> None:
    assert verdict(mechanism, *answers) is expected


def test_a_probe_of_scram_answers_the_brokers_nonce_with_a_proof_that_is_chance() -> None:
    probe = prove("alice", b"SCRAM-SHA-256", None)
    said = framed(SHAKE, 1, 1, dict(AGREED[1])) + framed(AUTH, 1, 2, dict(answer(0, b"r=abc,s=eA==,i=4096")[1]))
    last = probe.verdict(said)
    assert isinstance(last, bytes)
    [frame] = frames(last)

    assert b"c=biws,r=abc,p=" in frame
    assert probe.verdict(said) is None


def test_nonsense_from_the_broker_proves_nothing() -> None:
    assert prove("alice", b"PLAIN", None).verdict(b"\0\0\0\x02\0\0") is False


def test_a_login_is_proven_before_the_reader_is_answered() -> None:
    desk = Desk()
    shake(desk, b"PLAIN")
    desk.play.stop_at = Ask
    desk.ask(AUTH, 2, {"auth_bytes": b"\0alice\0pw"})

    assert desk.answer(OK | {"auth_bytes": b""}) == b""
    [waiting] = desk.play.waiting
    desk.play.stop_at = None
    waiting.resume(False)
    assert not reads_unmasked(desk)
