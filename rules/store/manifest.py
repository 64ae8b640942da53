"""The manifest of a rule set that is kept as single documents: which documents, their digests, and a version.

As a store holds it, on one line:

    {"format":1,"version":12,"empty":false,"documents":[{"name":"rules.yaml","sha256":"…","size":120}],"sha256":"…"}

`sha256` is over all before it, so two manifests of one version with different contents can be told apart; `hmac` stands
behind it where the set is signed. There is one spelling of a manifest: bytes that differ from it are none.

No I/O, and no clock: whoever pushes says which version is next.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass

from .document import MAX_BYTES
from .reading import MAX_FILES, MAX_TOTAL_BYTES, is_rule_file

FORMAT = 1
MAX_MANIFEST_BYTES = 512 * 1024  # a thousand documents with the longest names
MAX_VERSION = 2**53 - 1  # what every reader of JSON keeps exactly
NAME_BYTES = 200
KEY_BYTES = 16  # a shorter key could be guessed from one manifest


class ManifestError(Exception):
    """Bytes that are no manifest, or one that may not count; `why` completes "the manifest …"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`empty` is the decision that a set which masks nothing is meant. `documents` are in the order of their names."""

    version: int
    documents: tuple[Document, ...]
    empty: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(_body(self).encode("ascii")).hexdigest()


def describe(name: str, data: bytes) -> Document:
    return Document(name, hashlib.sha256(data).hexdigest(), len(data))


def wrong_name(name: str) -> str:
    """Why a document may not be called so; empty where it may. A name becomes a file's name at a pull."""
    if "/" in name or "\\" in name or not name.isprintable():
        return "is not the name of a file"
    if not is_rule_file(name):
        return "is not the name of a rule file (*.yaml, *.yml)"
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        return f"is longer than {NAME_BYTES} bytes"
    return ""


def wrong_set(manifest: Manifest) -> str:
    """Why a manifest cannot be, apart from its spelling; empty where it can."""
    names = [each.name for each in manifest.documents]
    if not 1 <= manifest.version <= MAX_VERSION:
        return "has a version out of range"
    if names != sorted(set(names), key=_order):
        return "does not list its documents in order, each once"
    if len(names) > MAX_FILES:
        return f"lists more than {MAX_FILES} documents"
    if any(wrong_name(name) for name in names):
        return "names a document that cannot be a rule file"
    sizes = [each.size for each in manifest.documents]
    if any(not 0 <= size <= MAX_BYTES for size in sizes) or sum(sizes) > MAX_TOTAL_BYTES:
        return "lists documents that are too large"
    return ""


def in_order(documents: Iterable[Document]) -> tuple[Document, ...]:
    return tuple(sorted(documents, key=lambda each: _order(each.name)))


def _order(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def render(manifest: Manifest, prefix: str, key: bytes | None = None) -> bytes:
    """The manifest's bytes, signed where there is a key. A signature is good under one prefix only."""
    return _render(manifest, None if key is None else _signature(manifest, prefix, key))


def parse(data: bytes, prefix: str, key: bytes | None = None) -> Manifest:
    """The manifest that the bytes are. With a key only a signed one counts; without, a signature says nothing.

    Raises:
        ManifestError: they are none, or the signature is missing or wrong.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError("is too large")
    manifest, signature = _taken_apart(data)
    if _render(manifest, signature) != data:
        raise ManifestError("is not one that veil wrote: its digest or its spelling does not fit")
    wrong = wrong_set(manifest)
    if wrong:
        raise ManifestError(wrong)
    if key is None:
        return manifest
    if signature is None:
        raise ManifestError("is not signed, and the config has a key")
    if not hmac.compare_digest(signature, _signature(manifest, prefix, key)):
        raise ManifestError("is signed with another key, or for another prefix")
    return manifest


def _taken_apart(data: bytes) -> tuple[Manifest, str | None]:
    bad = ManifestError("is not one that veil wrote")
    try:
        told = json.loads(data.decode("ascii"))
    except (ValueError, RecursionError):
        raise bad from None
    if not isinstance(told, dict) or type(told.get("version")) is not int or not isinstance(told.get("documents"), list):
        raise bad
    if told.get("format") != FORMAT:
        raise ManifestError("is of another format than this version of veil reads")
    documents: list[Document] = []
    for each in told["documents"]:
        if not isinstance(each, dict):
            raise bad
        name, digest, size = each.get("name"), each.get("sha256"), each.get("size")
        if not isinstance(name, str) or not isinstance(digest, str) or type(size) is not int:
            raise bad
        documents.append(Document(name, digest, size))
    signature = told.get("hmac")
    if not isinstance(signature, str | None) or not (signature is None or signature.isascii()):
        raise bad
    return Manifest(told["version"], tuple(documents), told.get("empty") is True), signature


def _render(manifest: Manifest, signature: str | None) -> bytes:
    signed = "" if signature is None else f',"hmac":{_dump(signature)}'
    return f'{_body(manifest)},"sha256":"{manifest.digest}"{signed}}}'.encode("ascii")


def _body(manifest: Manifest) -> str:
    """All but the digest, and without the last brace."""
    told = {
        "format": FORMAT,
        "version": manifest.version,
        "empty": manifest.empty,
        "documents": [{"name": each.name, "sha256": each.sha256, "size": each.size} for each in manifest.documents],
    }
    return _dump(told)[:-1]


def _dump(told: object) -> str:
    return json.dumps(told, ensure_ascii=True, separators=(",", ":"))


def _signature(manifest: Manifest, prefix: str, key: bytes) -> str:
    signed = prefix.encode("utf-8", "surrogatepass") + b"\0" + _body(manifest).encode("ascii")
    return hmac.new(key, signed, hashlib.sha256).hexdigest()
