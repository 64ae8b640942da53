"""What the admin port answers: a path and a method in, a status and a body out. No I/O."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
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
class WorkerState:
    """One of several processes. `version` is that of the rules in force there, empty before the first."""

    number: int
    process: int
    ready: bool
    version: str


@dataclass(frozen=True, slots=True)
class State:
    """What readiness depends on, at this moment."""

    rules_read: bool
    bound: bool
    draining: bool
    audit_failing: bool
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    workers: tuple[WorkerState, ...] | None = None
    """Of several processes, each that lives; None where there is one process and no supervisor."""

    @property
    def ready(self) -> bool:
        return self.rules_read and self.bound and not self.draining


@dataclass(frozen=True, slots=True)
class Routes:
    """`renew`, where there is one, is awaited before state or metrics are asked for."""

    state: Callable[[], State]
    metrics: Callable[[], bytes]
    metrics_type: str
    renew: Callable[[], Awaitable[None]] | None = None

    def answer(self, method: str, target: str) -> Reply:
        """The reply to one request; the query of a target is not looked at."""
        path = path_of(target)
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


def path_of(target: str) -> str:
    return target.partition("?")[0]


def readiness(state: State) -> bytes:
    """The JSON of /readyz: `ready`, a word for each check, and every problem by file, line and column."""
    told: dict[str, object] = {
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
    if state.workers is not None:
        told["workers"] = [
            {"worker": each.number, "process": each.process, "ready": each.ready, "rules": each.version}
            for each in state.workers
        ]
    return json.dumps(told, indent=2).encode("ascii") + b"\n"
