"""A browser of which every answer it gets is kept, and every complaint of the pages.

Answers are held at their end until their body was read, so that none gets lost when a page goes on to the next.
Source: Chrome DevTools Protocol, the domains Fetch, Runtime, Log and Page.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from .browser import Browser

REDIRECTS = range(300, 400)
_ERRORS = {"error", "assert"}


@dataclass(frozen=True)
class Fetched:
    """One answer as the browser got it."""

    method: str
    url: str
    status: int
    headers: str = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def path(self) -> str:
        return "/" + self.url.split("://", 1)[-1].partition("/")[2]


class Watched(Browser):
    """`fetched` is every answer, `complaints` what pages wrote as errors, `asked` the texts of questions, all said yes to."""

    def __init__(self, profile: Path) -> None:
        self.fetched: list[Fetched] = []
        self.complaints: list[str] = []
        self.questions: list[str] = []
        self._waiting: deque[tuple[str, dict[str, object]]] = deque()
        self._is_handling = False
        super().__init__(profile)
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self._call(f"{domain}.enable")
        stages = [{"requestStage": stage} for stage in ("Request", "Response")]
        self._call("Fetch.enable", patterns=stages, handleAuthRequests=True)

    @property
    def received(self) -> bytearray:
        """All of it, with the heads."""
        return bytearray(b"\n".join(each.headers.encode() + b"\n" + each.body for each in self.fetched))

    def happened(self, event: str, told: object) -> None:
        assert isinstance(told, dict)
        self._waiting.append((event, told))
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._waiting:
                self._handle(*self._waiting.popleft())
        finally:
            self._is_handling = False

    def _handle(self, event: str, told: dict[str, object]) -> None:
        match event:
            case "Fetch.requestPaused" if "responseStatusCode" in told or "responseErrorReason" in told:
                self._keep(told)
            case "Fetch.requestPaused":
                self._go_on(told)
            case "Fetch.authRequired":  # it would ask the person, in a window of its own
                no = {"response": "CancelAuth"}
                self._call("Fetch.continueWithAuth", requestId=told["requestId"], authChallengeResponse=no)
            case "Page.javascriptDialogOpening":
                self.questions.append(str(told["message"]))
                self._call("Page.handleJavaScriptDialog", accept=True)
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in _ERRORS:
                self.complaints.append(json.dumps(told["args"]))
            case "Log.entryAdded":
                entry = told["entry"]
                assert isinstance(entry, dict)
                if entry["level"] == "error":
                    self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    def _keep(self, told: dict[str, object]) -> None:
        asked = told["request"]
        assert isinstance(asked, dict)
        status = told.get("responseStatusCode", 0)
        assert isinstance(status, int)
        body = b""
        if status and status not in REDIRECTS:
            try:
                answer = self._call("Fetch.getResponseBody", requestId=told["requestId"])
                body = base64.b64decode(str(answer["body"])) if answer["base64Encoded"] else str(answer["body"]).encode()
            except ConnectionError as gone:  # the page went on, and the answer is none of its own any more
                self.complaints.append(f"unread: {asked['url']} {gone}")
        self.fetched.append(
            Fetched(str(asked["method"]), str(asked["url"]), status, json.dumps(told.get("responseHeaders")), body)
        )
        self._go_on(told)

    def _go_on(self, told: dict[str, object]) -> None:
        with contextlib.suppress(ConnectionError):  # a page that was left has taken its question back
            self._call("Fetch.continueRequest", requestId=told["requestId"])

    def choose_file(self, selector: str, file: Path) -> None:
        """Puts a file into a form's input."""
        root = self._call("DOM.getDocument")["root"]
        assert isinstance(root, dict)
        node = self._call("DOM.querySelector", nodeId=root["nodeId"], selector=selector)["nodeId"]
        self._call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])
