"""Python 3.11.0 to 3.11.4, among them that of Debian 12, take a wrong way through possessive and atomic groups whose
inside can go back, has alternatives or captures (gh-101955, gh-106052): they do not match what they should, or tell
wrong places. What scans contents must not depend on that, so only single characters and classes are possessive.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import proxy
import proxy.protocols.redis
import rules

TREE = Path(__file__).parent.parent
SOURCES = sorted(file for folder in ("rules", "proxy") for file in (TREE / folder).rglob("*.py"))

PARSER = importlib.import_module("re._parser")
ONE_CHARACTER = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE"}

QUANTIFIER = r"(?:[*+?]|\{[^{}\s]*\})"
ON_A_GROUP = re.compile(rf"\){QUANTIFIER}\+|\(\?>")
ON_WHAT_STANDS_BEFORE = re.compile(rf"""["']{QUANTIFIER}\+""")  # of a text that is put together


def patterns(package: Any) -> Iterator[tuple[str, re.Pattern[Any]]]:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern):
                    yield f"{module.name}.{name}", value


def parts(parsed: Any) -> Iterator[tuple[str, Any]]:
    """Every operation of a parsed expression with its arguments, however deep."""
    for operation, arguments in parsed:
        yield str(operation), arguments
        yield from inside(arguments)


def inside(arguments: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(arguments, PARSER.SubPattern):
        yield from parts(arguments)
    elif isinstance(arguments, (tuple, list)):
        for each in arguments:
            yield from inside(each)


def is_one_character(body: Any) -> bool:
    operation, arguments = body[0]
    if len(body) == 1 and str(operation) == "SUBPATTERN":
        return arguments[0] is None and is_one_character(arguments[-1])
    return len(body) == 1 and str(operation) in ONE_CHARACTER


def possessive_groups(pattern: str | bytes, flags: int = 0) -> list[str]:
    return [
        operation
        for operation, arguments in parts(PARSER.parse(pattern, flags & ~re.UNICODE if isinstance(pattern, bytes) else flags))
        if operation == "ATOMIC_GROUP" or (operation == "POSSESSIVE_REPEAT" and not is_one_character(arguments[2]))
    ]


def endless_groups(pattern: re.Pattern[Any]) -> list[int]:
    """How often what is more than a character is repeated, where that is more than a few thousand."""
    return [
        int(arguments[1])
        for operation, arguments in parts(PARSER.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
        if operation in {"MAX_REPEAT", "MIN_REPEAT"} and arguments[1] > 4096 and not is_one_character(arguments[2])
    ]


EVERY_PATTERN = [*patterns(rules), *patterns(proxy)]
OF_CONTENTS = [each for each in EVERY_PATTERN if each[0].startswith(("rules.scan.", "proxy.protocols."))]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(TREE)))
def test_no_source_spells_a_possessive_or_atomic_group(file: Path) -> None:
    source = file.read_text(encoding="utf-8")

    assert [match[0] for each in (ON_A_GROUP, ON_WHAT_STANDS_BEFORE) for match in each.finditer(source)] == []


@pytest.mark.parametrize(("name", "pattern"), EVERY_PATTERN, ids=[name for name, _ in EVERY_PATTERN])
def test_no_expression_has_a_possessive_or_atomic_group(name: str, pattern: re.Pattern[Any]) -> None:
    assert possessive_groups(pattern.pattern, pattern.flags) == []


@pytest.mark.parametrize(("name", "pattern"), OF_CONTENTS, ids=[name for name, _ in OF_CONTENTS])
def test_no_expression_that_meets_contents_repeats_a_group_without_end(name: str, pattern: re.Pattern[Any]) -> None:
    """Each round keeps a way back, some hundred bytes: a long value would take many times its size."""
    assert endless_groups(pattern) == []


def test_the_expressions_of_the_scanner_are_among_those_looked_at() -> None:
    assert {"rules.scan.walk._MEMBER", "rules.scan.walk._DEAD_PAIRS"} <= {name for name, _ in OF_CONTENTS}
    assert len(EVERY_PATTERN) > 20


@pytest.mark.parametrize("written", ["(?:ab)*+", "(?:a|bc)++", "(?:[a]b)?+", "(ab){2,3}+", "(a)*+", "x(?>a*)b", "((?:ab|c)++)"])
def test_a_possessive_group_is_found_in_source_and_expression(written: str) -> None:
    assert ON_A_GROUP.search(f'r"{written}"')
    assert possessive_groups(written)
    assert possessive_groups(written.encode())


@pytest.mark.parametrize("written", ["[ab]*+c", "a++", ".?+", "(?:ab)*", "(?:[a]++b)*", r"[^\s]{2}+", "(?:a|b){3}", "a+"])
def test_a_possessive_class_is_none(written: str) -> None:
    assert not ON_A_GROUP.search(f'r"{written}"')
    assert not possessive_groups(written)
    assert not possessive_groups(written.encode())


def test_a_group_repeated_without_end_is_found() -> None:
    assert endless_groups(re.compile("(?:ab)*"))
    assert endless_groups(re.compile(b"x(?:(?:a+b){1,9000}?y)"))
    assert not endless_groups(re.compile("(?:ab){0,1000}[cd]*"))


def test_a_possessive_sign_after_a_named_piece_is_found() -> None:
    assert ON_WHAT_STANDS_BEFORE.search('_ONE + rb"{%d}+" % many')
    assert ON_WHAT_STANDS_BEFORE.search("_ONE + r'*+'")
