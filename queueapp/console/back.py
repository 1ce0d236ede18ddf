"""Where an action leads back to: an address of this console, whatever a form or a browser says."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from flask import request, url_for

_UNFIT = re.compile(r"[\x00-\x20\\\x7f]|^//")


def checked(wanted: str, default: str) -> str:
    """``wanted`` if it is an address of this console, else ``default``; without its outcome."""
    parts = _split(wanted)
    if parts is None or parts.scheme or parts.netloc or _UNFIT.search(wanted):
        return default
    if not wanted.startswith(url_for("console.now")):
        return default
    return _without_outcome(parts)


def referrer() -> str:
    """The page of this console that the present request comes from, as the browser tells."""
    parts = _split(request.referrer or "")
    if parts is None or parts.netloc != request.host:
        return ""
    return _without_outcome(parts)


def _without_outcome(parts: SplitResult) -> str:
    kept = "&".join(p for p in parts.query.split("&") if p and not p.startswith("done="))
    return parts.path + (f"?{kept}" if kept else "")


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None
