"""The keys of veil.yaml about TLS, and about readers who are known by a certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.core.errors import ConfigError
from proxy.settings import Configuration, load_configuration
from tests.certificates import Authority

GOOD = """\
store: {files: {directory: ./rules.d}}
audit: {file: {path: ./audit.jsonl}}
connections:
  - name: shop
    platform: redis
    reader: READER
    listeners:
      - protocol: redis
        listen: "127.0.0.1:16379"
        upstream: "127.0.0.1:6379"
        tls: TLS
        upstream_tls: UPSTREAM
"""
PAIR = "certificate: server.crt, key: server.key"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "rules.d").mkdir()
    authority = Authority(tmp_path)
    authority.server()
    authority.make("old", "dns:old.test", days=-1)
    authority.make("locked", password="hunter2")
    (tmp_path / "empty.crt").write_text("")
    (tmp_path / "folder").mkdir()


def load(tmp_path: Path, *, reader: str = "{}", tls: str = "{PAIR}", upstream: str = "{}") -> Configuration:
    path = tmp_path / "veil.yaml"
    path.write_text(
        GOOD.replace("READER", reader).replace("TLS", tls.replace("PAIR", PAIR)).replace("UPSTREAM", upstream), encoding="utf-8"
    )
    return load_configuration(path, {}, {"redis"})


def problems(tmp_path: Path, **given: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **given)
    return [str(problem).replace(f"{tmp_path}/", "").removeprefix("veil.yaml:") for problem in caught.value.problems]


def test_paths_start_from_the_folder_of_the_config(tmp_path: Path) -> None:
    configuration = load(tmp_path, tls="{PAIR, client_ca: ca.crt}", upstream="{ca: ca.crt, server_name: broker}")
    listener = configuration.settings.connections[0].listeners[0]

    server, client = configuration.server_files(listener), configuration.client_files(listener)
    assert server is not None
    assert client is not None
    assert server.paths == (tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "ca.crt")
    assert server.client_required
    assert (client.paths, client.server_name, client.verify) == ((tmp_path / "ca.crt",), "broker", True)


def test_client_certificates_may_be_optional_and_several_certificates_a_list(tmp_path: Path) -> None:
    listed = "{certificates: [{PAIR}, {certificate: old.crt, key: old.key}], client_ca: ca.crt, client_certificates: optional}"
    configuration = load(tmp_path, tls=listed)

    files = configuration.server_files(configuration.settings.connections[0].listeners[0])
    assert files is not None
    assert not files.client_required
    assert [pair.key.name for pair in files.pairs] == ["server.key", "old.key"]


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ("{}", ['11:14: "certificate" is missing', '11:14: "key" is missing']),
        ("{key: server.key}", ['11:14: "certificate" is missing']),
        ("{certificates: []}", ['11:29: "certificates" is empty: at least one is needed']),
        ("{certificates: [{key: server.key}]}", ['11:30: "certificate" is missing']),
        (
            "{certificates: [{PAIR}], key: server.key}",
            ['11:80: "key" stands beside "certificates": give one or the other'],
        ),
        ("{PAIR, client_certificates: optional}", ['11:78: "client_certificates" needs "client_ca"']),
        ("{PAIR, client_certificates: maybe, client_ca: ca.crt}", ['11:78: "client_certificates" cannot be "maybe" (known: required, optional)']),
        ("{PAIR, key_password: hunter2}", ['11:45: "server.key" is not encrypted, and there is a key_password']),
        ("{PAIR, key_password: '${NOT_THERE}'}", ['11:71: "key_password" refers to the variable NOT_THERE, which is not set']),
        ("{certificate: locked.crt, key: locked.key, key_password: hunter3}", ['11:45: "locked.key" holds no private key in PEM that key_password opens']),
        ("{certificates: [{PAIR}], key_password: hunter2}", ['11:89: "key_password" needs "key" beside it']),
        ("{PAIR, ciphers: NULL}", ['11:57: no key "ciphers" here (known: certificate, key, key_password, certificates, client_ca, client_certificates)']),
        ("{certificate: none.crt, key: none.key}", ['11:28: "none.crt" cannot be read: No such file or directory', '11:43: "none.key" cannot be read: No such file or directory']),
        ("{certificate: folder, key: server.key}", ['11:28: "folder" is not a file']),
        ("{certificate: empty.crt, key: server.key}", ['11:28: "empty.crt" holds no certificate in PEM']),
        ("{certificate: server.crt, key: server.crt}", ['11:45: "server.crt" holds no private key in PEM']),
        ("{certificate: server.crt, key: old.key}", ['11:45: "old.key" does not belong to the certificate "server.crt"']),
        ("{certificate: locked.crt, key: locked.key}", ['11:45: "locked.key" is encrypted: give key_password']),
        ("{PAIR, client_ca: server.key}", ['11:68: "server.key" holds no certificate in PEM']),
        ("{PAIR, client_ca: none.crt}", ['11:68: "none.crt" cannot be read: No such file or directory']),
        ("{certificates: [{PAIR}, {certificate: a, key: old.key}]}", ['11:88: "a" cannot be read: No such file or directory']),
    ],
)  # fmt: skip
def test_a_problem_of_a_listener_s_tls_stands_at_its_place(tmp_path: Path, tls: str, expected: list[str]) -> None:
    assert problems(tmp_path, tls=tls) == expected


@pytest.mark.parametrize(
    "tls",
    [
        "{certificate: locked.crt, key: locked.key, key_password: hunter2}",
        "{certificates: [{PAIR}, {certificate: locked.crt, key: locked.key, key_password: 'file:password'}]}",
    ],
)
def test_a_key_may_be_locked_by_a_password(tmp_path: Path, tls: str) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    configuration = load(tmp_path, tls=tls, upstream="{certificate: locked.crt, key: locked.key, key_password: hunter2}")
    listener = configuration.settings.connections[0].listeners[0]

    for files in (configuration.server_files(listener), configuration.client_files(listener)):
        assert "hunter2" not in repr(files)
    assert "hunter2" not in repr(configuration.settings)


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ("{certificate: server.crt}", ['12:23: "key" is missing']),
        ("{key: server.key}", ['12:23: "certificate" is missing']),
        ("{ca: none.crt}", ['12:28: "none.crt" cannot be read: No such file or directory']),
        ("{ca: empty.crt}", ['12:28: "empty.crt" holds no certificate in PEM']),
        ("{certificate: server.crt, key: old.key}", ['12:54: "old.key" does not belong to the certificate "server.crt"']),
        ("{verify: maybe}", ['12:32: "verify" must be true or false, not "maybe"']),
        ("true", ['12:23: "upstream_tls" must be a mapping of keys and values']),
    ],
)
def test_a_problem_of_the_tls_to_the_upstream_stands_at_its_place(tmp_path: Path, upstream: str, expected: list[str]) -> None:
    assert problems(tmp_path, upstream=upstream) == expected


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("{from: header}", ['6:20: "from" cannot be "header": redis has no headers']),
        ("{from: certificate}", ["6:20: a reader from a certificate needs `tls: {client_ca: …}` on every listener, and the one at 127.0.0.1:16379 has none"]),
        ("{from: fixed, user: a, name: cn}", ['6:42: "name" goes with `from: certificate` or `from: header` alone']),
        ("{name: cn}", ['6:20: "name" goes with `from: certificate` or `from: header` alone']),
        ("{from: fixed, user: a, trusted: []}", ['6:45: "trusted" goes with `from: header` alone']),
        ("{name: san:ip, from: fixed, user: a}", ['6:20: "name" cannot be "san:ip" (did you mean san:uri?)']),
    ],
)  # fmt: skip
def test_a_problem_of_the_reader_stands_at_its_place(tmp_path: Path, reader: str, expected: list[str]) -> None:
    assert [each for each in problems(tmp_path, reader=reader) if each in expected] == expected


def test_a_reader_from_a_certificate_has_no_user(tmp_path: Path) -> None:
    found = problems(tmp_path, reader="{from: certificate, user: a}", tls="{PAIR, client_ca: ca.crt}")

    assert found == ['6:39: "user" goes with `from: fixed` alone']


@pytest.mark.parametrize(
    ("reader", "source"),
    [("{from: certificate}", "cn"), ("{from: certificate, name: san:uri}", "san:uri"), ("{from: protocol}", None)],
)
def test_a_reader_from_a_certificate_is_named_by_its_common_name_or_as_chosen(
    tmp_path: Path, reader: str, source: str | None
) -> None:
    configuration = load(tmp_path, reader=reader, tls="{PAIR, client_ca: ca.crt}")

    assert configuration.settings.connections[0].reader.named_by == source


def test_an_upstream_that_is_not_verified_and_an_expired_certificate_are_warnings(tmp_path: Path) -> None:
    configuration = load(tmp_path, tls="{certificate: old.crt, key: old.key}", upstream="{verify: false}")

    told = [str(warning).replace(f"{tmp_path}/", "") for warning in configuration.warnings]
    assert [each.rpartition(" on ")[0] or each for each in told] == [
        "veil.yaml:11:14: warning: the certificate old.crt expired",
        "veil.yaml:12:32: warning: the upstream's certificate is not verified, so that anybody can pass for it and read what is sent",
    ]


def test_what_is_as_it_should_be_is_not_warned_of(tmp_path: Path) -> None:
    assert load(tmp_path).warnings == ()
