"""What the minute's lines have counted so far: each carries on the sums of all before it. Pure.

So counters outlive restarts, the purge of rows and the days of the ledger: the newest line has
them, and whoever reads it reads the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from queueapp.jobs.status import Event

# Kinds that are counted by themselves, and how long one must be idle to give its place away.
MOST_KINDS = 50
IDLE_S = 24 * 3600
# What all others are counted under; no kind can be called so.
OTHER = "(other)"
LONGEST_KIND = 100
KIND_EVENTS = (
    Event.ENQUEUED, Event.SUCCEEDED, Event.RETRY_SCHEDULED, Event.FAILED, Event.CANCELLED,
)  # fmt: skip

Line = Mapping[str, Mapping[str, Any]]


def carried(before: Mapping[str, Any] | None, kinds: Line, *, now_s: int) -> dict[str, Any]:
    """The sums of the line before, None for none, with what ``kinds`` of the present one add.

    ``events``, ``wait`` and ``run`` as in a kind's part of a line, over all kinds; ``retries``;
    ``kinds``: ``events`` of each that has a place, and when it last had one (``now_s``, seconds).
    """
    known = before or {}
    return {
        **{
            part: _added(known.get(part), (one.get(part) for one in kinds.values()))
            for part in ("events", "wait", "run")
        },
        "retries": int(known.get("retries") or 0)
        + sum(int(one.get("retries") or 0) for one in kinds.values()),
        "kinds": _kinds(known.get("kinds") or {}, kinds, now_s),
    }


def _kinds(before: Mapping[str, Any], kinds: Line, now_s: int) -> dict[str, Any]:
    """A kind keeps its place while it is in use: a sum that came and went would seem to fall."""
    found = dict(before)
    for kind, events in sorted(_counted(kinds).items(), key=lambda one: -sum(one[1].values())):
        place = kind if kind in found or _has_place(found, kind, now_s) else OTHER
        so_far = found.get(place, {}).get("events")
        found[place] = {"events": _added(so_far, [events]), "at": now_s}
    return found


def _counted(kinds: Line) -> dict[str, dict[str, int]]:
    """What each kind adds of the events that are counted by kind; none without any."""
    counts = {
        kind: {str(e): int(one["events"][e]) for e in KIND_EVENTS if e in one["events"]}
        for kind, one in kinds.items()
    }
    return {kind: events for kind, events in counts.items() if events}


def _has_place(found: dict[str, Any], kind: str, now_s: int) -> bool:
    """Whether there is a place for one kind more; the one that is idle for longest may give its."""
    if len(kind) > LONGEST_KIND:
        return False
    named = [name for name in found if name != OTHER]
    if len(named) < MOST_KINDS:
        return True
    idlest = min(named, key=lambda name: int(found[name]["at"]))
    if now_s - int(found[idlest]["at"]) < IDLE_S:
        return False
    del found[idlest]
    return True


def _added(
    before: Mapping[str, Any] | None, more: Iterable[Mapping[str, Any] | None]
) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for counts in (before, *more):
        sums.update({name: int(number) for name, number in (counts or {}).items()})
    return dict(sums)
