"""Where veil.yaml may want the trail: exactly one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.app import trail_of
from proxy.core.errors import ConfigError
from proxy.runtime.trail.stream import StreamTrail
from tests.proxy.test_settings import GOOD, load, problems

FILE = "  file: {path: ./audit.jsonl}\n"


def test_the_trail_may_be_a_stream_whose_url_keeps_its_secret(tmp_path: Path) -> None:
    text = GOOD.replace(FILE, '  redis: {url: "redis://veil:${PASS}@h:7/3"}\n')
    configuration = load(tmp_path, text, {"PASS": "hunter2"})

    redis = configuration.settings.audit.redis
    assert redis is not None
    assert (redis.stream, str(redis.url)) == ("veil:audit", "redis://h:7/3")
    assert redis.url.password is not None
    assert redis.url.password.reveal() == "hunter2"
    trail = trail_of(configuration)
    assert isinstance(trail, StreamTrail)
    for told in (repr(configuration.settings), trail.where, repr(vars(trail))):
        assert "hunter2" not in told


def test_a_secret_of_an_override_is_taken_too(tmp_path: Path) -> None:
    text = GOOD.replace(FILE, "  redis: {stream: s}\n")
    redis = load(tmp_path, text, {"VEIL_AUDIT__REDIS__URL": "redis://:hunter2@h"}).settings.audit.redis

    assert redis is not None
    assert redis.url.password is not None
    assert "hunter2" not in repr(redis)


@pytest.mark.parametrize(
    "written",
    [FILE + "  redis: {url: redis://h}\n", "  {}\n"],
)
def test_both_places_or_none_is_an_error(tmp_path: Path, written: str) -> None:
    (found,) = problems(tmp_path, GOOD.replace(FILE, written))

    assert found.endswith('"audit" needs exactly one of "file" and "redis"')


def test_a_url_that_is_wrong_is_not_repeated(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace(FILE, "  redis: {url: http://hunter2@h}\n"))

    assert [problem for problem in found if '"url" must be redis://' in problem]
    assert "hunter2" not in str(found)
    with pytest.raises(ConfigError, match="variable NONE, which is not set"):
        load(tmp_path, GOOD.replace(FILE, '  redis: {url: "${NONE}"}\n'))


def test_certificates_that_are_trusted_start_from_the_folder_of_the_config(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    configuration = load(tmp_path, GOOD.replace(FILE, "  redis: {url: rediss://h, ca: ca.pem}\n"))

    redis = configuration.settings.audit.redis
    assert redis is not None
    assert configuration.redis_at(redis).ca == str(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{url: redis://h, ca: ca.pem}", '"ca" goes with a rediss:// url alone'),
        ("{url: rediss://h, ca: none.pem}", 'none.pem" is no file'),
    ],
)
def test_certificates_without_tls_or_without_a_file_are_an_error(tmp_path: Path, written: str, expected: str) -> None:
    (tmp_path / "ca.pem").touch()
    (found,) = problems(tmp_path, GOOD.replace(FILE, f"  redis: {written}\n"))

    assert found.endswith(expected)
