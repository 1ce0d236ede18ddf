"""A queue in a given state, for tests of what is said of it: workers, minutes, jobs of some age."""

from __future__ import annotations

from typing import Any

from queueapp.jobs.models import Job
from queueapp.jobs.past import Past, ago
from queueapp.jobs.status import Status
from tests.factories import make_job

__all__ = ["ECHO", "Scene", "ago"]

ECHO = "demo.echo"


class Scene(Past):
    """Writes what a rule looks at; every method commits."""

    def minutes(self, count: int = 12, *, kind: str = ECHO, upto: float = 10, **told: Any) -> None:
        """So many minute's lines of these events, the last one ``upto`` seconds ago."""
        parts = {name: told.pop(name, {}) for name in ("wait", "run")}
        retries, pages = told.pop("retries", 0), told.pop("pages", None)
        kinds = {kind: {"events": told, "retries": retries, **parts}} if told else {}
        self.lines(count, kinds, upto=upto, claim=pages and {"pages": pages})

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
