"""A rule set in a Redis that is nobody's broker, for fleets: read whole and verified, or not at all.

    <prefix>manifest      names, digests and version of the set (see `manifest`), written last
    <prefix>rules.yaml    a document, as it stood in the file
    <prefix>changed       the channel on which a push is told

Blocking: called from threads. Whoever may write there may change what is masked, unless the set is signed. An answer of
that server is trusted for nothing but its digests: it may be empty after a failover, stale after a restore, or half of
another set. So a version lower than the one that was taken is refused, and so is the same version with other contents.

The client library is imported when a connection is made: starting without such a store does not pay for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..model import Place, Problem
from .book import bind
from .manifest import MAX_MANIFEST_BYTES, MAX_VERSION, Manifest, ManifestError, describe, in_order, parse, render, wrong_set
from .reading import Reading

if TYPE_CHECKING:
    import redis

CONNECT_S = 2.0
ANSWER_S = 5.0
LIMIT_S = 12.0  # of one look or reading: a connection, a few answers
POLL_S = 0.5
SLOWEST_POLL_S = 4.0  # while the server cannot be reached
HEAR_S = 1.0  # one wait for word of a push
PING_S = 10  # of silence, after which the server is asked whether it is still there
TRIES = 5  # readings of a set that is being replaced meanwhile
MANIFEST = "manifest"
CHANNEL = "changed"
_RUN_ID = re.compile(rb"^run_id:[0-9a-f]{40}\r?$", re.MULTILINE)
LOOKS_TRUSTED = 10  # after so many the server is admitted anew: a broker may have been down, or become this server
PUSHED = b"pushed"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a set is kept. `key` signs manifests; `ca` names a file of certificates that are trusted with TLS."""

    host: str
    port: int
    prefix: str
    database: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: str | None = None
    key: bytes | None = field(default=None, repr=False)

    @property
    def place(self) -> Place:
        return Place(f"redis:{self.prefix}{MANIFEST}", 1, 1)

    def shown(self, name: str) -> str:
        """How places spell a document."""
        return f"redis:{self.prefix}{name}"

    def at(self, name: str) -> str:
        """The key of a document."""
        return self.prefix + name


@dataclass(frozen=True, slots=True)
class Server:
    """Who answered: the address that was reached in the end, and what the server tells of itself (INFO). `clients` asks
    it who is connected to it (CLIENT LIST), for as long as it is being admitted."""

    host: str
    port: int
    info: bytes = field(repr=False)
    clients: Callable[[], bytes] = field(default=bytes, repr=False, compare=False)


Admit = Callable[[Server], str]
"""Why rules may not be kept there; an empty text where they may."""


class StoreError(Exception):
    """The server cannot be reached, will not, or holds something else than a set. `why` holds nothing of its contents."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class LostRaceError(StoreError):
    """Somebody else pushed meanwhile; nothing was written."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A verified set. `documents` are names and bytes."""

    manifest: Manifest
    documents: tuple[tuple[str, bytes], ...]


class RedisStore:
    """A set as a store. `look` and `read` are called one at a time; `hear` has a connection of its own."""

    quiet_s = 0.0  # a push is one transaction
    limit_s = LIMIT_S

    def __init__(self, location: Location, admit: Admit = lambda _server: "") -> None:
        """`admit` is asked about the server at each new connection, and every few looks."""
        self.place = location.place
        self._location = location
        self._admit = admit
        self._client: redis.Redis | None = None
        self._ears: redis.client.PubSub | None = None
        self._failures = 0
        self._looks = 0
        self._taken: Manifest | None = None

    @property
    def poll_s(self) -> float:
        return min(POLL_S * 2.0 ** min(self._failures, 10), SLOWEST_POLL_S)

    @property
    def version(self) -> int | None:
        """Of the set that was read last and found good."""
        return None if self._taken is None else self._taken.version

    def look(self) -> object:
        self._looks += 1
        try:
            return self._asking(_manifest_bytes if self._looks % LOOKS_TRUSTED else self._admitted_again, self._location)
        except StoreError as failed:
            return ("not looked at", failed.why)

    def _admitted_again(self, client: redis.Redis, location: Location) -> bytes:
        admit_again(client, location, self._admit)
        return _manifest_bytes(client, location)

    def read(self) -> Reading:
        try:
            snapshot = self._asking(fetch, self._location)
        except StoreError as failed:
            return self._unread(failed.why)
        except BadSetError as bad:
            return Reading(None, bad.problems, 0, settled=False)
        manifest = snapshot.manifest
        if self._taken is not None:
            older = _no_successor(self._taken, manifest)
            if older:
                return self._unread(older)
        bound = bind([(self._location.shown(name), data) for name, data in snapshot.documents])
        if bound.book is None:
            return Reading(None, bound.problems, len(snapshot.documents))
        if not manifest.empty and not any(rule.enabled for rule in bound.book.rules):
            why = "holds no enabled rule, and its manifest does not say that this is meant (veil rules push --empty)"
            return Reading(None, (Problem(self.place, why),), len(snapshot.documents))
        self._taken = manifest
        return Reading(bound.book, (), len(snapshot.documents))

    def hear(self) -> bool | None:
        """Waits for word of a push, at most a moment. True: it is worth a look now; False: nothing was said;
        None: the connection is lost, and the next call makes another."""
        try:
            with _told_plainly():
                if self._ears is None:
                    self._listen()
                    return True  # what was said before is not heard any more
                message = self._ears.get_message(timeout=HEAR_S)
                return message is not None and message["type"] in ("message", "subscribe")  # subscribed anew: as above
        except StoreError:
            ears_lost, self._ears = self._ears, None
            if ears_lost is not None:
                _end(ears_lost)
            return None

    def _listen(self) -> None:
        self._ears = self._connect().pubsub()  # type: ignore[no-untyped-call]
        self._ears.subscribe(self._location.at(CHANNEL))
        if self._ears.get_message(timeout=ANSWER_S) is None:
            raise StoreError("the server does not answer")

    def _unread(self, why: str) -> Reading:
        return Reading(None, (Problem(self.place, why),), 0, settled=False)

    def _connect(self) -> redis.Redis:
        return connect(self._location, self._admit)

    def _asking(self, ask: Callable[[redis.Redis, Location], Any], location: Location) -> Any:
        """One question, on the connection there is or on a new one. After a failure the next is new."""
        try:
            with _told_plainly():
                if self._client is None:
                    self._client = self._connect()
                answer = ask(self._client, location)
        except StoreError:
            self._failures += 1
            client, self._client = self._client, None
            if client is not None:
                _end(client)
            raise
        self._failures = 0
        return answer


def _no_successor(taken: Manifest, found: Manifest) -> str:
    if found.version < taken.version:
        return (
            f"version {found.version} is older than version {taken.version}, which is in force"
            " (what is meant to replace it has to be pushed again)"
        )
    if found.version == taken.version and found.digest != taken.digest:
        return f"version {found.version} is in force with other contents than stand here now"
    return ""


class BadSetError(Exception):
    """There is a manifest, but what it promises is not there."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = tuple(problems)


def connect(location: Location, admit: Admit = lambda _server: "") -> redis.Redis:
    """A client of the server, connected; it asks who it is talking to whenever it connects.

    Raises:
        StoreError: it cannot be reached, does not let us in, or is not admitted.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    def begin(connection: Any) -> None:
        """Each connection, also one that the library makes again by itself, is of a server that is looked at first."""
        connection.on_connect()
        reason = admit(_server(connection, location))
        if reason:
            connection.disconnect()
            raise StoreError(reason)

    tls: dict[str, Any] = {}
    if location.tls:
        tls = {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True, "ssl_ca_certs": location.ca}
    with _told_plainly():
        client = redis.Redis(
            host=location.host,
            port=location.port,
            db=location.database,
            username=location.user,
            password=location.password,
            socket_connect_timeout=CONNECT_S,
            socket_timeout=ANSWER_S,
            socket_keepalive=True,
            health_check_interval=PING_S,
            retry=Retry(NoBackoff(), 0),  # whoever asked is told, and asks again later
            redis_connect_func=begin,  # type: ignore[arg-type]  # it is called with the connection
            protocol=2,
            **tls,
        )
        try:
            client.ping()
        except BaseException:
            _end(client)
            raise
    return client


def admit_again(client: redis.Redis, location: Location, admit: Admit) -> None:
    """Raises a StoreError where the server of a client is not admitted any more; the client is to be closed then."""
    connection = client.connection_pool.get_connection()
    try:
        reason = admit(_server(connection, location))
    except BaseException:
        connection.disconnect()  # type: ignore[no-untyped-call]  # an answer may still be on its way
        raise
    finally:
        client.connection_pool.release(connection)
    if reason:
        raise StoreError(reason)


def _server(connection: Any, location: Location) -> Server:
    connection.send_command("INFO", check_health=False)
    told = connection.read_response()
    if not isinstance(told, bytes) or not _RUN_ID.search(told):
        raise StoreError("the server does not say which one it is (INFO)")
    try:
        host, port, *_ = connection._sock.getpeername()  # noqa: SLF001 - the library has no public name for it
    except (OSError, AttributeError, ValueError):
        host, port = location.host, location.port

    def clients() -> bytes:
        connection.send_command("CLIENT", "LIST", check_health=False)
        return _bytes(connection.read_response())

    return Server(str(host), int(port), told, clients)


def _end(client: redis.Redis | redis.client.PubSub) -> None:
    """Closes it, whatever state it is in."""
    with suppress(Exception):
        client.close()


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Every failure of the library as a `StoreError`, told by its kind: the server's own words may hold anything."""
    try:
        yield
    except (StoreError, BadSetError):
        raise
    except Exception as failed:  # noqa: BLE001 - the edge of the library: rules that cannot be read are not read
        raise StoreError(_why(failed)) from None


def _why(failed: Exception) -> str:
    import redis

    match failed:
        case redis.exceptions.AuthenticationError():
            return "the server refuses the login"
        case redis.exceptions.BusyLoadingError():
            return "the server is still loading its data"
        case redis.exceptions.TimeoutError():
            return "the server does not answer"
        case redis.exceptions.ConnectionError():
            cause = type(failed.__cause__ or failed.__context__).__name__
            return "the server's certificate is not trusted" if cause.startswith("SSL") else "the server cannot be reached"
        case redis.exceptions.NoPermissionError():
            return "the server does not permit it (NOPERM)"
        case redis.exceptions.ResponseError():
            code = str(failed).partition(" ")[0]
            return (
                f"the server answers {code}" if code.isascii() and code.isalpha() and code.isupper() else "the server refuses"
            )
        case _:
            return f"the server answers what is not understood ({type(failed).__name__})"


def _manifest_bytes(client: redis.Redis, location: Location) -> bytes:
    """Empty where there is none. No more is read than a manifest may have."""
    return _bytes(client.getrange(location.at(MANIFEST), 0, MAX_MANIFEST_BYTES))


def _bytes(answer: object) -> bytes:
    if not isinstance(answer, bytes):
        raise StoreError("the server answers with something else than text")
    return answer


def fetch(client: redis.Redis, location: Location) -> Snapshot:
    """The set, every document verified.

    Raises:
        StoreError: there is none, or the server fails.
        BadSetError: something of it is not what the manifest says.
    """
    for _ in range(TRIES):
        raw = _manifest_bytes(client, location)
        manifest = _parsed(raw, location)
        with client.pipeline(transaction=True) as asked:
            asked.getrange(location.at(MANIFEST), 0, MAX_MANIFEST_BYTES)
            for each in manifest.documents:
                asked.getrange(location.at(each.name), 0, each.size)  # a byte more than it may have
            again, *found = asked.execute(raise_on_error=False)
        if again != raw:
            continue
        problems: list[Problem] = []
        documents: list[tuple[str, bytes]] = []
        for each, data in zip(manifest.documents, found, strict=True):
            if not isinstance(data, bytes):
                problems.append(Problem(Place(location.shown(each.name), 1, 1), _odd(data)))
            elif len(data) != each.size or hashlib.sha256(data).hexdigest() != each.sha256:
                why = "is not what the manifest says" if data else "is missing"
                problems.append(Problem(Place(location.shown(each.name), 1, 1), f"{why}: the set is not whole"))
            else:
                documents.append((each.name, data))
        if problems:
            raise BadSetError(problems)
        return Snapshot(manifest, tuple(documents))
    raise StoreError("keeps changing while it is read")


def _odd(answer: object) -> str:
    return f"cannot be read: {_why(answer)}" if isinstance(answer, Exception) else "is no text"


def _parsed(raw: bytes, location: Location) -> Manifest:
    if not raw:
        raise StoreError("there is no manifest: no rules were pushed here, or they are lost")
    try:
        return parse(raw, location.prefix, location.key)
    except ManifestError as bad:
        raise StoreError(f"the manifest {bad.why}") from None


@contextmanager
def opened(location: Location, admit: Admit = lambda _server: "") -> Iterator[redis.Redis]:
    """A connection for one errand. Failures inside are `StoreError`s."""
    client = connect(location, admit)
    try:
        with _told_plainly():
            yield client
    finally:
        _end(client)


@dataclass(frozen=True, slots=True)
class Held:
    """What stands in the store before a push. `raw` is the manifest's bytes, None where it is no text at all;
    `snapshot` is None where there is no set, or (`why`) none that can be read."""

    raw: bytes | None
    snapshot: Snapshot | None
    why: str = ""


def held(client: redis.Redis, location: Location) -> Held:
    """What is there, readable or not.

    Raises:
        StoreError: the server fails.
    """
    raw, why = _raw(client, location)
    if not raw:
        return Held(raw, None, why)
    try:
        return Held(raw, fetch(client, location))
    except StoreError as failed:
        return Held(raw, None, failed.why)
    except BadSetError as bad:
        return Held(raw, None, "; ".join(map(str, bad.problems)))


def _raw(client: redis.Redis, location: Location) -> tuple[bytes | None, str]:
    """The manifest's bytes, or None with the reason where what stands there is no text."""
    import redis

    try:
        return _manifest_bytes(client, location), ""
    except redis.exceptions.ResponseError as odd:
        return None, f"the manifest cannot be read: {_why(odd)}"


def next_version(before: Held, now: int, above: int = 0) -> int:
    """The version of a push: higher than what stands there and than `above`, and at least the time of day in seconds,
    so that it is higher than one that was lost with the data as well.

    Raises:
        StoreError: there is none.
    """
    last = 0 if before.snapshot is None else before.snapshot.manifest.version
    version = max(last + 1, above + 1, now)
    if version > MAX_VERSION:
        raise StoreError("there is no higher version")
    return version


def put(
    client: redis.Redis, location: Location, documents: Sequence[tuple[str, bytes]], before: Held, version: int, *, empty: bool
) -> Manifest:
    """Replaces the set in one transaction, if the manifest still is what it was in `before`.

    Raises:
        LostRaceError: it is not.
        StoreError: the set cannot be written.
    """
    import redis

    manifest = Manifest(version, in_order(describe(name, data) for name, data in documents), empty)
    wrong = wrong_set(manifest)
    if wrong:
        raise StoreError(f"the manifest {wrong}")
    names = {name for name, _ in documents}
    gone = [] if before.snapshot is None else [name for name, _ in before.snapshot.documents if name not in names]
    with client.pipeline(transaction=True) as writing:
        writing.watch(location.at(MANIFEST))  # type: ignore[no-untyped-call]
        try:
            if _raw(writing, location)[0] != before.raw:
                raise LostRaceError("somebody else pushed meanwhile: nothing was written")
            writing.multi()
            for name, data in documents:
                writing.set(location.at(name), data)
            for name in gone:
                writing.delete(location.at(name))
            writing.set(location.at(MANIFEST), render(manifest, location.prefix, location.key))
            writing.publish(location.at(CHANNEL), PUSHED)
            writing.execute()
        except redis.exceptions.WatchError:
            raise LostRaceError("somebody else pushed meanwhile: nothing was written") from None
    return manifest
