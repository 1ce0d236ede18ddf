"""Answers to requests that do not get as far as the application, in the form of its own."""

from __future__ import annotations

import json
import ssl
import traceback
from http import HTTPStatus

from gunicorn.http import errors

from web_worker.reading import TooSlow

_STATUSES: dict[type[Exception], int] = {
    # Raised over what the application has answered; the first is a kind of a refusal below.
    errors.InvalidResponseHeader: 500,
    errors.InvalidResponseHeaderName: 500,
    errors.ConfigurationProblem: 500,
    TooSlow: 408,
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.ExpectationFailed: 417,
    # Also for a coding that is not known here (501 elsewhere): no client is to cause a 5xx.
    errors.ParseException: 400,
    ssl.SSLError: 400,
}
# Code, title and detail of each status.
_SAID = {
    400: (
        "bad_request",
        "The request cannot be read",
        "this is no HTTP/1.1 request that can be served: check its first line, headers and chunks",
    ),
    408: (
        "request_timeout",
        "The request comes too slowly",
        "send it faster, or in smaller pieces",
    ),
    414: (
        "http_414",
        "URI Too Long",
        "the first line of a request may have 8190 bytes: send fewer or shorter parameters",
    ),
    417: ("http_417", "Expectation Failed", "Expect may be 100-continue only"),
    431: (
        "http_431",
        "Request Header Fields Too Large",
        "a request may have 100 headers, of 8190 bytes each",
    ),
    500: (
        "internal_error",
        "Something went wrong here",
        "this is a fault of the server; its log has the details under the request id",
    ),
}


def status_of(error: Exception) -> int:
    """Which status a request is answered with that ended in ``error``."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)


def place_of(error: Exception) -> str:
    """Where it happened, without what is said of it: that may repeat values of a request."""
    return "".join(traceback.format_tb(error.__traceback__))


def refusal(status: int, request_id: str) -> bytes:
    """The whole answer."""
    code, title, detail = _SAID[status]
    members = {
        "type": f"/api/docs/#{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": request_id,
    }
    body = json.dumps(members).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Connection: close",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id}",
        "Queue-API-Version: 1",
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: same-origin",
    )
    return "\r\n".join((*head, "", "")).encode() + body
