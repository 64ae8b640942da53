"""Contexts out of files: what they agree to, whom they let in, and the names in certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from proxy.runtime.tls import ClientFiles, Pair, ServerFiles, TlsError, expired, load_client, load_server, reader_name
from tests.certificates import Authority, Made


def pair(made: Made) -> Pair:
    return Pair(made.certificate, made.key)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake in memory. What either raises is raised."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(down, up, server_hostname=name),
        server.wrap_bio(up, down, server_side=True),
    )
    done = [False, False]
    for _ in range(6):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done[number] = True
            except ssl.SSLWantReadError:
                continue
    assert done == [True, True]
    return ends[1], ends[0]


def trusting(authority: Authority, own: Made | None = None) -> ssl.SSLContext:
    return load_client(ClientFiles(authority.path, None if own is None else pair(own))).context


def test_old_versions_renegotiation_and_compression_are_off(authority: Authority) -> None:
    context = load_server(ServerFiles((pair(authority.server()),))).context

    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert trusting(authority).minimum_version is ssl.TLSVersion.TLSv1_2


def test_each_listener_has_a_context_of_its_own(authority: Authority) -> None:
    files = ServerFiles((pair(authority.server()),))

    assert load_server(files).context is not load_server(files).context


def test_a_session_is_not_resumed_where_certificates_tell_who_reads(authority: Authority) -> None:
    made = authority.server()
    server = load_server(ServerFiles((pair(made),), authority.path)).context
    client = trusting(authority, authority.make("alice"))

    _, end = shake(server, client)
    with pytest.raises(ssl.SSLWantReadError):
        end.read()
    assert end.session is None or not end.session.has_ticket


@pytest.mark.parametrize(("protocols", "expected"), [((), None), (("http/1.1",), "http/1.1"), (("other",), None)])
def test_a_protocol_is_agreed_on_where_it_has_a_name(
    authority: Authority, protocols: tuple[str, ...], expected: str | None
) -> None:
    server = load_server(ServerFiles((pair(authority.server()),), protocols=protocols)).context
    client = trusting(authority)
    client.set_alpn_protocols(["h2", "http/1.1"])

    assert shake(server, client)[0].selected_alpn_protocol() == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("localhost", "server"),
        ("one.test", "one"),
        ("ONE.test", "one"),
        ("a.two.test", "two"),
        ("two.test", "server"),
        ("a.b.two.test", "server"),
        ("127.0.0.1", "server"),
    ],
)
def test_a_certificate_is_chosen_by_the_name_asked_for_and_else_the_first(
    authority: Authority, asked: str, expected: str
) -> None:
    pairs = (authority.server(), authority.make("one", "dns:one.test"), authority.make("two", "dns:*.two.test"))
    server = load_server(ServerFiles(tuple(map(pair, pairs)))).context
    client = trusting(authority)
    client.check_hostname = False

    _, end = shake(server, client, asked)
    assert reader_name(dict(end.getpeercert() or {}), "cn") == expected


def test_whichever_certificate_is_chosen_a_client_must_show_its_own(authority: Authority, tmp_path: Path) -> None:
    pairs = (pair(authority.server()), pair(authority.make("one", "dns:one.test")))
    server = load_server(ServerFiles(pairs, authority.path)).context
    stranger = Authority(tmp_path, "stranger").make("mallory")

    for name in ("localhost", "one.test"):
        assert (
            reader_name(dict(shake(server, trusting(authority, authority.make("a")), name)[0].getpeercert() or {}), "cn") == "a"
        )
        for client in (trusting(authority), trusting(authority, stranger)):
            with pytest.raises(ssl.SSLError):
                shake(server, client, name)


def test_where_certificates_are_optional_none_names_nobody_and_a_wrong_one_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    files = ServerFiles((pair(authority.server()),), authority.path, client_required=False)
    server = load_server(files).context
    stranger = Authority(tmp_path, "stranger").make("mallory")

    assert reader_name(dict(shake(server, trusting(authority))[0].getpeercert() or {}), "cn") is None
    with pytest.raises(ssl.SSLError):
        shake(server, trusting(authority, stranger))


def test_an_expired_client_is_refused(authority: Authority) -> None:
    server = load_server(ServerFiles((pair(authority.server()),), authority.path)).context

    with pytest.raises(ssl.SSLError):
        shake(server, trusting(authority, authority.make("late", days=-1)))


def test_an_upstream_is_verified_by_the_system_s_authorities_unless_told_otherwise(authority: Authority) -> None:
    server = load_server(ServerFiles((pair(authority.server()),))).context

    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, load_client(ClientFiles()).context)
    shake(server, load_client(ClientFiles(verify=False)).context, "elsewhere.test")
    shake(server, trusting(authority))


@pytest.mark.parametrize(
    ("names", "source", "expected"),
    [
        ((("alice",), ()), "cn", "alice"),
        ((("alice", "root"), ()), "cn", None),
        (((), ("email:a@x.test",)), "cn", None),
        (((), ("email:a@x.test",)), "san:email", "a@x.test"),
        ((("alice",), ("dns:a.test", "uri:spiffe://x/a")), "san:dns", "a.test"),
        ((("alice",), ("dns:a.test", "uri:spiffe://x/a")), "san:uri", "spiffe://x/a"),
        ((("alice",), ("dns:a.test", "dns:root")), "san:dns", None),
        ((("alice",), ("dns:a.test",)), "san:email", None),
        ((("alice\nroot",), ()), "cn", None),
        ((("alice\0",), ()), "cn", None),
        (((" ",), ()), "cn", None),
        ((("\u202eecila",), ()), "cn", None),
        ((("Ünï çode",), ()), "cn", "Ünï çode"),
    ],
)
def test_a_reader_s_name_is_the_one_name_of_that_kind_or_nobody(
    authority: Authority, names: tuple[tuple[str, ...], tuple[str, ...]], source: str, expected: str | None
) -> None:
    server = load_server(ServerFiles((pair(authority.server()),), authority.path)).context
    made = authority.make("client", *names[1], common=names[0])

    end, _ = shake(server, trusting(authority, made))
    assert reader_name(dict(end.getpeercert() or {}), source) == expected


def test_without_a_certificate_there_is_no_name() -> None:
    assert [reader_name({}, source) for source in ("cn", "san:dns")] == [None, None]


def test_a_name_longer_than_any_that_a_rule_could_name_is_nobody() -> None:
    assert reader_name({"subject": ((("commonName", "a" * 256),),)}, "cn") == "a" * 256
    assert reader_name({"subject": ((("commonName", "a" * 257),),)}, "cn") is None


def test_a_certificate_that_has_run_out_since_it_was_verified_is_told() -> None:
    certificate: dict[str, object] = {"notAfter": "Nov 30 10:00:00 2026 GMT"}
    at_s = 1796032800.0

    assert [expired(certificate, at_s + more_s) for more_s in (-1, 0, 1)] == [False, True, True]
    assert not expired({}, at_s)


def test_when_certificates_run_out_is_known(authority: Authority) -> None:
    made = authority.server(days=3)
    ((path, _),) = load_server(ServerFiles((pair(made),))).expiries
    ((own, _),) = load_client(ClientFiles(pair=pair(made))).expiries

    assert (path, own) == (made.certificate, made.certificate)


def test_every_file_that_will_not_do_is_told_once_and_nothing_in_it(authority: Authority, tmp_path: Path) -> None:
    made = authority.server()
    bad = tmp_path / "bad\n.key"
    bad.write_text("-----BEGIN PRIVATE KEY-----\nSECRETSECRET\n-----END PRIVATE KEY-----\n")
    big = tmp_path / "big.crt"
    big.write_bytes(b"x" * 2_000_000)
    none = tmp_path / "none.crt"

    with pytest.raises(TlsError) as caught:
        load_server(ServerFiles((Pair(big, made.key), Pair(made.certificate, bad)), none))
    assert str(caught.value).replace(f"{tmp_path}/", "").split("; ") == [
        '"big.crt" is larger than 1 MiB',
        '"bad?.key" holds no private key in PEM',
        '"none.crt" cannot be read: No such file or directory',
    ]
    assert caught.value.__context__ is None or "SECRET" not in str(caught.value.__context__)
