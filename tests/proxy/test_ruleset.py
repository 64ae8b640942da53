"""`veil rules push | pull | diff` against a real server, as the command does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.cli import main
from tests.brokers.redis_server import RedisServer
from tests.brokers.redis_store import push as put_there

RULES = 'rules:\n  - {name: First, platform: redis, resources: ["a*"], mask_all: true}\n'
GRANT = "grants: [{allow: messages.read.unmasked, to: {user: root}, on: installation}]\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules.d"
    folder.mkdir()
    (folder / "rules.yaml").write_text(RULES)
    return folder


@pytest.fixture
def url(store_server: RedisServer) -> str:
    return f"redis://{store_server.address}"


def keys(server: RedisServer) -> set[str]:
    with server.admin() as direct:
        found = direct.call("KEYS", "*")
    assert isinstance(found, list)
    return {each.decode() for each in found if isinstance(each, bytes)}


def test_what_was_pushed_is_no_difference_and_is_pulled_byte_for_byte(
    url: str, rules: Path, tmp_path: Path, store_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    (rules / "access.yml").write_text(GRANT)
    (rules / "rules.test.yaml").write_text("x")

    assert main(["rules", "diff", str(rules), url]) == 1
    assert main(["rules", "push", "--to", url, str(rules)]) == 0
    assert main(["rules", "diff", str(rules), url]) == 0
    assert main(["rules", "pull", "--from", url, str(tmp_path / "out")]) == 0

    assert keys(store_server) == {"veil:manifest", "veil:rules.yaml", "veil:access.yml"}
    assert {each.name: each.read_text() for each in (tmp_path / "out").iterdir()} == {"rules.yaml": RULES, "access.yml": GRANT}
    assert 'created rule "First"' in capsys.readouterr().out


def test_a_dry_run_writes_nothing(url: str, rules: Path, store_server: RedisServer) -> None:
    assert main(["rules", "push", "--to", url, "--dry-run", str(rules)]) == 0
    assert keys(store_server) == set()


def test_a_second_push_of_the_same_writes_nothing_unless_a_version_is_asked_for(
    url: str, rules: Path, store_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def version() -> int:
        with store_server.admin() as direct:
            raw = direct.call("GET", "veil:manifest")
        assert isinstance(raw, bytes)
        return int(json.loads(raw)["version"])

    main(["rules", "push", "--to", url, str(rules)])
    first = version()
    main(["rules", "push", "--to", url, str(rules)])

    assert version() == first
    assert "nothing to push" in capsys.readouterr().out

    main(["rules", "push", "--to", url, "--above", "9000000000", str(rules)])

    assert version() == 9_000_000_001


def test_what_may_unmask_is_said_loudly(url: str, rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "push", "--to", url, str(rules)])
    (rules / "rules.yaml").write_text(RULES.replace("First", "Second") + GRANT)
    capsys.readouterr()
    main(["rules", "push", "--to", url, str(rules)])

    loud = [line for line in capsys.readouterr().out.splitlines() if line.startswith("UNMASKS: ")]
    assert loud == [
        'UNMASKS: deleted rule "First": it masks no longer',
        'UNMASKS: created grant of messages.read.unmasked to user "root" on installation: it allows more',
    ]


def test_broken_rules_are_not_pushed(
    url: str, rules: Path, store_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    (rules / "rules.yaml").write_text(RULES.replace("platform", "platfrom"))

    assert main(["rules", "push", "--to", url, str(rules)]) == 1
    assert keys(store_server) == set()
    assert f"{rules}/rules.yaml:2:19: " in capsys.readouterr().err


def test_rules_that_mask_nothing_are_pushed_only_when_that_is_said(url: str, rules: Path) -> None:
    (rules / "rules.yaml").write_text("rules: []\n")

    assert main(["rules", "push", "--to", url, str(rules)]) == 1
    assert main(["rules", "push", "--to", url, "--empty", str(rules)]) == 0


def test_what_cannot_be_read_is_replaced_only_by_force(
    url: str, rules: Path, store_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with store_server.admin() as direct:
        direct.call("HSET", "veil:manifest", "a", "b")

    assert main(["rules", "push", "--to", url, str(rules)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("veil rules: what stands there cannot be read (the manifest cannot be read: ")
    assert told.endswith("): --force replaces it\n")
    assert main(["rules", "diff", str(rules), url]) == 1
    assert main(["rules", "pull", "--from", url, str(rules)]) == 1
    assert main(["rules", "push", "--to", url, "--force", str(rules)]) == 0
    assert main(["rules", "diff", str(rules), url]) == 0

    with store_server.admin() as direct:
        direct.call("SET", "veil:rules.yaml", "b")

    assert main(["rules", "push", "--to", url, str(rules)]) == 1
    assert main(["rules", "pull", "--from", url, str(rules)]) == 1
    assert main(["rules", "push", "--to", url, "--force", str(rules)]) == 0


def test_a_pull_overwrites_and_removes_only_by_force(url: str, rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "push", "--to", url, str(rules)])
    (rules / "rules.yaml").write_text(RULES + "# mine\n")
    (rules / "mine.yaml").write_text(GRANT)
    (rules / "notes.txt").write_text("kept")

    assert main(["rules", "pull", "--from", url, str(rules)]) == 1
    assert (rules / "rules.yaml").read_text() == RULES + "# mine\n"
    assert main(["rules", "pull", "--from", url, "--force", str(rules)]) == 0
    assert {each.name for each in rules.iterdir()} == {"rules.yaml", "notes.txt"}
    assert (rules / "rules.yaml").read_text() == RULES
    assert "mine.yaml" in capsys.readouterr().err


def test_rules_that_are_broken_in_the_store_are_not_pulled(url: str, tmp_path: Path, store_server: RedisServer) -> None:
    put_there(store_server, {"rules.yaml": "rules: [{}]\n"})

    assert main(["rules", "pull", "--from", url, str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()


def test_files_that_say_the_same_in_other_words_differ(url: str, rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "push", "--to", url, str(rules)])
    (rules / "rules.yaml").write_text(RULES + "# a note\n")
    capsys.readouterr()

    assert main(["rules", "diff", str(rules), url]) == 1
    assert capsys.readouterr().out == "the files differ, in nothing that they say\n"


def test_a_key_and_a_password_are_taken_from_variables_and_files_and_shown_nowhere(
    store_server: RedisServer,
    rules: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store_server.add_user("keeper", "hunter2@hunter2/hunter2")
    monkeypatch.setenv("STORE_PASSWORD", "hunter2@hunter2/hunter2")
    (tmp_path / "key").write_text("0123456789abcdef0123\n")
    arguments = [f"redis://keeper:${{STORE_PASSWORD}}@{store_server.address}", "--key", f"file:{tmp_path / 'key'}"]

    assert main(["rules", "push", "--to", *arguments, "--prefix", "fleet:", str(rules)]) == 0
    assert main(["rules", "diff", str(rules), *arguments, "--prefix", "fleet:"]) == 0
    assert main(["rules", "diff", str(rules), *arguments[:2], "another key of this length", "--prefix", "fleet:"]) == 1
    monkeypatch.setenv("STORE_PASSWORD", "hunter3")
    assert main(["rules", "diff", str(rules), *arguments]) == 1
    told = capsys.readouterr()
    assert "hunter" not in told.out + told.err
    assert "0123456789" not in told.out + told.err


def config(tmp_path: Path, store: dict[str, object], upstream: str) -> str:
    path = tmp_path / "veil.yaml"
    listener = {"protocol": "redis", "listen": "127.0.0.1:16390", "upstream": upstream}
    told = {
        "store": store,
        "audit": {"file": {"path": "audit.jsonl"}},
        "connections": [{"name": "shop", "platform": "redis", "listeners": [listener]}],
    }
    path.write_text(json.dumps(told))
    return str(path)


def test_a_config_names_the_store(url: str, rules: Path, tmp_path: Path, store_server: RedisServer) -> None:
    path = config(tmp_path, {"redis": {"url": url, "prefix": "x:"}}, "127.0.0.1:1")

    assert main(["check", "--config", path]) == 0
    assert main(["rules", "push", "--config", path, str(rules)]) == 0
    assert keys(store_server) == {"x:manifest", "x:rules.yaml"}
    assert main(["rules", "diff", "--config", path, str(rules)]) == 0


def test_rules_are_not_pushed_to_a_broker(
    rules: Path, tmp_path: Path, store_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"redis://localhost:{store_server.port}"
    path = config(tmp_path, {"redis": {"url": other}}, store_server.address)

    assert main(["rules", "push", "--config", path, str(rules)]) in (1, 2)
    assert "whoever writes there could write the rules" in capsys.readouterr().err
    assert keys(store_server) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["push", "."],
        ["push", "--to", "redis://127.0.0.1:1", "--config", "veil.yaml", "."],
        ["push", "--to", "http://127.0.0.1:1", "."],
        ["push", "--to", "redis://127.0.0.1:1/0?ssl_cert_reqs=none", "."],
        ["push", "--to", "redis://127.0.0.1:1", "--key", "short", "."],
        ["push", "--to", "redis://127.0.0.1:1", "--prefix", "", "."],
        ["push", "--config", "nowhere.yaml", "."],
        ["push", "--config", "nowhere.yaml", "--prefix", "x:", "."],
    ],
)
def test_usage_is_told_with_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", *arguments]) == 2
    assert capsys.readouterr().err


def test_a_config_without_such_a_store_is_told(tmp_path: Path, rules: Path) -> None:
    path = config(tmp_path, {"files": {"directory": "rules.d"}}, "127.0.0.1:1")

    assert main(["rules", "push", "--config", path, str(rules)]) == 2


def test_a_store_that_is_gone_is_told_in_one_line(
    url: str, rules: Path, store_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    store_server.kill()

    assert main(["rules", "push", "--to", url, str(rules)]) == 1
    assert capsys.readouterr().err == "veil rules: the server cannot be reached\n"
