"""VEIL EXPLAIN and VEIL HELP: what Veil answers of itself. Names of rules and fields, never a value.

Nothing of the server is read: whether the key exists is not told.
"""

from __future__ import annotations

from proxy.core.viewer import Viewer
from rules.explain import explain_view
from rules.model import Kind
from rules.view import Shown, plain

from .. import wire

HELP = (
    "VEIL <subcommand> [<arg> ...]. Subcommands are:",
    "EXPLAIN <key>",
    "    Which masking rules cover a key or channel, and whether you may read it unmasked.",
    "HELP",
    "    Print this help.",
)
DOUBTED = "the login proves nothing: the server was not seen to refuse a wrong password"


def answer(argv: tuple[bytes, ...], viewer: Viewer) -> Shown:
    """The reply to a VEIL command under the policy of now: an array of lines, in RESP2 and RESP3 alike, or an error."""
    match _subcommand(argv), len(argv):
        case b"EXPLAIN", 3:
            view = viewer.view(viewer.resource(Kind.KEY, argv[2]))
            return _lines(explain_view(view, doubt=DOUBTED if viewer.is_doubted else ""))
        case b"HELP", 2:
            return _lines(HELP)
        case b"EXPLAIN" | b"HELP" as known, _:
            return plain(b"-ERR wrong number of arguments for 'veil|%b' command\r\n" % known.lower())
        case _, 1:
            return plain(b"-ERR wrong number of arguments for 'veil' command\r\n")
        case _:
            return plain(b"-ERR unknown VEIL subcommand\r\n")


def in_transaction(argv: tuple[bytes, ...]) -> Shown:
    """The refusal inside MULTI."""
    known = _subcommand(argv)
    name = b"VEIL " + known if known in (b"EXPLAIN", b"HELP") else b"VEIL"
    return plain(b"-ERR %b is not allowed in a transaction\r\n" % name)


def _subcommand(argv: tuple[bytes, ...]) -> bytes:
    return argv[1].upper() if len(argv) > 1 else b""


def _lines(lines: list[str] | tuple[str, ...]) -> Shown:
    return plain(wire.encode(wire.tree(wire.ARRAY, [wire.bulk(line.encode()) for line in lines])))
