"""The first page: is the queue well, what is its state, and does it move?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from time import monotonic
from typing import Any

from flask import Response

from queueapp import shared, shared_readings
from queueapp.application import this_app
from queueapp.auth import Permission, permits
from queueapp.console import banner, overview
from queueapp.console.answers import answer, timer_life_s
from queueapp.console.blueprint import bp
from queueapp.console.charts import NAMES, STACK, chart_of, share
from queueapp.console.overview import Overview
from queueapp.console.readings import Reading
from queueapp.console.remedies import remedies
from queueapp.jobs import queries
from queueapp.jobs.queries import PriorityDepth, WaitingCounts
from queueapp.jobs.status import FINAL, Status
from queueapp.jobs.verdict import Facts, Numbers
from queueapp.jobs.why.words import span
from queueapp.judgement import Look
from queueapp.shared import Snapshot

_PRIORITIES_SHOWN = 8


@bp.get("/")
@permits(Permission.READ)
def now() -> Response:
    """Show the verdict, the numbers of the moment, the last hour, long runs and errors."""
    app = this_app()
    reading, began = overview.shared(app), monotonic()
    # Side by side.
    begun = reading.begin(life_s=timer_life_s())
    look = banner.present()
    # Who has waited for the one in vain does not wait for the other as well.
    wait_s = max(reading.wait_s - (monotonic() - began), 0.0)
    found = reading.get(life_s=timer_life_s(), wait_s=wait_s, begun=begun)
    if found.value is None:
        raise shared_readings.unavailable(found)
    seen, old = found.value, _old(found, look)
    mark = f"{seen.mark} {_mark(look)} {_stops(look.facts)} {old}"
    return answer(
        "now",
        as_of=seen.pulse.now,
        mark=mark,
        context=lambda: _context(seen, look, old),
        is_shared=True,
    )


def _mark(look: Look) -> str:
    """Changes whenever something would that is shown of the look: it is read at another moment."""
    facts = look.facts
    if facts is None:
        return banner.mark(look)
    minutes = facts.hour.minutes[-1:] if facts.hour else None
    causes = facts.groups, look.samples
    return repr((banner.mark(look), Numbers.of(facts), causes, minutes, facts.unread))


def _old(found: Snapshot[Overview], look: Look) -> str | None:
    """What to say of numbers that are too old to stand beside a verdict of now."""
    if found.present is not None or look.age_s > shared.OLD_S:
        return None
    reason = found.failure or "reading them takes long"
    ago = span(found.age_s)
    return f"The numbers below were last read by this web process {ago} ago: {reason}."


def _context(seen: Overview, look: Look, old: str | None) -> Mapping[str, Any]:
    facts, depths = look.facts, seen.depths
    return {
        **seen.parts,
        "banner": banner.of(look),
        "remedies": remedies(look.verdict.first, seen.longest.value or ()),
        "old": old,
        "numbers": Numbers.of(facts) if facts else None,
        "alive": _part(look, "signs", "workers"),
        "expected": facts.expected_workers if facts else 0,
        "priorities": (depths.value or [])[:_PRIORITIES_SHOWN],
        "more_priorities": len((depths.value or [])[_PRIORITIES_SHOWN:]),
        "is_cut": queries.priorities_are_cut(depths.value or []),
        "waiting": _waiting(depths),
        "oldest": _oldest(depths),
        "chart": _chart(look, seen),
        "errors": _part(look, "groups", "failures"),
        "samples": look.samples,
        "controls": _part(look, "controls", "switches"),
        "is_empty": seen.counts.value is not None and not any(seen.counts.value.values()),
        "is_failing": any(one.rule == "failing" for one in look.verdict.findings),
        "final": FINAL,
        "ends": {look: NAMES.get(look, look) for look in STACK},
        "open_scale": _open_scale(seen),
        "share": share,
    }


def _part(look: Look, part: str, reading: str) -> Reading[Any]:
    """A part of what the verdict was made from, or why it could not be read."""
    if look.facts is None:
        return Reading(None, "; ".join(one.reason for one in look.verdict.unread))
    reasons = (one.reason for one in look.facts.unread if one.reading == reading)
    return Reading(look.facts.of(part), next(reasons, None))


def _stops(facts: Facts | None) -> list[int]:
    """The pauses and holds that are shown."""
    latest = facts.controls.latest.values() if facts and facts.controls else ()
    return [switch.id for switch in latest if switch.stops]


def _chart(look: Look, seen: Overview) -> Reading[Any]:
    facts, hour = look.facts, _part(look, "hour", "minutes")
    if facts is None or hour.value is None:
        return hour
    return Reading(chart_of(hour.value.minutes, seen.pulse.now, _marks(facts, seen)))


def _marks(facts: Facts, seen: Overview) -> Iterator[tuple[datetime, str]]:
    """What was done on purpose in the hour: it explains the chart."""
    if facts.signs and facts.signs.deployed_at:
        yield facts.signs.deployed_at, "deploy"
    for act in seen.marks.value or ():
        said = act.event.replace("_", " ").replace("op begun", "operation")
        kind = (act.scope or "").partition("kind:")[2]
        yield act.at, f"{said}{' ' + kind if kind else ''} by {act.actor}"


def _waiting(depths: Reading[list[PriorityDepth]]) -> Reading[WaitingCounts]:
    value = None if depths.value is None else WaitingCounts.of(depths.value)
    return Reading(value, depths.reason)


def _oldest(depths: Reading[list[PriorityDepth]]) -> PriorityDepth | None:
    """The priority whose first due job has been waiting longest."""
    due = [depth for depth in depths.value or [] if depth.oldest_at is not None]
    return min(due, key=lambda depth: (depth.oldest_at is None, depth.oldest_at), default=None)


def _open_scale(seen: Overview) -> int:
    """The largest number of unfinished jobs in one row: the full length of a bar."""
    waiting = _waiting(seen.depths).value
    numbers = [waiting.due.count, waiting.scheduled.count] if waiting else []
    counts: dict[Status, int] = seen.counts.value or {}
    numbers += [number for status, number in counts.items() if status not in FINAL]
    return max(numbers, default=0)
