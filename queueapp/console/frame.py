"""What every page stands in: who is looking, in which theme, and where the static files are."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from flask import Flask, Response, current_app, g, request

from queueapp.auth import Permission, Principal, access
from queueapp.auth.roles import people_who_may
from queueapp.config import Settings
from queueapp.console import back, places, preferences
from queueapp.console.blueprint import bp
from queueapp.console.forms import FRESH
from queueapp.console.outcomes import Outcome, read_outcome

REFRESH = ("5", "10", "30", "60")
# What need not be quoted in the path of an address.
_IN_PATHS = "/:@!$'()*+,;="
# What need not be quoted within an address that is a picture, nor escaped in a page.
_IN_ADDRESS = "/:=,"
# The ground of an icon, sixteen wide, by its corners.
_SQUARE, _ROUND = 'rx="3"', 'rx="8"'
_FOREVER = "public, max-age=31536000, immutable"


def init_app(app: Flask) -> None:
    """Give templates the frame, and let browsers keep static files for ever."""
    app.context_processor(_frame)
    app.after_request(_set_headers)


def static_url(filename: str) -> str:
    """The address of a static file; it changes with the file, so that it can be kept for ever."""
    # Put together here: a page has a hundred icons, and for each url_for would look for the rule.
    root = quote(request.script_root, safe=_IN_PATHS) + (current_app.static_url_path or "")
    return f"{root}/{filename}?v={_fingerprint(current_app.static_folder or '', filename)}"


def icon_url(level: str) -> str:
    """The page's icon for a level of the verdict, whole within its address.

    It is square in production and round elsewhere: of two tabs one knows which is which.
    """
    settings: Settings = current_app.extensions["queue_settings"]
    is_round = settings.env != "production"
    return _as_address(current_app.static_folder or "", f"favicon-{level}.svg", is_round=is_round)


@cache
def _as_address(folder: str, filename: str, *, is_round: bool) -> str:
    drawn = Path(folder, filename).read_text().strip()
    drawn = drawn.replace(_SQUARE, _ROUND) if is_round else drawn
    return f"data:image/svg+xml,{quote(drawn, safe=_IN_ADDRESS)}"


@cache
def _fingerprint(folder: str, filename: str) -> str:
    return hashlib.sha256(Path(folder, filename).read_bytes()).hexdigest()[:12]


def _frame() -> dict[str, Any]:
    settings: Settings = current_app.extensions["queue_settings"]
    # Error pages are rendered for requests that nobody was identified for.
    principal = g.get("principal")
    return {
        "static_url": static_url,
        "icon_url": icon_url,
        "preferences": preferences.present(),
        "nav": places,
        "env": settings.env,
        "is_drill": settings.drill,
        "principal": principal,
        "is_signed_in": g.get("is_signed_in", False),
        "read_only": access.why_read_only(),
        **_buttons("act", principal, Permission.ACT),
        **_buttons("admin", principal, Permission.ADMIN),
        "here": _here(),
        "reloading_here": _here(refresh="10"),
        "done_from_address": _done,
        "form": FRESH,
        "came_from": back.referrer,
    }


def _buttons(name: str, principal: Principal | None, needed: Permission) -> dict[str, Any]:
    """Whether the reader may press them, whether they are shown, and for whom they are.

    Who may not sees them, out of use, if anybody of the team may; else there is nothing to see.
    """
    may = principal is not None and access.may(needed)
    shown = may or (principal is not None and access.somebody_may(needed))
    whom = f"for {people_who_may(needed)}"
    return {f"may_{name}": may, f"shows_{name}": shown, f"{name}_is_for": whom}


def _here(**other: str) -> str:
    """The present address without what only concerns the moment: where a reader comes back to."""
    without = ("done", "upto", *other)
    kept = [(n, v) for n, v in request.args.items(multi=True) if n not in without]
    kept += other.items()
    # Two slashes, or one and a backslash, would be the address of another host.
    path = quote(request.script_root + request.path, safe=_IN_PATHS).lstrip("/")
    return f"/{path}" + (f"?{urlencode(kept)}" if kept else "")


def _done() -> Outcome | None:
    """What the action that led here came to."""
    return read_outcome(request.args.get("done", ""))


def _set_headers(response: Response) -> Response:
    # For browsers without scripts.
    if request.blueprint == bp.name and request.args.get("refresh") in REFRESH:
        response.headers["Refresh"] = request.args["refresh"]
    if request.endpoint == "static" and "v" in request.args and response.status_code == 200:
        response.headers["Cache-Control"] = _FOREVER
    return response
