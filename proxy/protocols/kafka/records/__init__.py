"""Record sections: what Fetch, ShareFetch and Produce carry of a partition, opened record by record.

    section      batches one behind the other, of any format; whole ones, a partial one at the end is dropped
    ├── batch    format v2: header, CRC32C, records, control markers
    ├── legacy   formats v0 and v1: single messages and compressed wrappers
    └── compression, headers, varint

Knows how records are framed. Does not know topics, rules or requests: what stands in a record's place, an `Edit` says.
What is not changed goes out as the bytes that came; what cannot be opened safely is BadRecords.
Source: KIP-98 (format v2), KIP-31 and KIP-32 (v1), KIP-110 (zstd), KIP-534 (delete horizon).
"""

from __future__ import annotations

from .headers import read_headers, write_headers
from .model import BadRecords, Bounds, Edit, Headers
from .section import Spliced, has_records, splice, whole_batches

__all__ = [
    "BadRecords",
    "Bounds",
    "Edit",
    "Headers",
    "Spliced",
    "has_records",
    "read_headers",
    "splice",
    "whole_batches",
    "write_headers",
]
