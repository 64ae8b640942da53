"""How the management API says no: an error that its console shows with the reason.

The console pops up the reason of `bad_request`, `not_found` and `not_authorised` with a status from 400 to 404.
Source: rabbitmq_management, priv/www/js/main.js, check_bad_response.
"""

from __future__ import annotations

from rules.audit import spell_name
from rules.model import Refusal, Resource

from ...api import Refuse
from ...documents import written

NAME_LIMIT = 128


def refuse(why: Refusal, operation: str, resource: Resource | None = None) -> Refuse:
    """403 because of a rule."""
    what = operation if resource is None else f"{operation} on the {resource.kind} {plain_name(resource.name)}"
    if why.rule is None:
        reason = f"{what} is refused: {why.reason}"
    elif resource is None:
        reason = f"{what} is refused while the masking rule {_quoted(why.rule)} applies to you"
    else:
        reason = f"{what} is refused: the masking rule {_quoted(why.rule)} covers it"
    if why.rule is not None and why.field:
        reason += f" ({_plain(why.field)})"
    return Refuse(403, error("not_authorised", reason), why, operation, resource)


def bad_request(reason: str, operation: str, status: int = 400) -> Refuse:
    """What can be read in two ways, or is not what the server would take, goes nowhere."""
    return Refuse(status, error("bad_request", reason), Refusal(None, reason=reason), operation)


def error(word: str, reason: str) -> bytes:
    return written({"error": word, "reason": f"veil: {reason}"}).encode()


def plain_name(name: bytes) -> str:
    return _quoted(spell_name(name))


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'


def _plain(text: str) -> str:
    return "".join(each if " " <= each <= "~" and each != '"' else "?" for each in text[:NAME_LIMIT])
