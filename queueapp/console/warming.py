"""What the first reader of a process would wait for, made ready before he comes.

Templates are compiled when they are first used, and a connection that is new knows nothing of the
tables: together that is several times what any later page takes.
"""

from __future__ import annotations

import logging
import threading

from flask import Flask

from queueapp.config import Settings
from queueapp.shared import Shared

log = logging.getLogger(__name__)

# What pages share, one after the other: a process that nobody looks at keeps one connection for it.
_SHARED = ("queue_look", "queue_counts", "queue_overview", "queue_kinds", "queue_causes")


def begin(app: object) -> threading.Thread | None:
    """Make ``app`` ready in a thread of its own; None for another application than ours.

    Call it in the process that serves, for no thread outlives a fork. Nobody waits for it, and
    nothing comes of it where the database is not there.
    """
    if not isinstance(app, Flask) or "queue_settings" not in app.extensions:
        return None
    thread = threading.Thread(target=_make_ready, args=(app,), name="warming", daemon=True)
    thread.start()
    return thread


def _make_ready(app: Flask) -> None:
    try:
        if _is_there(app.extensions["queue_settings"]):
            _read(app)
        for name in app.jinja_env.list_templates():
            app.jinja_env.get_template(name)
    except Exception:
        # Whoever asks for the page is told; until then it is no fault of anybody.
        log.warning("the process could not be made ready ahead of its first page", exc_info=True)


def _is_there(settings: Settings) -> bool:
    """Whether to ask the database: a local one, or a file, is made when it is first needed."""
    return bool(settings.database_url) and not settings.is_sqlite


def _read(app: Flask) -> None:
    for name in _SHARED:
        shared: Shared[object] = app.extensions[name]
        # It would keep the others from being read as well: whoever asks for a page tries again.
        if shared.get().failure:
            return
