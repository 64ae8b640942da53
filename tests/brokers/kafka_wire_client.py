"""A blocking Kafka client that keeps every byte: one request out, one frame in.

Requests are kio's dataclasses. Answers are decoded by kio only when asked to, and only ever bytes of a broker of the tests:
its reader ends the process on a wrong length, so nothing damaged on purpose may be handed to it.
Source: the Kafka protocol guide, "Protocol Primitive Types" and "Common Request and Response Structure".
"""

from __future__ import annotations

import io
import itertools
import socket
import struct
from typing import Self

from kio.index import load_response_schema
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

TIMEOUT_S = 15.0


def frame(body: bytes) -> bytes:
    """The body behind its four bytes of length."""
    return struct.pack(">i", len(body)) + body


def encode(request: RequestPayload, correlation_id: int, client_id: str | None = "wire") -> bytes:
    """One request with its header, without its length."""
    out = io.BytesIO()
    header_type = request.__header_schema__
    header = header_type(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    entity_writer(header_type)(out, header)
    entity_writer(type(request))(out, request)
    return out.getvalue()


def decode(answer: bytes, api_key: int, version: int) -> tuple[int, ResponsePayload]:
    """The correlation id and the response in a frame that a broker of the tests sent, taken without its length."""
    kind = load_response_schema(api_key, version)
    header, size = entity_reader(kind.__header_schema__)(answer, 0)
    response, end = entity_reader(kind)(answer, size)
    if size + end != len(answer):
        raise ValueError(f"{len(answer) - size - end} bytes behind the response")
    return header.correlation_id, response


class KafkaWireClient:
    """One connection. `received` is every byte that came, lengths included."""

    def __init__(self, host: str, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ids = itertools.count(1)
        self.received = bytearray()

    def send(self, request: RequestPayload, client_id: str | None = "wire") -> int:
        """Its correlation id."""
        number = next(self._ids)
        self.send_bytes(frame(encode(request, number, client_id)))
        return number

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> bytes:
        """The next frame without its length.

        Raises:
            ConnectionError: the other side ended before or inside it.
            TimeoutError: nothing came.
        """
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            data = self._socket.recv(count - len(parts))
            if not data:
                raise ConnectionResetError(f"closed after {len(parts)} of {count} bytes")
            parts += data
            self.received += data
        return bytes(parts)

    def at_end(self) -> bool:
        """Whether the other side hung up; waits for it or for a byte."""
        try:
            data = self._socket.recv(1)
        except ConnectionError:
            return True
        self.received += data
        return not data

    def exchange(self, request: RequestPayload) -> bytes:
        """The frame that answers, undecoded, its correlation id in front."""
        number = self.send(request)
        answer = self.read()
        if struct.unpack(">i", answer[:4]) != (number,):
            raise ValueError("the answer belongs to another request")
        return answer

    def call(self, request: RequestPayload) -> ResponsePayload:
        """The decoded answer; broker bytes only."""
        return decode(self.exchange(request), request.__api_key__, request.__version__)[1]

    def metadata(self) -> MetadataResponse:
        """Nodes, and all topics."""
        answer = self.call(MetadataRequest(topics=None, include_topic_authorized_operations=False))
        assert isinstance(answer, MetadataResponse)
        return answer

    def login(self, user: str, password: str) -> int:
        """The error code of SASL PLAIN, 0 for a yes. Source: KIP-152, RFC 4616."""
        self.call(SaslHandshakeRequest(mechanism="PLAIN"))
        told = f"\0{user}\0{password}".encode()
        answer = self.call(SaslAuthenticateRequest(auth_bytes=told))
        assert isinstance(answer, SaslAuthenticateResponse)
        return int(answer.error_code.value)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
