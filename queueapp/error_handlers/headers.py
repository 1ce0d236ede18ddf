"""What every answer carries: the security headers and the id of its request."""

from __future__ import annotations

import re
import uuid
from urllib.parse import quote, urlsplit, urlunsplit

from flask import Response, g, request
from werkzeug.routing import RequestRedirect

# No inline script or style, nothing from elsewhere, no frame around us.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def request_id() -> str:
    """The present request's id: the one it came with if that is fit for a log, else a new one."""
    if "request_id" not in g:
        given = request.headers.get("X-Request-Id", "")
        g.request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
    known: str = g.request_id
    return known


def logged_path() -> str:
    """The present request's path, fit for a line of a log, which nobody may forge."""
    return quote(request.path[:200], safe="/")


def secure(response: Response) -> Response:
    """Add the headers, leaving alone what a view has set itself; keep redirects on this host."""
    if isinstance(request.routing_exception, RequestRedirect):
        # Scheme and host are those that a proxy in front knows, or whatever a client makes up.
        response.location = urlunsplit(("", "", *urlsplit(response.location or "")[2:]))
    for name, value in (
        ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "same-origin"),
        ("X-Request-Id", request_id()),
    ):
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response
