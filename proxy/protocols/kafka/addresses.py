"""Where answers name servers of the cluster, and what stands there instead: where each is reached through Veil.

    nodes(answer)  ── advertised ──▶  places  ──▶  rewrite(answer, places)

A node that can be reached nowhere is left out of its answer; its own address is never told.
Source: the schemas of the APIs; hints of leaders in Produce and Fetch are KIP-951.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from proxy.core.addresses import Endpoint, Node

from . import refuse
from .schema import Message

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
DESCRIBE_CONFIGS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER, SHARE_FETCH, SHARE_ACKNOWLEDGE = 32, 55, 60, 78, 79
ID_FIELDS = ("node_id", "broker_id")
ARRAYS = {
    PRODUCE: "node_endpoints",
    FETCH: "node_endpoints",
    METADATA: "brokers",
    FIND_COORDINATOR: "coordinators",
    DESCRIBE_CLUSTER: "brokers",
    SHARE_FETCH: "node_endpoints",
    SHARE_ACKNOWLEDGE: "node_endpoints",
}
BROKER, BROKER_LOGGER = 4, 8  # kinds of resource whose configs are a broker's own
ADDRESS_CONFIGS = re.compile(rb"listener|voters|bootstrap|host|advertised|(^|\.)port$|zookeeper\.connect|controller\.quorum")
NOBODY = -1


def nodes(key: int, answer: Message) -> tuple[Node, ...]:
    """The servers that the answer names, each once."""
    return tuple(
        dict.fromkeys(
            Node(_id(each), (each["host"] or b"").decode("utf-8", "replace"), each["port"])
            for each in _named(key, answer)
            if _id(each) != NOBODY and each["host"]
        )
    )


def rewrite(key: int, answer: Message, places: Mapping[int, Endpoint]) -> None:
    """Puts the places into the answer."""
    if key == DESCRIBE_QUORUM:
        if "nodes" in answer:
            answer["nodes"] = []  # controllers, which no client of a broker talks to
        return
    if key == DESCRIBE_CONFIGS:
        _hide_configs(answer)
        return
    for each in _named(key, answer):
        place = places.get(_id(each)) if each["host"] else None
        if place is not None:
            each["host"], each["port"] = place.host.encode(), place.port
        elif key == FIND_COORDINATOR:
            if _id(each) != NOBODY:
                each["error_code"] = refuse.COORDINATOR_NOT_AVAILABLE
            each["node_id"], each["host"], each["port"] = NOBODY, b"", NOBODY
        else:
            each["host"] = None  # taken out below
    array = ARRAYS[key]
    if key != FIND_COORDINATOR and answer.get(array):
        answer[array] = [each for each in answer[array] if each["host"] is not None]


def _named(key: int, answer: Message) -> Iterator[Message]:
    array = ARRAYS.get(key)
    if key == FIND_COORDINATOR and "host" in answer:  # before version 4 there is one, in the answer itself
        yield answer
    elif array is not None:
        yield from answer.get(array) or ()


def _id(each: Message) -> int:
    return int(next(each[field] for field in ID_FIELDS if field in each))


def _hide_configs(answer: Message) -> None:
    """Values of a broker's configs that hold addresses read null, as those of passwords do."""
    for result in answer["results"] or ():
        if result["resource_type"] not in (BROKER, BROKER_LOGGER):
            continue
        for config in result["configs"] or ():
            for each in (config, *(config.get("synonyms") or ())):
                if ADDRESS_CONFIGS.search(each["name"] or b""):
                    each["value"] = None
