"""A judge at hand: an Api without HTTP around it, and a server that knows what a test tells it."""

from __future__ import annotations

import json
from typing import Any, cast

from proxy.core.session import SessionSettings
from proxy.core.steps import Ask, Record, Steps
from proxy.core.viewer import Viewer
from proxy.protocols.http import targets
from proxy.protocols.http.api import Answer, Api, Call, Forward, Verdict
from proxy.protocols.http.targets import Target
from rules.access import Reader
from rules.audit import Entry, Receipt
from rules.model import Connection, Resource, RuleBook
from rules.policy import Policy
from rules.view import View

JSON = [(b"content-type", b"application/json")]


class Judge:
    """`knows` is path -> (status, JSON) of what look-ups find; others find 404."""

    def __init__(
        self,
        api: Api,
        connection: Connection,
        book: RuleBook,
        *,
        who: str | None = None,
        settings: SessionSettings | None = None,
    ) -> None:
        self.api = api
        self.policy = Policy(book)
        self.viewer = Viewer(
            connection, "api", "127.0.0.1:5", lambda: self.policy, lambda: 0.0, fixed=None if who is None else Reader(who)
        )
        self.settings = settings or SessionSettings()
        self.knows: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        self.recorded: list[Entry] = []
        self.journal_works = True
        self._judged: Policy | None = None

    def look_up(self, target: Target, *, as_veil: bool = False) -> Steps[Answer | None]:
        path = target.path.decode()
        self.asked.append(path)
        status, told = self.knows.get(path, (404, {}))
        return Answer(status, list(JSON), told if isinstance(told, bytes) else json.dumps(told).encode())
        yield  # a generator, as the session's is

    @property
    def judged(self) -> Policy:
        return self.policy if self._judged is None else self._judged

    def views(self, resource: Resource, operation: str) -> Steps[tuple[View, ...]]:
        return (yield from self.viewer.lift((self.viewer.view(resource),), self.viewer.begin(), operation))

    def claim(self) -> Steps[None]:
        yield from ()

    def call(self, method: str, path: str, told: Any = None) -> Verdict:
        content = b"" if told is None else told if isinstance(told, bytes) else json.dumps(told).encode()
        call = Call(method, targets.parse(path.encode()), list(JSON), content)
        self._judged = self.policy
        return cast("Verdict", self._carried_out(self.api.judge(call, self)))

    def shows(self, verdict: Verdict, told: Any, status: int = 200) -> Answer:
        """What the reader gets of the server's answer."""
        assert isinstance(verdict, Forward)
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        answer = Answer(status, list(JSON), content)
        return answer if verdict.show is None else cast("Answer", self._carried_out(verdict.show(answer)))

    def _carried_out(self, steps: Steps[Any]) -> Any:
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = None
            if isinstance(step, Record) and self.journal_works:
                self.recorded += step.entries
                answer = tuple(Receipt(entry, number) for number, entry in enumerate(step.entries))
            elif isinstance(step, Ask):
                answer = True
