"""One URL, two bodies: the page, or its panel alone when a script asks to refresh it.

A panel that has not changed is not sent again: the browser shows the mark it has (HX-PTag), and the
answer to the same mark is 304. What is rendered lazily is then not even read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from flask import Response, current_app, render_template, request

from queueapp.auth import current_principal
from queueapp.console.filters import iso

Context = Callable[[], Mapping[str, Any]]
PANELS = ("panel", "dialog-body")


def wants_panel() -> bool:
    """Whether the request comes from the page's script and will replace one of our panels."""
    target = request.headers.get("HX-Target", "").rpartition("#")[2]
    return request.headers.get("HX-Request-Type") == "partial" and target in PANELS


def answer(name: str, *, as_of: datetime, mark: str, context: Context) -> Response:
    """Answer with the page ``name`` or its panel.

    ``mark`` changes whenever the panel would; ``context`` is called only if it is to be rendered.
    """
    tag = _tag(name, mark)
    panel = wants_panel()
    if panel and request.headers.get("HX-PTag") == tag:
        return _with_headers(Response(status=304), as_of, tag)
    body = render(name, panel=panel, as_of=as_of, ptag=tag, **context())
    return _with_headers(Response(body, mimetype="text/html"), as_of, tag)


def render(name: str, *, panel: bool, **context: Any) -> str:
    """Render the page ``name`` or its panel, without white space around it.

    White space beside the panel would stay in the page, more with every refresh.
    """
    folder = "fragments" if panel else "pages"
    return render_template(f"{folder}/{name}.html", in_page=not panel, **context).strip()


def _with_headers(response: Response, as_of: datetime, tag: str) -> Response:
    response.headers["HX-PTag"] = tag
    response.headers["Queue-As-Of"] = iso(as_of)
    response.headers["Vary"] = "HX-Request-Type, HX-Target"
    response.headers["Cache-Control"] = "no-store"
    return response


def _tag(name: str, mark: str) -> str:
    """Everything else that a panel depends on is in here: its address, the reader's role."""
    parts = (name, request.full_path, current_principal().role, current_app.debug, mark)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
