"""What the admin port answers: a path and a method in, a status and a body out. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from rules.model import Problem

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content_type: str
    body: bytes
    allow: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What readiness depends on, at this moment."""

    rules_read: bool
    bound: bool
    draining: bool
    audit_failing: bool
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        return self.rules_read and self.bound and not self.draining


@dataclass(frozen=True, slots=True)
class Routes:
    state: Callable[[], State]
    metrics: Callable[[], bytes]
    metrics_type: str

    def answer(self, method: str, target: str) -> Reply:
        """The reply to one request; the query of a target is not looked at."""
        path = target.partition("?")[0]
        if path not in ("/livez", "/readyz", "/metrics"):
            return Reply(404, TEXT, b"not found\n")
        if method not in ("GET", "HEAD"):
            return Reply(405, TEXT, b"method not allowed\n", allow="GET, HEAD")
        if path == "/livez":
            return Reply(200, TEXT, b"ok\n")
        if path == "/metrics":
            return Reply(200, self.metrics_type, self.metrics())
        state = self.state()
        return Reply(200 if state.ready else 503, JSON, readiness(state))


def readiness(state: State) -> bytes:
    """The JSON of /readyz: `ready`, a word for each check, and every problem by file, line and column."""
    told = {
        "ready": state.ready,
        "rules": "not read" if not state.rules_read else "the newest state is refused" if state.problems else "in force",
        "listeners": "bound" if state.bound else "not bound",
        "audit": "not writable: nothing is shown unmasked" if state.audit_failing else "writable",
        "draining": state.draining,
        "problems": [
            {"file": each.place.file, "line": each.place.line, "column": each.place.column, "message": each.message}
            for each in state.problems
        ],
        "warnings": list(state.warnings),
    }
    return json.dumps(told, indent=2).encode("ascii") + b"\n"
