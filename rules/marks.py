"""What an answer says of itself where its protocol has a place for it: what was masked, and what was lifted.

A mark names fields, methods and rules, and never a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .cut import Bytes, Cut
from .model import Rule

MASKED = "veil-masked"
UNMASKED = "veil-unmasked"


def masked(cuts: Iterable[Cut[Bytes]], rules: Sequence[Rule]) -> bytes:
    """The text of `veil-masked`: an entry for each field, method and rule that decided a byte, in the order of the rules,
    and one for each reason that something was masked whole. ASCII JSON."""
    order = {rule.name: number for number, rule in enumerate(rules)}
    entries: list[tuple[int, dict[str, str | None]]] = []
    for cut in cuts:
        entries += [
            (order.get(hit.rule, len(order)), {"field": hit.field, "method": hit.method, "rule": hit.rule}) for hit in cut.hits
        ]
        if cut.whole is not None:
            entries.append((order.get(cut.rule or "", len(order)), {"whole": cut.whole, "rule": cut.rule}))
    entries.sort(key=lambda entry: entry[0])
    return _json(list({tuple(entry.items()): entry for _, entry in entries}.values()))


def unmasked(rules: Iterable[Rule]) -> bytes:
    """The text of `veil-unmasked`: the names of the rules that were lifted. ASCII JSON."""
    return _json([rule.name for rule in rules])


def _json(told: object) -> bytes:
    return json.dumps(told, ensure_ascii=True, separators=(",", ":")).encode("ascii")
