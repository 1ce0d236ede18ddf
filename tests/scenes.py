"""A queue in a given state, for tests of what is said of it: workers, minutes, jobs of some age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from queueapp.jobs import control, minute_stats, minute_totals
from queueapp.jobs.control import QUEUE
from queueapp.jobs.models import Job, JobEvent
from queueapp.jobs.status import Event, Status
from tests.factories import make_job

ECHO = "demo.echo"


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


class Scene:
    """Writes what a rule looks at; every method commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def event(self, event: Event, scope: str, seconds: float, **fields: Any) -> None:
        """A control event of so many seconds ago."""
        self._event(event, scope, seconds, **fields)
        self.session.commit()

    def _event(self, event: Event, scope: str, seconds: float, **fields: Any) -> None:
        fields.setdefault("actor", "user:ana")
        made = control.record(self.session, event, scope=scope, **fields)
        self.session.execute(
            sa.update(JobEvent).where(JobEvent.id == made).values(created_at=ago(seconds))
        )

    def worker(
        self,
        name: str = "w1:1:aa",
        *,
        seen: float = 5,
        since: float = 280,
        stopped: float | None = None,
        **told: Any,
    ) -> None:
        """A worker that signed first ``since`` and last ``seen`` seconds ago."""
        data = {"slots": 2, "lost": 0, "kinds": [ECHO], "lease_s": 60, "release": "", **told}
        scope = f"worker:{name}"
        for seconds in (max(since, seen), seen):
            self._event(Event.WORKER_SEEN, scope, seconds, actor=scope, data=data)
        self.session.commit()
        if stopped is not None:
            self.event(Event.WORKER_STOPPED, scope, stopped, actor=scope, reason="SIGTERM")

    def minutes(self, count: int = 12, *, kind: str = ECHO, upto: float = 10, **told: Any) -> None:
        """So many minute's lines of these events, the last one ``upto`` seconds ago."""
        parts = {name: told.pop(name, {}) for name in ("wait", "run")}
        retries, pages = told.pop("retries", 0), told.pop("pages", None)
        kinds = {kind: {"events": told, "retries": retries, **parts}} if told else {}
        totals: dict[str, Any] = {}
        for back in reversed(range(count)):
            since = ago(upto + 60 * (back + 1)).isoformat()
            totals = minute_totals.carried(totals, kinds, now_s=0)
            # Whatever stands in the ledger is counted.
            line = {"xid": str(2**62), "id": 0, "since": since, "full": False, "kinds": kinds}
            data = {**line, "totals": totals, "claim": pages and {"pages": pages}}
            if back % 2:
                # The others are as an older release wrote them.
                data["all"] = minute_stats._summed(kinds)
            self._event(Event.MINUTE_STATS, QUEUE, upto + 60 * back, actor="hk", data=data)
        self.session.commit()

    def due(self, seconds: float, **fields: Any) -> Job:
        """A job that has been due for so long."""
        fields = {"created_at": ago(seconds), **fields}
        job = make_job(self.session, available_at=ago(seconds), **fields)
        self.session.commit()
        return job

    def ended(self, seconds: float, status: Status = Status.SUCCEEDED, **fields: Any) -> Job:
        """A job that ended so long ago."""
        job = make_job(self.session, status, finished_at=ago(seconds), **fields)
        self.session.commit()
        return job

    def running(self, seconds: float, *, by: str = "worker:w1:1:aa", **fields: Any) -> Job:
        """A job that has been running for so long, its lease just renewed."""
        fields.setdefault("lease_expires_at", ago(-60))
        began = ago(seconds)
        job = make_job(
            self.session,
            Status.RUNNING,
            locked_by=by,
            claimed_at=began,
            started_at=began,
            **fields,
        )
        self.session.commit()
        return job
