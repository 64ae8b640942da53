"""The protocol's own way of saying no: an answer in the request's own shape, with an error code and, where the version has
room, a message that names the rule and never a value.

Source of the codes: the protocol guide, error codes.
"""

from __future__ import annotations

from collections.abc import Callable

from rules.model import Refusal

from . import schema
from .schema import Message

UNKNOWN_TOPIC_ID = 100
INVALID_TOPIC = 17
FETCH_SESSION_ID_NOT_FOUND = 70
UNSUPPORTED_VERSION = 35
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
POLICY_VIOLATION = 44
COORDINATOR_NOT_AVAILABLE = 15
MESSAGE_LIMIT = 300  # characters; names of rules are at most 128 of them
NAME_LIMIT = 128

Shape = Callable[[Message, Message, int, bytes], None]
"""Fills a blank answer: (answer, request, code, message)."""


def text(operation: str, why: Refusal, topic: bytes | None = None) -> bytes:
    """The message of a refusal, in printable ASCII."""
    verb = f"veil: {operation}"
    if topic is not None:
        verb += f' on "{printable(topic.decode("utf-8", "replace"))}"'
    if why.rule is None:
        told = f"{verb} is refused: {why.reason}"
    elif topic is None:
        told = f'{verb} is refused while the masking rule "{printable(why.rule)}" applies to you'
    else:
        field = f" ({printable(why.field)})" if why.field else ""
        told = f'{verb} is refused: the masking rule "{printable(why.rule)}" covers it{field}'
    return told[:MESSAGE_LIMIT].encode("ascii", "replace")


def printable(name: str) -> str:
    """A name for a message: printable ASCII without double quotes, cut at NAME_LIMIT."""
    return "".join(each if " " <= each <= "~" and each != '"' else "?" for each in name[:NAME_LIMIT])


def answer(key: int, version: int, request: Message | None, code: int, message: bytes) -> Message | None:
    """The answer that refuses the request as a whole; None where its shape has no room for an error that a client would
    see. `request` is None where it was not read."""
    try:
        blank = schema.response(key, version).blank()
    except LookupError:
        return None
    shape = _SHAPES.get(key)
    if shape is not None and request is not None:
        shape(blank, request, code, message)
        return blank
    if "error_code" not in blank:
        return None
    _tell(blank, code, message)
    return blank


def _tell(told: Message, code: int, message: bytes) -> None:
    told["error_code"] = code
    if "error_message" in told:
        told["error_message"] = message


def _acl_results(blank: Message, request: Message, code: int, message: bytes) -> None:
    blank["results"] = [{"error_code": code, "error_message": message} for _ in request["creations"] or ()]


def _acl_filters(blank: Message, request: Message, code: int, message: bytes) -> None:
    blank["filter_results"] = [
        {"error_code": code, "error_message": message, "matching_acls": []} for _ in request["filters"] or ()
    ]


def _scram_users(blank: Message, request: Message, code: int, message: bytes) -> None:
    users = dict.fromkeys(each["name"] for part in ("deletions", "upsertions") for each in request[part] or ())
    blank["results"] = [{"user": user, "error_code": code, "error_message": message} for user in users]


def _config_resources(blank: Message, request: Message, code: int, message: bytes) -> None:
    blank["responses"] = [
        {
            "error_code": code,
            "error_message": message,
            "resource_type": each["resource_type"],
            "resource_name": each["resource_name"],
        }
        for each in request["resources"] or ()
    ]


def _quotas(blank: Message, request: Message, code: int, message: bytes) -> None:
    blank["entries"] = [
        {"error_code": code, "error_message": message, "entity": each["entity"]} for each in request["entries"] or ()
    ]


def _leader_epochs(blank: Message, request: Message, code: int, message: bytes) -> None:
    blank["topics"] = [
        {
            "topic": topic["topic"],
            "partitions": [
                {"error_code": code, "partition": each["partition"], "leader_epoch": -1, "end_offset": -1}
                for each in topic["partitions"] or ()
            ],
        }
        for topic in request["topics"] or ()
    ]


_SHAPES: dict[int, Shape] = {
    23: _leader_epochs,
    30: _acl_results,
    31: _acl_filters,
    33: _config_resources,
    44: _config_resources,
    49: _quotas,
    51: _scram_users,
}
