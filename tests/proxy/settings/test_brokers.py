"""The keys of veil.yaml about the nodes behind a listener, and about tokens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.core.errors import ConfigError
from proxy.protocols import PROTOCOLS as REAL_PROTOCOLS
from proxy.runtime.nodetable import NodeSettings
from proxy.settings import Configuration, load_configuration
from proxy.settings.brokers import node_settings
from tests.certificates import Authority
from tests.proxy.runtime.tiny import PROTOCOLS

GOOD = """\
store: {files: {directory: ./rules.d}}
audit: {file: {path: ./trail/audit.jsonl}}
connections:
  - name: orders
    platform: kafka
    listeners:
      - protocol: kafka
        listen: "127.0.0.1:19092"
        upstream: "127.0.0.1:9092"
"""
BROKERS = "        brokers: "
TLS = "        tls: {certificate: ../server.crt, key: ../server.key}\n"


def load(tmp_path: Path, more: str = "", text: str = GOOD) -> Configuration:
    (tmp_path / "config" / "rules.d").mkdir(parents=True, exist_ok=True)
    (tmp_path / "config" / "trail").mkdir(exist_ok=True)
    path = tmp_path / "config" / "veil.yaml"
    path.write_text(text + more, encoding="utf-8")
    return load_configuration(path, {}, PROTOCOLS)


def nodes(tmp_path: Path, more: str = "", text: str = GOOD) -> NodeSettings:
    configuration = load(tmp_path, more, text)
    connection = configuration.settings.connections[0]
    return node_settings(configuration, connection, connection.listeners[0])


def problems(tmp_path: Path, more: str = "", text: str = GOOD) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, more, text)
    return [str(problem).replace(f"{tmp_path}/config/", "").removeprefix("veil.yaml:") for problem in caught.value.problems]


def test_left_out_nodes_have_the_ports_behind_the_listeners_own(tmp_path: Path) -> None:
    table = tmp_path / "config" / "trail" / "nodes-orders-19092.json"

    assert (
        nodes(tmp_path) == nodes(tmp_path, BROKERS + "{}") == NodeSettings(table, "127.0.0.1", range(19093, 19109), "127.0.0.1")
    )


def test_a_trail_elsewhere_leaves_the_table_beside_the_config(tmp_path: Path) -> None:
    text = GOOD.replace("file: {path: ./trail/audit.jsonl}", "redis: {url: redis://127.0.0.1:1}")

    assert nodes(tmp_path, text=text).table == tmp_path / "config" / "nodes-orders-19092.json"


def test_a_name_that_is_none_for_a_file_is_spelled_otherwise(tmp_path: Path) -> None:
    text = GOOD.replace("name: orders", "name: ../orders")

    assert nodes(tmp_path, text=text).table.parent == tmp_path / "config" / "trail"


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ("{listen: 0.0.0.0, ports: 19100-19149, advertise: veil.example, table: t.json}", NodeSettings(Path("t.json"), "0.0.0.0", range(19100, 19150), "veil.example")),
        ("{listen: '::1', ports: 19100}", NodeSettings(Path("trail/nodes-orders-19092.json"), "::1", range(19100, 19101), "::1")),
    ],
)  # fmt: skip
def test_ports_and_hosts_are_as_the_config_says(tmp_path: Path, brokers: str, expected: NodeSettings) -> None:
    found = nodes(tmp_path, BROKERS + brokers)

    assert (found.host, found.ports, found.advertise) == (expected.host, expected.ports, expected.advertise)
    assert found.table == tmp_path / "config" / expected.table


def test_names_need_tls_and_no_ports(tmp_path: Path) -> None:
    Authority(tmp_path).server()
    found = nodes(tmp_path, TLS + BROKERS + '{sni: "b{id}.kafka.example", port: 9094}')

    assert (found.sni, found.sni_port, found.ports) == ("b{id}.kafka.example", 9094, range(0))
    assert nodes(tmp_path, TLS + BROKERS + '{sni: "b{id}.kafka.example"}').sni_port == 0
    assert problems(tmp_path, BROKERS + '{sni: "b{id}.x", ports: 19100, listen: a, advertise: b}') == [
        '10:24: "sni" needs "tls" on the listener: a server name is asked for there alone',
        '10:42: "ports" stands beside "sni": nodes have ports or names, not both',
        '10:57: "listen" stands beside "sni": nodes have ports or names, not both',
        '10:71: "advertise" stands beside "sni": nodes have ports or names, not both',
    ]


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ("{ports: 19100-19149-1}", '10:26: "ports" must be a range of ports such as 19100-19149, not "19100-19149-1"'),
        ("{ports: 0-5}", '10:26: "ports" must be ports from 1 to 65535, the lower one first, not "0-5"'),
        ("{ports: 19149-19100}", '10:26: "ports" must be ports from 1 to 65535, the lower one first, not "19149-19100"'),
        ("{ports: 65000-65536}", '10:26: "ports" must be ports from 1 to 65535, the lower one first, not "65000-65536"'),
        ("{ports: 20000-21000}", '10:26: "ports" must be at most 1000 ports, not "20000-21000"'),
        ("{ports: true}", '10:26: "ports" must be a range of ports such as 19100-19149, not true'),
        ("{ports: 19093, port: 1}", '10:39: "port" goes with "sni" alone; the ports of nodes are "ports"'),
        ("{listen: 'a b'}", '10:27: "listen" must be a host, such as 127.0.0.1 or kafka.example, not "a b"'),
        ("{listen: 0.0.0.0}", '10:27: `brokers: {advertise: HOST}` is needed: readers cannot be told to connect to "0.0.0.0"'),
        ("{advertise: '::'}", '10:30: `brokers: {advertise: HOST}` is needed: readers cannot be told to connect to "::"'),
        ("{sni: b.example}", '10:24: "sni" must hold {id} once, such as b{id}.kafka.example, not "b.example"'),
        ("{sni: 'b{id}{id}.x'}", '10:24: "sni" must hold {id} once, such as b{id}.kafka.example, not "b{id}{id}.x"'),
        ("{sni: 'b{id}.x:1'}", '10:24: "sni" must be a host name, such as b{id}.kafka.example, not "b{id}.x:1"'),
        ("{sni: '1.2.3.{id}'}", '10:24: "sni" must be a host name, such as b{id}.kafka.example, not "1.2.3.{id}"'),
        ("{sni: 'b{id}.x', port: 0}", '10:41: "port" must be from 1 to 65535'),
        ("{prots: 1}", '10:19: no key "prots" here (did you mean ports?)'),
        ("[]", '10:18: "brokers" must be a mapping of keys and values'),
        ("{ports: 19090-19095}", "10:26: 127.0.0.1:19092, a port for nodes (19090-19095), is listened on already"),
        ("{listen: 0.0.0.0, advertise: a, ports: 19090-19095}", "10:57: 0.0.0.0:19092, a port for nodes (19090-19095), is listened on already"),
        ("{listen: localhost, ports: 9400-9500}", "10:45: localhost:9480, a port for nodes (9400-9500), is listened on already"),
        ("{ports: 9092}", "9:19: 127.0.0.1:9092 is Veil itself"),
        ("{table: nowhere/t.json}", '10:26: the directory "nowhere" does not exist'),
        ("{table: rules.d}", '10:26: "rules.d" is a directory; name a file'),
    ],
)  # fmt: skip
def test_a_problem_stands_at_its_place(tmp_path: Path, brokers: str, expected: str) -> None:
    assert expected in problems(tmp_path, BROKERS + brokers)


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:0", "8:17: `brokers: {ports: …}` is needed, since the listener has no port of its own to count from"),
        ("127.0.0.1:65520", "8:17: `brokers: {ports: …}` is needed, since there are not 16 ports behind 65520"),
        ("0.0.0.0:19092", '8:17: `brokers: {advertise: HOST}` is needed: readers cannot be told to connect to "0.0.0.0"'),
    ],
)
def test_a_listener_that_leaves_no_ports_needs_some(tmp_path: Path, listen: str, expected: str) -> None:
    assert expected in problems(tmp_path, text=GOOD.replace("127.0.0.1:19092", listen))


def test_two_listeners_share_neither_ports_nor_a_table(tmp_path: Path) -> None:
    second = (
        GOOD[GOOD.index("      - protocol") :].replace("19092", "19100") + BROKERS + "{table: trail/nodes-orders-19092.json}\n"
    )

    *ports, table = problems(tmp_path, second)
    assert ports == [
        "8:17: 127.0.0.1:19100, a port for nodes (19093-19108), is listened on already",
        "11:17: 127.0.0.1:19101, a port for nodes (19101-19116), is listened on already",
    ]
    assert re.fullmatch('13:26: the table ".*" is another listener\'s already', table)


def test_a_listener_inside_the_ports_of_an_earlier_one_is_an_error(tmp_path: Path) -> None:
    second = GOOD[GOOD.index("      - protocol") :].replace("19092", "19094") + BROKERS + "{ports: 19200}\n"

    assert problems(tmp_path, second) == ["8:17: 127.0.0.1:19094, a port for nodes (19093-19108), is listened on already"]


def test_tokens_and_nodes_are_for_protocols_that_have_them(tmp_path: Path) -> None:
    (tmp_path / "rules.d").mkdir()
    path = tmp_path / "veil.yaml"
    text = GOOD.replace("./trail/", "") + BROKERS + "{}\n        token_claim: sub\n"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_configuration(path, {}, {"kafka"})

    assert [str(each).removeprefix(f"{path}:") for each in caught.value.problems] == [
        '10:18: "brokers" goes with protocols whose servers name each other: kafka is none',
        '11:22: "token_claim" goes with logins by bearer token: kafka has none',
    ]
    assert load_configuration(path, {}, PROTOCOLS).settings.connections[0].listeners[0].token_claim == "sub"


@pytest.mark.parametrize(
    ("name", "value", "ports"), [("PORTS", "19100", (19100, 19100)), ("PORTS", "19100-19101", (19100, 19101))]
)
def test_ports_may_come_from_the_environment(tmp_path: Path, name: str, value: str, ports: tuple[int, int]) -> None:
    load(tmp_path)
    environment = {f"VEIL_CONNECTIONS__0__LISTENERS__0__BROKERS__{name}": value}
    found = load_configuration(tmp_path / "config" / "veil.yaml", environment, PROTOCOLS)

    brokers = found.settings.connections[0].listeners[0].brokers
    assert brokers is not None
    assert brokers.ports is not None
    assert (brokers.ports[0], brokers.ports[-1]) == ports


def test_what_kafka_can_do_the_config_may_ask_of_it(tmp_path: Path) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "trail").mkdir()
    path = tmp_path / "veil.yaml"
    path.write_text(GOOD + BROKERS + "{ports: 19100-19149}\n        token_claim: sub\n", encoding="utf-8")

    listener = load_configuration(path, {}, REAL_PROTOCOLS).settings.connections[0].listeners[0]

    assert listener.token_claim == "sub"
    assert listener.brokers is not None
    assert listener.brokers.ports == range(19100, 19150)
