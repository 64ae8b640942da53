"""The words that every format of records shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from proxy.core.errors import WireError

MIB = 1024 * 1024
RATIO_FROM = 1 * MIB  # small batches of equal records are legal at any ratio, and cheap


class BadRecords(WireError):
    """A record section that cannot be opened safely: the caller withholds the partition. The text bears no contents."""


Headers: TypeAlias = list[tuple[bytes, bytes | None]]
"""Names, in order and as often as they stand there, with their values; None is Kafka's null."""

Edit: TypeAlias = Callable[[bytes | None, bytes | None, bytes], tuple[bytes | None, bytes | None, bytes] | None]
"""Key, value and header section of a record -> None (its very bytes stay) or the three that stand in their place.

None for a key or a value is Kafka's null. The header section is checked and raw: `read_headers`, `write_headers`.
"""


class Bounds(NamedTuple):
    """What one call may open.

    opened_bytes: one batch once decompressed; masked, it may grow to twice that, or to twice what it was.
    ratio: decompressed to compressed, from RATIO_FROM on.
    total_bytes: all batches of a call, opened; further ones are left out as if the room ended there.
    records: of one batch, and of a call as total_bytes is: with seven bytes a record they cost time, not bytes.
    """

    opened_bytes: int = 64 * MIB
    ratio: int = 100
    total_bytes: int = 256 * MIB
    records: int = 1_000_000

    def most(self, compressed_bytes: int) -> int:
        """Bytes that a batch of so many compressed ones may come to."""
        return min(self.opened_bytes, max(RATIO_FROM, self.ratio * compressed_bytes))

    def grown(self, opened_bytes: int) -> int:
        """Bytes that a batch of so many opened ones may come to once masked: marks and masks are longer than what is short."""
        return 2 * max(self.opened_bytes, opened_bytes)


DEFAULT = Bounds()


class Opened(NamedTuple):
    """One batch, opened. `parts` is what stands in its place, None when no record was changed."""

    parts: list[bytes] | None
    records: int
    opened_bytes: int
