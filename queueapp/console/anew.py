"""After one's own act a page is of now, whichever web process answers.

What a process has read for its tabs may be of before an act that another process has done.
"""

from __future__ import annotations

from flask import Flask, request

from queueapp.application import this_app
from queueapp.console.answers import wants_panel
from queueapp.console.blueprint import bp

# The page's script says so of what it asks for in the moment after an act.
HEADER = "Queue-Acted"
_SHARED = (
    "queue_look", "queue_counts", "queue_overview", "queue_kinds", "queue_causes", "queue_roll",
    "queue_pulse", "queue_glances",
)  # fmt: skip


def init_app(app: Flask) -> None:
    """Have what is asked for after an act read anew. Before all that begins a reading."""
    app.before_request(_after_an_act)


def read_anew() -> None:
    """Something was done: nobody is told any more of what was before."""
    for name in _SHARED:
        this_app().extensions[name].forget()


def _after_an_act() -> None:
    is_landing = "done" in request.args and not wants_panel()
    if request.blueprint == bp.name and (is_landing or HEADER in request.headers):
        read_anew()
