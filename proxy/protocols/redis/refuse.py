"""What is said when Veil itself answers: refusals and replacements, one RESP error line each, never contents."""

from __future__ import annotations

from rules.model import Refusal
from rules.view import Shown, plain

NAME_LIMIT = 128  # bytes of a name in a refusal; key names come from the reader and may be megabytes

EXECABORT = plain(b"-EXECABORT Transaction discarded because of previous errors.\r\n")
OK = plain(b"+OK\r\n")
SYNTAX = plain(b"-ERR syntax error\r\n")
ELSEWHERE = b"CLUSTERDOWN veil: the key lives on another node, which this address does not lead to"
TOO_LARGE = plain(b"-ERR veil: the reply is larger than what can be masked at once; read it in parts\r\n")
UNANSWERED = plain(b"-ERR veil: REPLCONF ACK and GETACK get no answer, and are not carried outside replication\r\n")


def printable(name: bytes) -> bytes:
    """A name for an error line: printable ASCII without double quotes, cut at NAME_LIMIT."""
    return bytes(byte if 32 <= byte < 127 and byte != 34 else 63 for byte in name[:NAME_LIMIT])


def refusal(operation: bytes, key: bytes | None, why: Refusal) -> Shown:
    """The error line of a refused command; `key` None where the command as a whole is refused."""
    verb = printable(operation)
    on = b"" if key is None else b' on "%b"' % printable(key)
    if why.rule is None:
        return plain(b"-NOPERM veil: %b%b is refused: %b\r\n" % (verb, on, printable(why.reason.encode())))
    rule = printable(why.rule.encode())
    if key is None:
        return plain(b'-NOPERM veil: %b is refused while the masking rule "%b" applies to you\r\n' % (verb, rule))
    return plain(b'-NOPERM veil: %b%b is refused: the masking rule "%b" covers it\r\n' % (verb, on, rule))


def inside_multi(operation: str) -> Shown:
    """For what may not be queued in a transaction, whatever the rules."""
    return plain(b"-NOPERM veil: %b is refused inside MULTI\r\n" % printable(operation.encode()))


def while_subscribed(operation: str) -> Shown:
    """As a server says it of what may not be asked on a RESP2 connection that hears messages."""
    only = b"only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    return plain(b"-ERR Can't execute '%b': %b\r\n" % (operation.encode(), only))


def hidden_text(error: bytes) -> bytes:
    """An error without its text: the code word stays (`-WRONGTYPE …`)."""
    code = error.split(b" ", 1)[0]
    if not code.isalpha() or not code.isupper():
        code = b"ERR"
    return printable(code) + b" veil: the text of this error is hidden"
