"""One of several processes: what the supervisor hands over becomes a running `App`."""

from __future__ import annotations

import base64
import binascii
import os
import socket
import sys
from collections.abc import Mapping

from proxy import app
from proxy.core.errors import ConfigError
from proxy.core.session import ProtocolEntry
from proxy.runtime.listen import CannotBind
from proxy.runtime.log import Log
from proxy.runtime.workers.channel import Channel, ChannelBroken, encode, first_message
from proxy.runtime.workers.desk import Desk
from proxy.settings import load_configuration

FINE, REFUSED, CANNOT_BIND = 0, 2, 3


def run(given: str, descriptor: int, protocols: Mapping[str, ProtocolEntry]) -> int:
    """Serves until the supervisor wants it to end, or is gone. Comes back with the exit code."""
    try:
        os.set_inheritable(descriptor, False)
        own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptor)
        own.getpeername()
    except OSError:
        sys.stderr.write("veil: --worker is for veil itself: use --workers\n")
        return REFUSED
    try:
        hello, behind = first_message(own)
        number, most = int(hello["worker"]), int(hello["most"])
        config = base64.b64decode(hello["config"])
        sockets = [[socket.socket(fileno=int(each)) for each in listener] for listener in hello["sockets"]]
    except (ChannelBroken, OSError, KeyError, TypeError, ValueError, binascii.Error):
        return REFUSED  # the supervisor has gone, or was none
    for listener in sockets:
        for each in listener:
            each.set_inheritable(False)
    link = own.dup()  # what goes wrong is told before there is a loop, or after it
    log = Log(worker=number)
    try:
        configuration = load_configuration(given, os.environ, protocols, config)
        app.run(configuration, protocols, log, lambda: app.Part(most, sockets, Desk(Channel(own, behind))))
    except ConfigError as bad:
        return _refuse(link, REFUSED, [str(problem) for problem in bad.problems])
    except CannotBind as failed:
        return _refuse(link, CANNOT_BIND, [str(failed)])
    return FINE


def _refuse(link: socket.socket, code: int, problems: list[str]) -> int:
    link.setblocking(True)
    link.settimeout(1.0)
    try:
        link.sendall(encode({"refused": code, "problems": problems}))
    except OSError:
        return code  # nobody is there to be told
    return code
