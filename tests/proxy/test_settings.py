"""veil.yaml: every kind of problem, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.core.errors import ConfigError
from proxy.runtime.upstream import Address
from proxy.settings import Configuration, Settings, load_configuration

GOOD = """\
store:
  files: {directory: ./rules.d}
audit:
  file: {path: ./audit.jsonl}
connections:
  - name: shop
    platform: redis
    environment: production
    listeners:
      - {protocol: redis, listen: "127.0.0.1:16379", upstream: "127.0.0.1:6379, [::1]:6380"}
"""


def load(tmp_path: Path, text: str = GOOD, environment: dict[str, str] | None = None) -> Configuration:
    path = tmp_path / "veil.yaml"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    return load_configuration(path, environment or {}, {"redis"})


def problems(tmp_path: Path, text: str = GOOD, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environment)
    return [str(problem).removeprefix(f"{tmp_path}/veil.yaml:") for problem in caught.value.problems]


def test_a_good_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    configuration = load(tmp_path)

    settings = configuration.settings
    listener = settings.connections[0].listeners[0]
    assert configuration.rules_directory == tmp_path / "rules.d"
    assert configuration.audit_path == tmp_path / "audit.jsonl"
    assert settings.admin.listen == Address("127.0.0.1", 9480)
    assert settings.limits.max_value == 64 * 1024 * 1024
    assert (settings.limits.login_timeout, settings.limits.idle_timeout, settings.unmasked_lapse) == (30, 0, 600)
    assert listener.listen == Address("127.0.0.1", 16379)
    assert listener.upstream == (Address("127.0.0.1", 6379), Address("::1", 6380))
    assert (listener.verify_names, listener.writes, settings.connections[0].reader.source) == (True, "adds", "protocol")


@pytest.mark.parametrize("value", ["redis://me:H1DDEN@h:1/0", "H1DDEN@h", "file:H1DDEN", "${H1DDEN}"])
def test_a_value_that_stands_where_its_key_should_is_not_repeated(tmp_path: Path, value: str) -> None:
    audit = f'audit:\n  redis: {{"{value}": 1, stream: a}}\nstore:'

    told = problems(tmp_path, GOOD.replace("store:", audit, 1))
    assert any("no such key here (known: url, stream" in each for each in told)
    assert "H1DDEN" not in "".join(told)


def test_every_problem_is_told_and_not_the_first(tmp_path: Path) -> None:
    text = """\
store:
  files: {directori: ./rules.d}
audit:
  file: {path: ./audit.jsonl}
limits:
  max_value: 64MB
  login_timeout: soon
conections: []
connections:
  - name: no
    platform: redis
    listeners:
      - {protocol: redis, listen: "127.0.0.1", upstream: "127.0.0.1:6379"}
"""

    expected = [
        '2:10: "directory" is missing',
        '2:11: no key "directori" here (did you mean directory?)',
        '6:14: "max_value" must be a size such as 64MiB, not "64MB"',
        '7:18: "login_timeout" must be a duration such as 30s or 10m, or 0, not "soon"',
        '8:1: no key "conections" here (did you mean connections?)',
        '10:11: "name" must be text, and "no" is text only when quoted',
        '13:35: "listen" must be host:port, such as 127.0.0.1:6379 or [::1]:6379, not "127.0.0.1"',
    ]

    assert problems(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("files: {directory: ./rules.d}", "redis: {url: redis://127.0.0.1}", "2:16: 127.0.0.1:6379 is an upstream too: whoever writes there could write the rules"),
        ("name: shop\n", "name: shop\n    management: {url: http://x}\n", '7:17: "management" goes with the platform rabbitmq, not "redis"'),
        ("name: shop\n", "name: shop\n    schema_registry: {}\n", '7:22: "schema_registry" is not carried out by this version'),
        ("{protocol: redis,", "{brokers: {}, protocol: redis,", '10:19: "brokers" goes with protocols whose servers name each other: redis is none'),
        ("name: shop\n", "name: shop\n    reader: {from: header}\n", '7:20: "from" cannot be "header": redis has no headers'),
        ("name: shop\n", "name: shop\n    reader: {from: fixed}\n", '7:13: a fixed reader needs "user"'),
        ("protocol: redis", "protocol: amqp", '10:20: "amqp" is no protocol of the platform redis (it has: redis)'),
        ("protocol: redis", "protocol: rediss", '10:20: "rediss" is no protocol of the platform redis (it has: redis)'),
        ("platform: redis", "platform: rediss", '7:15: "platform" cannot be "rediss" (did you mean redis?)'),
        ("127.0.0.1:16379", "127.0.0.1:99999", '10:35: "listen" must be host:port, such as 127.0.0.1:6379 or [::1]:6379, not "127.0.0.1:99999"'),
        ("127.0.0.1:6379,", "127.0.0.1:16379,", "10:64: 127.0.0.1:16379 is Veil itself"),
        ("127.0.0.1:6379,", "localhost:16379,", "10:64: localhost:16379 is Veil itself"),
        ("127.0.0.1:6379,", "0.0.0.0:16379,", "10:64: 0.0.0.0:16379 is Veil itself"),
        ("upstream: ", "writes: free, upstream: ", '10:62: "writes" cannot be "free" (known: adds, strict)'),
        ("upstream: ", "verify_names: maybe, upstream: ", '10:68: "verify_names" must be true or false, not "maybe"'),
        ("audit:\n  file: {path: ./audit.jsonl}\n", "", '1:1: "audit" is missing'),
        ("{path: ./audit.jsonl}", "{path: nowhere/audit.jsonl}", None),
        ("{path: ./audit.jsonl}", "{path: ./rules.d}", None),
    ],
)  # fmt: skip
def test_a_problem_stands_at_its_place(tmp_path: Path, old: str, new: str, expected: str | None) -> None:
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))

    if expected is None:
        assert [problem[:5] for problem in found] == ["4:16:"]
    else:
        assert expected in found


def test_tokens_are_not_carried_out_and_not_repeated(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD + "admin:\n  tokens:\n    - {user: ops, token: hunter2, permissions: []}\n")

    assert found == ['13:5: "tokens" is not carried out by this version']


def test_a_protocol_of_another_platform_that_comes_later_is_an_error(tmp_path: Path) -> None:
    text = GOOD.replace("platform: redis", "platform: kafka").replace("protocol: redis", "protocol: kafka")

    assert problems(tmp_path, text) == ['10:20: the protocol "kafka" is not carried out by this version']


def test_two_connections_of_one_name_and_two_listeners_of_one_address_are_errors(tmp_path: Path) -> None:
    second = GOOD[GOOD.index("  - name") :]

    assert problems(tmp_path, GOOD + second) == [
        '11:11: a connection "shop" is there already',
        "15:35: 127.0.0.1:16379 is listened on already",
    ]


@pytest.mark.parametrize(
    ("listen", "upstream", "is_itself"),
    [
        ("127.0.0.1:1", "localhost:1", True),
        ("localhost:1", "[::1]:1", True),
        ("localhost:1", "LOCALHOST.:1", True),
        ("0.0.0.0:1", "127.0.0.1:1", True),
        ("[::]:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "0.0.0.0:1", True),
        ("broker:1", "Broker:1", True),
        ("127.0.0.1:1", "localhost:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("[::1]:1", "127.0.0.1:1", False),
        ("0.0.0.0:1", "broker:1", False),
    ],
)
def test_an_upstream_that_leads_back_to_veil_is_an_error(tmp_path: Path, listen: str, upstream: str, is_itself: bool) -> None:
    text = GOOD.replace("127.0.0.1:16379", listen).replace("127.0.0.1:6379, [::1]:6380", upstream)

    if not is_itself:
        load(tmp_path, text)
        return
    (found,) = problems(tmp_path, text)
    assert found.endswith(f"{upstream} is Veil itself")


@pytest.mark.parametrize("written", ["off", "false", '"off"'])
def test_verify_names_may_be_switched_off(tmp_path: Path, written: str) -> None:
    configuration = load(tmp_path, GOOD.replace("upstream: ", f"verify_names: {written}, upstream: "))

    assert configuration.settings.connections[0].listeners[0].verify_names is False


def test_variables_override_keys_and_items_of_lists(tmp_path: Path) -> None:
    environment = {
        "VEIL_ADMIN__LISTEN": "127.0.0.1:0",
        "VEIL_LIMITS__MAX_DEPTH": "64",
        "VEIL_LIMITS__IDLE_TIMEOUT": "0",
        "VEIL_MARKERS": "false",
        "VEIL_CONNECTIONS__0__NAME": "123",
        "VEIL_CONNECTIONS__0__LISTENERS__0__WRITES": "strict",
        "VEIL_CONNECTIONS__1__NAME": "second",
        "VEIL_CONNECTIONS__1__PLATFORM": "redis",
        "VEIL_CONNECTIONS__1__LISTENERS__0__PROTOCOL": "redis",
        "VEIL_CONNECTIONS__1__LISTENERS__0__LISTEN": "127.0.0.1:16380",
        "VEIL_CONNECTIONS__1__LISTENERS__0__UPSTREAM": "127.0.0.1:6379",
        "PATH": "/bin",
    }

    settings = load(tmp_path, GOOD, environment).settings

    assert settings.admin.listen.port == 0
    assert (settings.limits.max_depth, settings.markers) == (64, False)
    assert [connection.name for connection in settings.connections] == ["123", "second"]
    assert settings.connections[0].listeners[0].writes == "strict"


def test_problems_of_variables_name_the_variable(tmp_path: Path) -> None:
    environment = {
        "VEIL_ADMNI__LISTEN": "127.0.0.1:1",
        "VEIL_ADMIN__LISTEM": "127.0.0.1:1",
        "VEIL_LIMITS__MAX_DEPTH": "deep",
        "VEIL_CONNECTIONS__7__NAME": "x",
        "VEIL_STORE": "x",
    }

    assert sorted(problems(tmp_path, GOOD, environment)) == [
        'VEIL_ADMIN__LISTEM: no key "listem" here (did you mean listen?)',
        'VEIL_ADMNI__LISTEN: no key "admni" in the config (did you mean admin?)',
        'VEIL_CONNECTIONS__7__NAME: "7" is no place in a list of 1 (they count from 0)',
        'VEIL_LIMITS__MAX_DEPTH: "max_depth" must be a number, not "deep"',
        'VEIL_STORE: "store" must be a mapping of keys and values',
    ]


def test_a_variable_that_the_file_refers_to_is_no_override(tmp_path: Path) -> None:
    text = GOOD + '# token: "${VEIL_OPS_TOKEN}"\n'

    assert load(tmp_path, text, {"VEIL_OPS_TOKEN": "hunter2"}).settings.markers


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "store: [\n", "a: &x 1\nb: *x\n", "store: {}\nstore: {}\n"])
def test_what_is_no_config_is_told_without_a_traceback(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml:1:1: cannot be read: No such file"):
        load_configuration(tmp_path / "none.yaml", {}, {"redis"})


@pytest.mark.parametrize(
    "written",
    ["localhost", ":6379", "::1:6379", "[::1]", "[127.0.0.1]:1", "redis://h:1", "a b:1", "300.1.1.1:1", "h:-1", "h:1x"],
)
def test_what_is_no_address_is_refused(tmp_path: Path, written: str) -> None:
    found = problems(tmp_path, GOOD.replace('"127.0.0.1:16379"', f'"{written}"'))

    assert found[0].startswith('10:35: "listen" must be host:port')


@pytest.mark.parametrize(("written", "size"), [("1B", 1), ("64KiB", 65536), ("2 MiB", 2 * 1024**2), ("1GiB", 1024**3)])
def test_sizes_have_a_unit(tmp_path: Path, written: str, size: int) -> None:
    assert load(tmp_path, GOOD + f"limits: {{max_value: {written}}}\n").settings.limits.max_value == size


@pytest.mark.parametrize(
    ("written", "seconds"), [("0", 0), ('"0"', 0), ("500ms", 0.5), ("30s", 30), ("10m", 600), ("2h", 7200)]
)
def test_durations_have_a_unit_or_are_never(tmp_path: Path, written: str, seconds: float) -> None:
    assert load(tmp_path, GOOD + f"limits: {{idle_timeout: {written}}}\n").settings.limits.idle_timeout == seconds


@pytest.mark.parametrize(
    "written",
    [
        "limits: {max_value: 64}",
        "limits: {max_value: 2GiB}",
        "limits: {max_value: 0B}",
        "limits: {idle_timeout: 30}",
        "limits: {idle_timeout: -1s}",
        "limits: {idle_timeout: true}",
        "limits: {max_depth: 513}",
        "limits: {max_depth: 0}",
        'limits: {max_depth: "512"}',
        "limits: {max_depth: true}",
        "limits: {max_connections: 1_000}",
        "limits: []",
        "limits:",
        "unmasked_lapse: 0",
        "markers: yes",
        'markers: "true"',
        "admin: {listen: 9480}",
        "admin: {listen: [a]}",
        "admin: {listen: {a: b}}",
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, written: str) -> None:
    (found,) = problems(tmp_path, GOOD + written + "\n")

    assert found.startswith("11:")


@pytest.mark.parametrize("written", ["connections: {}", "connections: []", "connections: [a]"])
def test_without_a_connection_there_is_nothing_to_do(tmp_path: Path, written: str) -> None:
    assert problems(tmp_path, GOOD[: GOOD.index("connections")] + written + "\n")


def test_a_name_with_a_line_end_is_refused(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, GOOD.replace("name: shop", 'name: "sh\\nop"'))

    assert found == '6:11: "name" holds a character that no name may hold'


def test_the_schema_of_the_config_can_be_made() -> None:
    schema = Settings.model_json_schema(by_alias=True)

    assert schema["additionalProperties"] is False
    assert "from" in schema["$defs"]["ReaderSettings"]["properties"]


def test_an_empty_file_is_not_told_to_hold_rules(tmp_path: Path) -> None:
    assert problems(tmp_path, "# nothing\n") == ["1:1: empty: taken for a half-finished write"]


@pytest.mark.parametrize("path", ["a" * 300, "loop/x", "nul\\0byte"])
def test_a_path_that_cannot_be_looked_at_is_told_without_a_traceback(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    load(tmp_path, GOOD.replace("./rules.d", path) if "nul" not in path else GOOD)

    (found,) = problems(tmp_path, GOOD.replace("./audit.jsonl", f'"{path}/audit.jsonl"'))
    assert found.startswith("4:16: the directory ")
