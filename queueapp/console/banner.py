"""The verdict as pages show it: the banner, the badge beside the name, the title, the icon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Flask, Response, g, request

from queueapp import judgement
from queueapp.application import this_app
from queueapp.auth.access import declared, may, why_read_only
from queueapp.console.answers import timer_life_s
from queueapp.console.blueprint import bp
from queueapp.jobs.verdict import Facts, Finding, Level
from queueapp.judgement import Look

HEADER = "Queue-Verdict"
READ_ONLY = "Queue-Read-Only"
# Next steps that ask before they act, in a dialog where scripts run.
_QUESTIONS = ("/resume",)
# How long a page waits for a look that only its badge needs: less than its script waits for the
# page, for a slow one must not take the threads.
BADGE_WAIT_S = 5.0
# How each level looks; the word says it without colour.
TONES = {
    Level.GREEN: "good", Level.AMBER: "careful", Level.RED: "bad", Level.UNKNOWN: "unknown",
}  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """One finding. ``path``: the page for the next step, from the root of the application.

    ``asks``: that page is a question.
    """

    rule: str
    level: Level
    tone: str
    title: str
    sentence: str
    since: datetime | None
    step: str
    path: str | None
    asks: bool = False


@dataclass(frozen=True)
class Banner:
    """The first finding and the others, and what is no fault and has to be known."""

    first: Shown
    others: tuple[Shown, ...]
    notes: tuple[str, ...] = ()


def init_app(app: Flask) -> None:
    """Give every page the verdict: in its frame, and in a header for the page's script."""
    app.before_request(_begin)
    app.context_processor(lambda: {"badge": _badge, "page_of": _page_of})
    app.after_request(_say)


def of(look: Look) -> Banner:
    """What the page shows."""
    found = look.verdict
    return Banner(_shown(found.first), tuple(_shown(one) for one in found.others), found.notes)


def present(*, wait_s: float | None = None) -> Look:
    """The look that this answer tells of: whoever asks himself is told of now."""
    begun = g.get("verdict_begun", False)
    return judgement.present(this_app(), wait_s=wait_s, life_s=timer_life_s(), begun=begun)


def facts() -> Facts | None:
    """What the look was made from that all share, one for the whole answer; None: not read."""
    if "verdict_facts" not in g:
        g.verdict_facts = present(wait_s=BADGE_WAIT_S).facts
    found: Facts | None = g.verdict_facts
    return found


def mark(look: Look) -> str:
    """Changes when the banner does; how long all is well changes nothing."""
    verdict = look.verdict
    if verdict.level is Level.GREEN:
        told = verdict.first.evidence
        shown = [told[name] for name in ("ended_per_minute", "live_workers", "waits_for")]
        paced = verdict.first.sentence.partition(" · ")[2]
        return repr((shown, bool(told["due"]), paced, verdict.notes))
    return repr([(one.rule, one.level, one.sentence) for one in verdict.findings] + [verdict.notes])


def _shown(one: Finding) -> Shown:
    path = judgement.page_of(this_app(), one.step.paths, may=_may_open)
    return Shown(
        one.rule,
        one.level,
        TONES[one.level],
        one.title,
        one.sentence,
        one.since,
        # A link shows no marks of Markdown.
        one.step.text.replace("`", ""),
        None if path is None else request.script_root + path,
        path in _QUESTIONS,
    )


def _may_open(endpoint: str) -> bool:
    """Whether the reader may see the page: a viewer is led to one that only shows."""
    permission = declared(this_app(), endpoint)
    return permission is None or may(permission)


def _page_of(*paths: str) -> str | None:
    """The address of the first of these pages that there is."""
    path = judgement.page_of(this_app(), paths)
    return None if path is None else request.script_root + path


def _badge(*, fresh: bool) -> Mapping[str, Any] | None:
    """What stands beside the name: nothing on pages for people who may not read.

    ``fresh``: the page shows what was just read; one that could not read it waits for no more.
    """
    look = _look(fresh=fresh)
    if look is None:
        return None
    first = look.verdict.first
    return {
        "level": first.level,
        "tone": TONES[first.level],
        "title": first.title,
        "as_of": look.verdict.as_of,
    }


def _begin() -> None:
    """Have the look read beside what the page reads for itself, which is then waited for once.

    Not for a page that asks by itself: it takes the present one.
    """
    if _is_looked_for() and request.method == "GET" and timer_life_s() is None:
        g.verdict_begun = judgement.shared(this_app()).begin()


def _say(response: Response) -> Response:
    """Tell the page's script, also where the panel has not changed, and why all is read-only."""
    if request.blueprint == bp.name and response.status_code < 400 and (look := _look()):
        response.headers[HEADER] = f"{look.verdict.level} {look.verdict.first.title}"
    if request.blueprint == bp.name and (why := why_read_only()):
        response.headers[READ_ONLY] = why
    return response


def _look(*, fresh: bool = True) -> Look | None:
    """The shared look, one for the whole answer; nobody waits for it twice."""
    if not _is_looked_for():
        return None
    if "verdict_look" not in g:
        g.verdict_look = _taken(fresh=fresh)
    found: Look | None = g.verdict_look
    return found


def _is_looked_for() -> bool:
    return g.get("principal") is not None and request.blueprint == bp.name


def _taken(*, fresh: bool) -> Look | None:
    """Where everybody looks for himself, none is taken for a badge alone."""
    app, life_s = this_app(), timer_life_s()
    if judgement.shared(app).life_s == 0 or request.method != "GET" or not fresh:
        return judgement.at_hand(app)
    if life_s is None:
        return present(wait_s=BADGE_WAIT_S)
    # For a page that asks by itself nobody waits.
    return judgement.recent(app, wait_s=BADGE_WAIT_S, life_s=life_s)
