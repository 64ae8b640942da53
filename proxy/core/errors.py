"""Every exception the proxy raises.

    ProxyError
    ├── WireError      the bytes are not this protocol, or not a version of it that can be read
    ├── LimitExceeded  legal, but larger than what is held
    └── ConfigError    the configuration cannot be carried out (carries its problems)

None of them carries contents, not in the message and not in a chained cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from rules.model import Problem


class ProxyError(Exception):
    """Base of all."""


class WireError(ProxyError):
    """Not this protocol. `answer` is what the protocol says before it hangs up, if anything."""

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class LimitExceeded(WireError):
    """Legal, but more than is held; handled like nonsense: the connection closes."""


class ConfigError(ProxyError):
    def __init__(self, problems: Sequence[Problem | str]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
