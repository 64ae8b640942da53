"""Where contents sit in the replies of Redis commands. (interface stub)"""

from __future__ import annotations

from .lens import Shape

SHAPES: dict[str, Shape] = {}
