"""The values that are measured, and the rules for them: batches of orders, of an exact size, the same on every machine."""

from __future__ import annotations

import json
import random

from rules.model import Field, FieldKind, Kind, Method, Partial, Platform, Redact, Rule, RuleBook
from rules.paths import parse_path

SEED = 7
SIZES = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}

_FIRST = ("Ada", "Zoë", "Jörg", "Inès", "Łukasz", "愛")
_LAST = ("Lovelace", "Müller", "O'Neil", "Śmigły-Rydz", "Núñez", "佐藤")
_CITIES = ("Berlin", "Kraków", "São Paulo", "Zürich", "東京")
_WORDS = ("lamp", "crème brûlée set", 'shelf, 19"', "desk\nmat", "kettle", "påskeegg", "mug 🙂", "C:\\cable", "rug")

Paths = tuple[tuple[str, Method], ...]

# Ten rules of one field each, with every kind of step. The last three name what no order has, as half of most rule sets do.
MIXED: Paths = (
    ("$.orders[*].customer.email", Partial(1, 0)),
    ("$.orders[*].cards[*].number", Partial(0, 4)),
    ("$.orders[*].customer.address.*", Redact()),
    ("$..iban", Redact()),
    ("$.orders[*]['billing']['vat_id']", Partial(2, 2)),
    ("$.orders[*].customer.phone", Redact()),
    ("$.orders[*].customer.name", Partial(1, 0)),
    ("$..ssn", Redact()),
    ("$.orders[*].notes[*]", Redact()),
    ("$.refunds[*].reason", Redact()),
)
UNMATCHED: Paths = (
    ("$.employee.email", Partial(1, 0)),
    ("$.employees[*].phone", Redact()),
    ("$.payroll.*", Redact()),
    ("$.payroll['net pay']", Partial(0, 2)),
    *((f"$..{name}", Redact()) for name in ("ssn", "passport", "salary", "tax_id", "birth_date", "pin")),
)
NAMES = ("email", "number", "iban", "vat_id", "phone", "name", "street", "zip", "city", "ssn")
"""Ten field names for the tools that mask by name alone."""


def book(paths: Paths, pattern: str, platform: Platform = Platform.REDIS) -> RuleBook:
    """One rule a path, on the keys (of Kafka the topics) that the pattern takes in."""
    kind = Kind.TOPIC if platform is Platform.KAFKA else Kind.KEY
    return RuleBook("bench", tuple(_rule(number, platform, (kind, (pattern,)), *each) for number, each in enumerate(paths, 1)))


def _rule(number: int, platform: Platform, covers: tuple[Kind, tuple[str, ...]], path: str, method: Method) -> Rule:
    field = Field(FieldKind.JSON_PATH, method, parse_path(path))
    return Rule(f"rule {number}", platform, (covers,), fields=(field,))


def compact(size: int, seed: int = SEED) -> bytes:
    """A batch as `json.dumps` writes it without blanks and in UTF-8: canonical JSON."""
    return _written(size, indent=None, ascii_only=False, seed=seed)


def indented(size: int) -> bytes:
    """A batch with each member in a line of its own."""
    return _written(size, indent=1, ascii_only=False)


def escaped(size: int) -> bytes:
    """A batch in ASCII alone: every other character is an escape."""
    return _written(size, indent=None, ascii_only=True)


def _written(size: int, *, indent: int | None, ascii_only: bool, seed: int = SEED) -> bytes:
    """As many orders as fit, one at least, then padding up to the size to the byte."""
    separators = (",", ":") if indent is None else (",", ": ")
    chance = random.Random(seed)

    def batch(orders: list[object], padding: str = "") -> bytes:
        value = {"batch": "b-20240517", "sequence": 1234567890123456789, "orders": orders, "padding": padding}
        return json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators).encode()

    orders: list[object] = []
    around = taken = len(batch([])) + 1
    while taken < size:
        orders.append(_order(chance, len(orders) + 1))
        taken += len(batch(orders[-1:])) - around
    while len(batch(orders)) > size:
        orders.pop()
    assert orders
    return batch(orders, "x" * (size - len(batch(orders))))


def _order(chance: random.Random, number: int) -> dict[str, object]:
    def words(count: int) -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(count))

    def digits(count: int) -> str:
        return "".join(chance.choice("0123456789") for _ in range(count))

    several = 1 if number == 1 else 2
    return {
        "id": number,
        "created": f"2024-05-17T{chance.randrange(24):02}:{chance.randrange(60):02}:00Z",
        "customer": {
            "name": f"{chance.choice(_FIRST)} {chance.choice(_LAST)}",
            "email": f"user{digits(5)}@example.org",
            "phone": "+49 30 " + digits(7),
            "vip": chance.random() < 0.3,
            "address": {"street": words(several), "zip": digits(5), "city": chance.choice(_CITIES)},
        },
        "cards": [{"brand": "visa", "number": "4" + digits(15), "expires": "12/29"} for _ in range(chance.randint(1, several))],
        "billing": {"iban": "DE" + digits(20), "vat_id": "DE" + digits(9), "net": 129.90, "rate": 1.9e-1, "paid": True},
        "items": [
            {
                "sku": "SKU-" + digits(5),
                "quantity": chance.randint(1, 9),
                "price": round(chance.random() * 100, 2),
                "title": words(several),
            }
            for _ in range(chance.randint(1, several + 1))
        ],
        "notes": [words(several)],
        "source": None,
    }
