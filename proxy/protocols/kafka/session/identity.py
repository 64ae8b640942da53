"""Who reads: what SASL says of itself on its way, and the probe that tells whether a login proves anything.

Veil checks no password and keeps none: the broker does, and a name counts from its yes to the last exchange on.
Source: PLAIN RFC 4616, SCRAM RFC 5802 (KIP-84), OAUTHBEARER RFC 7628 (KIP-255), re-authentication KIP-368, delegation
tokens KIP-48.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass

from proxy.core.buffer import Buffer
from proxy.core.errors import WireError
from proxy.core.steps import Probe

from .. import schema, wire

HANDSHAKE, AUTHENTICATE = 17, 36
PLAIN, BEARER = b"PLAIN", b"OAUTHBEARER"
SCRAM = (b"SCRAM-SHA-256", b"SCRAM-SHA-512")
AUTHENTICATION_FAILED = 58
PROBE_VERSION = 1  # of both requests: known since Kafka 2.2, and without tags
TOKEN_BYTES = 64 * 1024
ANSWER_BYTES = 64 * 1024
FAR_AWAY = 4102444800  # the year 2100 in seconds: a probe's token must not fail for its age
VEIL = b"veil"


@dataclass(slots=True)
class Claim:
    """What one exchange of a login would make true if the broker says yes to it."""

    name: str | None
    is_last: Callable[[bytes], bool]
    """Whether the broker's bytes end the login."""


class Login:
    """One SASL exchange, from the handshake that the broker accepted on."""

    def __init__(self, mechanism: bytes, token_claim: str | None) -> None:
        self.mechanism = mechanism
        self._token_claim = token_claim
        self._name: str | None = None
        self._begun = False

    def says(self, token: bytes) -> Claim:
        """What the client's next bytes claim."""
        if self.mechanism == PLAIN:
            return Claim(_plain_name(token), lambda _: True)
        if self.mechanism in SCRAM:
            if not self._begun:
                self._begun = True
                self._name = _scram_name(token)
            return Claim(self._name, lambda said: said.startswith(b"v="))
        if self.mechanism == BEARER:
            if not self._begun:
                self._begun = True
                self._name = None if self._token_claim is None else _token_name(token, self._token_claim)
            return Claim(self._name, lambda said: not said)  # anything else is a challenge that tells of a failure
        return Claim(None, lambda _: True)


def _text(name: bytes) -> str | None:
    """A user name as rules can name it; None for what is not text."""
    try:
        return name.decode("utf-8") or None
    except UnicodeDecodeError:
        return None


def _plain_name(token: bytes) -> str | None:
    parts = token.split(b"\0")
    if len(parts) != 3:
        return None
    acting_as, name, _ = parts
    return _text(name) if acting_as in (b"", name) else None


def _scram_name(token: bytes) -> str | None:
    """The user of a client's first message, `n,,n=user,r=nonce`. With `tokenauth` it names a delegation token, which
    tells of nobody."""
    binding, _, rest = token.partition(b",")
    acting_as, _, bare = rest.partition(b",")
    attributes = bare.split(b",")
    if binding not in (b"n", b"y") or not attributes[0].startswith(b"n="):
        return None
    if any(each.lower().startswith(b"tokenauth") for each in attributes):
        return None
    name = attributes[0][2:]
    if acting_as not in (b"", b"a=" + name):
        return None
    return _text(name.replace(b"=2C", b",").replace(b"=3D", b"="))


def _token_name(token: bytes, claim: str) -> str | None:
    """The claim of the bearer token in `n,a=user,\\x01auth=Bearer TOKEN\\x01\\x01`. The broker verifies it, not Veil: of
    two tokens nobody could tell which one it looks at, and Kafka takes the last."""
    if len(token) > TOKEN_BYTES:
        return None
    fields = [field.partition(b"=") for field in token.split(b"\x01")[1:]]
    tokens = [value for name, _, value in fields if name.strip().lower() == b"auth"]
    if len(tokens) != 1:
        return None
    scheme, _, bearer = tokens[0].partition(b" ")
    parts = bearer.strip().split(b".")
    if scheme.lower() != b"bearer" or len(parts) != 3:
        return None
    try:
        told = json.loads(base64.b64decode(parts[1] + b"=" * (-len(parts[1]) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return None
    found = told.get(claim) if isinstance(told, dict) else None
    return _text(found.encode("utf-8", "surrogatepass")) if isinstance(found, str) else None


def prove(name: str, mechanism: bytes, token_claim: str | None) -> Probe:
    """Asks the broker for the name with a random password, or a token that nobody signed: only its no makes a login
    worth something. With SCRAM the proof is a random one; with an unknown mechanism there is nothing to ask."""
    return Probe(f"user {name}", lambda nonce: _first(name, mechanism, token_claim, nonce), _Verdict(mechanism))


def _question(key: int, field: str, value: bytes) -> bytes:
    return wire.own_request(key, PROBE_VERSION, key, VEIL, {field: value})


def _first(name: str, mechanism: bytes, token_claim: str | None, nonce: str) -> bytes:
    user, chance = name.encode(), nonce.encode()
    if mechanism == PLAIN:
        token = b"\0%b\0%b" % (user, chance)
    elif mechanism in SCRAM:
        token = b"n,,n=%b,r=%b" % (user.replace(b"=", b"=3D").replace(b",", b"=2C"), chance)
    else:
        told = json.dumps({token_claim or "sub": name, "iat": 0, "exp": FAR_AWAY, "jti": nonce}, separators=(",", ":"))
        token = b"n,,\x01auth=Bearer %b.%b.\x01\x01" % (_base64(b'{"alg":"none"}'), _base64(told.encode()))
    return _question(HANDSHAKE, "mechanism", mechanism) + _question(AUTHENTICATE, "auth_bytes", token)


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class _Verdict:
    """Reads what a broker says to a probe: True is a no to the login, which is what is hoped for."""

    def __init__(self, mechanism: bytes) -> None:
        self._mechanism = mechanism
        self._proof_sent = False

    def __call__(self, data: bytes) -> bool | bytes | None:
        try:
            answers = _frames(data)
            if not answers:
                return None
            if _read(HANDSHAKE, answers[0])["error_code"] != 0:
                return False
            said = [_read(AUTHENTICATE, each) for each in answers[1:]]
        except (WireError, LookupError):
            return False
        if not said:
            return None
        last = said[-1]
        if last["error_code"] != 0:
            return bool(last["error_code"] == AUTHENTICATION_FAILED)
        if self._mechanism == BEARER:
            return bool(last["auth_bytes"])  # a challenge that tells of the failure; nothing is a yes
        if self._mechanism not in SCRAM or len(said) > 1:
            return False
        if self._proof_sent:
            return None
        self._proof_sent = True
        return _question(AUTHENTICATE, "auth_bytes", _wrong_proof(last["auth_bytes"] or b"", self._mechanism))


def _wrong_proof(first: bytes, mechanism: bytes) -> bytes:
    """A client's last message to the server's first one, whose proof is made of the nonce."""
    nonce = next((each for each in first.split(b",") if each.startswith(b"r=")), b"r=")
    size = 32 if mechanism == SCRAM[0] else 64
    return b"c=biws,%b,p=%b" % (nonce, base64.b64encode((nonce * size)[-size:]))


def _read(key: int, frame: bytes) -> schema.Message:
    at = wire.response_body_at(frame, key, PROBE_VERSION)
    return schema.response(key, PROBE_VERSION).read(frame, at)


def _frames(data: bytes) -> list[bytes]:
    """The whole frames among what has arrived."""
    buffer, found = Buffer(), []
    buffer.feed(data)
    while True:
        try:
            next(wire.frame(buffer, ANSWER_BYTES))
        except StopIteration as done:
            found.append(done.value)
        else:
            return found
