"""Where the audit trail is written: a file or a stream of Redis, as blocking calls that the journal makes from a thread."""

from .base import Item, RulesOf, Trail, TrailError
from .file import FileTrail

__all__ = ["FileTrail", "Item", "RulesOf", "Trail", "TrailError"]
