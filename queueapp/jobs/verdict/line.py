"""The row of ``statements.LINE`` as ``Line``, and who is gone for what it tells. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from queueapp.jobs.instants import read_instant
from queueapp.jobs.queries import priorities
from queueapp.jobs.verdict import statements
from queueapp.jobs.verdict.facts import Head, HeldKind, Holding, Line, Running
from queueapp.jobs.verdict.minutes import instant
from queueapp.jobs.verdict.signs import Signs

T = TypeVar("T")


def line_of(row: Any) -> Line:
    """What waits and what runs."""
    return Line(
        heads=[with_instants(Head, each, "at", "able_at") for each in row.heads or ()],
        running=row.running,
        overdue=row.overdue,
        first_expiry=row.first_expiry,
        highest=row.highest,
        holders=[
            with_instants(Holding, each, "first_expiry", "last_expiry", "renewed_to")
            for each in row.holders or ()
        ],
        kinds=[
            with_instants(Running, each, "first_at", "last_at", "asked_at")
            for each in row.kinds or ()
        ],
        held=_behind_holds(row),
        ended_at=row.ended_at,
        lapsed=_instants(row.lapsed or {}),
        is_cut=row.priorities > priorities.MOST_PRIORITIES,
    )


def overtaken(seen: Signs, line: Line, now: datetime) -> frozenset[str]:
    """Who signed before all its leases ran out, and were taken by a sweeper. It may hang."""
    holders = {one.name for one in line.holders}
    return frozenset(
        one.holder
        for one in seen.workers
        if not one.is_elsewhere and one.holder not in holders
        and (ended := line.lapsed.get(one.holder)) and one.seen_at < ended <= now
    )  # fmt: skip


def _behind_holds(row: Any) -> list[HeldKind]:
    """Due jobs of kinds on hold: those that were moved to held, and those that will be."""
    kinds: dict[str, HeldKind] = {}
    # Of a line that is longer than what was looked at there may be more.
    is_long = any(head["jobs"] > statements.HEAD for head in row.heads or ())
    for found, is_cut in ((row.held, False), (row.unmoved, is_long)):
        for one in (with_instants(HeldKind, each, "at") for each in found or ()):
            known = kinds.get(one.kind, replace(one, jobs=0))
            is_least = known.is_least or is_cut or one.jobs > statements.MOST_HELD
            jobs, at = known.jobs + one.jobs, min(known.at, one.at)
            kinds[one.kind] = HeldKind(one.kind, jobs, at, is_least)
    return list(kinds.values())


def _instants(found: Mapping[str, Any]) -> dict[str, datetime]:
    """Those of the ledger's that are instants: what is not, no release of ours has written."""
    read = {name: read_instant(text) for name, text in found.items() if isinstance(text, str)}
    return {name: at for name, at in read.items() if at.tzinfo}


def with_instants(made: Callable[..., T], found: dict[str, Any], *names: str) -> T:
    at = {name: found[name] and instant(found[name]) for name in names}
    return made(**{**found, **at})
