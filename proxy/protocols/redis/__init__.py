"""Redis, RESP2 and RESP3."""

from proxy.core.session import ProtocolEntry
from rules.model import Platform

from . import surface
from .session import RedisSession

PROTOCOL = ProtocolEntry("redis", frozenset({Platform.REDIS}), RedisSession, surface.as_text)
