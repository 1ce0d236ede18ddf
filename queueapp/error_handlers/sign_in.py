"""Whoever's session has ended is led to the sign-in, and from there back to where they were."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from queueapp.auth import session
from queueapp.auth.access import host

_LONGEST = 2000


def leads_there(code: str) -> bool:
    """Whether a refusal is one that signing in mends, at a page that is known."""
    around = host()
    is_there = bool(around.sign_in) if around else session.is_possible()
    return code == "not_authenticated" and is_there


def lead(notice: Response, *, is_fragment: bool) -> AnyResponse:
    """The answer: a redirect; a script gets ``notice``, and moves the whole page by itself."""
    is_read = request.method in ("GET", "HEAD")
    here = request.script_root + request.full_path.removesuffix("?")
    place = here if is_read and not is_fragment else _page_behind(is_fragment=is_fragment)
    undone = None if is_read else "1"
    address = _address(place[:_LONGEST] or None, undone)
    if not is_fragment:
        return redirect(address, 303)
    notice.headers["HX-Redirect"] = address
    return notice


def _address(place: str | None, undone: str | None) -> str:
    """The sign-in, ours or that of the application around, told where to lead back to."""
    around = host()
    if not around:
        return url_for("console.login", next=place, undone=undone)
    query = urlencode([("next", place or url_for("console.now"))])
    return f"{around.sign_in}{'&' if '?' in around.sign_in else '?'}{query}"


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
