"""What a worker does with the leases it holds: renew, begin, progress, adopt.

None of these moves a job; they write the row of a running one, guarded by its token, and leave no
line in the ledger. Renewing touches no indexed column: it is a HOT update.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from queueapp.jobs.claim import CLAIM_COLUMNS, CLAIM_ORDER, Claim, Holder
from queueapp.jobs.database import Database, run

Renewal = Literal["renewed", "busy", "lost", "cancel", "timeout"]


@dataclass(frozen=True, slots=True)
class Held:
    """A lease by its identity."""

    id: int
    token: UUID


@dataclass(frozen=True, slots=True)
class Begun:
    """A prefetched claim whose handler began ``ago_s`` seconds ago."""

    id: int
    token: UUID
    ago_s: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come; ``percent`` 0–100."""

    id: int
    token: UUID
    percent: int
    note: str | None


# A lease never reaches past the attempt's time-out; one that is over is not extended any more.
# "lost" is certain: the row without our token is in the snapshot. "busy": somebody has it locked.
_RENEW = """
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS a(id, token)
),
locked AS MATERIALIZED (
  SELECT a.id, a.token, j.ends_at
  FROM (SELECT * FROM asked ORDER BY id) a
  CROSS JOIN LATERAL (
    SELECT j.started_at
      + make_interval(secs => nullif(coalesce(j.timeout_s, %(job_timeout)s::float8), 0)) AS ends_at
    FROM jobs j WHERE j.id = a.id AND j.lease_token = a.token FOR NO KEY UPDATE SKIP LOCKED
  ) j
),
renewed AS (
  UPDATE jobs j SET lease_expires_at = CASE WHEN l.ends_at <= clock_timestamp()
      THEN j.lease_expires_at
      ELSE least(clock_timestamp() + make_interval(secs => %(lease)s::float8), l.ends_at) END
  FROM locked l WHERE j.id = ANY(ARRAY[l.id]) AND j.lease_token = l.token
  RETURNING j.lease_token AS token, j.cancel_requested_at IS NOT NULL AS cancel,
    coalesce(l.ends_at <= clock_timestamp(), false) AS over
)
SELECT a.token, CASE
    WHEN r.over THEN 'timeout'
    WHEN r.cancel THEN 'cancel'
    WHEN r.token IS NOT NULL THEN 'renewed'
    WHEN (SELECT j.id FROM jobs j WHERE j.id = a.id AND j.lease_token = a.token) IS NOT NULL
      THEN 'busy'
    ELSE 'lost' END AS answer
FROM asked a LEFT JOIN renewed r ON r.token = a.token
"""

_BEGIN = """
WITH locked AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[], %(agos)s::float8[])
      AS a(id, token, ago_s) ORDER BY id
  ) a
  CROSS JOIN LATERAL (
    SELECT FROM jobs j
    WHERE j.id = a.id AND j.lease_token = a.token FOR NO KEY UPDATE SKIP LOCKED
  ) j
)
UPDATE jobs j SET
  started_at = coalesce(j.started_at, clock_timestamp() - make_interval(secs => l.ago_s))
FROM locked l
WHERE j.id = ANY(ARRAY[l.id]) AND j.lease_token = l.token
RETURNING l.token
"""

_PROGRESS = """
WITH locked AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT * FROM unnest(
      %(ids)s::bigint[], %(tokens)s::uuid[], %(percents)s::smallint[], %(notes)s::text[])
      AS a(id, token, percent, note) ORDER BY id
  ) a
  CROSS JOIN LATERAL (
    SELECT FROM jobs j
    WHERE j.id = a.id AND j.lease_token = a.token FOR NO KEY UPDATE SKIP LOCKED
  ) j
)
UPDATE jobs j SET progress = l.percent, progress_note = l.note
FROM locked l WHERE j.id = ANY(ARRAY[l.id]) AND j.lease_token = l.token
RETURNING l.token
"""

_ADOPT = f"""
SELECT {CLAIM_COLUMNS.replace("payload", "payload::text AS payload")} FROM (
  SELECT j.*, j.started_at IS NOT NULL AS started FROM jobs j
  WHERE j.status = 'running' AND j.locked_by = %(me)s AND j.lease_token <> ALL(%(known)s::uuid[])
    AND j.lease_expires_at > clock_timestamp()
) j ORDER BY {CLAIM_ORDER}
"""


def renew(database: Database, held: Sequence[Held], holder: Holder) -> dict[UUID, Renewal]:
    """Extend the leases of ``held`` by the holder's lease, each up to its attempt's time-out.

    One answer a token: renewed, busy (somebody has the row locked: ask again), lost (give up: the
    result will be refused), cancel (renewed, and somebody wants it to stop) or timeout (not
    renewed: the attempt is over).
    """
    rows = run(
        database,
        _RENEW,
        ids=[lease.id for lease in held],
        tokens=[lease.token for lease in held],
        lease=holder.lease_s,
        job_timeout=holder.job_timeout_s,
    )
    return {row.token: row.answer for row in rows}


def begin(database: Database, begun: Iterable[Begun]) -> set[UUID]:
    """Write when the handlers of prefetched claims began; the tokens of those that are written.

    A row that somebody has locked is not: without a start it has no time-out, so say it again.
    """
    begun = list(begun)
    rows = run(
        database,
        _BEGIN,
        ids=[start.id for start in begun],
        tokens=[start.token for start in begun],
        agos=[start.ago_s for start in begun],
    )
    return {row.token for row in rows}


def write_progress(database: Database, reports: Iterable[Progress]) -> set[UUID]:
    """Write how far attempts have come; the tokens of those that are written.

    A row that is busy is written with the next report.
    """
    reports = list(reports)
    rows = run(
        database,
        _PROGRESS,
        ids=[report.id for report in reports],
        tokens=[report.token for report in reports],
        percents=[report.percent for report in reports],
        notes=[report.note for report in reports],
    )
    return {row.token for row in rows}


def adopt(database: Database, known: Iterable[UUID], holder: Holder) -> list[Claim]:
    """Claims of ``holder`` whose tokens are not ``known``, in claim order.

    They come from a claim whose answer was lost with its connection: nobody else can run them
    before their lease ends.
    """
    rows = run(database, _ADOPT, me=holder.name, known=list(known))
    return [Claim._make(row) for row in rows]
