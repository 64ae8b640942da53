"""A program with a screen, in a pseudo-terminal: what it draws, and the keys that a person presses."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

ROWS, COLUMNS = 40, 160
DRAW_S = 30.0
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
RIGHT, ENTER = "\x1b[C", "\r"


class Terminal:
    """One program. `seen` is every byte it ever drew; cells that stand side by side are side by side in `text`."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        env = {**env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        self._child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
        os.close(slave)
        self.seen = bytearray()
        self._pressed_at = 0
        self._closed = False

    @property
    def text(self) -> str:
        """All that was drawn, without colours and moves of the cursor."""
        return _ESCAPES.sub(b"", bytes(self.seen)).decode(errors="replace")

    def wait_for(self, what: str, within_s: float = DRAW_S) -> None:
        """Returns when that stands in what was drawn since the last `press`.

        Raises:
            TimeoutError: it does not.
        """
        end = time.monotonic() + within_s
        drawn = ""
        while what not in drawn:
            if time.monotonic() > end or not self._read(0.2):
                raise TimeoutError(f"not on the screen: {what!r}, but {drawn[-2000:]!r}")
            drawn = _ESCAPES.sub(b"", bytes(self.seen[self._pressed_at :])).decode(errors="replace")

    def press(self, keys: str) -> None:
        self._pressed_at = len(self.seen)
        os.write(self._master, keys.encode())

    def _read(self, within_s: float) -> bool:
        """Takes what there is; False once the program has ended."""
        if not select.select([self._master], [], [], within_s)[0]:
            return self._child.poll() is None
        with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
            if data := os.read(self._master, 65536):
                self.seen += data
                return True
        return False

    def close(self) -> None:
        """Ends it, and takes what it still says."""
        if self._closed:
            return
        self._closed = True
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGTERM)
        end = time.monotonic() + 5
        while time.monotonic() < end and self._read(0.2):
            pass
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        os.close(self._master)
