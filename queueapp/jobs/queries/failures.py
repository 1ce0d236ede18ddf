"""Failures by cause: those that ended last, and those that wait to be tried again.

A cause is a fingerprint. Groups are made of the newest failures only, and of the jobs that are next
in line: both looks are bounded, and what they are bounded by is part of the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.failure import blanked
from queueapp.jobs.queries.buckets import buckets_of
from queueapp.jobs.queries.failed_so import FailedSo, failed_so
from queueapp.jobs.queries.line import SHOWN_IDS, TOLD, Line, Waiting

# Failures that groups are made of.
WINDOW = 1_000
# Failures of one cause that are counted in a list of causes.
COUNTED = 1_000
MOST_GROUPS = 30
# A cause of now comes before one of last week, however many jobs that one has left.
LATELY_S = 3_600
LATELY = timedelta(seconds=LATELY_S)
_MESSAGE = 500

_NEWEST = """
SELECT id, kind, error_class, error_fingerprint, finished_at FROM jobs
WHERE status = 'failed' AND finished_at IS NOT NULL AND finished_at < 'infinity'
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

_NEWEST_ALIKE = """
SELECT id FROM jobs WHERE status = 'failed' AND error_fingerprint = %(fingerprint)s
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"""

_ALIKE = "status = 'failed' AND error_fingerprint = f.fingerprint"
_DETAILS = f"""
SELECT f.fingerprint, oldest.finished_at AS first_at, newest.finished_at AS last_at,
  newest.id AS newest_id, newest.error_class,
  left(coalesce(newest.error_message, waits.error_message), {_MESSAGE}) AS message,
  counted.failed, counted.ids
FROM unnest(%(fingerprints)s::text[], %(waiting)s::bigint[]) AS f(fingerprint, waiting)
LEFT JOIN jobs waits ON waits.id = f.waiting AND waits.error_fingerprint = f.fingerprint
CROSS JOIN LATERAL (
  SELECT count(*) AS failed, (array_agg(id ORDER BY id))[1:%(most_ids)s] AS ids FROM (
    SELECT id FROM jobs WHERE {_ALIKE} ORDER BY finished_at, id LIMIT %(bound)s) c) counted
LEFT JOIN LATERAL (
  SELECT finished_at FROM jobs WHERE {_ALIKE} ORDER BY finished_at, id LIMIT 1) oldest ON true
LEFT JOIN LATERAL (
  SELECT id, finished_at, error_class, error_message FROM jobs
  WHERE {_ALIKE} ORDER BY finished_at DESC, id DESC LIMIT 1) newest ON true
"""


@dataclass(frozen=True)
class Window:
    """The newest failures. ``is_cut``: there are older ones, and ``start`` is how far it goes."""

    rows: Sequence[Row[Any]]
    start: datetime | None
    is_cut: bool


@dataclass
class Group:
    """One cause.

    ``failed``: of the window; ``all_failed``: of all, counted up to a bound and one more.
    ``first_at``, ``last_at``: the oldest and the newest of those that are still failed; of
    SHOWN_IDS of them also the times when they failed so before somebody retried them.
    ``sample``: the first line of the newest one's message, or of one that waits; ``message``: the
    same with ? for what varies. ``buckets``: the window's, over time.
    ``lately``: those of the window that failed within LATELY, and all that wait.
    """

    fingerprint: str
    error_class: str | None = None
    message: str | None = None
    sample: str | None = None
    failed: int = 0
    lately: int = 0
    all_failed: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    newest_id: int | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    waiting: Waiting = field(default_factory=Waiting)
    buckets: list[int] = field(default_factory=list)

    @property
    def first_seen_at(self) -> datetime | None:
        """When the first failed so of all that have it: that are failed, and that wait."""
        known = [at for at in (self.first_at, self.waiting.first_at) if at]
        return min(known, default=None)

    @property
    def last_seen_at(self) -> datetime | None:
        """When the last of them did."""
        return max((at for at in (self.last_at, self.waiting.last_at) if at), default=None)


def failure_window(database: Database, *, limit: int = WINDOW) -> Window:
    """The newest ``limit`` failures, without their texts."""
    rows = run(database, _NEWEST, limit=limit + 1)
    shown = rows[:limit]
    return Window(shown, shown[-1].finished_at if shown else None, len(rows) > limit)


def groups_of(
    database: Database,
    window: Window,
    line: Line,
    now: datetime,
    *,
    kind: str | None = None,
    most: int = MOST_GROUPS,
) -> tuple[list[Group], int]:
    """The causes of both, as ``rank`` has them, ``most`` of them; and how many there are.

    ``kind``: only causes that have hit it, whole.
    """
    found: dict[str, Group] = {}
    ends: dict[str, list[datetime]] = {}
    for row in window.rows:
        fingerprint = row.error_fingerprint
        if fingerprint is not None:
            group = found.setdefault(fingerprint, Group(fingerprint))
            group.failed += 1
            group.lately += row.finished_at > now - LATELY
            group.kinds[row.kind] += 1
            ends.setdefault(fingerprint, []).append(row.finished_at)
    for fingerprint, waiting in line.causes.items():
        group = found.setdefault(fingerprint, Group(fingerprint, waiting.error_class))
        group.waiting = waiting
        group.lately += waiting.jobs
        group.kinds.update(waiting.kinds)
    hit = [group for group in found.values() if kind is None or kind in group.kinds]
    ordered = sorted(hit, key=lambda g: rank(g.lately, g.failed + g.waiting.jobs, g.fingerprint))
    shown = ordered[:most]
    _detail(database, shown, now, COUNTED)
    _tell_when(database, [one for one in shown if not one.first_at], now, most=SHOWN_IDS)
    for group in shown:
        group.buckets = buckets_of(ends.get(group.fingerprint, ()), window.start, now)
    return shown, len(ordered)


def rank(lately: int, jobs: int, fingerprint: str) -> tuple[int, int, str]:
    """The order of causes, wherever they are told; ``jobs``: all that have it, as far as read."""
    return -lately, -jobs, fingerprint


def group_of(
    database: Database, fingerprint: str, window: Window, line: Line, now: datetime, *, bound: int
) -> Group:
    """One cause; without any job that has it, nothing in it is known."""
    group = Group(fingerprint, waiting=line.causes.get(fingerprint, Waiting()))
    group.error_class = group.waiting.error_class
    mine = [row for row in window.rows if row.error_fingerprint == fingerprint]
    group.failed = len(mine)
    group.kinds = Counter(row.kind for row in mine) + group.waiting.kinds
    group.buckets = buckets_of((row.finished_at for row in mine), window.start, now)
    _detail(database, [group], now, bound)
    _tell_when(database, [group], now, most=TOLD)
    return group


def newest_alike(database: Database, fingerprint: str, *, limit: int = SHOWN_IDS) -> list[int]:
    """The ids of the newest failures of one cause, the newest first."""
    return [row.id for row in run(database, _NEWEST_ALIKE, fingerprint=fingerprint, limit=limit)]


def _tell_when(database: Database, groups: Sequence[Group], now: datetime, *, most: int) -> None:
    """Add when ``most`` of the jobs of each that wait have failed so."""
    told = failed_so(database, {one.fingerprint: one.waiting.ids[:most] for one in groups}, now)
    for group in groups:
        when = told.get(group.fingerprint, FailedSo())
        # What waits is read once for all who look: it stays as it is.
        group.waiting = replace(
            group.waiting, told=when.jobs, first_at=when.first_at, last_at=when.last_at
        )


def _detail(database: Database, groups: Sequence[Group], now: datetime, bound: int) -> None:
    """Add what only the rows of each cause tell, and when the first of them failed before."""
    failed: dict[str, Sequence[int]] = {}
    of = {group.fingerprint: group for group in groups}
    waiting = [group.waiting.ids[-1] if group.waiting.ids else None for group in groups]
    given = {"fingerprints": list(of), "waiting": waiting}
    for row in run(database, _DETAILS, **given, bound=bound + 1, most_ids=SHOWN_IDS):
        group = of[row.fingerprint]
        group.all_failed, group.newest_id = row.failed, row.newest_id
        group.first_at, group.last_at = row.first_at, row.last_at
        group.error_class = row.error_class or group.error_class
        if row.message is not None:
            group.message, group.sample = blanked(row.message), row.message.partition("\n")[0]
        failed[row.fingerprint] = row.ids or ()
    # A job that somebody retried has failed anew, and for the first time before.
    for fingerprint, before in failed_so(database, failed, now).items():
        group = of[fingerprint]
        group.first_at = min((at for at in (group.first_at, before.first_at) if at), default=None)
