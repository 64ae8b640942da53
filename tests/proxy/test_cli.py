"""The command line, as a process where exit codes and signals count, in-process where they do not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from proxy import cli

RULES = """\
rules:
  - name: contact
    platform: redis
    resources: ["customer:*"]
    fields:
      - {kind: json_path, path: $.mail, method: partial, keep_first: 1}
grants:
  - {allow: messages.read.unmasked, to: {user: auditor}, on: installation}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    directory = tmp_path / "rules.d"
    directory.mkdir()
    (directory / "rules.yaml").write_text(RULES, encoding="utf-8")
    return directory


@pytest.fixture
def config(tmp_path: Path, rules: Path) -> Path:
    path = tmp_path / "veil.yaml"
    path.write_text(
        """\
store: {files: {directory: rules.d}}
audit: {file: {path: audit.jsonl}}
admin: {listen: "127.0.0.1:0"}
connections:
  - name: shop
    platform: redis
    listeners:
      - {protocol: redis, listen: "127.0.0.1:0", upstream: "127.0.0.1:6379"}
""",
        encoding="utf-8",
    )
    return path


def veil(*arguments: str, feed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VEIL_")}
    return subprocess.run(
        [sys.executable, "-m", "proxy", *arguments], input=feed, capture_output=True, timeout=20, env=environment, check=False
    )


@pytest.mark.slow
def test_the_version_is_one_line() -> None:
    done = veil("--version")

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"veil ")


@pytest.mark.parametrize("verb", ["run", "check", "preview", "explain", "surface", "demo", "schema"])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([verb, "--help"])

    assert ended.value.code == 0
    assert f"usage: veil {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["fly"], ["run"], ["check"], ["schema", "x"], ["run", "--config"], ["check", "--conf", "x"]]
)
def test_wrong_usage_is_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)

    told = capsys.readouterr()
    assert ended.value.code == 2
    assert told.out == ""
    assert told.err.startswith("veil")
    assert told.err.count("\n") == 1


def test_places_spell_files_as_they_were_given(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.d" / "rules.yaml").write_text("rules: no\n", encoding="utf-8")
    config.write_text("store: no\n", encoding="utf-8")

    assert cli.main(["check", "--rules", "./rules.d"]) == 1
    assert capsys.readouterr().err.startswith("./rules.d/rules.yaml:1:8: ")
    assert cli.main(["check", "--config", "./veil.yaml"]) == 1
    assert all(line.startswith("./veil.yaml:1:") for line in capsys.readouterr().err.splitlines())


def test_no_verb_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: veil" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "-1", "257", "two"])
def test_a_number_of_workers_that_cannot_be_is_a_usage_error(
    config: Path, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--config", str(config), f"--workers={count}"])

    assert ended.value.code == 2
    assert "--workers" in capsys.readouterr().err


def test_fewer_connections_than_workers_are_a_bad_config(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text() + "limits: {max_connections: 2}\n")

    assert cli.main(["run", "--config", str(config), "--workers", "3"]) == 2
    assert capsys.readouterr().err == f"{config}: limits.max_connections is 2: not one for each of 3 workers\n"


def test_a_worker_without_a_supervisor_says_what_is_meant(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--config", str(config), "--worker", "9999"]) == 2
    assert "use --workers" in capsys.readouterr().err


@pytest.mark.slow
def test_run_serves_through_a_hangup_until_it_is_told_to_stop_and_prints_nothing_on_standard_output(config: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VEIL_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "run", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stderr is not None
    limits = ""
    for line in process.stderr:
        told = json.loads(line)
        if told["event"] == "serving":
            limits = Path(f"/proc/{process.pid}/limits").read_text(encoding="ascii")
            process.send_signal(signal.SIGHUP)
        if told["event"] == "signal":
            break
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=15)

    assert (process.returncode, out) == (0, b"")
    assert [line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core")] == [["0", "0"]]


@pytest.mark.slow
def test_run_with_a_bad_config_is_exit_2_with_a_line_a_problem(config: Path) -> None:
    config.write_text(config.read_text().replace("platform: redis", "platform: rediss").replace("store:", "stor:"))
    done = veil("run", "--config", str(config))

    assert (done.returncode, done.stdout) == (2, b"")
    assert all(line.startswith(f"{config}:".encode()) for line in done.stderr.splitlines())
    assert len(done.stderr.splitlines()) == 3


@pytest.mark.slow
def test_run_that_cannot_listen_is_exit_3_with_one_line(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(config.read_text().replace('redis, listen: "127.0.0.1:0"', f'redis, listen: "127.0.0.1:{port}"'))
        done = veil("run", "--config", str(config))

    assert done.returncode == 3
    assert done.stderr == f"cannot listen on 127.0.0.1:{port}: Address already in use\n".encode()


@pytest.mark.slow
def test_run_with_an_audit_file_that_will_not_do_is_exit_2_with_one_line(config: Path) -> None:
    (config.parent / "audit.jsonl").write_text("something else\n")
    done = veil("run", "--config", str(config))

    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"audit file" in done.stderr


def test_check_of_good_files_is_quiet(config: Path, rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--config", str(config)]) == 0
    assert cli.main(["check", "--rules", str(rules)]) == 0
    assert capsys.readouterr().out == ""


def test_check_tells_problems_of_config_and_rules_in_one_go(
    config: Path, rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text().replace("platform: redis", "platform: rediss"))
    (rules / "rules.yaml").write_text(RULES.replace("method: partial", "method: hide"))

    assert cli.main(["check", "--config", str(config)]) == 1
    told = capsys.readouterr().err
    assert f"{config}:6:15: " in told
    assert f"{rules}/rules.yaml:6:49: " in told


def test_check_warns_and_is_fine(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (rules / "more.yaml").write_text(RULES.split("grants:", maxsplit=1)[0].replace("name: contact", "name: again"))

    assert cli.main(["check", "--rules", str(rules)]) == 0
    assert ": warning: " in capsys.readouterr().err


def with_tls(config: Path, tls: str) -> None:
    config.write_text(config.read_text().replace('upstream: "127.0.0.1:6379"', f'upstream: "127.0.0.1:6379", {tls}'))


@pytest.mark.slow
def test_tls_files_that_will_not_do_are_told_by_check_and_run_alike(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_tls(config, "tls: {certificate: none.crt, key: none.key}, upstream_tls: {ca: none.ca}")

    assert cli.main(["check", "--config", str(config)]) == 1
    told = capsys.readouterr().err
    done = veil("run", "--config", str(config))
    assert (done.returncode, done.stderr.decode()) == (2, told)
    assert [line.rpartition(": ")[0].rpartition("/")[2] for line in told.splitlines()] == [
        'none.crt" cannot be read',
        'none.key" cannot be read',
        'none.ca" cannot be read',
    ]
    assert all(line.startswith(f"{config}:8:") for line in told.splitlines())


def test_check_warns_of_an_upstream_that_is_not_verified(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_tls(config, "upstream_tls: {verify: false}")

    assert cli.main(["check", "--config", str(config)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{config}:8:")
    assert ": warning: the upstream's certificate is not verified" in line


@pytest.mark.slow
def test_preview_writes_exactly_the_masked_bytes(rules: Path) -> None:
    feed = b'{"mail": "ada@example.org", "n": 1E400}'
    asked = ("preview", "--rules", str(rules), "--platform", "redis", "--resource", "key=customer:1")

    ordinary, permitted = veil(*asked, feed=feed), veil(*asked, "--as", "auditor", feed=feed)

    assert (ordinary.returncode, ordinary.stderr) == (0, b"")
    assert ordinary.stdout == '{"mail": "a••••••••••••••", "n": 1E400}'.encode()
    assert permitted.stdout == feed


def test_preview_as_json_says_what_was_masked(rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "value.json"
    file.write_bytes(b'{"mail":"ada"}')
    asked = ["preview", "--rules", str(rules), "--platform", "redis", "--resource", "key=customer:1", "--json", str(file)]

    assert cli.main(asked) == 0
    assert json.loads(capsys.readouterr().out) == {
        "after": '{"mail":"a••"}',
        "masked": [{"field": "$.mail", "method": "partial", "rule": "contact"}],
        "whole": None,
    }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"--platform": "rediss"}, 2),
        ({"--resource": "customer:1"}, 2),
        ({"--resource": "topic=x"}, 2),
        ({"--part": "middle"}, 2),
        ({"--rules": "/nowhere"}, 1),
        ({"file": "/nowhere"}, 1),
    ],
)
def test_mistakes_of_preview_are_a_line_and_a_code(
    rules: Path, changes: dict[str, str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {
        "--rules": str(rules),
        "--platform": "redis",
        "--resource": "key=a",
        "--part": "value",
        "file": os.devnull,
        **changes,
    }
    file = given.pop("file")

    assert cli.main(["preview", *[word for pair in given.items() for word in pair], file]) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_explain_names_the_rule_and_the_grant(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", "--rules", str(rules), "--platform", "redis", "--resource", "key=customer:1", "--as", "auditor"]

    assert cli.main(asked) == 0
    told = capsys.readouterr().out
    assert "contact" in told
    assert "granted to user auditor" in told


def test_surface_prints_the_table_of_a_protocol_and_without_one_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for protocol, operation in (
        ("kafka", "ShareFetch"),
        ("kafka-connect", "/connectors/{name}/offsets"),
        ("rabbitmq-management", "/api/queues/{vhost}/{name}/get"),
        ("redis", "HGETALL"),
    ):
        assert cli.main(["surface", protocol]) == 0
        tables.append(f"{protocol}\n" + capsys.readouterr().out)
        assert operation in tables[-1]
    assert cli.main(["surface"]) == 0
    assert capsys.readouterr().out == "".join(tables)
    assert cli.main(["surface", "gopher"]) == 2


@pytest.mark.parametrize("of", ["config", "rules", "access"])
def test_schemas_are_json(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", of]) == 0
    assert "json-schema.org" in json.loads(capsys.readouterr().out)["$schema"]
