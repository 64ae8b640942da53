"""Rules in a Redis of their own: pushed to running Veils, and everything that can befall that server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.cli import main
from rules.store.redis import held, opened
from tests.brokers.faults import Faults, forwarded
from tests.brokers.processes import wait_until
from tests.brokers.redis_server import RedisServer
from tests.brokers.redis_store import NOW, location, push
from tests.brokers.resp_client import RespClient
from tests.brokers.veil import TREE, Veil, VeilFactory
from tests.canary import Canary

from .scenery import ALICE, ELSEWHERE, MASK, SECRET, assert_sound, names

pytestmark = pytest.mark.slow

SOON_S = 3.0
CREATED = "configuration.masking-rule.create"
UPDATED = "configuration.masking-rule.update"
DELETED = "configuration.masking-rule.delete"

Fleet = Callable[..., Veil]


@pytest.fixture
def value(redis_once: RedisServer, canary: Canary) -> bytes:
    """What the broker holds and nobody may see."""
    text = canary.text()
    with redis_once.admin() as direct:
        direct.call("SET", "secret:1", text)
    return text.encode()


@pytest.fixture
def fleet(redis_once: RedisServer, store_server: RedisServer, veil: VeilFactory, value: bytes) -> Fleet:
    """Starts a Veil whose rules are in the store."""

    def begin(*, ready: bool = True, start: bool = True, **store: object) -> Veil:
        told = {"redis": {"url": f"redis://{store_server.address}", **store}}
        one = veil(SECRET, upstream=redis_once, store=told, start=False)
        if start:
            one.start(ready=ready)
        return one

    return begin


def hides(client: RespClient) -> bool:
    return client.call("GET", "secret:1") == MASK


def refused(running: Veil, words: str) -> None:
    """The newest state is refused for that reason, which /readyz tells while it stays ready."""
    wait_until(lambda: words in running.page("/readyz")[1], f"/readyz says {words!r}", 15.0)
    assert running.page("/readyz")[0] == 200


def in_force(running: Veil) -> None:
    wait_until(lambda: '"in force"' in running.page("/readyz")[1], "the rules in force are the newest", 15.0)


def test_a_push_shows_in_the_next_get_of_an_open_connection_before_the_next_poll(
    fleet: Fleet, store_server: RedisServer, canary: Canary, tmp_path: Path
) -> None:
    push(store_server, {"rules.yaml": ELSEWHERE})
    running = fleet(start=False)
    running.start(env={**Faults(tmp_path, TREE).environment, "POLL_OF_A_TEST": "600"})  # so that it is the notice alone
    with running.client() as client:
        assert not hides(client)
        with store_server.admin() as direct:
            wait_until(lambda: direct.call("PUBSUB", "NUMSUB", "veil:changed") == [b"veil:changed", 1], "it listens")
        seen = len(client.received)
        push(store_server, {"rules.yaml": SECRET})
        wait_until(lambda: hides(client), "the next GET shows the new rules", SOON_S)

        push(store_server, {"rules.yaml": SECRET.replace("GDPR", "PCI")})
        wait_until(lambda: bool(names(running, UPDATED)), "the update is in the trail", SOON_S)

    assert seen
    assert names(running, CREATED) == [("store", None, ["Elsewhere"]), ("store", None, ["Secrets"])]
    assert names(running, DELETED) == [("store", None, ["Elsewhere"])]
    canary.assert_not_in(running.log())
    canary.assert_not_in(running.page("/metrics")[1])
    assert_sound(running)


def test_two_veils_on_one_store_come_to_the_same_rules(fleet: Fleet, store_server: RedisServer, canary: Canary) -> None:
    push(store_server, {"rules.yaml": SECRET})
    both = [fleet(), fleet()]
    with both[0].client() as one, both[1].client() as other:
        assert hides(one)
        assert hides(other)
        push(store_server, {"rules.yaml": SECRET.replace("method: redact", "method: partial, keep_first: 1")})

        wait_until(
            lambda: not hides(one) and one.call("GET", "secret:1") == other.call("GET", "secret:1"),
            "both show the same",
            SOON_S,
        )
        canary.assert_nowhere(both[0], [one])
        canary.assert_nowhere(both[1], [other])


def test_with_the_store_gone_at_the_start_everything_is_masked_until_it_is_back(
    fleet: Fleet, store_server: RedisServer, canary: Canary
) -> None:
    store_server.kill()
    running = fleet(ready=False)
    with running.client() as client:
        wait_until(lambda: "cannot be reached" in running.page("/readyz")[1], "/readyz says why", SOON_S)
        assert running.page("/readyz")[0] == 503
        assert hides(client)

        store_server.start()
        push(store_server, {"rules.yaml": SECRET})

        wait_until(lambda: running.page("/readyz")[0] == 200, "it is ready", 10.0)
        assert hides(client)
        canary.assert_nowhere(running, [client])


def test_an_empty_store_at_the_start_masks_everything_and_is_not_ready(
    fleet: Fleet, store_server: RedisServer, canary: Canary
) -> None:
    running = fleet(ready=False)
    with running.client() as client:
        wait_until(lambda: "there is no manifest" in running.page("/readyz")[1], "/readyz says why", SOON_S)
        assert running.page("/readyz")[0] == 503
        assert hides(client)

        push(store_server, {"rules.yaml": "rules: []\n"})

        wait_until(lambda: "does not say that this is meant" in running.page("/readyz")[1], "/readyz says why", SOON_S)
        assert hides(client)
        canary.assert_nowhere(running, [client])


def _flush(server: RedisServer) -> None:
    with server.admin() as direct:
        direct.call("FLUSHALL")


def _fail_over_to_an_empty_one(server: RedisServer) -> None:
    server.kill()
    server.start()


def _restore(server: RedisServer) -> None:
    push(server, {"rules.yaml": ELSEWHERE}, version=_version(server) - 1)


def _another_of_the_same_version(server: RedisServer) -> None:
    push(server, {"rules.yaml": ELSEWHERE}, version=_version(server))


def _version(server: RedisServer) -> int:
    with opened(location(server)) as client:
        snapshot = held(client, location(server)).snapshot
    assert snapshot is not None
    return snapshot.manifest.version


def _half(server: RedisServer) -> None:
    with server.admin() as direct:
        kept = direct.call("GET", "veil:rules.yaml")
        assert isinstance(kept, bytes)
        push(server, {"rules.yaml": ELSEWHERE})
        direct.call("SET", "veil:rules.yaml", kept)


def _wrong_types(server: RedisServer) -> None:
    with server.admin() as direct:
        direct.call("DEL", "veil:manifest")
        direct.call("LPUSH", "veil:manifest", ELSEWHERE)


def _poison(server: RedisServer) -> None:
    push(server, {"rules.yaml": "rules: &a []\n", "more.yaml": "\x00"})


def _empty(server: RedisServer) -> None:
    push(server, {"rules.yaml": "rules: []\n"})


BEFALLS: list[tuple[Callable[[RedisServer], None], str]] = [
    (_flush, "there is no manifest"),
    (_fail_over_to_an_empty_one, "there is no manifest"),
    (_restore, "is older than version"),
    (_another_of_the_same_version, "with other contents"),
    (_half, "the set is not whole"),
    (_wrong_types, "WRONGTYPE"),
    (_poison, "redis:veil:rules.yaml"),
    (_empty, "does not say that this is meant"),
]


def test_what_is_no_decision_leaves_the_rules_in_force_and_a_push_puts_it_right(
    fleet: Fleet, store_server: RedisServer, canary: Canary
) -> None:
    push(store_server, {"rules.yaml": SECRET}, version=NOW)
    running = fleet()
    with running.client() as client:
        for number, (befalls, words) in enumerate(BEFALLS, 1):
            assert hides(client)
            befalls(store_server)
            refused(running, words)
            assert client.pipeline(*[("GET", "secret:1")] * 20) == [MASK] * 20
            assert running.metric("veil_rules_last_reload_successful") == 0.0

            push(store_server, {"rules.yaml": SECRET + "\n" * (number % 2)}, version=NOW + 100 * number)

            in_force(running)
            assert hides(client)
        canary.assert_nowhere(running, [client])
    assert names(running, DELETED) == []


def test_an_empty_set_that_is_meant_unmasks(fleet: Fleet, store_server: RedisServer, value: bytes) -> None:
    push(store_server, {"rules.yaml": SECRET})
    running = fleet()
    with running.client() as client:
        assert hides(client)
        push(store_server, {"rules.yaml": "rules: []\n"}, empty=True)

        wait_until(lambda: client.call("GET", "secret:1") == value, "nothing is masked", SOON_S)
    assert names(running, DELETED) == [("store", None, ["Secrets"])]


def test_a_store_that_freezes_and_thaws_leaves_the_rules_in_force_and_readers_served(
    fleet: Fleet, store_server: RedisServer, canary: Canary
) -> None:
    push(store_server, {"rules.yaml": SECRET})
    running = fleet()
    with running.client() as client:
        store_server.pause()
        for _ in range(20):
            assert hides(client)
        refused(running, "answer")
        store_server.resume()
        in_force(running)
        canary.assert_nowhere(running, [client])


def test_a_signed_set_is_taken_and_one_of_another_hand_is_not(fleet: Fleet, store_server: RedisServer, canary: Canary) -> None:
    key = "a key of the fleet's own"
    push(store_server, {"rules.yaml": SECRET}, key=key.encode())
    running = fleet(key=key)
    with running.client() as client:
        assert hides(client)
        push(store_server, {"rules.yaml": ELSEWHERE})
        refused(running, "is not signed")
        assert hides(client)
        assert key not in running.log()
        canary.assert_nowhere(running, [client])


@pytest.mark.parametrize("tells", [True, False], ids=["a broker without a login", "a broker that wants a login"])
def test_a_store_that_is_the_broker_under_another_name_is_not_read(
    redis_once: RedisServer, veil: VeilFactory, canary: Canary, value: bytes, tells: bool
) -> None:
    push(redis_once, {"rules.yaml": ELSEWHERE})
    redis_once.add_user("reader", "pw")
    if not tells:
        redis_once.close_default()
    # The config cannot tell that these are one server, nor can the address that is reached: the id of its run does,
    # or a connection to the one that shows up at the other.
    with forwarded((redis_once.host, redis_once.port)) as port:
        store = {"redis": {"url": f"redis://reader:pw@127.0.0.1:{port}"}}
        running = veil(SECRET, upstream=redis_once, store=store, start=False)
        running.start(ready=False)
        with running.client() as client:
            wait_until(lambda: "could write the rules" in running.page("/readyz")[1], "/readyz says why", SOON_S)
            assert running.page("/readyz")[0] == 503
            client.login("reader", "pw")
            assert hides(client)
            canary.assert_nowhere(running, [client])
        running.stop()


def test_the_command_pushes_to_a_running_veil_by_its_config(
    fleet: Fleet, store_server: RedisServer, tmp_path: Path, value: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    push(store_server, {"rules.yaml": SECRET, "access.yaml": "users: {}\n"}, version=NOW - 10**9)
    running = fleet()
    with running.client() as client:
        assert hides(client)
        (running.rules_dir / "access.yaml").write_text(ALICE.replace("user: alice", "user: default"))

        assert main(["rules", "diff", "--config", str(running.config_path), str(running.rules_dir)]) == 1
        assert main(["rules", "push", "--config", str(running.config_path), str(running.rules_dir)]) == 0

        said = capsys.readouterr().out
        assert "UNMASKS: created grant of messages.read.unmasked" in said
        wait_until(lambda: bool(names(running, "configuration.masking-access.update")), "the trail tells it", SOON_S)
        in_force(running)
    assert_sound(running)
