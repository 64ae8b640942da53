"""Kafka Connect's REST API: connectors are copies, and their configs and traces tell of what they copy.

    surface.tsv  the closed table of routes
    judging      a call's verdict, by its row       configs   what a connector's config says that it reads
    showing      what of an answer is hidden: traces, secrets, addresses of workers

A connector whose topics a rule masks for the reader is refused in every form in which it could be made or set going.
Only topics that are named plainly are compared with the rules; any other way to name them is refused while any rule
masks. Source: Kafka's documentation of the REST API; KIP-477 (patch), KIP-875 (offsets), KIP-980 (initial state).
"""

from __future__ import annotations

from proxy.core.session import ProtocolEntry, SessionSettings
from proxy.core.viewer import Viewer
from rules.model import Platform

from ...session import HttpSession
from .judging import DOES, ROUTES, KafkaConnect

__all__ = ["DOES", "PROTOCOL", "ROUTES", "KafkaConnect"]
API = KafkaConnect()


def session(viewer: Viewer, settings: SessionSettings) -> HttpSession:
    return HttpSession(viewer, settings, API)


PROTOCOL = ProtocolEntry(
    "kafka-connect",
    frozenset({Platform.KAFKA}),
    session,
    lambda: ROUTES.text(DOES),
    alpn=("http/1.1",),
    has_headers=True,
)
