"""What the config says of HTTP: URLs, hosts, readers named by a header, and a login of Veil's own."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from proxy.app import listener_settings
from proxy.core.errors import ConfigError
from proxy.core.session import HeaderReader, ProtocolEntry, SessionSettings
from proxy.protocols import PROTOCOLS
from proxy.protocols.http.session import HttpSession
from proxy.runtime.tls import ClientFiles
from proxy.runtime.upstream import Address
from proxy.settings import Configuration, load_configuration
from rules.model import Platform
from tests.proxy.http.desk import TinyApi

WEB = ProtocolEntry(
    "rabbitmq-management",
    frozenset({Platform.RABBITMQ}),
    lambda viewer, settings: HttpSession(viewer, settings, TinyApi()),
    lambda: "",
    has_headers=True,
)
CARRIED_OUT = {"redis": PROTOCOLS["redis"], WEB.name: WEB}
LISTENER = '{protocol: rabbitmq-management, listen: "127.0.0.1:15674", upstream: "http://broker:15672"}'
MANAGEMENT = '    management: {url: "http://broker:15672", user: veil, password: hunter2}\n'


def text(listener: str = LISTENER, more: str = "", platform: str = "rabbitmq") -> str:
    return f"""\
store: {{files: {{directory: .}}}}
audit: {{file: {{path: audit.jsonl}}}}
connections:
  - name: shop
    platform: {platform}
{more}    listeners:
      - {listener}
"""


def load(folder: Path, told: str) -> Configuration:
    path = folder / "veil.yaml"
    path.write_text(told)
    return load_configuration(path, {}, CARRIED_OUT)


def problems(folder: Path, told: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, told)
    return [str(each).partition("veil.yaml:")[2] for each in caught.value.problems]


def session(folder: Path, told: str) -> SessionSettings:
    (found,) = listener_settings(load(folder, told), CARRIED_OUT)
    return found.session


def with_reader(reader: str) -> str:
    return text(more=f"    reader: {reader}\n")


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ("http://broker:15672", [Address("broker", 15672)]),
        ("http://a:1,http://b:2/", [Address("a", 1), Address("b", 2)]),
        ("http://[::1]:15672", [Address("::1", 15672)]),
        ("http://broker", [Address("broker", 80)]),
    ],
)
def test_servers_are_tried_in_their_order_and_called_by_the_first(
    tmp_path: Path, upstream: str, expected: list[Address]
) -> None:
    told = text(LISTENER.replace("http://broker:15672", upstream))
    (found,) = listener_settings(load(tmp_path, told), CARRIED_OUT)

    assert list(found.upstream) == expected
    assert found.session.upstream == str(expected[0])
    assert found.upstream_tls is None


def test_https_goes_by_tls_and_trusts_the_system_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    told = text(LISTENER.replace("http://broker:15672", "https://broker"))
    configuration = load(tmp_path, told)
    listener = configuration.settings.connections[0].listeners[0]

    assert list(listener.upstream) == [Address("broker", 443)]
    assert configuration.client_files(listener) == ClientFiles(None, None, None, True)


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ('"broker:15672"', '7:78: "upstream" must be http://host:port or https://host:port: rabbitmq-management is spoken over HTTP'),
        ('"http://a:1,https://b:2"', '7:78: "upstream" must be all of http://, all of https://, or all of host:port'),
        ('"http://a:1,b:2"', '7:78: "upstream" must be all of http://, all of https://, or all of host:port'),
        ('"http://broker:0"', '7:78: "upstream" needs a port above 0'),
        ('"http://127.0.0.1:15674"', "7:78: 127.0.0.1:15674 is Veil itself"),
        ('"http://broker:1", upstream_tls: {verify: true}', '7:111: "upstream_tls" needs an upstream of https://'),
        *(
            (f'"{each}"', '7:78: "upstream" must be http://host:port or https://host:port, without a user, path or query')
            for each in (
                "http://u:hunter2@broker:1", "http://broker:1/api", "http://broker:1?x", "http://broker:1#x", "ftp://broker:1", "http://",
                "http://broker:", "http://broker:x", "http://broker:99999", "http://bro ker", "http://[::1", "http://[::1]:", "http://:80",
            )
        ),
    ],
)  # fmt: skip
def test_a_problem_of_an_upstream_stands_at_its_place(tmp_path: Path, upstream: str, expected: str) -> None:
    found = problems(tmp_path, text(LISTENER.replace('"http://broker:15672"', upstream)))

    assert found == [expected]


def test_a_url_is_for_http_alone(tmp_path: Path) -> None:
    listener = '{protocol: redis, listen: "127.0.0.1:6390", upstream: "http://broker:6379", hosts: [a]}'

    assert problems(tmp_path, text(listener, platform="redis")) == [
        '7:63: "upstream" must be host:port: redis is not spoken over HTTP',
        '7:92: "hosts" goes with protocols over HTTP: redis is none',
    ]


def test_readers_call_veil_by_its_host_and_by_the_names_of_the_config(tmp_path: Path) -> None:
    told = text(LISTENER.replace("127.0.0.1:15674", "Veil.local:15674").replace("}", ", hosts: [MQ.example, 'mq.example:81']}"))

    assert session(tmp_path, told).names == ("veil.local", "mq.example", "mq.example:81")


@pytest.mark.parametrize("hosts", ["[]", "['a b']", "['*.example']", "['http://a']", "['']", "[1]", "a"])
def test_what_is_no_host_is_a_problem(tmp_path: Path, hosts: str) -> None:
    (found,) = problems(tmp_path, text(LISTENER.replace("}", f", hosts: {hosts}}}")))

    assert '"hosts" ' in found


def test_a_login_of_veils_own_reaches_its_sessions_and_no_output(tmp_path: Path) -> None:
    told = session(tmp_path, text(more=MANAGEMENT))

    assert told.login == ("veil", "hunter2")
    assert "hunter2" not in repr(told) + repr(load(tmp_path, text(more=MANAGEMENT)).settings)


@pytest.mark.parametrize(
    ("management", "expected"),
    [
        ('{url: "http://other:15672", user: veil, password: a}', '6:23: "url" must be the upstream of the listener at 127.0.0.1:15674: its login goes there as well, and must not go to another server'),
        ('{url: "https://broker:15672", user: veil, password: a}', '6:23: "url" must be the upstream of the listener at 127.0.0.1:15674: its login goes there as well, and must not go to another server'),
        ('{url: "broker:15672", user: veil, password: a}', '6:23: "url" must be http://host:port or https://host:port, without a user, path or query'),
        ('{url: "http://broker:15672,http://b:1", user: veil, password: a}', '6:23: "url" must be http://host:port or https://host:port, without a user, path or query'),
        ('{url: "http://broker:15672", user: veil}', '6:17: "password" is missing'),
        ('{url: "http://broker:15672", password: a}', '6:17: "user" is missing'),
        ('{url: "http://broker:15672", user: v, password: "${NONE}"}', '6:65: "password" refers to the variable NONE, which is not set'),
    ],
)  # fmt: skip
def test_a_problem_of_veils_own_login_stands_at_its_place(tmp_path: Path, management: str, expected: str) -> None:
    assert problems(tmp_path, text(more=f"    management: {management}\n")) == [expected]


def test_a_login_of_veils_own_is_for_rabbitmq_alone(tmp_path: Path) -> None:
    listener = '{protocol: redis, listen: "127.0.0.1:6390", upstream: "broker:6379"}'

    assert problems(tmp_path, text(listener, MANAGEMENT, "redis")) == [
        '6:17: "management" goes with the platform rabbitmq, not "redis"'
    ]


def test_a_reader_is_named_by_a_header_of_trusted_peers(tmp_path: Path) -> None:
    told = session(tmp_path, with_reader("{from: header, name: X-Forwarded-User, trusted: [10.0.0.0/8, '::1', 192.168.1.7]}"))

    networks = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "::1/128", "192.168.1.7/32")))
    assert told.header == HeaderReader("X-Forwarded-User", networks)


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        ("{from: header, name: X-User}", ['6:13: a reader from a header needs "trusted"']),
        ("{from: header, trusted: [10.0.0.0/8]}", ['6:13: a reader from a header needs "name"']),
        ("{from: header, name: X-User, trusted: []}", ['6:51: "trusted" is empty: at least one is needed']),
        ("{from: header, name: X-User, trusted: [10.0.0.1/8]}", ['6:52: an entry of "trusted" must be addresses such as 10.0.0.0/8 or 127.0.0.1/32, not "10.0.0.1/8"']),
        ("{from: header, name: X_User, trusted: [10.0.0.0/8]}", ['6:34: "name" must be a header, of letters, digits and -']),
        ("{from: header, name: Authorization, trusted: [10.0.0.0/8]}", ['6:34: "name" cannot be "Authorization", which means something else already']),
        ("{from: header, name: Content-Type, trusted: [10.0.0.0/8]}", ['6:34: "name" cannot be "Content-Type", which means something else already']),
        ("{from: header, name: X-User, user: a, trusted: [10.0.0.0/8]}", ['6:48: "user" goes with `from: fixed` alone']),
        ("{from: protocol, trusted: [10.0.0.0/8]}", ['6:39: "trusted" goes with `from: header` alone']),
    ],
)  # fmt: skip
def test_a_problem_of_a_header_stands_at_its_place(tmp_path: Path, reader: str, expected: list[str]) -> None:
    assert problems(tmp_path, with_reader(reader)) == expected


@pytest.mark.parametrize(
    ("network", "warned"), [("127.0.0.1/32", True), ("0.0.0.0/0", True), ("::/0", True), ("10.0.0.0/8", False)]
)
def test_trust_in_loopback_without_tls_is_warned_of(tmp_path: Path, network: str, warned: bool) -> None:
    configuration = load(tmp_path, with_reader(f"{{from: header, name: X-User, trusted: ['{network}']}}"))

    told = "whoever is on this machine may name any reader at 127.0.0.1:15674, which has no TLS and trusts loopback"
    assert [str(each).partition("veil.yaml:")[2] for each in configuration.warnings] == [f"6:51: warning: {told}"] * warned
