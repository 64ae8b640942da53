"""TLS on both sides of Veil, with a real Redis that speaks it and the clients that people use."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
import trio

from proxy.runtime.tlsstream import TlsStream
from tests.brokers.processes import wait_until
from tests.brokers.resp_client import Fault, encode
from tests.brokers.tls import TlsClient, TlsRedis, client_context, s_client
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary
from tests.certificates import Authority

from .scenery import ALICE, MASK, PASSWORD, SECRET, UNMASKED, assert_sound, names, put_secret

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def _server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsRedis]:
    server = TlsRedis(tmp_path_factory.mktemp("tls-redis"), authority, authority.server("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(_server: TlsRedis) -> Iterator[TlsRedis]:
    yield _server
    _server.reset()


@pytest.fixture
def secret(server: TlsRedis, canary: Canary) -> bytes:
    """A value under a key that the rule covers."""
    value = canary.text().encode()
    server.add_user("alice", PASSWORD)
    put_secret(server, value)
    return value


def to_server(authority: Authority, **more: object) -> dict[str, object]:
    return {"ca": str(authority.path), **more}


class Front:
    """A Veil with TLS on both sides, whose listener's files lie in a folder of its own."""

    def __init__(
        self, veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, **more: dict[str, object]
    ) -> None:
        self.authority = authority
        self.own = Authority(folder, "own")
        self.made = self.own.server()
        tls = {**self.made.as_config(), **more.get("tls", {})}
        upstream_tls = more.get("upstream_tls", to_server(authority))
        self.veil: Veil = veil(
            SECRET,
            ALICE,
            upstream=f"localhost:{server.tls_port}",
            listener={"tls": tls, "upstream_tls": upstream_tls},
            connection=more.get("connection", {}),
            **more.get("config", {}),
        )

    def client(self, context: ssl.SSLContext | None = None, name: str = "localhost") -> TlsClient:
        return TlsClient(self.veil.host, self.veil.port, context or client_context(self.own), name)

    def logged(self, text: str) -> bool:
        return text in self.veil.log()


@pytest.fixture(scope="module")
def _front(authority: Authority, _server: TlsRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """One running Veil for the tests that need nothing of their own."""
    folder = tmp_path_factory.mktemp("front")
    (folder / "tls").mkdir()

    def begin(rules: str, access: str, *, upstream: str, **settings: object) -> Veil:
        one = Veil(folder, rules, access, upstream, settings)
        one.start()
        return one

    front = Front(begin, authority, _server, folder / "tls")
    yield front
    front.veil.end()


@pytest.fixture
def front(_front: Front, server: TlsRedis) -> Front:
    return _front


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tls"
    made.mkdir()
    return made


@pytest.mark.parametrize("version", [2, 3])
def test_inside_tls_a_value_is_masked_and_shown_to_whoever_may(
    front: Front, server: TlsRedis, canary: Canary, secret: bytes, version: int
) -> None:
    before = len(names(front.veil, UNMASKED))
    with front.client() as nobody, front.client() as alice:
        assert nobody.call("GET", "secret:1") == MASK
        assert isinstance(nobody.call("STRLEN", "secret:1"), Fault)
        alice.login("alice", PASSWORD, version=version)

        assert alice.call("GET", "secret:1") == secret  # so that the probe of the name travelled by TLS too
        canary.assert_nowhere(front.veil, [nobody])
    assert names(front.veil, UNMASKED)[before:] == [("alice", {"key": "secret:1"}, ["Secrets"])]
    assert front.veil.metric("veil_tls_certificate_expiry_timestamp_seconds", connection="shop", platform="redis")
    assert_sound(front.veil)


def test_large_values_and_long_pipelines_pass_whole(front: Front, server: TlsRedis, canary: Canary, secret: bytes) -> None:
    large = bytes(range(256)) * 20_000
    with front.client() as client:
        assert client.call("SET", "free", large) == b"OK"
        assert client.call("GET", "free") == large
        replies = client.pipeline(*(("ECHO", number) for number in range(2000)), ("GET", "secret:1"))

        assert replies == [*(b"%d" % number for number in range(2000)), MASK]
        canary.assert_nowhere(front.veil, [client])


def test_redis_cli_and_redis_py_speak_tls_to_it(front: Front, server: TlsRedis, canary: Canary, secret: bytes) -> None:
    port, ca = front.veil.port, str(front.own.path)
    binary = shutil.which("redis-cli")
    assert binary is not None
    cli = subprocess.run(
        [binary, "-h", "localhost", "-p", str(port), "--tls", "--cacert", ca, "GET", "secret:1"],
        capture_output=True,
        timeout=20,
    )
    assert (cli.stdout.strip(), cli.stderr) == (MASK, b"")
    client = redis_py.Redis("localhost", port, ssl=True, ssl_ca_certs=ca)
    try:
        assert client.get("secret:1") == MASK
        assert client.ping()
    finally:
        client.close()

    canary.assert_not_in(cli.stdout + cli.stderr)
    canary.assert_nowhere(front.veil)


def test_versions_before_1_2_are_refused(front: Front, server: TlsRedis, canary: Canary, secret: bytes) -> None:

    def said(version: str) -> tuple[int, bytes]:
        done = s_client(front.veil.port, front.own, version, "-cipher", "DEFAULT@SECLEVEL=0", stdin=b"GET secret:1\r\nQUIT\r\n")
        canary.assert_not_in(done.stdout + done.stderr)
        return done.returncode, done.stdout + done.stderr

    assert b"alert protocol version" in said("-tls1_1")[1]
    assert b"alert protocol version" in said("-tls1")[1]
    for version in ("-tls1_2", "-tls1_3"):
        code, output = said(version)
        assert code == 0
        assert b"Verification: OK" in output or b"Verify return code: 0" in output
    assert front.logged('"reason":"unsupported protocol"')
    canary.assert_nowhere(front.veil)


async def test_replies_still_arrive_after_the_reader_has_said_goodbye(
    front: Front, server: TlsRedis, canary: Canary, secret: bytes
) -> None:
    plain = await trio.open_tcp_stream(front.veil.host, front.veil.port)
    stream = TlsStream(plain, client_context(front.own), server_side=False, server_name="localhost")
    got = b""
    with trio.fail_after(10):
        await stream.handshake()
        await stream.send_all(encode("GET", "secret:1") + encode("ECHO", "last"))
        await stream.send_eof()
        while data := await stream.receive_some():
            got += data
        await stream.aclose()

    assert got == b"$12\r\n%b\r\n$4\r\nlast\r\n" % MASK
    canary.assert_nowhere(front.veil)


def test_an_end_on_veil_s_side_is_said_with_a_goodbye(front: Front, server: TlsRedis, canary: Canary, secret: bytes) -> None:
    with front.client() as client:
        client.pipeline(("ECHO", 1), ("GET", "secret:1"))
        assert isinstance(client._socket, ssl.SSLSocket)
        client.send("QUIT")
        assert client.everything().endswith(b"+OK\r\n")
        client._plain = client._socket.unwrap()  # raises after an end without a goodbye
        client._plain.close()
        canary.assert_nowhere(front.veil, [client])


def test_plain_bytes_on_a_tls_port_get_no_answer_and_a_line_in_the_log(
    front: Front, server: TlsRedis, canary: Canary, secret: bytes
) -> None:
    with front.veil.client() as plain:
        plain.send("GET", "secret:1")
        assert plain.everything() == b""
        canary.assert_nowhere(front.veil, [plain])

    wait_until(lambda: front.logged('"reason":"not TLS"'), "the reason")


def test_a_handshake_that_freezes_holds_nobody_up_and_ends_in_time(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    front = Front(veil, authority, server, folder, config={"limits": {"login_timeout": "1s"}})
    frozen = [socket.create_connection((front.veil.host, front.veil.port), timeout=5) for _ in range(20)]
    for each in frozen:
        each.sendall(b"\x16\x03\x01\x02\x00\x01")
    with front.client() as client:
        assert client.call("GET", "secret:1") == MASK
        for each in frozen:
            assert each.recv(100) == b""
            each.close()
        canary.assert_nowhere(front.veil, [client])

    assert front.logged('"reason":"the handshake took too long"')


def test_a_certificate_is_chosen_by_the_name_that_is_asked_for(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    own = Authority(folder, "several")
    pairs = [own.server("first"), own.make("second", "dns:second.test"), own.make("third", "dns:*.third.test")]
    running = veil(
        SECRET,
        ALICE,
        upstream=f"localhost:{server.tls_port}",
        listener={"tls": {"certificates": [pair.as_config() for pair in pairs]}, "upstream_tls": to_server(authority)},
    )
    seen = {}
    for asked in ("localhost", "second.test", "a.third.test"):
        with TlsClient(running.host, running.port, client_context(own), asked) as client:
            assert client.call("GET", "secret:1") == MASK
            seen[asked] = client.shown
            canary.assert_nowhere(running, [client])
    odd = s_client(running.port, own, "-servername", "\udcff\udcfe")  # bytes that are no name

    assert len(set(seen.values())) == 3
    assert b"alert" in odd.stderr
    wait_until(lambda: '"event":"tls-handshake-failed"' in running.log(), "the refusal")
    assert [line for line in running.log().splitlines() if not line.startswith("{")] == []


def test_only_clients_of_the_authority_are_let_in(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    clients, strangers = Authority(folder, "clients"), Authority(folder, "strangers")
    front = Front(veil, authority, server, folder, tls={"client_ca": str(clients.path)})

    for own in (None, strangers.make("alice"), clients.make("late", days=-1)):
        with pytest.raises((ssl.SSLError, EOFError, ConnectionError)), front.client(client_context(front.own, own)) as refused:
            refused.call("GET", "secret:1")
    with front.client(client_context(front.own, clients.make("bob"))) as bob:
        assert bob.call("GET", "secret:1") == MASK
        canary.assert_nowhere(front.veil, [bob])

    for reason in ("peer did not return a certificate", "certificate not accepted: ", "certificate has expired"):
        wait_until(lambda reason=reason: front.logged(reason), reason)  # type: ignore[misc]


def test_whoever_is_known_by_a_certificate_stays_who_it_is_whatever_it_logs_in_as(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    clients = Authority(folder, "clients")
    tls: dict[str, object] = {"client_ca": str(clients.path), "client_certificates": "optional"}
    front = Front(veil, authority, server, folder, tls=tls, connection={"reader": {"from": "certificate"}})

    def client(*common: str) -> TlsClient:
        own = clients.make("client", common=common) if common else None
        return front.client(client_context(front.own, own))

    with client("alice") as alice:
        assert alice.call("GET", "secret:1") == secret
        assert alice.call("RESET") == b"RESET"
        assert alice.call("GET", "secret:1") == secret
    for others in ((), ("mallory",), ("alice", "alice"), ("alice\n",), ("Alice",)):
        with client(*others) as other:
            assert other.login("alice", PASSWORD) != []
            assert other.call("AUTH", "alice", PASSWORD) == b"OK"
            assert other.call("GET", "secret:1") == MASK
            assert isinstance(other.call("EVAL", "return 1", 0), Fault)
            canary.assert_nowhere(front.veil, [other])
    assert [who for who, _, _ in names(front.veil, UNMASKED)] == ["alice", "alice"]
    assert "fixed-reader" not in front.veil.log()
    assert_sound(front.veil)


def test_a_chosen_alternative_name_says_who_reads(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    clients = Authority(folder, "clients")
    reader = {"from": "certificate", "name": "san:dns"}
    front = Front(veil, authority, server, folder, tls={"client_ca": str(clients.path)}, connection={"reader": reader})
    with front.client(client_context(front.own, clients.make("x", "dns:alice", "email:x@y.test"))) as alice:
        assert alice.call("GET", "secret:1") == secret
    for alternatives in (("dns:alice", "dns:bob"), ("email:alice@y.test",), ()):
        with front.client(client_context(front.own, clients.make("alice", *alternatives))) as other:
            assert other.call("GET", "secret:1") == MASK
            canary.assert_nowhere(front.veil, [other])


def test_a_new_certificate_is_shown_to_new_readers_and_the_old_ones_stay(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    front = Front(veil, authority, server, folder)
    stop, wrong, counts = threading.Event(), [], [0, 0, 0]

    def load(number: int) -> None:
        with front.client() as client:
            while not stop.is_set():
                if client.pipeline(("GET", "secret:1"), ("ECHO", number)) != [MASK, b"%d" % number]:
                    wrong.append(number)
                counts[number] += 1

    def shown() -> str:
        with front.client() as client:
            assert client.call("PING") == b"PONG"
            return client.shown

    threads = [threading.Thread(target=load, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    seen = [shown()]
    for _ in range(2):
        front.own.server()
        wait_until(lambda: shown() != seen[-1], "the new certificate", 10)
        seen.append(shown())
        before = list(counts)
        wait_until(lambda: all(now > old for now, old in zip(counts, before, strict=True)), "living connections go on")  # noqa: B023
    stop.set()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert len(set(seen)) == 3
    canary.assert_nowhere(front.veil)


def test_a_bad_new_certificate_leaves_the_old_and_is_told(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    front = Front(veil, authority, server, folder)
    with front.client() as client:
        before = client.shown
    good = front.made.key.read_bytes()
    front.made.key.write_text("-----BEGIN PRIVATE KEY-----\nTk9UQUtFWQ==\n-----END PRIVATE KEY-----\n")
    wait_until(lambda: "holds no private key in PEM" in front.veil.page("/readyz")[1], "readyz tells")
    with front.client() as client:
        assert client.shown == before
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(front.veil, [client])
    assert front.veil.page("/readyz")[0] == 200
    assert front.logged('"event":"tls-files-refused"')
    front.made.key.write_bytes(good)
    front.veil.signal(signal.SIGHUP)
    wait_until(lambda: "holds no private key" not in front.veil.page("/readyz")[1], "it is well again")
    assert "Tk9UQUtFWQ" not in front.veil.log()


def test_an_upstream_that_cannot_be_verified_gets_nothing(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    strangers = Authority(folder, "strangers")
    refused: list[dict[str, object]] = [{"ca": str(strangers.path)}, {}, to_server(authority, server_name="elsewhere.test")]
    for number, tls in enumerate(refused):
        (folder / str(number)).mkdir()
        front = Front(veil, authority, server, folder / str(number), upstream_tls=tls)
        with front.client() as client:
            client.send("AUTH", "alice", PASSWORD)
            assert client.everything() == b""
            canary.assert_nowhere(front.veil, [client])
        assert front.logged("TLS: certificate not accepted: ")


def test_an_upstream_that_speaks_no_tls_gets_nothing(
    veil: VeilFactory, authority: Authority, server: TlsRedis, canary: Canary, secret: bytes
) -> None:
    running = veil(SECRET, ALICE, upstream=server, listener={"upstream_tls": to_server(authority)})
    with running.client() as client:
        client.send("GET", "secret:1")
        assert client.everything() == b""
        canary.assert_nowhere(running, [client])
    assert "upstream-unreachable" in running.log()


def test_verification_is_left_out_only_with_a_loud_warning(
    veil: VeilFactory, authority: Authority, server: TlsRedis, folder: Path, canary: Canary, secret: bytes
) -> None:
    front = Front(veil, authority, server, folder, upstream_tls={"verify": False})
    with front.client() as client:
        assert client.call("GET", "secret:1") == MASK
        canary.assert_nowhere(front.veil, [client])
    assert front.logged('"event":"upstream-not-verified"')
    assert "not verified" in front.veil.page("/readyz")[1]


def test_an_upstream_that_wants_a_certificate_is_shown_one(
    veil: VeilFactory, authority: Authority, folder: Path, canary: Canary
) -> None:
    strict = TlsRedis(folder, authority, authority.server("strict"), ask_clients=True)
    strict.start()
    try:
        strict.add_user("alice", PASSWORD)
        value = canary.text().encode()
        with strict.admin() as direct:
            direct.call("SET", "secret:1", value)
        own = authority.make("veil")
        front = Front(veil, authority, strict, folder, upstream_tls=to_server(authority, **own.as_config()))
        with front.client() as alice, front.client() as nobody:
            assert nobody.call("GET", "secret:1") == MASK
            alice.login("alice", PASSWORD)
            assert alice.call("GET", "secret:1") == value
            canary.assert_nowhere(front.veil, [nobody])
    finally:
        strict.stop()


def test_a_connection_that_is_cut_in_the_middle_of_a_command_runs_nothing(
    front: Front, server: TlsRedis, canary: Canary, secret: bytes
) -> None:
    client = front.client()
    client.raw(b"*3\r\n$3\r\nSET\r\n$4\r\nfree\r\n$20\r\nhalf")
    assert isinstance(client._socket, ssl.SSLSocket)
    socket.socket(fileno=client._socket.detach()).close()  # no goodbye: the connection is gone
    began = time.monotonic()
    wait_until(lambda: front.veil.metric("veil_connections") == 0.0, "the reader is gone")

    assert time.monotonic() - began < 10
    with server.admin() as direct:
        assert direct.call("EXISTS", "free") == 0
    canary.assert_nowhere(front.veil)
