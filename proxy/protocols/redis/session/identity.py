"""Who reads: what AUTH and HELLO claim, and the probe that tells whether a login proves anything.

Source: the commands' documentation; ACL semantics of Redis 6 and later.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.core.steps import Probe

from .. import wire


@dataclass(frozen=True, slots=True)
class Claim:
    """What a login would make true if the server says yes.

    `sets_name` False: the reader stays who it is. `version` None: the protocol stays.
    """

    sets_name: bool
    name: str | None = None
    version: int | None = None


def auth(argv: tuple[bytes, ...]) -> Claim:
    """AUTH [username] password; with one argument it is the user `default`."""
    if len(argv) == 2:
        return Claim(True, "default")
    return Claim(True, _text(argv[1]) if len(argv) == 3 else None)


def hello(argv: tuple[bytes, ...]) -> Claim:
    """HELLO [protover [AUTH username password] [SETNAME clientname]].

    Arguments that do not fit are taken as a login of nobody, should a server accept them.
    """
    if len(argv) == 1:
        return Claim(False)
    if argv[1] not in (b"2", b"3"):
        return Claim(True, None, None)
    version = int(argv[1])
    sets_name, name, at = False, None, 2
    while at < len(argv):
        word = argv[at].upper()
        if word == b"AUTH" and at + 2 < len(argv):
            sets_name, name = True, _text(argv[at + 1])
            at += 3
        elif word == b"SETNAME" and at + 1 < len(argv):
            at += 2
        else:
            return Claim(True, None, version)
    return Claim(sets_name, name, version)


def _text(name: bytes) -> str | None:
    """A user name as rules can name it; None for what is not text."""
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return None


def prove(name: str) -> Probe:
    """Asks the server for the name with a random password: only its `WRONGPASS` makes a login worth something.

    A user that needs no password (`nopass`) says yes to everybody and so names nobody.
    """

    def request(nonce: str) -> bytes:
        return wire.encode_command((b"AUTH", name.encode(), nonce.encode()))

    def verdict(data: bytes) -> bool | None:
        if b"\r\n" not in data:
            return None
        return data.startswith(b"-WRONGPASS ")

    return Probe(f"user {name}", request, verdict)
