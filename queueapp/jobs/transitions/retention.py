"""Retention: remove final jobs by age.

Their history stays in the ledger, with the key and the last status.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Reason, Status

BATCH = 500

# What the last line of a removed job keeps of its row.
KEPT = "jsonb_build_object('producer', producer, 'idempotency_key', idempotency_key)"

_GONE = f"""
gone AS (
  DELETE FROM jobs j USING target t WHERE j.id = t.id
  RETURNING j.id, j.kind, j.status, j.attempts, j.producer, j.idempotency_key
),
logged AS (
  INSERT INTO job_events (job_id, kind, event, from_status, to_status, attempt, actor, reason, data)
  SELECT id, kind, 'purged', status, NULL, attempts, %(actor)s, %(reason)s::text, {KEPT}
  FROM gone ORDER BY id
  RETURNING job_id
)
SELECT job_id AS id FROM logged ORDER BY job_id
"""

# A keyed job is kept for as long as its key is promised to be remembered. The instants are the
# statement's: a clock that moves during it is no bound for an index. ``back`` keeps a look that is
# repeated every minute from walking the keyed ones that must stay.
_OLD = """
  SELECT id, finished_at FROM jobs
  WHERE status = '{status}'
    AND finished_at < statement_timestamp() - make_interval(secs => %(age)s)
    AND finished_at >= statement_timestamp() - make_interval(secs => %(back)s)
    AND (idempotency_key IS NULL
         OR finished_at < statement_timestamp() - make_interval(secs => %(keyed_age)s))
"""

# The end is compared once more under the lock: a job that was retried and ended again in between
# is young.
_PURGE_OLD = f"""
WITH target AS MATERIALIZED (
  SELECT j.id FROM ({_OLD} ORDER BY finished_at, id LIMIT %(limit)s) old
  JOIN jobs j ON j.id = old.id AND j.finished_at = old.finished_at
  WHERE j.status = '{{status}}'
  ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
),{{gone}}"""

_COUNT_OLD = f"SELECT count(*) AS old FROM ({_OLD} LIMIT %(limit)s) bounded"

# Older than any job.
_FOREVER = timedelta(days=36_500)


@dataclass(frozen=True)
class Age:
    """How old an ended job is when it goes; one with an idempotency key is ``keyed`` at least.

    ``window``: look at those only that have come to the age within it; None: at all.
    """

    age: timedelta
    keyed: timedelta
    window: timedelta | None = None

    @property
    def values(self) -> dict[str, float]:
        """As the statements take it."""
        back = _FOREVER if self.window is None else self.age + self.window
        return {
            "age": self.age.total_seconds(),
            "back": back.total_seconds(),
            "keyed_age": max(self.age, self.keyed).total_seconds(),
        }


@dataclass(frozen=True)
class Keep:
    """How long what is kept, from the settings."""

    succeeded: timedelta = timedelta(days=7)
    failed: timedelta = timedelta(days=90)
    cancelled: timedelta = timedelta(days=30)
    keyed: timedelta = timedelta(days=7)
    ledger: timedelta = timedelta(days=90)

    def ages(self, window: timedelta | None = None) -> dict[Status, Age]:
        """The ages of rows by their status."""
        ages = {
            Status.SUCCEEDED: self.succeeded,
            Status.FAILED: self.failed,
            Status.CANCELLED: self.cancelled,
        }
        return {status: Age(age, self.keyed, window) for status, age in ages.items()}


def purge_old(
    database: Database, status: Status, age: Age, *, actor: str, limit: int = BATCH
) -> list[int]:
    """Remove up to ``limit`` jobs that ended in ``status`` and are old enough, oldest first.

    Rows that somebody has locked are left out.
    """
    statement = _PURGE_OLD.format(status=Status(status), gone=_GONE)
    rows = run(database, statement, **age.values, actor=actor, reason=Reason.RETENTION, limit=limit)
    return [row.id for row in rows]


def count_old(database: Database, status: Status, age: Age, *, limit: int) -> int:
    """How many jobs ``purge_old`` would remove in all, counted up to ``limit``."""
    statement = _COUNT_OLD.format(status=Status(status))
    return int(run(database, statement, **age.values, limit=limit)[0].old)
