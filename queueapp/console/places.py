"""The pages and the keys of the console: one list for navigation, dialog, help and script.

The script finds a place by the ``data-key`` of its link, so that only what a single key does stands
in ``static/app.js``; a test compares its keys with ``KEYS``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A page: behind ``g`` and ``key`` if it has one. ``below``: pages that belong to it."""

    key: str | None
    endpoint: str
    label: str
    about: str
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class Key:
    """One or more keys that do something on the page; ``keys`` as they are shown."""

    keys: tuple[str, ...]
    about: str


# In the row of the header, for the work of every day.
ROW = (
    Place("n", "console.now", "Now", "is the queue well?", (
        "console.ask_pause", "console.pause_queue", "console.ask_resume", "console.resume_queue",
    )),
    Place("j", "console.jobs", "Jobs", "find jobs", (
        "console.job", "console.ask", "console.act", "console.ask_many", "console.act_on_many",
        "console.ask_purge", "console.purge",
    )),
    Place("e", "console.errors", "Errors", "what fails, by cause", (
        "console.error_group", "console.plan_for_group",
    )),
    Place("k", "console.kinds", "Kinds", "what flows, what is on hold", (
        "console.kind", "console.ask_kind", "console.switch_kind",
    )),
    Place("l", "console.events", "Events", "the log of everything"),
    Place("w", "console.workers_page", "Workers", "who works", (
        "console.worker", "console.ask_release", "console.release",
    )),
    Place("s", "console.system", "System", "how the database serves the queue"),
)  # fmt: skip
# Behind "More", wherever there is little room.
MORE = (
    Place("a", "console.audit", "Audit", "what people did"),
    Place("o", "console.operations_page", "Operations", "many jobs at once", (
        "console.operation", "console.new_operation", "console.plan_operation",
        "console.apply_operation", "console.count_operation", "console.undo_operation",
    )),
    Place("p", "console.settings", "Settings", "times, density, refresh, theme", (
        "console.choose",
    )),
    Place("h", "console.help_page", "Help", "keys, words, what each verdict means"),
    Place(None, "api_docs.page", "API", "for programs"),
)  # fmt: skip
PLACES = (*ROW, *MORE)


def behind_more(endpoint: str | None) -> Place | None:
    """The place of a page, if it is one of those behind "More"."""
    return next((one for one in MORE if endpoint in (one.endpoint, *one.below)), None)


KEYS = (
    Key(("/",), "to the jump box: a number, a kind, a worker, an operation"),
    Key(("f",), "to the filter"),
    Key(("j", "k"), "next row, row before"),
    Key(("Enter",), "open the row"),
    Key(("x",), "tick the row, with Shift from the last one"),
    Key(("a",), "tick the page"),
    Key(("r", "c"), "retry, cancel what is ticked, or the row: both ask first"),
    Key(("[", "]"), "newer, older page"),
    Key((".",), "pause the refresh, or go on"),
    Key(("Shift R",), "refresh now"),
    Key(("y",), "copy the link to this page, with fixed times"),
    Key(("?",), "this list"),
    Key(("Esc",), "close, leave the field"),
)
