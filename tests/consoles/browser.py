"""Headless Chromium, driven through its own pipe: no driver, no web socket, no port.

Source: Chrome DevTools Protocol, `--remote-debugging-pipe`: messages end in a zero byte; Chromium reads them from
descriptor 3 and writes them to descriptor 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.brokers import mode

ANSWER_S = 30.0
FLAGS = (
    "--headless",
    "--no-sandbox",  # tests may run as root, where the sandbox cannot
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--window-size=1200,800",
    # Pages of a console may link to the world; nothing but loopback is looked up.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
# Moves the two descriptors to the numbers that Chromium looks at (both are first copied out of the way of each other).
MOVE = """
import os, sys
inbound, outbound = (os.dup2(int(each), 100 + int(each)) for each in sys.argv[1:3])
os.dup2(inbound, 3)
os.dup2(outbound, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
Json = dict[str, object]


class Browser:
    """One Chromium with one page."""

    def __init__(self, profile: Path) -> None:
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if binary is None:
            mode.absent("console", "apt-get install chromium, or make brokers")
        inbound, self._write = os.pipe()
        self._read, outbound = os.pipe()
        flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        command = [sys.executable, "-c", MOVE, str(inbound), str(outbound), binary, *flags]
        env = {**os.environ, "HOME": str(profile)}
        with (profile / "chromium.log").open("wb") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(inbound, outbound), env=env
            )
        os.close(inbound)
        os.close(outbound)
        self._number = 0
        self._answers: dict[int, Json] = {}
        self._arrived = bytearray()
        self._page = ""
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._page = str(self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        except OSError as error:
            self.close()
            raise ConnectionError(f"{error}: {(profile / 'chromium.log').read_text(errors='replace')[-2000:]}") from error

    def happened(self, event: str, told: object) -> None:
        """Chromium tells of an event, in the midst of any call. Here nothing is done about it."""

    def go(self, url: str) -> None:
        """Opens a page and waits until it has loaded."""
        self._call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, script: str) -> object:
        """What an expression gives in the page.

        Raises:
            ValueError: it threw.
        """
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ValueError(json.dumps(answer["exceptionDetails"])[:2000])
        result = answer["result"]
        assert isinstance(result, dict)
        return result.get("value")

    def wait_for(self, script: str, within_s: float = ANSWER_S) -> None:
        """Waits until an expression is true in the page.

        Raises:
            TimeoutError: it is not.
        """
        end = time.monotonic() + within_s
        while self.evaluate(script) is not True:
            if time.monotonic() > end:
                raise TimeoutError(f"not within {within_s} s: {script}")
            time.sleep(0.05)

    def text(self) -> str:
        """All that a person can read on the page."""
        return str(self.evaluate("document.body.innerText"))

    def html(self) -> str:
        """The whole document as it stands, hidden parts and inputs included."""
        inputs = "[...document.querySelectorAll('input,textarea')].map(each => each.value).join('\\n')"
        return str(self.evaluate(f"document.documentElement.outerHTML + '\\n' + {inputs}"))

    def screenshot(self, name: str) -> Path:
        """A picture of the page under artifacts/."""
        mode.ARTIFACTS.mkdir(exist_ok=True)
        path = mode.ARTIFACTS / f"{name}.png"
        path.write_bytes(base64.b64decode(str(self._call("Page.captureScreenshot", format="png")["data"])))
        return path

    def close(self) -> None:
        """Ends Chromium, if it is still there."""
        if self._child.poll() is None:
            try:
                self._call("Browser.close", of_page=False)
                self._child.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self._child.kill()
                self._child.wait()
        os.close(self._write)
        os.close(self._read)

    def _call(self, method: str, *, of_page: bool = True, **parameters: object) -> Json:
        """The result of one call.

        Raises:
            ConnectionError: Chromium says no, or is gone.
            TimeoutError: it does not answer.
        """
        self._number += 1
        message: Json = {"id": self._number, "method": method, "params": parameters}
        if self._page and of_page:
            message["sessionId"] = self._page
        number = self._number
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + ANSWER_S
        while number not in self._answers:
            told = self._next(end)
            if "method" in told:
                self.happened(str(told["method"]), told["params"])
            elif isinstance(told["id"], int):
                self._answers[told["id"]] = told  # perhaps another call's, in the midst of which this one was made
        answer = self._answers.pop(number)
        if "error" in answer:
            raise ConnectionError(f"{method}: {answer['error']}")
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    def _next(self, end: float) -> Json:
        while (stop := self._arrived.find(b"\0")) < 0:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self._read, 65536)
            if not data:
                raise ConnectionError("Chromium has ended")
            self._arrived += data
        message: Json = json.loads(self._arrived[:stop])
        del self._arrived[: stop + 1]
        return message
