"""The store in Redis on a real server: whole and verified, or not read; never older, never empty by itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.runtime.sameserver import ids_of
from rules.store import redis as module
from rules.store.manifest import Manifest, describe, render
from rules.store.reading import Reading
from rules.store.redis import (
    Held,
    Location,
    LostRaceError,
    RedisStore,
    Server,
    StoreError,
    held,
    next_version,
    opened,
    put,
)
from tests.brokers import mode
from tests.brokers.processes import Process, answers, free_port, wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.redis_store import NOW, location, push
from tests.brokers.resp_client import RespClient

RULES = "rules:\n  - {name: First, platform: redis, resources: [a], mask_all: true}\n"
OTHER = RULES.replace("First", "Second")
KEY = b"a key of the fleet's own"


@pytest.fixture
def direct(store_server: RedisServer) -> Iterator[RespClient]:
    with store_server.admin() as client:
        yield client


def names(reading: Reading) -> list[str]:
    assert [str(each) for each in reading.problems] == []
    assert reading.book is not None
    return [rule.name for rule in reading.book.rules]


def why(reading: Reading) -> str:
    assert reading.book is None
    return "\n".join(map(str, reading.problems))


def test_a_set_that_was_pushed_is_read_file_by_file(store_server: RedisServer) -> None:
    push(store_server, {"b.yaml": OTHER, "a.yml": RULES})
    reading = RedisStore(location(store_server)).read()

    assert names(reading) == ["First", "Second"]
    assert reading.files == 2


def test_a_problem_stands_in_its_document_with_line_and_column(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": "rules:\n  - name: x\n    platfrom: redis\n"})
    reading = RedisStore(location(store_server)).read()

    assert "redis:veil:rules.yaml:3:5: " in why(reading)
    assert reading.settled


def test_where_nothing_was_pushed_nothing_is_read(store_server: RedisServer) -> None:
    reading = RedisStore(location(store_server)).read()

    assert "redis:veil:manifest:1:1: there is no manifest" in why(reading)
    assert not reading.settled


def test_a_look_changes_with_the_set_alone(store_server: RedisServer, direct: RespClient) -> None:
    push(store_server, {"rules.yaml": RULES})
    store = RedisStore(location(store_server))
    first = store.look()
    direct.call("SET", "veil:else", "x")

    assert store.look() == first

    push(store_server, {"rules.yaml": OTHER})
    second = store.look()

    assert second != first

    direct.call("FLUSHALL")

    assert store.look() not in (first, second)


def test_a_newer_set_wins_and_files_that_it_has_not_are_gone(store_server: RedisServer, direct: RespClient) -> None:
    push(store_server, {"rules.yaml": RULES, "more.yaml": OTHER})
    store = RedisStore(location(store_server))
    before = len(names(store.read()))
    push(store_server, {"rules.yaml": OTHER})

    assert (before, names(store.read())) == (2, ["Second"])
    assert direct.call("EXISTS", "veil:more.yaml") == 0


def test_an_older_set_is_refused_and_a_newer_one_taken_later(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": RULES}, version=9)
    store = RedisStore(location(store_server))
    store.read()
    push(store_server, {"rules.yaml": OTHER}, version=8)

    assert "version 8 is older than version 9" in why(store.read())
    assert store.version == 9

    push(store_server, {"rules.yaml": OTHER}, version=10)

    assert names(store.read()) == ["Second"]


def test_one_version_with_other_contents_is_refused_and_with_the_same_taken(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": RULES}, version=9)
    store = RedisStore(location(store_server))
    store.read()
    push(store_server, {"rules.yaml": OTHER}, version=9)

    assert "with other contents" in why(store.read())

    push(store_server, {"rules.yaml": RULES}, version=9)

    assert names(store.read()) == ["First"]


def test_a_flushed_store_is_no_empty_set_and_a_push_after_it_wins(store_server: RedisServer, direct: RespClient) -> None:
    push(store_server, {"rules.yaml": RULES})
    store = RedisStore(location(store_server))
    store.read()
    direct.call("FLUSHALL")

    assert "no rules were pushed here, or they are lost" in why(store.read())

    version = push(store_server, {"rules.yaml": OTHER}, version=next_version(Held(b"", None), NOW + 1))

    assert names(store.read()) == ["Second"]
    assert store.version == version


@pytest.mark.parametrize("text", ["rules: []\n", RULES.replace("mask_all", "enabled: false, mask_all")])
def test_a_set_that_masks_nothing_counts_only_where_its_manifest_says_that_it_is_meant(
    store_server: RedisServer, text: str
) -> None:
    push(store_server, {"rules.yaml": RULES})
    store = RedisStore(location(store_server))
    store.read()
    push(store_server, {"rules.yaml": text})

    assert "does not say that this is meant" in why(store.read())

    push(store_server, {"rules.yaml": text}, empty=True)

    assert store.read().book is not None


POISON: dict[str, tuple[tuple[str | bytes, ...], ...]] = {
    "a document is gone": (("DEL", "veil:rules.yaml"),),
    "a document is another": (("SET", "veil:rules.yaml", OTHER),),
    "a document is cut off": (("SETRANGE", "veil:rules.yaml", "3", "\0"),),
    "a document goes on": (("APPEND", "veil:rules.yaml", "\n"),),
    "a document is a list": (("DEL", "veil:rules.yaml"), ("RPUSH", "veil:rules.yaml", RULES)),
    "a document is a hash": (("DEL", "veil:rules.yaml"), ("HSET", "veil:rules.yaml", "a", RULES)),
    "the manifest is gone": (("DEL", "veil:manifest"),),
    "the manifest is empty": (("SET", "veil:manifest", ""),),
    "the manifest is a hash": (("DEL", "veil:manifest"), ("HSET", "veil:manifest", "version", "99")),
    "the manifest is a stream": (("DEL", "veil:manifest"), ("XADD", "veil:manifest", "*", "version", "99")),
    "the manifest is nonsense": (("SET", "veil:manifest", "{}"),),
    "the manifest is huge": (("SETRANGE", "veil:manifest", "50000000", "x"),),
    "the manifest is of more than was written": (
        (
            "SET",
            "veil:manifest",
            render(Manifest(2**40, (describe("a.yaml", b"x"), describe("rules.yaml", RULES.encode()))), "veil:"),
        ),
    ),
    "half of a transaction": (
        ("SET", "veil:rules.yaml", OTHER),
        ("SET", "veil:more.yaml", RULES),
    ),
    "all keys expire": (("PEXPIRE", "veil:manifest", "1"), ("PEXPIRE", "veil:rules.yaml", "1")),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_set_that_is_not_whole_is_not_read_and_heals(
    store_server: RedisServer, direct: RespClient, poison: tuple[tuple[str | bytes, ...], ...]
) -> None:
    push(store_server, {"rules.yaml": RULES}, version=9)
    fresh, running = RedisStore(location(store_server)), RedisStore(location(store_server))
    running.read()
    for command in poison:
        direct.call(*command)
    if poison[0][0] == "PEXPIRE":
        wait_until(lambda: direct.call("DBSIZE") == 0, "the keys have expired")

    for store in (fresh, running):
        reading = store.read()
        assert why(reading).startswith("redis:veil:")
        assert not reading.settled
    assert running.version == 9

    direct.call("FLUSHALL")
    push(store_server, {"rules.yaml": RULES}, version=9)

    assert names(running.read()) == names(fresh.read()) == ["First"]


def test_a_set_that_keeps_changing_while_it_is_read_is_not_read(
    store_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(store_server, {"rules.yaml": RULES})
    ask: Callable[..., bytes] = module._manifest_bytes

    def replaced(client: object, where: Location) -> bytes:
        answer = ask(client, where)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_manifest_bytes", ask)
            push(store_server, {"rules.yaml": RULES})
        return answer

    monkeypatch.setattr(module, "_manifest_bytes", replaced)

    assert "keeps changing" in why(RedisStore(location(store_server)).read())


def test_a_server_that_is_gone_is_told_polled_less_often_and_found_again(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": RULES})
    store = RedisStore(location(store_server))
    store.read()
    usual = store.poll_s
    store_server.kill()

    assert "the server cannot be reached" in why(store.read())
    assert store.look() == store.look()
    for _ in range(5):
        store.read()
    assert usual < store.poll_s <= module.SLOWEST_POLL_S

    store_server.start()
    push(store_server, {"rules.yaml": RULES})

    assert names(store.read()) == ["First"]
    assert store.poll_s == usual


@pytest.mark.slow
def test_a_server_that_hangs_is_waited_for_for_a_while_alone(
    store_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    push(store_server, {"rules.yaml": RULES})
    store = RedisStore(location(store_server))
    store.read()
    store_server.pause()

    assert "the server does not answer" in why(store.read())

    store_server.resume()

    assert names(store.read()) == ["First"]


def test_a_login_that_is_refused_is_told_without_what_was_sent(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": RULES})
    secret = "hunter2-hunter2"
    where = Location(store_server.host, store_server.port, "veil:", user="nobody", password=secret)
    told = why(RedisStore(where).read())

    assert "refuses the login" in told
    assert secret not in told + repr(where)


def test_a_login_that_may_only_read_is_enough_and_a_command_that_is_not_permitted_is_told(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": RULES})
    store_server.add_user(
        "veil", "pw", "~veil:*", "&veil:*", "+getrange", "+multi", "+exec", "+info", "+ping", "+subscribe", "+unsubscribe"
    )
    store_server.add_user("less", "pw", "~veil:*", "+info", "+ping")

    def of(user: str) -> RedisStore:
        return RedisStore(Location(store_server.host, store_server.port, "veil:", user=user, password="pw"))

    assert names(of("veil").read()) == ["First"]
    assert of("veil").hear() is True
    assert "NOPERM" in why(of("less").read())
    assert of("less").hear() is None


def test_a_server_that_is_not_admitted_is_not_read_and_each_connection_is_asked_about(
    store_server: RedisServer, direct: RespClient
) -> None:
    push(store_server, {"rules.yaml": RULES})
    asked: list[Server] = []
    answers = ["", "it is a broker"]

    def admit(server: Server) -> str:
        asked.append(server)
        return answers[min(len(asked), len(answers)) - 1]

    store = RedisStore(location(store_server), admit)

    assert names(store.read()) == ["First"]

    direct.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    store.look()

    assert "it is a broker" in why(store.read())
    assert {(each.host, each.port) for each in asked} == {(store_server.host, store_server.port)}
    info = direct.call("INFO")
    assert isinstance(info, bytes)
    assert ids_of(asked[0].info) == ids_of(info)


def test_a_server_that_is_found_to_be_a_broker_later_is_not_read_any_more(store_server: RedisServer) -> None:
    push(store_server, {"rules.yaml": RULES})
    listed: list[bytes] = []
    answers = ["", ""]  # at the connection, and at the first look that asks again

    def admit(server: Server) -> str:
        listed.append(server.clients())
        return answers.pop() if answers else "it is a broker"

    store = RedisStore(location(store_server), admit)
    assert names(store.read()) == ["First"]
    seen = [store.look() for _ in range(2 * module.LOOKS_TRUSTED)]

    assert seen[-1] == ("not looked at", "it is a broker")
    assert len(set(seen[:-1])) == 1
    assert "it is a broker" in why(store.read())
    assert len(listed) == 4
    assert all(b" addr=" in each for each in listed)


def test_with_a_key_a_set_that_is_not_signed_by_it_is_not_read(store_server: RedisServer) -> None:
    store = RedisStore(location(store_server, key=KEY))
    push(store_server, {"rules.yaml": RULES})

    assert "is not signed" in why(store.read())

    push(store_server, {"rules.yaml": RULES}, key=b"another key, which is no good")

    assert "is signed with another key" in why(store.read())

    push(store_server, {"rules.yaml": RULES}, key=KEY)

    assert names(store.read()) == ["First"]
    assert names(RedisStore(location(store_server)).read()) == ["First"]


def test_who_loses_a_race_writes_nothing(store_server: RedisServer, direct: RespClient) -> None:
    where = location(store_server)
    with opened(where) as client:
        before = held(client, where)
        push(store_server, {"rules.yaml": RULES})
        with pytest.raises(LostRaceError):
            put(client, where, [("mine.yaml", OTHER.encode())], before, NOW + 5, empty=False)

    assert names(RedisStore(where).read()) == ["First"]
    assert direct.call("EXISTS", "veil:mine.yaml") == 0


def test_who_loses_a_race_inside_the_transaction_writes_nothing(
    store_server: RedisServer, direct: RespClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = location(store_server)
    rendered = render

    def late(*arguments: object) -> bytes:
        direct.call("SET", "veil:manifest", "x")
        return rendered(*arguments)  # type: ignore[arg-type]

    with opened(where) as client:
        before = held(client, where)
        monkeypatch.setattr(module, "render", late)
        with pytest.raises(LostRaceError):
            put(client, where, [("mine.yaml", OTHER.encode())], before, NOW, empty=False)

    assert direct.call("EXISTS", "veil:mine.yaml") == 0


def test_what_cannot_be_a_set_is_not_put(store_server: RedisServer, direct: RespClient) -> None:
    where = location(store_server)
    with opened(where) as client, pytest.raises(StoreError, match="cannot be a rule file"):
        put(client, where, [("../x.yaml", b"")], held(client, where), NOW, empty=False)

    assert direct.call("DBSIZE") == 0


def test_a_server_that_does_not_take_the_push_is_told(store_server: RedisServer, direct: RespClient) -> None:
    push(store_server, {"rules.yaml": RULES})
    direct.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreError, match=r"OOM|EXECABORT|refuses"):
        push(store_server, {"rules.yaml": OTHER})
    direct.call("CONFIG", "SET", "maxmemory", "0")

    assert names(RedisStore(location(store_server)).read()) == ["First"]


@pytest.mark.parametrize(
    ("last", "above", "expected"), [(0, 0, NOW), (NOW, 0, NOW + 1), (NOW + 9, 0, NOW + 10), (3, NOW + 6, NOW + 7)]
)
def test_the_next_version_is_above_all_that_is_known_and_at_least_the_time(last: int, above: int, expected: int) -> None:
    before = Held(b"x", module.Snapshot(Manifest(last, ()), ())) if last else Held(b"", None)

    assert next_version(before, NOW, above) == expected


def test_behind_the_highest_version_there_is_no_other() -> None:
    with pytest.raises(StoreError, match="no higher version"):
        next_version(Held(b"", None), NOW, 2**53)


def test_a_push_is_heard_silence_is_silence_and_a_lost_connection_is_made_again(
    store_server: RedisServer, direct: RespClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAR_S", 0.2)
    store = RedisStore(location(store_server))

    assert store.hear() is True
    assert store.hear() is False
    push(store_server, {"rules.yaml": RULES})
    assert store.hear() is True
    assert store.hear() is False

    direct.call("CLIENT", "KILL", "TYPE", "pubsub")

    wait_until(lambda: store.hear() is True, "it listens again")
    push(store_server, {"rules.yaml": RULES})
    assert store.hear() is True


def test_where_nobody_answers_nothing_is_heard(store_server: RedisServer) -> None:
    store = RedisStore(location(store_server))
    assert store.hear() is True
    store_server.kill()

    assert store.hear() is None
    assert store.hear() is None


def test_a_login_that_may_push_needs_no_more_than_the_page_says(store_server: RedisServer) -> None:
    rights = ["+getrange", "+multi", "+exec", "+info", "+ping", "+set", "+del", "+watch", "+unwatch", "+publish"]
    store_server.add_user("keeper", "pw", "~veil:*", "&veil:*", *rights)
    push(store_server, {"rules.yaml": RULES, "more.yaml": OTHER})
    where = Location(store_server.host, store_server.port, "veil:", user="keeper", password="pw")
    with opened(where) as client:
        put(client, where, [("rules.yaml", OTHER.encode())], held(client, where), NOW + 9, empty=False)

    assert names(RedisStore(where).read()) == ["Second"]


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A server that speaks TLS alone, its port, and the certificate that it shows, for 127.0.0.1."""
    binary, openssl = shutil.which("redis-server"), shutil.which("openssl")
    if binary is None or openssl is None:
        mode.absent("redis", "apt-get install redis-server openssl")
    key, certificate, port = tmp_path / "tls.key", tmp_path / "tls.crt", free_port()
    request = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names_it = ["-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*request, *names_it, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate)]
    command = [binary, "--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", "--save", "", "--dir", str(tmp_path)]
    server = Process([*command, *files], tmp_path / "server.log")
    try:
        wait_until(lambda: answers("127.0.0.1", port) or not server.alive(), "the server answers")
        if not server.alive():
            mode.absent("redis", "a redis-server that was built with TLS")
        yield port, certificate
    finally:
        server.stop()


def test_a_server_whose_certificate_is_not_trusted_gets_no_password_and_is_not_read(tls_server: tuple[int, Path]) -> None:
    port, certificate = tls_server

    def at(host: str, ca: Path | None) -> Location:
        return Location(host, port, "veil:", tls=True, ca=None if ca is None else str(ca))

    trusted = at("127.0.0.1", certificate)
    with opened(trusted) as client:
        put(client, trusted, [("rules.yaml", RULES.encode())], held(client, trusted), NOW, empty=False)

    assert names(RedisStore(trusted).read()) == ["First"]
    assert "certificate is not trusted" in why(RedisStore(at("127.0.0.1", None)).read())
    assert "certificate is not trusted" in why(RedisStore(at("localhost", certificate)).read())
    assert "cannot be reached" in why(RedisStore(Location("127.0.0.1", port, "veil:")).read())
