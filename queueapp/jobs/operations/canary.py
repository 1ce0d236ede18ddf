"""Canary retries: a few jobs go ahead, and the rest follows only if enough of them succeed.

What became of each is told from the ledger: its first end after the operation let it run. So a
person who retries one of them again changes nothing, and success outlives the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Row

from queueapp.jobs.database import Database, run
from queueapp.jobs.status import Reason

FIRST, NEEDED, WAIT_S = 5, 4, 600

Fate = Literal["succeeded", "failed", "cancelled", "gone", "queued", "running", "held"]
Verdict = Literal["passed", Reason.CANARY_FAILED, Reason.CANARY_TIMED_OUT]
LOST = ("failed", "cancelled", "gone")

# ``since`` leaves out the partitions of days before the plan.
_FATES = """
SELECT a.id, j.kind, j.status, j.attempts, j.max_attempts, j.available_at, j.claimed_at,
  ended.to_status AS ended, ended.created_at AS ended_at, statement_timestamp() AS now
FROM unnest(%(ids)s::bigint[]) AS a(id)
LEFT JOIN jobs j ON j.id = a.id
LEFT JOIN LATERAL (
  SELECT e.to_status, e.created_at FROM job_events e
  WHERE e.job_id = a.id AND e.created_at >= %(since)s::timestamptz
    AND e.to_status IN ('succeeded', 'failed', 'cancelled') AND e.id > (
      SELECT r.id FROM job_events r
      WHERE r.job_id = a.id AND r.created_at >= %(since)s::timestamptz
        AND r.event = 'requeued' AND r.data->>'operation' = %(operation)s
      ORDER BY r.id LIMIT 1)
  ORDER BY e.id LIMIT 1
) ended ON true
ORDER BY a.id
"""

# Those of the last week that are not over. A probe for each line, and few operations have them.
_OPEN = """
SELECT DISTINCT e.scope FROM job_events e
WHERE e.job_id IS NULL AND e.event = 'op_canary'
  AND e.created_at >= statement_timestamp() - interval '7 days'
  AND (SELECT o.id FROM job_events o
       WHERE o.job_id IS NULL AND o.event IN ('op_stopped', 'op_done') AND o.scope = e.scope
         AND o.created_at >= statement_timestamp() - interval '7 days'
       LIMIT 1) IS NULL
ORDER BY e.scope LIMIT %(limit)s
"""
_MOST_OPEN = 20
_LONGEST_TRANSACTION = timedelta(days=1)


@dataclass(frozen=True)
class Terms:
    """``first`` jobs go ahead; the rest follows if ``needed`` succeed within ``wait_s`` seconds."""

    first: int = FIRST
    needed: int = NEEDED
    wait_s: float = WAIT_S


@dataclass(frozen=True)
class Canary:
    """How a canary stands.

    ``jobs``: those that went ahead, ``since`` then. ``passed``: None until it is decided;
    ``succeeded``: how many had, when it was.
    """

    terms: Terms
    jobs: tuple[int, ...] = ()
    since: datetime | None = None
    passed: bool | None = None
    succeeded: int | None = None

    @property
    def lacks(self) -> int:
        """How many jobs are still to go ahead."""
        return self.terms.first - len(self.jobs)

    @property
    def is_on_trial(self) -> bool:
        """Whether all have gone ahead and nothing is decided."""
        return self.passed is None and self.lacks <= 0

    @property
    def until(self) -> datetime | None:
        """When it ends without a verdict."""
        return self.since and self.since + timedelta(seconds=self.terms.wait_s)


@dataclass(frozen=True)
class Trial:
    """One canary job: what became of it, and its row as it is now (None: it is gone)."""

    id: int
    fate: Fate
    row: Row[Any]

    @property
    def has_ended(self) -> bool:
        """Whether nothing can change its fate."""
        return self.fate == "succeeded" or self.fate in LOST


def written_terms(terms: Terms) -> dict[str, Any]:
    """As the plan keeps them."""
    return asdict(terms)


def read_canary(plan: Mapping[str, Any], line: Row[Any] | None) -> Canary | None:
    """From the plan, and from the newest line of the canary."""
    if plan.get("canary") is None:
        return None
    terms = Terms(**plan["canary"])
    if line is None:
        return Canary(terms)
    data = line.data
    begun = data.get("since")
    since = datetime.fromisoformat(begun) if begun else line.created_at
    return Canary(terms, tuple(data["jobs"]), since, data.get("passed"), data.get("succeeded"))


def trials_of(
    database: Database, operation_id: str, canary: Canary, *, planned_at: datetime
) -> list[Trial]:
    """What has become of the jobs that went ahead, in the order of their ids."""
    if not canary.jobs:
        return []
    since = planned_at - _LONGEST_TRANSACTION
    ids = list(canary.jobs)
    rows = run(database, _FATES, ids=ids, since=since, operation=operation_id)
    return [Trial(row.id, row.ended or row.status or "gone", row) for row in rows]


def verdict_of(canary: Canary, trials: Sequence[Trial]) -> Verdict | None:
    """What the trials come to; None while it is open.

    Open ones are not waited for when they can change nothing.
    """
    fates: Counter[str] = Counter("lost" if trial.fate in LOST else trial.fate for trial in trials)
    terms, until = canary.terms, canary.until
    if fates["succeeded"] >= terms.needed:
        return "passed"
    if len(trials) - fates["lost"] < terms.needed:
        return Reason.CANARY_FAILED
    if until is not None and trials[0].row.now >= until:
        return Reason.CANARY_TIMED_OUT
    return None


def open_ones(database: Database) -> list[str]:
    """The ids of canary retries that are neither done nor stopped, 20 at most."""
    return [row.scope.removeprefix("op:") for row in run(database, _OPEN, limit=_MOST_OPEN)]
