"""Keeps what TLS is made with as new as its files.

    look ──changed──▶ look again ──the same──▶ load ──good──▶ new connections get it
                                                └──bad──▶ the old stays in force, told with file and reason

Living connections keep what they began with. All of the disk is touched in one thread with a time-out, as for the
rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import trio

from .bounded import NoAnswer, in_thread
from .clock import utc_seconds
from .log import Log
from .tls import ClientFiles, Loaded, ServerFiles, TlsError, load_client, load_server

POLL_S = 0.5
DISK_S = 5.0
DAY_S = 86_400.0
SOON_S = 14 * DAY_S

Print = tuple[object, ...]


@dataclass(slots=True, eq=False)
class Kept:
    """What was loaded from files, and what the files looked like then."""

    where: str
    """The listener's address, and for the other side `upstream of` it."""
    connection: str
    protocol: str
    files: ServerFiles | ClientFiles
    now: Loaded
    trouble: str = ""
    """Why the newest files are not in force."""
    seen: Print = ()
    taken: Print = ()
    warned: set[str] = field(default_factory=set)

    @property
    def is_server(self) -> bool:
        return isinstance(self.files, ServerFiles)

    def load(self) -> Loaded:
        return load(self.files)

    @property
    def expiry_s(self) -> float | None:
        """When the first of its own certificates runs out."""
        return min((until for _, until in self.now.expiries), default=None)


def load(files: ServerFiles | ClientFiles) -> Loaded:
    """
    Raises:
        TlsError: with everything that is wrong.
    """
    return load_server(files) if isinstance(files, ServerFiles) else load_client(files)


def keep(where: str, connection: str, protocol: str, files: ServerFiles | ClientFiles) -> Kept:
    """Loads for the first time.

    Raises:
        TlsError: with everything that is wrong.
    """
    before = fingerprint(files.paths)  # first: what changes while it is loaded differs from it afterwards
    return Kept(where, connection, protocol, files, load(files), seen=before, taken=before)


def fingerprint(paths: Sequence[Path]) -> Print:
    """What the files look like from outside; links are followed, since that is how secrets are mounted."""
    return tuple(_one(path) for path in paths)


def _one(path: Path) -> object:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Certificates:
    """Watches over all that is kept."""

    def __init__(self, kept: Sequence[Kept], log: Log) -> None:
        self.kept = tuple(kept)
        self._log = log
        self._thread = trio.CapacityLimiter(1)
        self._again = trio.Event()

    def reread(self) -> None:
        """Loads everything now, changed or not."""
        self._again.set()

    async def run(self) -> None:
        """Watches until it is cancelled."""
        if not self.kept:
            return
        for each in self.kept:
            self._warn_of_trust(each)
        while True:
            asked = self._again.is_set()
            if asked:
                self._again = trio.Event()
            await self._look(asked=asked)
            for each in self.kept:
                self._warn_of_expiry(each)
            with trio.move_on_after(POLL_S):
                await self._again.wait()

    async def _look(self, *, asked: bool) -> None:
        try:
            prints = await in_thread(self._fingerprints, self._thread, DISK_S)
        except NoAnswer:
            return
        for each, found in zip(self.kept, prints, strict=True):
            is_quiet = found == each.seen
            each.seen = found
            if asked or (is_quiet and found != each.taken):
                await self._renew(each, found)

    def _fingerprints(self) -> list[Print]:
        return [fingerprint(each.files.paths) for each in self.kept]

    async def _renew(self, each: Kept, found: Print) -> None:
        told = {"connection": each.connection, "listener": each.where}
        try:
            loaded = await in_thread(each.load, self._thread, DISK_S)
        except NoAnswer:
            return  # looked at again at the next round
        except TlsError as bad:
            each.taken = found
            if each.trouble != str(bad):
                for problem in bad.problems:
                    self._log.error("tls-files-refused", file=str(problem.path), reason=problem.reason, **told)
            each.trouble = str(bad)
            return
        each.taken = found
        each.now = loaded
        each.trouble = ""
        each.warned.clear()
        self._log.info("tls-files-in-force", **told)

    def _warn_of_trust(self, each: Kept) -> None:
        if isinstance(each.files, ClientFiles) and not each.files.verify:
            self._log.warning(
                "upstream-not-verified", connection=each.connection, listener=each.where, reason="verify: false in the config"
            )

    def _warn_of_expiry(self, each: Kept) -> None:
        for path, until_s in each.now.expiries:
            said = _expiry(until_s)
            if said and f"{path} {said}" not in each.warned:
                each.warned.add(f"{path} {said}")
                told = {"connection": each.connection, "listener": each.where, "file": str(path)}
                self._log.warning("tls-certificate-expires", reason=said, **told)

    @property
    def warnings(self) -> Iterator[str]:
        """For /readyz: what is not as it should be at this moment."""
        for each in self.kept:
            at = f"{each.connection}: {each.where}"
            if isinstance(each.files, ClientFiles) and not each.files.verify:
                yield f"{at}: the upstream's certificate is not verified (verify: false), so that anybody can pass for it"
            if each.trouble:
                yield f"{at}: the newest TLS files are refused and the old ones are in force: {each.trouble}"
            for path, until_s in each.now.expiries:
                said = _expiry(until_s)
                if said:
                    yield f"{at}: the certificate {path} {said}"


def _expiry(until_s: float) -> str:
    """What is to be said of a certificate that ends then; nothing while that is far off."""
    left_s = until_s - utc_seconds()
    if left_s > SOON_S:
        return ""
    return f"{'expired' if left_s <= 0 else 'expires'} on {datetime.fromtimestamp(until_s, UTC):%Y-%m-%d}"
