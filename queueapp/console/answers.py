"""One URL, two bodies: the page, or its panel alone when a script asks to refresh it.

A panel that has not changed is not sent again: the browser shows the mark it has (HX-PTag), and the
answer to the same mark is 304. What is rendered lazily is then not even read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from flask import Response, current_app, render_template, request
from jinja2 import Template

from queueapp.auth import current_principal
from queueapp.auth.access import why_read_only
from queueapp.auth.principal import LOCAL
from queueapp.console import preferences
from queueapp.console.filters import clock, iso
from queueapp.errors import DatabaseUnavailable
from queueapp.shared import wait_s

Context = Callable[[], Mapping[str, Any]]
PANELS = ("panel", "dialog-body")
# Drawn panels that are kept for other tabs, some 50 KB each: of a few pages, roles and filters.
MOST_KEPT = 64


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
    """What is drawn for ``key``: by whoever asks first, for all who ask meanwhile or later.

    They are told what kept him from it as well; whoever asks after that tries again.
    """
    kept: dict[Hashable, Future[str]] = current_app.extensions.setdefault("queue_panels", {})
    mine: Future[str] = Future()
    drawn = kept.setdefault(key, mine)
    if drawn is mine:
        _draw(mine, draw)
        if mine.exception():
            kept.pop(key, None)
        for old in list(kept)[:-MOST_KEPT]:
            kept.pop(old, None)
    try:
        return drawn.result(wait_s(current_app))
    except TimeoutError:
        raise DatabaseUnavailable("this page takes long to be read", retry_after=5) from None


def _draw(into: Future[str], draw: Callable[[], str]) -> None:
    try:
        into.set_result(draw())
    except BaseException as error:
        # Nobody must wait for what comes no more.
        into.set_exception(error)
        if not isinstance(error, Exception):
            raise


def render(name: str, *, panel: bool, **context: Any) -> str:
    """Render the page ``name`` or its panel, without white space around it.

    White space beside the panel would stay in the page, more with every refresh. A page that has no
    panel is whole whatever it is asked for.
    """
    folders = ("fragments", "pages") if panel else ("pages",)
    names: list[str | Template] = [f"{folder}/{name}.html" for folder in folders]
    return render_template(names, in_page=not panel, **context).strip()


def _with_headers(response: Response, as_of: datetime, tag: str) -> Response:
    response.headers["HX-PTag"] = tag
    response.headers["Vary"] = "HX-Request-Type, HX-Target"
    return dated(response, as_of)


def dated(response: Response, as_of: datetime) -> Response:
    """``response`` with the instant that it tells of, for the page's script."""
    response.headers["Queue-As-Of"] = iso(as_of)
    response.headers["Queue-Clock"] = clock(as_of, zone=preferences.present().tz)
    response.headers["Cache-Control"] = "no-store"
    return response


def _tag(name: str, mark: str) -> str:
    """All else that a panel depends on is in here: its address, its reader, what is closed.

    The role says what is hidden of payloads as well, and how many jobs one may move at once.
    Whoever sits at the machine itself needs no token in the commands that pages show.
    """
    reader, chosen = current_principal(), preferences.present()
    who = (reader.role, reader == LOCAL, chosen.zone, chosen.times, why_read_only())
    parts = (name, request.full_path, *who, current_app.debug, mark)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
