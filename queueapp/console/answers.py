"""One URL, two bodies: the page, or its panel alone when a script asks to refresh it.

A panel that has not changed is not sent again: the browser shows the mark it has (HX-PTag), and the
answer to the same mark is 304. What is rendered lazily is then not even read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Any

from flask import Response, current_app, render_template, request

from queueapp.auth import current_principal
from queueapp.console import preferences
from queueapp.console.filters import clock, iso

Context = Callable[[], Mapping[str, Any]]
PANELS = ("panel", "dialog-body")
# Drawn panels that are kept for other tabs: of a few pages, roles and filters.
MOST_KEPT = 16


def wants_panel() -> bool:
    """Whether the request comes from the page's script and will replace one of our panels."""
    target = request.headers.get("HX-Target", "").rpartition("#")[2]
    return request.headers.get("HX-Request-Type") == "partial" and target in PANELS


def timer_life_s(every_s: float = 5.0) -> float | None:
    """How old a shared reading may be for this answer; None: no older than for everybody.

    A page that asks by itself every ``every_s`` takes what another tab has had read since its own
    last time: many tabs cost the database what one does. Whoever asks himself is told of now.
    """
    return 0.9 * every_s if "Queue-Timer" in request.headers and wants_panel() else None


def answer(
    name: str, *, as_of: datetime, mark: str, context: Context, is_shared: bool = False
) -> Response:
    """Answer with the page ``name`` or its panel.

    ``mark`` changes whenever the panel would; ``context`` is called only if it is to be rendered.
    ``is_shared``: what was read at ``as_of`` serves many tabs, and so does the panel drawn of it.
    """
    tag = _tag(name, mark)
    panel = wants_panel()
    if panel and request.headers.get("HX-PTag") == tag:
        return _with_headers(Response(status=304), as_of, tag)

    def drawn() -> str:
        return render(name, panel=panel, as_of=as_of, ptag=tag, **context())

    body = _once((tag, as_of, request.url_root), drawn) if panel and is_shared else drawn()
    return _with_headers(Response(body, mimetype="text/html"), as_of, tag)


def in_history(response: Response, address: Callable[[], str]) -> Response:
    """Have the browser's history take ``address`` for what the filter was changed to.

    It is without the filter's empty fields. A poll must not add to the history.
    """
    if request.headers.get("HX-Source", "").endswith("#filter"):
        response.headers["HX-Push-Url"] = address()
    return response


def _once(key: Hashable, draw: Callable[[], str]) -> str:
    kept: dict[Hashable, str] = current_app.extensions.setdefault("queue_panels", {})
    body = kept.get(key)
    if body is None:
        body = kept[key] = draw()
        for old in list(kept)[:-MOST_KEPT]:
            kept.pop(old, None)
    return body


def render(name: str, *, panel: bool, **context: Any) -> str:
    """Render the page ``name`` or its panel, without white space around it.

    White space beside the panel would stay in the page, more with every refresh.
    """
    folder = "fragments" if panel else "pages"
    return render_template(f"{folder}/{name}.html", in_page=not panel, **context).strip()


def _with_headers(response: Response, as_of: datetime, tag: str) -> Response:
    response.headers["HX-PTag"] = tag
    response.headers["Queue-As-Of"] = iso(as_of)
    response.headers["Queue-Clock"] = clock(as_of, zone=preferences.present().tz)
    response.headers["Vary"] = "HX-Request-Type, HX-Target"
    response.headers["Cache-Control"] = "no-store"
    return response


def _tag(name: str, mark: str) -> str:
    """All else that a panel depends on is in here: its address, the reader's role and times."""
    chosen = preferences.present()
    who = (current_principal().role, chosen.zone, chosen.times)
    parts = (name, request.full_path, *who, current_app.debug, mark)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
