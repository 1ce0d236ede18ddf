"""One HTTP exchange that stays within its rules: allowed host, checked address, one deadline.

The name is resolved once and the checked address is what is connected to, so that a second answer
of the name server cannot lead elsewhere (DNS rebinding). Proxies of the environment are not used:
they would resolve the name again. Messages name the host and nothing else of the request.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from queueapp.handlers import policy
from queueapp.handlers.addresses import is_public
from queueapp.handlers.hosts import DEFAULT_PORTS, Target, is_allowed, rules

BODY_LIMIT = 8 * 1024
REDIRECTS = (301, 302, 303, 307, 308)


class HostRefused(Exception):
    """The rules do not let this request go there; trying again would not change that."""


class Unreachable(Exception):
    """No answer: the name, the connection, the certificate or the time failed us."""


@dataclass(frozen=True)
class Request:
    """What is sent where."""

    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None


@dataclass(frozen=True)
class Answer:
    """What came back. ``truncated``: the body was longer than its limit, or broke off."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    truncated: bool


def exchange(request: Request, deadline: float) -> Answer:
    """Send ``request`` and read its answer until ``deadline`` (of ``time.monotonic``).

    Does not follow redirects. Raises HostRefused and Unreachable.
    """
    target = request.target
    connection = _Connection(target, _checked_addresses(target), deadline)
    try:
        with _send(connection, request) as response:
            return _read(response)
    except TimeoutError:
        raise Unreachable(f"{target.host} did not answer in time") from None
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"{target.host}: certificate refused: {error.verify_message}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{target.host}: {_in_short(error)}") from None
    finally:
        connection.close()


def _checked_addresses(target: Target) -> list[Any]:
    rules_here = policy.current()
    if not is_allowed(target, rules(rules_here.http_allowed_hosts)):
        raise HostRefused(f"{target.authority} is not among QUEUE_HTTP_ALLOWED_HOSTS")
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{target.host}: {_in_short(error)}") from None
    fit = [one for one in found if rules_here.http_allow_private or is_public(str(one[4][0]))]
    if not fit:
        raise HostRefused(
            f"{target.host} has a private or reserved address;"
            " QUEUE_HTTP_ALLOW_PRIVATE=1 would allow it"
        )
    return fit


def _in_short(error: Exception) -> str:
    # Texts of HTTPException quote what the server sent or what we asked for.
    told = error.strerror if isinstance(error, OSError) else None
    return told or type(error).__name__


def _send(connection: _Connection, request: Request) -> http.client.HTTPResponse:
    # A server that says no before it has read everything: its answer may still be there.
    with suppress(BrokenPipeError):
        connection.request(
            request.method, request.target.path, body=request.body, headers=request.headers
        )
    return connection.getresponse()


def _read(response: http.client.HTTPResponse) -> Answer:
    if response.status in REDIRECTS and response.headers.get("Location"):
        return Answer(response.status, response.headers, b"", truncated=False)
    body, truncated = _body(response, response.length)
    return Answer(response.status, response.headers, body, truncated)


def _body(response: http.client.HTTPResponse, length: int | None) -> tuple[bytes, bool]:
    body = b""
    wanted = BODY_LIMIT + 1 if length is None else min(length, BODY_LIMIT + 1)
    try:
        while len(body) < wanted:
            part = response.read1(wanted - len(body))
            if not part:
                break
            body += part
    except (OSError, http.client.HTTPException):
        # The status has come, and it decides: a body that breaks off or drips on is cut here.
        return body[:BODY_LIMIT], True
    missing = length is not None and len(body) < wanted
    return body[:BODY_LIMIT], missing or len(body) > BODY_LIMIT


class _Connection(http.client.HTTPConnection):
    """An HTTP connection that dials addresses it is given instead of resolving a name."""

    def __init__(self, target: Target, addresses: list[Any], deadline: float) -> None:
        super().__init__(target.host, target.port)
        self.default_port = DEFAULT_PORTS[target.scheme]
        self._secure = target.scheme == "https"
        self._addresses = addresses
        self._deadline = deadline

    def connect(self) -> None:
        """Connect to the first address that answers, each with its share of the time left."""
        refusal: OSError = TimeoutError()
        for tried, (family, kind, protocol, _name, address) in enumerate(self._addresses):
            plain = _TimedSocket(family, kind, protocol)
            plain.deadline = self._deadline
            try:
                plain.settimeout(_left(self._deadline) / (len(self._addresses) - tried))
                plain.connect(address)
                self.sock = self._secured(plain) if self._secure else plain
                return
            except OSError as error:
                plain.close()
                refusal = error
        raise refusal

    def _secured(self, plain: _TimedSocket) -> ssl.SSLSocket:
        plain.settimeout(_left(self._deadline))
        # The certificate must be for the name that was asked for, not for the address.
        secured = _tls().wrap_socket(plain, server_hostname=self.host)
        assert isinstance(secured, _TimedTlsSocket)
        secured.deadline = self._deadline
        return secured


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


if TYPE_CHECKING:
    _Base = socket.socket
else:
    _Base = object


class _Timed(_Base):
    """Bounds all reads and writes together: a server that sends a byte a second ends with them."""

    deadline: float

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_left(self.deadline))
        return super().recv_into(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_left(self.deadline))
        return super().send(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(_left(self.deadline))
        super().sendall(*args, **kwargs)


class _TimedSocket(_Timed, socket.socket):
    pass


class _TimedTlsSocket(_Timed, ssl.SSLSocket):
    pass


@cache
def _tls() -> ssl.SSLContext:
    # Once: reading the system's certificates takes longer than many a request.
    context = ssl.create_default_context()
    context.sslsocket_class = _TimedTlsSocket
    return context
