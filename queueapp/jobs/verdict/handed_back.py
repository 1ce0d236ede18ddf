"""Jobs that live workers hand back again and again, for none of them knows their kind.

Each time they are put off for longer, up to five minutes: they are never due for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from queueapp.jobs.backoff import UNKNOWN_KIND_CAP_S
from queueapp.jobs.claim import PRIORITIES
from queueapp.jobs.database import Database, run
from queueapp.jobs.queries import line
from queueapp.jobs.queries.line import LATER, next_of_priority
from queueapp.jobs.status import Event, Reason
from queueapp.jobs.verdict.minutes import Minute, last, total

# Twice as long as one of them is put off: within it every one was handed back.
LATELY_S = 2 * UNKNOWN_KIND_CAP_S
# Jobs of a priority, and of all, among which they are sought; those whose history is looked at, and
# how many of its lines.
HEAD, MOST, CANDIDATES, LINES = line.HEAD, line.MOST_SOONEST, 5, 600

_COLUMNS = "id, kind, handbacks"
_SOON = f"""{LATER}
  AND available_at <= statement_timestamp() + interval '{UNKNOWN_KIND_CAP_S:.0f} s'"""
_NEAR = "created_at >= %(lately)s::timestamptz AND created_at < %(tomorrow)s::timestamptz"

# What a job came to before (a person retried it, or it failed) is another story.
HANDED_BACK = f"""
WITH RECURSIVE {PRIORITIES},
candidates AS MATERIALIZED (
  SELECT {_COLUMNS} FROM (
    SELECT s.* FROM priorities p CROSS JOIN LATERAL (
      ({next_of_priority(_COLUMNS, HEAD)}) UNION ALL
      ({next_of_priority(_COLUMNS, HEAD, _SOON)})) s
    LIMIT {MOST}
  ) looked
  WHERE handbacks > 0 AND NOT kind = ANY(%(known)s::text[])
  ORDER BY handbacks DESC, id LIMIT {CANDIDATES}
),
history AS MATERIALIZED (
  SELECT c.id AS job_id, e.* FROM candidates c CROSS JOIN LATERAL (
    SELECT id, event, reason, created_at FROM job_events
    WHERE job_id = c.id AND {_NEAR} ORDER BY id DESC LIMIT {LINES}) e
)
SELECT c.id, c.kind, c.handbacks, put_off.since
FROM candidates c CROSS JOIN LATERAL (
  SELECT min(h.created_at) AS since FROM history h
  WHERE h.job_id = c.id AND h.event = '{Event.DEFERRED}' AND h.reason = '{Reason.UNKNOWN_KIND}'
    AND h.id > coalesce((SELECT max(r.id) FROM history r WHERE r.job_id = c.id
      AND r.event IN ('{Event.REQUEUED}', '{Event.RETRY_SCHEDULED}')), 0)
) put_off
WHERE put_off.since IS NOT NULL
ORDER BY put_off.since, c.id
"""


@dataclass(frozen=True)
class HandedBack:
    """A job that workers hand back. ``since``: when one first did, as far as that was looked at."""

    id: int
    kind: str
    handbacks: int
    since: datetime


def may_be_there(minutes: Sequence[Minute], now: datetime) -> bool:
    """Whether anything was put off of late: without that there is nothing to be sought."""
    return total(last(minutes, now, LATELY_S), lambda minute: minute.count(Event.DEFERRED)) > 0


def handed_back(
    database: Database, *, known: Sequence[str], lately: datetime, tomorrow: datetime
) -> list[HandedBack]:
    """Jobs of other kinds than those ``known``, the one that waits for longest first."""
    rows = run(database, HANDED_BACK, known=list(known), lately=lately, tomorrow=tomorrow)
    return [HandedBack(**row._mapping) for row in rows]
