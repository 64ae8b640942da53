"""What a worker tells of itself when it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rules.model import Place, Problem

from .channel import ChannelBroken, Message
from .figures import Figures, as_json, from_json


@dataclass(frozen=True, slots=True)
class Report:
    """The state of one worker. `version` is that of the rules in force, empty before the first."""

    rules_read: bool = False
    bound: bool = False
    draining: bool = False
    audit_failing: bool = False
    version: str = ""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    figures: Figures = field(default_factory=dict)

    def as_message(self) -> Message:
        places = [[each.place.file, each.place.line, each.place.column, each.message, each.warning] for each in self.problems]
        return {
            "report": {
                "rules_read": self.rules_read,
                "bound": self.bound,
                "draining": self.draining,
                "audit_failing": self.audit_failing,
                "version": self.version,
                "problems": places,
                "warnings": list(self.warnings),
                "figures": as_json(self.figures),
            }
        }


def report_from(told: Any) -> Report:
    """
    Raises:
        ChannelBroken: it is no report.
    """
    try:
        return Report(
            bool(told["rules_read"]),
            bool(told["bound"]),
            bool(told["draining"]),
            bool(told["audit_failing"]),
            str(told["version"]),
            tuple(
                Problem(Place(file, int(line), int(column)), message, warning=bool(warning))
                for file, line, column, message, warning in told["problems"]
            ),
            tuple(map(str, told["warnings"])),
            from_json(told["figures"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ChannelBroken("not a report") from None
