"""What an API is to the session: a closed table of routes, and what is done with a call of each.

call ──▶ judge ──▶ Refuse        answered here, in the API's own form of an error
              ├──▶ Forward       sent up as written anew; the answer streams back, or is shown by `show`
              └──  what has to be known first is asked for with `Desk.look_up`, on the reader's own connection
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from proxy.core.session import SessionSettings
from proxy.core.steps import Steps
from proxy.core.viewer import Viewer
from rules.model import Refusal, Resource
from rules.policy import Policy
from rules.view import View

from .targets import Target
from .wire import Fields


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it was read: `target` is decoded, `content` whole."""

    method: str
    target: Target
    fields: Fields = field(default_factory=list, repr=False)
    content: bytes = field(default=b"", repr=False)

    def one(self, name: bytes) -> bytes | None:
        return next((value for each, value in self.fields if each == name), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said, whole."""

    status: int
    fields: Fields = field(default_factory=list, repr=False)
    content: bytes = field(default=b"", repr=False)
    marks: Fields = field(default_factory=list)
    """What Veil says of it to the reader: `veil-masked`, `veil-unmasked`."""


Show = Callable[[Answer], Steps[Answer]]


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call goes nowhere. `content` is the API's own error; `why` goes on the trail."""

    status: int
    content: bytes
    why: Refusal
    operation: str
    resource: Resource | None = None
    content_type: bytes = b"application/json"


@dataclass(frozen=True, slots=True)
class Forward:
    """The call goes up. Left out, method, target and content are the call's own, and its answer is streamed.

    `show` makes of the server's whole answer what the reader gets; it is asked whatever the status is. What it shows
    has to have been let out by a View, or hold no contents.
    """

    method: str = ""
    target: Target | None = None
    content: bytes | None = None
    accept: bytes | None = None
    show: Show | None = None


Verdict = Refuse | Forward


class Desk(Protocol):
    """What a judge may use, and `show` as well but for what asks the server."""

    @property
    def viewer(self) -> Viewer: ...

    @property
    def judged(self) -> Policy:
        """The policy that the call was judged by. Another may be in force by the time of its answer: what either
        masks is masked."""
        ...

    def views(self, resource: Resource, operation: str) -> Steps[tuple[View, ...]]:
        """For `show`: the view of now, lifted if its reader may and it is on record; and that of `judged`, if it is another.
        All of them have to be gone through."""
        ...

    @property
    def settings(self) -> SessionSettings: ...

    def look_up(self, target: Target, *, as_veil: bool = False) -> Steps[Answer | None]:
        """The answer to a GET, ahead of the call, with the reader's own credentials or with Veil's; None where the
        server gave none that could be read, and from within `show`."""
        ...

    def claim(self) -> Steps[None]:
        """Makes sure of the reader's name before a verdict that hangs on it: the server has accepted it, or it is nobody's."""
        ...


class Api(Protocol):
    """One API. Instances are shared by all sessions of a listener and keep nothing of them.

    It may have beside these, each of which the session does without:
    `takes_forms`, `takes_texts`   what `wire.request` lets in more than JSON; the judge looks after it
    `fields`                       of the head, by method: names that go up because this API knows them
    `error(status, reason)`        the body of an answer of Veil's own, of a call that was not understood
    """

    who: Target
    """A place that every user may GET and no stranger: it tells whether a login is one."""

    def judge(self, call: Call, desk: Desk) -> Steps[Verdict]: ...
