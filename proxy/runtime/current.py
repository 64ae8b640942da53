"""The policy of the moment, and who wants to hear when it is replaced."""

from __future__ import annotations

from collections.abc import Callable

from rules.model import Problem
from rules.policy import Policy


class Current:
    """One for the process. `policy` is replaced whole; before the first good read it is the closed one. It is
    replaced in the loop; `get`, a single look-up, may be called in any thread.

    `problems` are those of the newest state of the store, empty while that one is in force.
    `read_at_s` is when the policy in force was read, in seconds since 1970; None before the first.
    """

    def __init__(self) -> None:
        self.policy = Policy.closed()
        self.problems: tuple[Problem, ...] = ()
        self.read_at_s: float | None = None
        self._hearers: set[Callable[[], None]] = set()

    @property
    def is_read(self) -> bool:
        return not self.policy.is_closed

    def get(self) -> Policy:
        return self.policy

    def publish(self, policy: Policy, read_at_s: float) -> None:
        """Puts a policy in force and tells everybody; there are no problems then."""
        changed = policy.version != self.policy.version
        self.problems = ()
        self.read_at_s = read_at_s
        if changed or self.policy.is_closed:
            self.policy = policy
            for hear in tuple(self._hearers):
                hear()

    def refuse(self, problems: tuple[Problem, ...]) -> None:
        """The newest state cannot be taken; the old policy stays in force."""
        self.problems = problems

    def subscribe(self, hear: Callable[[], None]) -> None:
        self._hearers.add(hear)

    def unsubscribe(self, hear: Callable[[], None]) -> None:
        self._hearers.discard(hear)
