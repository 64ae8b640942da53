"""Values that must not get out, and the search for them in whatever did.

A value is found whole or in part (any `WINDOW` characters of it), as it is, reversed, in another case, in base64 at
each of its three alignments, in hexadecimal, behind JSON, percent or redis-cli escapes, and as UTF-16.
"""

from __future__ import annotations

import base64
import binascii
import random
import re
import secrets
import string
from collections.abc import Iterable, Iterator
from typing import Protocol

WINDOW = 8  # a partial keeps fewer characters than this in the tests that use canaries

_ESCAPES = re.compile(rb"\\+u([0-9a-fA-F]{4})|\\+x([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})|&#x([0-9a-fA-F]{1,6});|&#([0-9]{1,7});")

_CHAIN = re.compile(rb',"(?:previous|hash)":"[0-9a-f]{64}"')


class CanaryFound(AssertionError):
    """Names the form it was found in and the place, and shows the canary: it is nobody's secret."""


def _unescaped(blob: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        code = match.group(1) or match.group(2) or match.group(3) or match.group(4)
        point = int(code, 16) if code else int(match.group(5))
        return bytes([point]) if point < 0x80 else match.group()

    return _ESCAPES.sub(plain, blob)


def _forms(part: bytes) -> Iterator[tuple[str, bytes]]:
    """The needles of one part, with the name of the form; those compared in lower case are in lower case."""
    text = part.decode()
    yield "plain", part.lower()
    yield "reversed", part[::-1].lower()
    yield "hexadecimal", binascii.hexlify(part)
    yield "UTF-16 LE", text.encode("utf-16-le").lower()
    yield "UTF-16 BE", text.encode("utf-16-be").lower()


def _base64_needles(part: bytes) -> Iterator[bytes]:
    # Characters at the edges depend on what stands beside the part: they are cut off.
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + part)
        first = -(-shift * 8 // 6)
        last = (shift + len(part)) * 8 // 6
        yield coded[first:last]


def assert_no_canary(blob: bytes | str, *canaries: str, where: str = "the blob") -> None:
    """Returns when nothing of any canary is in the blob.

    Raises:
        CanaryFound: something is.
    """
    raw = blob.encode("utf-8", "surrogateescape") if isinstance(blob, str) else bytes(blob)
    views = [("", raw)]
    seen = raw
    for depth in ("escaped ", "twice escaped "):
        seen = _unescaped(seen)
        views.append((depth, seen))
    folded = [(name, view.lower()) for name, view in views]
    url_safe = [(name, view.replace(b"-", b"+").replace(b"_", b"/")) for name, view in views]
    for canary in canaries:
        data = canary.encode()
        parts = {data[at : at + WINDOW] for at in range(max(1, len(data) - WINDOW + 1))}
        for part in parts:
            for form, needle in _forms(part):
                for view, hay in folded:
                    if needle in hay:
                        raise CanaryFound(f"{view}{form}: {part!r} of {canary!r} is in {where} at byte {hay.index(needle)}")
            for needle in _base64_needles(part):
                for view, hay in url_safe:
                    if needle in hay:
                        raise CanaryFound(f"{view}base64: {part!r} of {canary!r} is in {where} at byte {hay.index(needle)}")


class Received(Protocol):
    """A client that keeps what it received."""

    @property
    def received(self) -> bytearray: ...


class Watched(Protocol):
    """A Veil whose outputs can be read."""

    def log(self) -> str: ...
    def page(self, path: str) -> tuple[int, str]: ...
    def audit_bytes(self) -> bytes: ...


class Canary:
    """The canaries of one test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[str] = []

    def text(self) -> str:
        """A new value of letters and digits that stands nowhere else: no part of it is a word or a number."""
        letters = [
            secrets.choice(string.ascii_letters),
            *(secrets.choice(string.ascii_letters + string.digits) for _ in range(27)),
        ]
        return self._kept("".join(letters))

    def number(self, digits: int = 16) -> int:
        """A new number without a leading zero, long enough that no part of it is there by chance."""
        return int(self._kept(str(random.randint(10 ** (digits - 1), 10**digits - 1))))

    def _kept(self, value: str) -> str:
        self.values.append(value)
        return value

    def assert_not_in(self, blob: bytes | str, where: str = "the blob") -> None:
        """Raises CanaryFound when any canary of this test is in the blob."""
        assert_no_canary(blob, *self.values, where=where)

    def assert_nowhere(self, veil: Watched, clients: Iterable[Received] = ()) -> None:
        """The end of a session test: nothing in the log, the metrics, the readiness, the audit file, or at a reader.

        Raises:
            CanaryFound: something is.
        """
        assert self.values, "a test without a canary proves nothing"
        for number, client in enumerate(clients):
            self.assert_not_in(bytes(client.received), f"what reader {number} received")
        self.assert_not_in(veil.log(), "the log")
        # The hashes of the chain are chance: among thousands of them eight digits of a number are found sooner or later.
        self.assert_not_in(_CHAIN.sub(b"", veil.audit_bytes()), "the audit file")
        for page in ("/metrics", "/readyz", "/livez"):
            self.assert_not_in(veil.page(page)[1], page)
