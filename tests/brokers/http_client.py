"""A small HTTP client that keeps every byte it received."""

from __future__ import annotations

import base64
import json
import socket
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any, Self

WAIT_S = 30.0


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HttpClient:
    """One connection; a call at a time."""

    def __init__(self, host: str, port: int, login: tuple[str, str] | None = None) -> None:
        self.received = bytearray()
        self._address = host, port
        self._login = login
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> HttpAnswer:
        """One call. `body` is JSON, or bytes as they are."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"Host": f"{self._address[0]}:{self._address[1]}"}
        if self._login is not None:
            told["Authorization"] = "Basic " + base64.b64encode(":".join(self._login).encode()).decode()
        if content or method in {"POST", "PUT"}:
            told |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in told.items()) + "\r\n"
        return self.raw(head.encode() + content, method)

    def raw(self, data: bytes, method: str = "GET") -> HttpAnswer:
        """Sends these bytes and reads one answer."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=WAIT_S)
        self._socket.sendall(data)
        answer = HTTPResponse(self._socket, method=method)
        answer.begin()
        body = answer.read()
        told = {name.lower(): value for name, value in answer.getheaders()}
        self.received += repr(sorted(told.items())).encode() + body
        if answer.will_close:
            self.close()
        return HttpAnswer(answer.status, told, body)
