"""Write what has happened already: for drills and tests, which cannot wait until a stall is one.

Events of the queue are written as of some seconds ago. What happens to jobs goes through the verbs;
then ``move_back`` moves it, row and ledger alike. No worker and no page uses any of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, minute_stats, minute_totals
from queueapp.jobs.control import QUEUE, SWITCH_EVENTS
from queueapp.jobs.database import Database, run
from queueapp.jobs.models import JobEvent
from queueapp.jobs.status import Event

# The ledger keeps due times, which rows are checked against; what else it tells of time are spans.
_MOVE_BACK = """
WITH given AS MATERIALIZED (
  SELECT t.id, make_interval(secs => t.s) AS by
  FROM unnest(%(ids)s::bigint[], %(seconds)s::float8[]) AS t(id, s)
),
moved AS (
  UPDATE jobs j SET created_at = j.created_at - g.by, available_at = j.available_at - g.by,
    claimed_at = j.claimed_at - g.by, started_at = j.started_at - g.by,
    finished_at = j.finished_at - g.by, lease_expires_at = j.lease_expires_at - g.by,
    cancel_requested_at = j.cancel_requested_at - g.by
  FROM given g WHERE j.id = g.id
)
UPDATE job_events e SET created_at = e.created_at - g.by,
  data = CASE WHEN e.data ? 'available_at' THEN jsonb_set(e.data, ARRAY['available_at'],
    to_jsonb((e.data->>'available_at')::timestamptz - g.by)) ELSE e.data END
FROM given g WHERE e.job_id = g.id
"""

_FORGET_JOBS = """
WITH ids AS MATERIALIZED (SELECT id FROM jobs WHERE producer = %(producer)s),
lines AS (DELETE FROM job_events WHERE job_id IN (SELECT id FROM ids))
DELETE FROM jobs WHERE id IN (SELECT id FROM ids) RETURNING id
"""
# Pauses and holds that people set or lifted meanwhile go as well: rules begin anew with a lift.
_FORGET_EVENTS = """
WITH first AS MATERIALIZED (
  SELECT min(id) AS id FROM job_events WHERE job_id IS NULL AND data->>'drill' IS NOT NULL
)
DELETE FROM job_events e USING first f
WHERE e.job_id IS NULL AND (e.data->>'drill' IS NOT NULL OR e.data->>'after_drill' IS NOT NULL
  OR e.id > f.id AND e.scope = ANY(%(scopes)s) AND e.event = ANY(%(switches)s))
RETURNING e.id
"""

# A line that has read up to here has read all; the next real one goes on from its own moment.
ALL = str(2**62)


def ago(seconds: float) -> datetime:
    """The instant so long ago."""
    return datetime.now(UTC) - timedelta(seconds=seconds)


class Past:
    """Writes control events of the past; every method commits.

    ``drill``: its name is written into each of them, so that ``forget`` finds them.
    """

    def __init__(self, session: Session, *, drill: str = "") -> None:
        self.session = session
        self._mark = {"drill": drill} if drill else {}

    def event(self, event: Event, scope: str, seconds: float, **fields: Any) -> None:
        """Write a control event of so many seconds ago; ``fields`` as of ``control.record``."""
        self._event(event, scope, seconds, **fields)
        self.session.commit()

    def worker(
        self,
        name: str = "w1:1:aa",
        *,
        seen: float = 5,
        since: float = 280,
        stopped: float | None = None,
        **told: Any,
    ) -> None:
        """Let a worker have signed first ``since`` and last ``seen`` seconds ago."""
        data = {"slots": 2, "lost": 0, "kinds": ["demo.echo"], "lease_s": 60, "release": ""}
        # It is a name only: that no connection bears it says nothing.
        data |= {"nameless": True, **told}
        scope = f"worker:{name}"
        for seconds in (max(since, seen), seen):
            self._event(Event.WORKER_SEEN, scope, seconds, actor=scope, data=data)
        self.session.commit()
        if stopped is not None:
            self.event(Event.WORKER_STOPPED, scope, stopped, actor=scope, reason="SIGTERM")

    def lines(
        self, count: int, kinds: Mapping[str, Any], *, upto: float = 10, claim: Any = None
    ) -> None:
        """Write so many minute's lines, alike, the last one of ``upto`` seconds ago.

        ``kinds``: by kind ``events``, ``retries``, ``wait`` and ``run``, as ``minute_stats`` has.
        Whatever stands in the ledger is counted by them; ``claim``: what a claim cost.
        """
        totals: dict[str, Any] = {}
        for back in reversed(range(count)):
            since = ago(upto + 60 * (back + 1)).isoformat()
            totals = minute_totals.carried(totals, kinds, now_s=0)
            line = {"xid": ALL, "id": 0, "since": since, "full": False, "kinds": dict(kinds)}
            data = {**line, "totals": totals, "claim": claim}
            if back % 2:
                # The others are as an older release wrote them.
                data["all"] = minute_stats.summed(kinds)
            self._event(Event.MINUTE_STATS, QUEUE, upto + 60 * back, actor="hk", data=data)
        self.session.commit()

    def count_on(self) -> None:
        """Let the lines of real workers count only what happens from now on.

        What was written until now is in lines of its own. The line that says so is of hours ago.
        """
        if line := minute_stats.from_now_on(self.session):
            line["after_drill"] = self._mark.get("drill", "")
            made = control.record(
                self.session, Event.MINUTE_STATS, scope=QUEUE, actor="hk", data=line
            )
            self._date(made, 7_200)
        self.session.commit()

    def _event(self, event: Event, scope: str, seconds: float, **fields: Any) -> None:
        fields.setdefault("actor", "user:ana")
        if self._mark:
            fields["data"] = {**(fields.get("data") or {}), **self._mark}
        self._date(control.record(self.session, event, scope=scope, **fields), seconds)

    def _date(self, event_id: int, seconds: float) -> None:
        self.session.execute(
            sa.update(JobEvent).where(JobEvent.id == event_id).values(created_at=ago(seconds))
        )


def move_back(database: Database, ids: Sequence[int], seconds: Sequence[float]) -> None:
    """Let all that has happened to each job have happened so many seconds earlier."""
    run(database, _MOVE_BACK, ids=list(ids), seconds=[float(one) for one in seconds])


def forget(database: Database, *, producer: str, kinds: Sequence[str]) -> int:
    """Remove a producer's jobs with their lines, and the events of drills; how many jobs.

    With them what people paused, held and lifted meanwhile, of the queue and of ``kinds``. The only
    place where lines of the ledger are removed singly: they tell of nothing that was.
    """
    scopes = [QUEUE, *(f"kind:{kind}" for kind in kinds)]
    run(database, _FORGET_EVENTS, scopes=scopes, switches=SWITCH_EVENTS)
    return len(run(database, _FORGET_JOBS, producer=producer))
