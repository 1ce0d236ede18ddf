"""Where a request comes from: the machine itself or not, this site or another one.

Both answers come from what a page of another site cannot forge: the peer's address, ``Host``,
``Origin`` and the browser's fetch metadata. There is no token in the forms to expire.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from werkzeug.wrappers import Request

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_FORWARDED = re.compile(
    r"(?:x-forwarded|x-original)-?.*|forwarded|via|x-real-ip|x-client-ip|x-cluster-client-ip"
    r"|(?:true|cf|fly|fastly)-(?:connecting|client)-ip",
    re.IGNORECASE,
)
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:@/]+))(?::\d{1,5})?", re.ASCII)


def is_local(request: Request) -> bool:
    """Whether peer and ``Host`` are both loopback and no proxy stands between."""
    return (
        _is_loopback(request.environ.get("REMOTE_ADDR", ""))
        and names_loopback(request.environ.get("HTTP_HOST", ""))
        and not _came_through_a_proxy(request)
    )


def is_same_site(request: Request) -> bool:
    """Whether an unsafe request may stem from our own pages, or from no browser at all."""
    if is_asked_by_other_site(request):
        return False
    origin = request.headers.get("Origin")
    return origin is None or _host_of(origin) == request.environ.get("HTTP_HOST", "").lower()


def is_asked_by_other_site(request: Request) -> bool:
    """Whether a page of another site, or of another port of this host, has a browser ask."""
    # "none": typed or bookmarked. Other ports of this host are "same-site".
    return request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")


def names_loopback(host: str) -> bool:
    """Whether a ``Host`` is the machine itself, by name or by address."""
    match = _HOST.fullmatch(host)
    if not match:
        return False
    name = match[1] or match[2]
    return name.lower() == "localhost" or _is_loopback(name)


def is_encrypted(request: Request) -> bool:
    """Whether the reader's browser has a channel that nobody reads along, by any sign of it.

    The signs can be forged by the one whose channel it is only.
    """
    return (
        request.is_secure
        or names_loopback(request.environ.get("HTTP_HOST", ""))
        or request.headers.get("X-Forwarded-Proto", "") == "https"
        # Browsers send it to trustworthy origins alone.
        or "Sec-Fetch-Site" in request.headers
    )


def _came_through_a_proxy(request: Request) -> bool:
    # A proxy left on its defaults may add no header and rewrite Host, as nginx does; before 1.29.7
    # it then speaks HTTP/1.0. Of newer ones only QUEUE_TRUSTED_PROXIES or QUEUE_ENV tells.
    return request.environ.get("SERVER_PROTOCOL") == "HTTP/1.0" or any(
        _FORWARDED.fullmatch(name) for name, _ in request.headers
    )


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def _host_of(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None
