"""Whoever's session has ended is led to the sign-in, and from there back to where they were."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import session

_LONGEST = 2000


def leads_there(code: str) -> bool:
    """Whether a refusal is one that signing in mends."""
    return code == "not_authenticated" and session.is_possible()


def lead(notice: Response, *, is_fragment: bool) -> AnyResponse:
    """The answer: a redirect; a script gets ``notice``, and moves the whole page by itself."""
    is_read = request.method in ("GET", "HEAD")
    here = request.script_root + request.full_path.removesuffix("?")
    place = here if is_read and not is_fragment else _page_behind(is_fragment=is_fragment)
    undone = None if is_read else "1"
    address = url_for("console.login", next=place[:_LONGEST] or None, undone=undone)
    if not is_fragment:
        return redirect(address, 303)
    notice.headers["HX-Redirect"] = address
    return notice


def _page_behind(*, is_fragment: bool) -> str:
    """The page of ours that the request comes from, as the browser tells."""
    told = request.headers.get("HX-Current-URL") if is_fragment else request.referrer
    try:
        parts = urlsplit(told or "")
    except ValueError:
        return ""
    if parts.netloc != request.host:
        return ""
    return parts.path + (f"?{parts.query}" if parts.query else "")
