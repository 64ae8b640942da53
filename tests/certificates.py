"""Authorities and certificates made on the spot, as files of a test's own folder."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Made:
    """A certificate and its key as files."""

    certificate: Path
    key: Path

    def as_config(self) -> dict[str, object]:
        return {"certificate": str(self.certificate), "key": str(self.key)}


def write_key(key: ec.EllipticCurvePrivateKey, path: Path, password: str = "") -> None:
    lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))


def alternative(spelled: str) -> x509.GeneralName:
    """`dns:x`, `ip:x`, `email:x`, `uri:x`."""
    kind, _, value = spelled.partition(":")
    match kind:
        case "dns":
            return x509.DNSName(value)
        case "ip":
            return x509.IPAddress(ipaddress.ip_address(value))
        case "email":
            return x509.RFC822Name(value)
        case _:
            return x509.UniformResourceIdentifier(value)


class Authority:
    """Signs certificates; its own is in `path`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {name}")])
        self.path = folder / f"{name}.crt"
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key(), x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 365 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path.write_bytes(made.public_bytes(Encoding.PEM))

    def make(
        self,
        name: str,
        *alternatives: str,
        common: Sequence[str] | None = None,
        days: float = 90,
        password: str = "",
    ) -> Made:
        """`name`.crt and `name`.key, written anew if they are there. `common` are the common names, else `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [name] if common is None else list(common)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in names])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - 400 * DAY)
            .not_valid_after(now + days * DAY)
        )
        if alternatives:
            listed = x509.SubjectAlternativeName([alternative(each) for each in alternatives])
            builder = builder.add_extension(listed, critical=not names)
        made = Made(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        write_key(key, made.key, password)
        made.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return made

    def server(self, name: str = "server", *more: str, days: float = 90) -> Made:
        """A certificate for 127.0.0.1 and localhost."""
        return self.make(name, "dns:localhost", "ip:127.0.0.1", *more, days=days)
