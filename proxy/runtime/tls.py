"""Certificates, keys and authorities out of files, as contexts to make TLS connections with.

Everything here reads files and blocks: it runs before serving begins, or in a thread.
A file is read by `cryptography` first, so that what is wrong can be told in words; OpenSSL has the last one.
"""

from __future__ import annotations

import ssl
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from proxy.core.errors import ProxyError

from .tlsstream import Asked, reason_of

FILE_BYTES = 1024 * 1024  # all authorities of a system are some 200 KiB
NAME_LIMIT = 256  # as names in the config

SOURCES = ("cn", "san:dns", "san:email", "san:uri")
"""Where in a client's certificate the name of its reader may be."""

Part = tuple[str | int, ...]
"""Which of the files: ("pairs", 0, "key"), ("client_ca",), ("ca",), ("pair", "certificate")."""


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: Path
    key: Path
    password: str = field(default="", repr=False)
    """Of the key; empty where it has none."""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What a listener shows its readers, and whom it lets in. The first pair is for whoever asks for no known name."""

    pairs: tuple[Pair, ...]
    client_ca: Path | None = None
    client_required: bool = True
    protocols: tuple[str, ...] = ()
    """For ALPN; none for what has no name there."""

    @property
    def paths(self) -> tuple[Path, ...]:
        listed = [path for pair in self.pairs for path in (pair.certificate, pair.key)]
        return (*listed, *([] if self.client_ca is None else [self.client_ca]))


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """What the upstream must show, and what it is shown. Without `ca` the system's authorities count."""

    ca: Path | None = None
    pair: Pair | None = None
    server_name: str | None = None
    verify: bool = True

    @property
    def paths(self) -> tuple[Path, ...]:
        own = () if self.pair is None else (self.pair.certificate, self.pair.key)
        return own if self.ca is None else (self.ca, *own)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A context, and until when each of its own certificates holds, in seconds since 1970."""

    context: ssl.SSLContext
    expiries: tuple[tuple[Path, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TlsProblem:
    part: Part
    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{_quoted(self.path)} {self.reason}"


class TlsError(ProxyError):
    """Files that will not do; the message names each with the reason, never what is in them."""

    def __init__(self, problems: Sequence[TlsProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def _quoted(path: Path) -> str:
    return '"' + "".join(each if each.isprintable() else "?" for each in str(path)) + '"'


def load_server(files: ServerFiles) -> Loaded:
    """
    Raises:
        TlsError: with everything that is wrong.
    """
    problems: list[TlsProblem] = []
    pairs = [_read_pair(pair, ("pairs", number), problems) for number, pair in enumerate(files.pairs)]
    contexts = [_server_context(files, pair, number, problems) for number, pair in enumerate(files.pairs)]
    if problems:
        raise TlsError(_first_of_each(problems))
    leaves = [leaf for leaf in pairs if leaf is not None]
    _choose_by_name(contexts, leaves)
    return Loaded(contexts[0], tuple(_expiries(files.pairs, leaves)))


def load_client(files: ClientFiles) -> Loaded:
    """
    Raises:
        TlsError: with everything that is wrong.
    """
    problems: list[TlsProblem] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.ca is not None:
        _trust(context, files.ca, ("ca",), problems)
    elif files.verify:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    expiries: tuple[tuple[Path, float], ...] = ()
    if files.pair is not None:
        leaf = _read_pair(files.pair, ("pair",), problems)
        if leaf is not None:
            _load_pair(context, files.pair, ("pair",), problems)
            expiries = tuple(_expiries([files.pair], [leaf]))
    if problems:
        raise TlsError(_first_of_each(problems))
    return Loaded(context, expiries)


def _server_context(files: ServerFiles, pair: Pair, number: int, problems: list[TlsProblem]) -> ssl.SSLContext:
    """A context of its own for each listener and pair, so that no session of one is resumed at another."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if files.protocols:
        context.set_alpn_protocols(list(files.protocols))
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED if files.client_required else ssl.CERT_OPTIONAL
        _trust(context, files.client_ca, ("client_ca",), problems)
        # Whoever is known by a certificate shows it each time: a resumed session would not be looked at again.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    if not any(problem.part[:2] == ("pairs", number) for problem in problems):
        _load_pair(context, pair, ("pairs", number), problems)
    return context


def _choose_by_name(contexts: Sequence[ssl.SSLContext], leaves: Sequence[x509.Certificate]) -> None:
    """Each handshake begins with the first context, and goes on with the one whose certificate bears the name."""
    named = [(context, _server_names(leaf)) for context, leaf in zip(contexts, leaves, strict=True)]
    if len(named) == 1:
        named = []

    def choose(tls: ssl.SSLSocket | ssl.SSLObject, asked: str | None, _: ssl.SSLContext) -> None:
        if isinstance(tls, Asked):
            tls.server_name = asked
        for context, names in named:
            if asked and any(_fits(name, asked) for name in names):
                tls.context = context
                return

    contexts[0].sslobject_class = Asked
    contexts[0].sni_callback = choose


def _fits(name: str, asked: str) -> bool:
    """Whether a certificate's name takes in the one asked for: `*.` stands for one label."""
    name, asked = name.lower().rstrip("."), asked.lower().rstrip(".")
    if name.startswith("*."):
        return asked.partition(".")[2] == name[2:]
    return name == asked


def _server_names(leaf: x509.Certificate) -> list[str]:
    try:
        extension = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return extension.value.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return []  # chosen by nobody's asking; as the first it is the default all the same


def _expiries(pairs: Sequence[Pair], leaves: Sequence[x509.Certificate]) -> Iterator[tuple[Path, float]]:
    for pair, leaf in zip(pairs, leaves, strict=True):
        yield pair.certificate, leaf.not_valid_after_utc.timestamp()


def _read(path: Path) -> bytes:
    """
    Raises:
        ValueError: with the reason.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a file")
        if found.st_size > FILE_BYTES:
            raise ValueError("is larger than 1 MiB")
        return path.read_bytes()
    except OSError as failed:
        raise ValueError(f"cannot be read: {failed.strerror or type(failed).__name__}") from None


def _read_pair(pair: Pair, part: Part, problems: list[TlsProblem]) -> x509.Certificate | None:
    """The certificate, if it can be read and the key belongs to it; else it is told why not."""
    leaf: x509.Certificate | None = None
    found = len(problems)
    try:
        leaf = _read_certificate(_read(pair.certificate))
    except ValueError as wrong:
        problems.append(TlsProblem((*part, "certificate"), pair.certificate, str(wrong)))
    try:
        public = _read_key(_read(pair.key), pair.password)
    except ValueError as wrong:
        problems.append(TlsProblem((*part, "key"), pair.key, str(wrong)))
        return None
    if leaf is None or len(problems) > found:
        return None
    if _public_bytes(leaf) != public:
        reason = f"does not belong to the certificate {_quoted(pair.certificate)}"
        problems.append(TlsProblem((*part, "key"), pair.key, reason))
        return None
    return leaf


def _read_certificate(data: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except Exception:  # noqa: BLE001  the library's exceptions are many, and what they say may quote the file
        raise ValueError("holds no certificate in PEM") from None


def _public_bytes(leaf: x509.Certificate) -> bytes:
    try:
        return leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except Exception:  # noqa: BLE001  a kind of key that the library does not know
        return b""


def _read_key(data: bytes, password: str) -> bytes:
    """The public half of a private key, as it stands in a certificate."""
    try:
        key = load_pem_private_key(data, password.encode() or None)
    except TypeError:  # a password and no lock, or a lock and no password
        raise ValueError(
            "is not encrypted, and there is a key_password" if password else "is encrypted: give key_password"
        ) from None
    except ValueError:
        raise ValueError("holds no private key in PEM" + (" that key_password opens" if password else "")) from None
    except Exception:  # noqa: BLE001  as for certificates, and here what they quote would be a key
        raise ValueError("holds no private key in PEM") from None
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _load_pair(context: ssl.SSLContext, pair: Pair, part: Part, problems: list[TlsProblem]) -> None:
    try:
        # An empty password too is given: without one OpenSSL would ask at the terminal, of a key put there just now.
        context.load_cert_chain(pair.certificate, pair.key, password=pair.password.encode)
    except (OSError, ValueError) as failed:  # OSError: SSLError among them
        reason = f"cannot be used: {reason_of(failed)}"
        problems.append(TlsProblem((*part, "certificate"), pair.certificate, reason))


def _trust(context: ssl.SSLContext, path: Path, part: Part, problems: list[TlsProblem]) -> None:
    try:
        _read(path)
        context.load_verify_locations(cafile=path)
    except ssl.SSLError:
        problems.append(TlsProblem(part, path, "holds no certificate in PEM"))
    except OSError as failed:
        problems.append(TlsProblem(part, path, f"cannot be used: {reason_of(failed)}"))
    except ValueError as wrong:
        problems.append(TlsProblem(part, path, str(wrong)))


def _first_of_each(problems: Sequence[TlsProblem]) -> list[TlsProblem]:
    """Each once: every pair of a listener comes with the same authorities."""
    return list(dict.fromkeys(problems))


def reader_name(certificate: dict[str, object], source: str) -> str | None:
    """The name of the reader in a certificate that was verified, as `SSLObject.getpeercert` gives it.

    None (nobody) where there is no certificate, no such name or more than one, or where the name is one that no
    rule could name: empty, too long, or with a character that cannot be printed.
    """
    found: list[object] = []
    if source == "cn":
        subject = certificate.get("subject", ())
        assert isinstance(subject, tuple)
        found = [value for names in subject for key, value in names if key == "commonName"]
    else:
        wanted = {"san:dns": "DNS", "san:email": "email", "san:uri": "URI"}[source]
        alternatives = certificate.get("subjectAltName", ())
        assert isinstance(alternatives, tuple)
        found = [value for key, value in alternatives if key == wanted]
    if len(found) != 1:
        return None
    name = str(found[0])
    return name if name.strip() and name.isprintable() and len(name) <= NAME_LIMIT else None


def expired(certificate: dict[str, object], now_s: float) -> bool:
    """Whether a certificate that was verified has run out since: a session that is resumed is not verified again."""
    until = certificate.get("notAfter")
    return isinstance(until, str) and ssl.cert_time_to_seconds(until) <= now_s
