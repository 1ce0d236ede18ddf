"""How fast the queue is drained: claims a second that were not given back, of the last minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from queueapp.jobs.database import Database, object_or_null, run
from queueapp.jobs.instants import read_instant

# Statistics older than this say nothing about the rate.
RATE_WITHIN_S = 600.0
# Lines of the minute's statistics that the rate is made from.
RATE_LINES = 6

# Of one line, which is ``{alias}``.
CLAIMS = f"""(
  SELECT coalesce(sum(coalesce((k.value->'events'->>'claimed')::bigint, 0)
    - coalesce((k.value->'events'->>'released')::bigint, 0)
    - coalesce((k.value->'events'->>'deferred')::bigint, 0)), 0)
  FROM jsonb_each({object_or_null("{alias}.data->'kinds'")}) k)"""

# A whole day as a parameter, so that the planner leaves the other partitions out.
_LINES = f"""
SELECT l.created_at AS at, l.data->>'since' AS since, {CLAIMS.format(alias="l")} AS claims
FROM (
  SELECT created_at, data FROM job_events
  WHERE job_id IS NULL AND event = 'minute_stats' AND scope = 'queue'
    AND created_at >= %(lately)s::timestamptz
  ORDER BY id DESC LIMIT %(lines)s
) l"""


def claims_per_s(database: Database, now: datetime) -> float | None:
    """The rate by the database's clock ``now``; None when nothing is known of the last minutes."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows: Any = run(database, _LINES, lately=today - timedelta(days=1), lines=RATE_LINES)
    return rate_of([row._mapping for row in rows], now)


def rate_of(lines: Sequence[Mapping[str, Any]], now: datetime) -> float | None:
    """Claims a second that were not given back, by the newest lines of the statistics.

    A line goes on where the one before it ended; the oldest one here only says when.
    """
    told = [(instant(line["at"]), line) for line in lines]
    fresh = [(at, line) for at, line in told if at and (now - at).total_seconds() <= RATE_WITHIN_S]
    if not fresh:
        return None
    newest, oldest = fresh[0][0], fresh[-1]
    counted = [line for _, line in fresh[:-1]] or [oldest[1]]
    since = oldest[0] if len(fresh) > 1 else instant(oldest[1]["since"])
    claims = sum(int(line["claims"]) for line in counted)
    seconds = (newest - since).total_seconds() if since else 0.0
    return claims / seconds if claims > 0 and seconds > 0 else None


def instant(value: Any) -> datetime | None:
    """An instant from a column or from within JSON."""
    return read_instant(value) if isinstance(value, str) else value
