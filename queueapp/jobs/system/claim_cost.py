"""What a claim costs just now: the pages it reads to find the first due job, claiming nothing.

Dead entries at the head of the claim index are what makes it dear, and an old snapshot keeps them.
Housekeeping writes the same measure into each line of ``minute_stats`` in whose time jobs have
moved, which makes the trend.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median
from typing import Any

from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, connection_of, run
from queueapp.jobs.system.storage import vacuum
from queueapp.jobs.system.told import Asked, Said, Table, Tone, columns, tone_of
from queueapp.jobs.why.facts import days_around
from queueapp.jobs.why.words import counted

CAREFUL_PAGES, BAD_PAGES = 2_000, 20_000
# So many times the usual is a rise, from so many pages on.
RISE, LEAST = 10, 200
LINES = 60
LONGEST = "1s"
_TEN_MINUTES = 600
_TIMED_OUT = "57014"

# The look of a worker that knows no place to begin at: the dearest that a claim may be.
_LOOK = f"""
WITH RECURSIVE {PRIORITIES}
SELECT c.id FROM priorities p CROSS JOIN LATERAL (
  SELECT j.id FROM jobs j
  WHERE j.status = 'queued' AND j.priority = p.priority AND j.available_at <= now()
  ORDER BY j.available_at, j.created_at, j.id LIMIT 1) c
WHERE p.priority IS NOT NULL LIMIT 1"""
PROBE = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON){_LOOK}"

TREND = """
SELECT created_at, (data->'claim'->>'pages')::bigint AS pages,
  (data->'claim'->>'timed_out')::boolean AS timed_out
FROM job_events
WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue'
  AND created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz
ORDER BY id DESC LIMIT %(lines)s"""


def pages_now(database: Database) -> int:
    """Pages touched to find the first due job."""
    plan: Any = run(database, PROBE)[0][0]
    root = plan[0]["Plan"]
    return int(root["Shared Hit Blocks"]) + int(root["Shared Read Blocks"])


def measured(database: Database) -> dict[str, Any] | None:
    """The same for a line of statistics, within a second; None where it cannot be had.

    The transaction goes on as it was.
    """
    if connection_of(database).dialect.name != "postgresql":
        return None
    run(database, "SAVEPOINT claim_cost")
    try:
        run(database, f"SET LOCAL statement_timeout = '{LONGEST}'")
        found: dict[str, Any] | None = {"pages": pages_now(database)}
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        # Whatever else is in its way: the statistics are not.
        found = {"timed_out": True} if _has_timed_out(error) else None
    run(database, "ROLLBACK TO SAVEPOINT claim_cost")
    return found


def _has_timed_out(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == _TIMED_OUT


def claim_cost(database: Database, asked: Asked) -> Said:
    """What a claim reads now, and what it read in the last hour."""
    [clock] = run(database, "SELECT clock_timestamp() AS now")
    days = days_around(clock.now, clock.now)
    lines = run(database, TREND, lines=LINES, lately=days["lately"], tomorrow=days["tomorrow"])
    pages = pages_now(database)
    known = [line.pages for line in lines if line.pages is not None]
    usual = median(known) if known else None
    tone = tone_of(pages, CAREFUL_PAGES, BAD_PAGES)
    rises = usual is not None and pages >= LEAST and pages >= RISE * max(usual, 1)
    if tone is Tone.OK and rises:
        tone = Tone.CAREFUL
    said = f"To find the next job a claim reads {counted(pages, 'page')}"
    said += f", usually {usual:,.0f} in the last hour." if usual is not None else "."
    if not known:
        said += " What it was before a running flask work writes in each minute in which jobs move."
    trend = _trend(lines, clock.now)
    if tone is Tone.OK:
        return Said(tone, said, table=trend)
    return Said(tone, said, *vacuum(database, "jobs"), trend)


def _trend(lines: Sequence[Row[Any]], now: datetime) -> Table | None:
    """The most that was read in each ten minutes, the latest on top."""
    spans: dict[int, list[Row[Any]]] = {}
    for line in lines:
        if line.pages is not None or line.timed_out:
            ago = int((now - line.created_at).total_seconds()) // _TEN_MINUTES
            spans.setdefault(max(ago, 0), []).append(line)
    rows = [
        (f"{ago * 10} to {ago * 10 + 10} min ago", _most(found), str(len(found)))
        for ago, found in sorted(spans.items())
        if ago < LINES // 10
    ]
    names = ("when", "most pages", "measured")
    return Table(columns(*names, numbers=names[1:]), rows) if rows else None


def _most(lines: Sequence[Row[Any]]) -> str:
    if any(line.timed_out for line in lines):
        return "longer than 1 s"
    return f"{max(line.pages for line in lines):,}"
