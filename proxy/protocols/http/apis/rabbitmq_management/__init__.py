"""RabbitMQ's management API and the console that comes with it.

    surface      the closed table of routes, and of what answers must not tell
    judging      a call's verdict, by its row
    getting      `get`: the one call that answers with messages      contents   what is shown of each
    copies       shovels, federation, policies, bindings, …          graph      where messages can go
    publishing   what is written                                     refuse     how this API says no
    statistics   counters of bytes, passwords, addresses

Source: rabbitmq_management 3.10, its plug-ins' routes, and the console's JavaScript.
"""

from __future__ import annotations

from proxy.core.renditions import Renditions
from proxy.core.session import ProtocolEntry, SessionSettings
from proxy.core.viewer import Viewer
from rules.model import Platform

from ...session import HttpSession
from .judging import RabbitManagement
from .surface import surface_text

API = RabbitManagement()


def session(viewer: Viewer, settings: SessionSettings) -> HttpSession:
    return HttpSession(viewer, settings, API)


PROTOCOL = ProtocolEntry(
    "rabbitmq-management",
    frozenset({Platform.RABBITMQ}),
    session,
    surface_text,
    alpn=("http/1.1",),
    shared=Renditions,
    has_headers=True,
)
