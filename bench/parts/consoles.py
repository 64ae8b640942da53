"""How other tools mask: the whole value parsed to a tree, the fields found in it, the tree written again.

Written as well as can be in Python, and once for each of two libraries, so that the comparison is one of methods. What
this way loses is in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rules.model import Descend, Every, JsonPath, Method, Name, Partial, PathStep

MASK = "••••"

Masker = Callable[[bytes], bytes]
Parse = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


def by_name(names: Sequence[str], parse: Parse, write: Write) -> Masker:
    """A list of field names, looked for at every depth and replaced (as kafbat does)."""
    listed = frozenset(names)

    def mask(data: bytes) -> bytes:
        tree = parse(data)
        left = [tree]
        while left:
            node = left.pop()
            if isinstance(node, dict):
                for name, value in node.items():
                    if name in listed:
                        node[name] = _replaced(value)
                    elif isinstance(value, (dict, list)):
                        left.append(value)
            elif isinstance(node, list):
                left.extend(each for each in node if isinstance(each, (dict, list)))
        return write(tree)

    return mask


def by_path(paths: Sequence[tuple[JsonPath, Method]], parse: Parse, write: Write) -> Masker:
    """A list of paths, each followed from the top (as kafkito does)."""
    listed = [(path.steps[:-1], path.steps[-1], method) for path, method in paths]

    def mask(data: bytes) -> bytes:
        tree = parse(data)
        for steps, last, method in listed:
            nodes = [tree]
            for step in steps:
                nodes = _below(nodes, step)
            _mask_below(nodes, last, method)
        return write(tree)

    return mask


def _below(nodes: list[Any], step: PathStep) -> list[Any]:
    """What the step leads to."""
    if isinstance(step, Name):
        name = step.name
        return [node[name] for node in nodes if type(node) is dict and name in node]
    if isinstance(step, Descend):
        name = step.name
        return [node[name] for node in _objects(nodes) if name in node]
    found: list[Any] = []
    for node in nodes:
        if type(node) is list:
            found += node
        elif type(node) is dict:
            found += node.values()
    return found


def _mask_below(nodes: list[Any], step: PathStep, method: Method) -> None:
    """Masks what the step leads to."""
    if isinstance(step, Every):
        for node in nodes:
            if type(node) is list:
                node[:] = [_masked(each, method) for each in node]
            elif type(node) is dict:
                for name in node:
                    node[name] = _masked(node[name], method)
        return
    name = step.name
    objects = _objects(nodes) if isinstance(step, Descend) else [node for node in nodes if type(node) is dict]
    for node in objects:
        if name in node:
            node[name] = _masked(node[name], method)


def _objects(nodes: list[Any]) -> list[dict[str, Any]]:
    """Every object among the nodes and below them."""
    found: list[dict[str, Any]] = []
    left = list(nodes)
    while left:
        node = left.pop()
        if type(node) is dict:
            found.append(node)
            left += [each for each in node.values() if type(each) is dict or type(each) is list]
        elif type(node) is list:
            left += [each for each in node if type(each) is dict or type(each) is list]
    return found


def _replaced(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each) for each in value]
    return None if value is None else MASK


def _masked(value: Any, method: Method) -> Any:
    if isinstance(value, str) and isinstance(method, Partial):
        hidden = len(value) - method.keep_first - method.keep_last
        return value[: method.keep_first] + "•" * hidden + value[len(value) - method.keep_last :] if hidden > 0 else MASK
    return _replaced(value)
