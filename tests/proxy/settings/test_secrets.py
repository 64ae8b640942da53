"""Secrets of veil.yaml: where they come from, and that nothing that is printed holds one."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from proxy.runtime.secret import RedisUrl, Secret
from proxy.runtime.upstream import Address
from proxy.settings.values import Odd, RedisAt, SecretText, read_redis_url, read_secret, secrets_from

HIDDEN = "hunter2-canary"


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, hide_input_in_errors=True)
    url: RedisAt | None = None
    token: SecretText | None = None


def test_nothing_that_prints_a_secret_shows_it() -> None:
    secret = Secret(HIDDEN)
    url = RedisUrl(Address("h", 1), 0, "me", secret)

    for told in (
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>40}",
        repr([secret]),
        str(url),
        repr(url),
        f"{url}",
        repr(Holder.model_validate({"token": HIDDEN})),
    ):
        assert HIDDEN not in told
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_secret_equals_its_like_and_no_text() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert hash(Secret("a")) == hash(Secret("a"))


def test_a_secret_is_taken_from_the_file_a_variable_or_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{HIDDEN}\n")
    with secrets_from({"TOKEN": HIDDEN}, tmp_path):
        for written in (HIDDEN, "${TOKEN}", "file:token", f"file:{tmp_path}/token"):
            assert read_secret(written).reveal() == HIDDEN
        assert read_secret("a-${TOKEN}").reveal() == f"a-{HIDDEN}"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("${NONE}", "variable NONE, which is not set"),
        ("${EMPTY}", "variable EMPTY, which is empty"),
        ("file:none", "cannot be read: No such file"),
        ("file:", "names no file"),
        ("file:nul\0", "cannot be read"),
        ("file:.", "cannot be read: Is a directory"),
        ("file:blank", "is empty"),
        ("file:bytes", "not text"),
        ("file:lines", "holds a character"),
        ("file:long", "too long"),
        ("", "is empty"),
        (7, "must be text"),
        (Odd(HIDDEN), "must be text"),
    ],
)
def test_a_secret_that_cannot_be_had_is_told_without_it(tmp_path: Path, written: object, expected: str) -> None:
    (tmp_path / "blank").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff" + HIDDEN.encode())
    (tmp_path / "lines").write_text(f"{HIDDEN}\n{HIDDEN}\n")
    (tmp_path / "long").write_text(HIDDEN * 10_000)
    with secrets_from({"EMPTY": ""}, tmp_path), pytest.raises(ValueError) as caught:
        read_secret(written)

    assert expected in str(caught.value)
    assert HIDDEN not in str(caught.value)


def test_outside_of_a_config_no_variable_is_known() -> None:
    with secrets_from({"TOKEN": "x"}, Path()):
        pass
    with pytest.raises(ValueError, match="not set"):
        read_secret("${TOKEN}")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("redis://127.0.0.1", RedisUrl(Address("127.0.0.1", 6379))),
        ("redis://h:1/15", RedisUrl(Address("h", 1), 15)),
        ("rediss://[::1]:6390/", RedisUrl(Address("::1", 6390), tls=True)),
        ("redis://:pass@h", RedisUrl(Address("h", 6379), password=Secret("pass"))),
        ("redis://me:p%40ss@h", RedisUrl(Address("h", 6379), user="me", password=Secret("p@ss"))),
    ],
)
def test_a_redis_url_is_taken_apart(written: str, expected: RedisUrl) -> None:
    assert read_redis_url(written) == expected


def test_a_password_cannot_end_its_part_of_the_url() -> None:
    with secrets_from({"PASS": "a@evil:1/2?x#%41"}, Path()):
        url = read_redis_url("redis://me:${PASS}@h:7/3")

    assert url == RedisUrl(Address("h", 7), 3, "me", Secret("a@evil:1/2?x#%41"))


def test_a_whole_url_may_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    text = f"redis://me:{HIDDEN}@h:7/3"
    (tmp_path / "url").write_text(text + "\n")
    with secrets_from({"URL": text}, tmp_path):
        assert read_redis_url("${URL}") == read_redis_url("file:url") == RedisUrl(Address("h", 7), 3, "me", Secret(HIDDEN))


@pytest.mark.parametrize(
    "written",
    ["h:1", "http://h", "redis://", "redis://h:x", "redis://h:0", "redis://h:99999", "redis://h/a", "redis://h/-1", "redis://h/99999999999",
     "redis://h?db=1", "redis://h#1", "redis://me@h", "redis://a b", "redis://[::1", "redis://:%ff@h", "unix:///s", f"redis://h:{HIDDEN}"],
)  # fmt: skip
def test_what_is_no_redis_url_is_refused_and_not_repeated(written: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"url": written.replace("//h", f"//:{HIDDEN}@h")})

    assert "must be redis://" in str(caught.value)
    assert HIDDEN not in str(caught.value)


def test_a_url_may_be_copied() -> None:
    url = RedisUrl(Address("h", 1), 0, "me", Secret("a"))

    assert copy.copy(url) == url
    assert copy.deepcopy(url) == url
