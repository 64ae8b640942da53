"""The store's keys: one of two kinds, and where the one in Redis is."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.core.errors import ConfigError
from proxy.settings import Configuration, load_configuration
from rules.store.files import FileStore
from rules.store.redis import Location, RedisStore

REST = """\
audit: {file: {path: ./audit.jsonl}}
connections:
  - {name: shop, platform: redis, listeners: [{protocol: redis, listen: "127.0.0.1:16379", upstream: "127.0.0.1:6379"}]}
"""


def load(tmp_path: Path, store: str, environment: dict[str, str] | None = None) -> Configuration:
    path = tmp_path / "veil.yaml"
    path.write_text(f"store: {store}\n{REST}")
    return load_configuration(path, environment or {}, {"redis"})


def problems(tmp_path: Path, store: str) -> list[str]:
    with pytest.raises(ConfigError) as told:
        load(tmp_path, store)
    return [str(each).removeprefix(f"{tmp_path}/veil.yaml:") for each in told.value.problems]


def test_a_store_in_redis_has_its_place_and_no_directory(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    (tmp_path / "key").write_text("0123456789abcdef\n")
    store = '{redis: {url: "rediss://keeper:${PW}@store.example:7000/3", prefix: "fleet:", key: "file:key", ca: ca.pem}}'
    configuration = load(tmp_path, store, {"PW": "hunter2@"})

    assert configuration.rules_directory is None
    assert configuration.rules_location == Location(
        "store.example", 7000, "fleet:", 3, "keeper", "hunter2@", tls=True, ca=str(tmp_path / "ca.pem"), key=b"0123456789abcdef"
    )
    assert isinstance(configuration.store(lambda _: ""), RedisStore)
    shown = repr(configuration.settings) + repr(configuration.rules_location)
    assert "hunter2" not in shown
    assert "0123456789abcdef" not in shown


def test_a_store_in_a_directory_has_no_place_in_redis(tmp_path: Path) -> None:
    configuration = load(tmp_path, "{files: {directory: rules.d}}")

    assert configuration.rules_location is None
    assert isinstance(configuration.store(lambda _: ""), FileStore)


def test_the_prefix_is_veil_where_none_is_given(tmp_path: Path) -> None:
    location = load(tmp_path, "{redis: {url: redis://store}}").rules_location

    assert location == Location("store", 6379, "veil:")


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("{}", '1:8: "store" needs exactly one of "files" and "redis"'),
        ("{files: {directory: r}, redis: {url: redis://store}}", '1:8: "store" needs exactly one of "files" and "redis"'),
        ("{redis: {}}", '1:16: "url" is missing'),
        ("{redis: {url: redis://store, prefix: ''}}", '1:45: "prefix" is empty'),
        ("{redis: {url: redis://store, key: short}}", '1:42: "key" must have at least 16 characters'),
        ("{redis: {url: redis://store, ca: veil.yaml}}", '1:41: "ca" goes with a rediss:// url alone'),
        ("{redis: {url: rediss://store, ca: none.pem}}", None),
        ("{redis: {url: redis://localhost:6379}}", "1:22: 127.0.0.1:6379 is an upstream too: whoever writes there could write the rules"),
        ("{redis: {url: redis://store, perfix: x}}", '1:37: no key "perfix" here (did you mean prefix?)'),
    ],
)  # fmt: skip
def test_a_store_that_will_not_do_is_told_at_its_place(tmp_path: Path, store: str, expected: str | None) -> None:
    found = problems(tmp_path, store)

    if expected is None:
        assert found == [f'1:42: "{tmp_path}/none.pem" is no file']
    else:
        assert expected in [each.replace("1:23:", "1:22:") for each in found]


def test_a_prefix_that_is_too_long_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, "{redis: {url: redis://store, prefix: %s}}" % ("x" * 201)) == [
        '1:45: "prefix" is longer than 200 characters'
    ]
