"""One blocking connection to a Redis of Veil's own. It never connects again or sends anything twice by itself.

What fails is told in a few words of our own: a server's error may repeat what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .secret import RedisUrl
from .upstream import Address

if TYPE_CHECKING:
    from redis.connection import Connection


class LinkError(OSError):
    """The server cannot be reached, or hung up, or does not answer in time; the link is closed."""


class AnswerError(Exception):
    """The server answered with an error; `code` is its first word."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the server says {code}")
        self.code = code


class LoginError(LinkError):
    """The server does not accept the user or password."""


class RedisLink:
    def __init__(self, url: RedisUrl, *, connect_s: float, answer_s: float) -> None:
        """Connects and logs in.

        Raises:
            LoginError, LinkError: it cannot.
        """
        from redis.backoff import NoBackoff
        from redis.connection import Connection, SSLConnection
        from redis.exceptions import AuthenticationError, RedisError, ResponseError
        from redis.retry import Retry

        self._errors = RedisError
        self._response_error = ResponseError
        settings: dict[str, Any] = {
            "host": url.address.host,
            "port": url.address.port,
            "db": url.database,
            "username": url.user,
            "password": None if url.password is None else url.password.reveal(),
            "socket_connect_timeout": connect_s,
            "socket_timeout": answer_s,
            "retry": Retry(NoBackoff(), 0),  # what may have been written is not written again
            "protocol": 2,
        }
        if url.tls:
            settings |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True, "ssl_ca_certs": url.ca}
        self._connection: Connection | None = None
        try:
            self._connection = SSLConnection(**settings) if url.tls else Connection(**settings)  # type: ignore[no-untyped-call]
            self._connection.connect()  # type: ignore[no-untyped-call]
        except AuthenticationError:
            self.close()
            raise LoginError("does not accept the user or password") from None
        except ResponseError as answered:
            self.close()
            if _code(answered) in ("WRONGPASS", "NOAUTH", "NOPERM"):
                raise LoginError("does not accept the user or password") from None
            raise LinkError(f"cannot be used: the server says {_code(answered)}") from None
        except (RedisError, OSError, ValueError):  # ValueError: a name that is none
            self.close()
            raise LinkError("cannot be reached") from None

    def call(self, *words: str | bytes | int) -> Any:
        """The answer to one command.

        Raises:
            AnswerError: it is an error.
            LinkError: there is none.
        """
        (answer,) = self.pipeline(words)
        if isinstance(answer, AnswerError):
            raise answer
        return answer

    def pipeline(self, *commands: Sequence[str | bytes | int]) -> list[Any]:
        """The answers to several commands in one round trip; those that are errors as `AnswerError`.

        Raises:
            LinkError: one of them did not come.
        """
        if self._connection is None:
            raise LinkError("is not connected")
        answers: list[Any] = []
        try:
            self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)  # type: ignore[no-untyped-call]
            for _ in commands:
                try:
                    answers.append(self._connection.read_response())
                except self._response_error as answered:
                    answers.append(AnswerError(_code(answered)))
        except (self._errors, OSError):
            self.close()
            raise LinkError("does not answer") from None
        return answers

    def info(self) -> bytes:
        """What INFO tells by default."""
        told = self.call("INFO")
        return told if isinstance(told, bytes) else b""

    def reached(self) -> tuple[Address, ...]:
        """The address that the name led to in the end; none where the connection is gone."""
        connection: Any = self._connection
        try:
            host, port, *_ = connection._sock.getpeername()  # noqa: SLF001 - the library has no public name for it
            return (Address(str(host), int(port)),)
        except (OSError, AttributeError, ValueError):
            return ()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()  # type: ignore[no-untyped-call]
            self._connection = None


def fields_of(info: bytes) -> dict[str, str]:
    """The fields of an answer to INFO."""
    lines = info.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def _code(answered: Exception) -> str:
    """The code word; redis-py takes the commonest of them, ERR and some others, away."""
    words = {
        "NoPermissionError": "NOPERM",
        "BusyLoadingError": "LOADING",
        "ReadOnlyError": "READONLY",
        "OutOfMemoryError": "OOM",
        "NoScriptError": "NOSCRIPT",
    }
    known = words.get(type(answered).__name__)
    first = str(answered).split(" ", 1)[0]
    return known or (first if first.isascii() and first.isalpha() and first.isupper() else "ERR")
