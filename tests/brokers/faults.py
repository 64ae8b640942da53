"""What befalls the network between two processes: an address of another network, a line that falls silent."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Forward(socketserver.BaseRequestHandler):
    """Carries bytes both ways until one side ends."""

    to: tuple[str, int]

    def handle(self) -> None:
        with socket.create_connection(self.to) as there:
            while ready := select.select([self.request, there], [], [], 20)[0]:
                for each in ready:
                    try:
                        data = each.recv(65536)
                        if not data:
                            return
                        (there if each is self.request else self.request).sendall(data)
                    except OSError:
                        return


class _Forwarder(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


@contextmanager
def forwarded(to: tuple[str, int], port: int = 0) -> Iterator[int]:
    """A port that leads to a server, as an address of another network would."""
    handler = type("_To", (_Forward,), {"to": to})
    with _Forwarder(("127.0.0.1", port), handler) as forward:
        threading.Thread(target=forward.serve_forever, args=(0.05,), daemon=True).start()
        yield forward.server_address[1]
        forward.shutdown()
