"""Manifests: one spelling, a digest over all, a signature that is good for one prefix."""

from __future__ import annotations

import json

import pytest

from rules.store import manifest as module
from rules.store.manifest import Document, Manifest, ManifestError, describe, in_order, parse, render, wrong_name, wrong_set

KEY = b"a key of the fleet's own"
GOOD = Manifest(7, in_order([describe("rules.yaml", b"rules: []\n"), describe("access.yml", b"users: {}\n")]))


def why(data: bytes, key: bytes | None = None, prefix: str = "veil:") -> str:
    with pytest.raises(ManifestError) as told:
        parse(data, prefix, key)
    return told.value.why


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("empty", [False, True])
def test_what_was_rendered_is_parsed(key: bytes | None, empty: bool) -> None:
    manifest = Manifest(GOOD.version, GOOD.documents, empty)

    assert parse(render(manifest, "veil:", key), "veil:", key) == manifest


def test_the_documents_stand_in_the_order_of_their_names() -> None:
    assert [each.name for each in GOOD.documents] == ["access.yml", "rules.yaml"]


@pytest.mark.parametrize(
    "bent",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        render(GOOD, "veil:") + b"\n",
        b" " + render(GOOD, "veil:"),
        render(GOOD, "veil:").replace(b'"version":7', b'"version":8'),
        render(GOOD, "veil:").replace(b'"version":7', b'"version":7.0'),
        render(GOOD, "veil:").replace(b'"version":7', b'"version":true'),
        render(GOOD, "veil:").replace(b'"version":7', b'"version":9,"version":7'),
        render(GOOD, "veil:").replace(b'"empty":false', b'"empty":true'),
        render(GOOD, "veil:").replace(b'"empty":false', b'"empty":0'),
        render(GOOD, "veil:").replace(b'"format":1', b'"format":2'),
        render(GOOD, "veil:").replace(b'"format":1', b'"format":true'),
        render(GOOD, "veil:").replace(b"access.yml", b"accesz.yml"),
        render(GOOD, "veil:").replace(b'"size":10', b'"size":11'),
        render(GOOD, "veil:").replace(b'"size":10', b'"size":"10"'),
        render(GOOD, "veil:").replace(b'"documents":[', b'"documents":[1,'),
        render(GOOD, "veil:").replace(b'"documents":[', b'"documents":{},"x":['),
        render(GOOD, "veil:")[:-1] + b',"hmac":7}',
        render(GOOD, "veil:")[:-1] + b',"more":1}',
        render(GOOD, "veil:")[:-40],
    ],
)
def test_bytes_that_are_not_spelled_as_a_manifest_are_none(bent: bytes) -> None:
    assert bent != render(GOOD, "veil:")
    assert why(bent)


@pytest.mark.parametrize(
    ("version", "documents"),
    [
        (0, GOOD.documents),
        (-1, GOOD.documents),
        (2**53, GOOD.documents),
        (1, tuple(reversed(GOOD.documents))),
        (1, GOOD.documents[:1] * 2),
        (1, (Document("../rules.yaml", "0" * 64, 1),)),
        (1, (Document("rules.yaml", "0" * 64, -1),)),
        (1, (Document("rules.yaml", "0" * 64, 2**30),)),
        (1, tuple(Document(f"r{number:04}.yaml", "0" * 64, 1) for number in range(1001))),
        (1, tuple(Document(f"r{number:04}.yaml", "0" * 64, 4 * 2**20) for number in range(17))),
    ],
)
def test_a_manifest_that_cannot_be_is_refused_however_well_it_is_spelled(version: int, documents: tuple[Document, ...]) -> None:
    manifest = Manifest(version, documents)

    assert wrong_set(manifest)
    assert why(render(manifest, "veil:")) == wrong_set(manifest)


def test_a_manifest_that_is_too_large_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MANIFEST_BYTES", 10)

    assert why(render(GOOD, "veil:")) == "is too large"


def test_with_a_key_only_its_own_signature_for_its_own_prefix_counts() -> None:
    signed = render(GOOD, "veil:", KEY)

    assert why(render(GOOD, "veil:"), KEY) == "is not signed, and the config has a key"
    assert "another key" in why(render(GOOD, "veil:", b"some other key than that"), KEY)
    assert "another key" in why(render(GOOD, "staging:", KEY), KEY)
    assert "another key" in why(signed.replace(b'"hmac":"', b'"hmac":"0'), KEY)
    assert parse(signed, "veil:") == GOOD


def test_a_signature_is_over_every_part() -> None:
    signature = json.loads(render(GOOD, "veil:", KEY))["hmac"]
    for other in (
        Manifest(8, GOOD.documents),
        Manifest(7, GOOD.documents, empty=True),
        Manifest(7, GOOD.documents[:1]),
        Manifest(7, (*GOOD.documents[:1], describe("rules.yaml", b"rules: [ ]\n"))),
    ):
        assert json.loads(render(other, "veil:", KEY))["hmac"] != signature
        assert other.digest != GOOD.digest


@pytest.mark.parametrize(
    "name",
    [
        "",
        "rules",
        "rules.json",
        ".rules.yaml",
        "a/b.yaml",
        "..\\b.yaml",
        "a.test.yaml",
        "a\n.yaml",
        "manifest",
        "x" * 200 + ".yaml",
    ],
)
def test_a_name_that_no_rule_file_has_is_told(name: str) -> None:
    assert wrong_name(name)


@pytest.mark.parametrize("name", ["rules.yaml", "a.yml", "Kunden käufe.yaml", "..yaml.yaml"[1:]])
def test_names_of_rule_files_will_do_unless_they_are_hidden(name: str) -> None:
    assert bool(wrong_name(name)) is name.startswith(".")
